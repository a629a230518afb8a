"""Train a network of layers, save it, load it: the whole of a small project.

Two spirals wind around each other; the network learns to tell which one a point is from.
"""

import tempfile
from pathlib import Path

import numpy as np

import zyx
from zyx import nn, optim

zyx.manual_seed(0)
random = np.random.default_rng(0)


def spirals(count):
    """Return points (count, 2) and the spiral that each is from, 0 or 1."""
    which = random.integers(0, 2, count)
    angle = random.uniform(0.5, 3 * np.pi, count)
    radius = angle / (3 * np.pi) + random.normal(0, 0.01, count)
    turn = angle + np.pi * which
    return np.stack([radius * np.cos(turn), radius * np.sin(turn)], 1).astype(np.float32), which


class Network(nn.Module):
    def __init__(self, width=64):
        self.layers = nn.Sequential(
            nn.Linear(2, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 2)
        )

    def forward(self, points):
        return self.layers(points * 4.0)


network = Network()
optimizer = optim.AdamW(network.parameters(), lr=optim.OneCycleLR(0.02, 400))
print(network)


@zyx.jit
def step(points, which):
    with zyx.Tape() as tape:
        loss = zyx.cross_entropy(network(points), which)
    gradients, norm = optim.clip_grad_norm(tape.gradient(loss, network.parameters()), 1.0)
    optimizer.step(gradients)
    return loss, norm


network.train()
for number in range(400):
    points, which = spirals(128)
    loss, norm = step(zyx.Tensor(points), zyx.Tensor(which))
    if number % 100 == 99:
        print(f"step {number + 1}: loss {loss.item():.4f}, gradient norm {norm.item():.3f}")

network.eval()
points, which = spirals(1000)
read = network(zyx.Tensor(points)).argmax(axis=1).numpy()
print(f"accuracy on new points: {(read == which).mean():.1%}")
assert (read == which).mean() > 0.95

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "spirals.safetensors"
    zyx.save(path, network)
    other = Network()
    other.load_state_dict(zyx.load(path))
    assert np.array_equal(other(zyx.Tensor(points)).argmax(axis=1).numpy(), read)
    print(f"saved {path.stat().st_size} bytes; the loaded network reads the same")
