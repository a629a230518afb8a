"""Tensors, gradients, and a function that is traced once and replayed."""

import numpy as np

import zyx

# Operations are noted, and computed together when somebody reads a value.
x = zyx.Tensor(np.linspace(-2, 2, 5, dtype=np.float32))
y = (x * x).exp().sum()
print("device:", zyx.default_device())
print("sum of exp(x ** 2):", y.item())

# A tape keeps the history of what is computed inside of its block.
with zyx.Tape() as tape:
    y = (x * x).exp().sum()
print("its gradient:", tape.gradient(y, x).numpy())

# The same as functions, also twice.
print("derivative of x ** 3 at 2:", zyx.grad(lambda t: t * t * t)(zyx.Tensor(2.0)).item())
print("and its derivative:", zyx.grad(zyx.grad(lambda t: t * t * t))(zyx.Tensor(2.0)).item())


# Fit a line. The traced function finds the tensors that it reads and assigns by itself.
slope, offset = zyx.Tensor(0.0), zyx.Tensor(0.0)
random = np.random.default_rng(0)
points = zyx.Tensor(random.uniform(-1, 1, 64).astype(np.float32))
wanted = points * 3.0 - 1.0 + zyx.Tensor(random.normal(0, 0.1, 64).astype(np.float32))


@zyx.jit
def step():
    with zyx.Tape() as tape:
        loss = ((points * slope + offset - wanted) ** 2).mean()
    for parameter, gradient in zip((slope, offset), tape.gradient(loss, (slope, offset)), strict=True):
        parameter.assign(parameter - gradient * 0.2)
    return loss


for _ in range(100):
    loss = step()
print(f"fitted {slope.item():.2f} * x + {offset.item():.2f}, loss {loss.item():.4f}")
assert abs(slope.item() - 3.0) < 0.2
assert abs(offset.item() + 1.0) < 0.1
