"""Gradient descent by hand: a cubic is fitted to a sine, first with gradients written out, then with autograd."""

import math

import numpy as np
import torch

dtype = torch.float
device = torch.device("cpu")
x = torch.linspace(-math.pi, math.pi, 200, device=device, dtype=dtype)
y = torch.sin(x)
start = np.random.default_rng(9).standard_normal(4)
learning_rate = 5e-6

a, b, c, d = [torch.tensor(value, device=device, dtype=dtype) for value in start]
for t in range(12):
    y_pred = a + b * x + c * x**2 + d * x**3
    loss = (y_pred - y).pow(2).sum().item()
    if t % 4 == 3:
        print(t, round(loss, 3))
    grad_y_pred = 2.0 * (y_pred - y)
    grad_a = grad_y_pred.sum()
    grad_b = (grad_y_pred * x).sum()
    grad_c = (grad_y_pred * x**2).sum()
    grad_d = (grad_y_pred * x**3).sum()
    a -= learning_rate * grad_a
    b -= learning_rate * grad_b
    c -= learning_rate * grad_c
    d -= learning_rate * grad_d
print(f"Result: y = {a.item():.5f} + {b.item():.5f} x + {c.item():.5f} x^2 + {d.item():.5f} x^3")

weights = torch.tensor(start, device=device, dtype=dtype, requires_grad=True)
powers = torch.stack([x**n for n in range(4)], dim=-1)
for t in range(12):
    loss = (powers @ weights - y).pow(2).sum()
    if t % 4 == 3:
        print(t, round(loss.item(), 3))
    loss.backward()
    with torch.no_grad():
        weights -= learning_rate * weights.grad
        weights.grad.zero_()
print("Result:", [round(w, 5) for w in weights.tolist()], weights.requires_grad, weights.is_leaf)
