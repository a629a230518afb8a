"""Principal components by a singular value decomposition, beside the eigenvectors of the covariance."""

import numpy as np
import torch


class PCA(torch.nn.Module):
    def __init__(self, n_components):
        super().__init__()
        self.n_components = n_components

    @torch.no_grad()
    def fit(self, X):
        n, d = X.size()
        self.register_buffer("mean_", X.mean(0, keepdim=True))
        Z = X - self.mean_
        U, S, Vh = torch.linalg.svd(Z, full_matrices=False)
        U, Vh = self._svd_flip(U, Vh)
        self.register_buffer("components_", Vh[: self.n_components])
        self.register_buffer("explained_variance_", (S**2)[: self.n_components] / (n - 1))
        self.register_buffer("explained_variance_ratio_", self.explained_variance_ / ((S**2).sum() / (n - 1)))
        return self

    @staticmethod
    def _svd_flip(u, v):
        max_abs_cols = torch.argmax(torch.abs(u), dim=0)
        signs = torch.sign(u[max_abs_cols, torch.arange(u.shape[1])])
        return u * signs, v * signs.view(-1, 1)

    def transform(self, X):
        return torch.matmul(X - self.mean_, self.components_.t())

    def inverse_transform(self, Y):
        return torch.mm(Y, self.components_) + self.mean_


rng = np.random.default_rng(8)
torch.set_printoptions(precision=4, sci_mode=False)
basis = rng.normal(size=(3, 10))
X = torch.tensor(rng.normal(size=(200, 3)) * [3.0, 2.0, 1.0] @ basis + 0.1 * rng.normal(size=(200, 10)) + 1)
print(X.shape[0], X.shape[1], X.dtype == torch.float64)
pca = PCA(n_components=3).fit(X)
Y = pca.transform(X)
print("variance", [round(v, 4) for v in pca.explained_variance_.tolist()])
print("ratio", [round(v, 5) for v in pca.explained_variance_ratio_.tolist()])
print("first row", Y[0].numpy().round(4).tolist())
print("reconstruction error %.6f" % torch.nn.functional.mse_loss(pca.inverse_transform(Y), X).item())
print("std of scores", Y.std(dim=0).numpy().round(4).tolist())

centered = X - X.mean(dim=0)
covariance = torch.mm(centered.T, centered) / (X.size(0) - 1)
eigenvalues, eigenvectors = torch.linalg.eigh(covariance)
top = torch.flip(eigenvalues, dims=[0])[:3]
print("by eigh", torch.allclose(top, pca.explained_variance_), [round(v, 4) for v in top.tolist()])
overlap = (eigenvectors[:, -3:].T @ pca.components_.T).abs().sum().item()
print("overlap %.4f" % overlap)
