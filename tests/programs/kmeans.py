"""k-means clusters of points in the plane, started by k-means++."""

import numpy as np
import torch
import torch.nn.functional as F


def make_blobs(rng, per_blob):
    centers = np.array([[0.0, 0.0], [4.0, 0.5], [1.0, 4.0], [-3.0, 3.0]])
    points = np.concatenate([rng.normal(center, 0.6, (per_blob, 2)) for center in centers])
    return torch.from_numpy(points[rng.permutation(len(points))]).float()


def pairwise(x, centers):
    return (x.unsqueeze(1) - centers.unsqueeze(0)).pow(2).sum(-1)


def init_plus_plus(x, k, rng):
    centers = x[int(rng.integers(len(x)))].unsqueeze(0)
    for _ in range(k - 1):
        dist, _ = pairwise(x, centers).min(dim=1)
        cumulative = torch.cumsum(dist / dist.sum(), dim=0)
        idx = torch.searchsorted(cumulative, torch.tensor([rng.random()], dtype=torch.float32, device=x.device))
        centers = torch.cat([centers, x[idx]], dim=0)
    return centers


def kmeans(x, k, rng, num_iters=20, tol=1e-6):
    centers = init_plus_plus(x, k, rng)
    for i in range(num_iters):
        labels = torch.argmin(pairwise(x, centers), dim=1)
        new_centers = torch.zeros_like(centers)
        new_centers.scatter_add_(0, labels.unsqueeze(1).repeat(1, 2), x)
        new_centers /= F.one_hot(labels, num_classes=k).sum(dim=0).clamp(min=1).unsqueeze(1)
        shift = torch.norm(new_centers - centers, dim=1).sum()
        centers = new_centers
        if shift < tol:
            break
    inertia = (x - centers[labels]).pow(2).sum()
    return centers, labels, inertia, i + 1


rng = np.random.default_rng(7)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = make_blobs(rng, 60).to(device)
centers, labels, inertia, steps = kmeans(x, 4, rng)
order = centers[:, 0].sort().indices
print("steps", steps)
print("inertia {:.4f}".format(inertia.item()))
for j in order:
    center, size = centers[j], (labels == j).sum()
    print("center [{:.4f}, {:.4f}] of {}".format(center[0].item(), center[1].item(), size.item()))
print("first labels", [order.tolist().index(label) for label in labels[:10].tolist()])
