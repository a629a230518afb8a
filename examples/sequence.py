"""An LSTM that adds two numbers out of a long sequence: it must keep the first until the second comes.

Hochreiter and Schmidhuber's adding problem: each element has a value and a mark; two elements are marked, and the
answer is the sum of their values.
"""

import numpy as np

import zyx
from zyx import nn, optim

zyx.manual_seed(0)
random = np.random.default_rng(0)
LENGTH, BATCH = 16, 64


def examples():
    """Return sequences (LENGTH, BATCH, 2) and sums (BATCH,)."""
    values = random.uniform(0, 1, (LENGTH, BATCH))
    marks = np.zeros((LENGTH, BATCH))
    columns = np.arange(BATCH)
    marks[random.integers(0, LENGTH // 2, BATCH), columns] = 1
    marks[random.integers(LENGTH // 2, LENGTH, BATCH), columns] = 1
    return np.stack([values, marks], 2).astype(np.float32), (values * marks).sum(0).astype(np.float32)


class Adder(nn.Module):
    def __init__(self, width=32):
        self.memory = nn.LSTM(2, width)
        self.sum = nn.Linear(width, 1)

    def forward(self, sequence):
        _, (last, _) = self.memory(sequence)
        return self.sum(last[0])[:, 0]


network = Adder()
optimizer = optim.Adam(network.parameters(), lr=optim.CosineAnnealingLR(1e-2, 800))


@zyx.jit
def step(sequence, total):
    with zyx.Tape() as tape:
        loss = zyx.mse_loss(network(sequence), total)
    gradients, _ = optim.clip_grad_norm(tape.gradient(loss, network.parameters()), 1.0)
    optimizer.step(gradients)
    return loss


losses = []
for number in range(800):
    sequence, total = examples()
    losses.append(step(zyx.Tensor(sequence), zyx.Tensor(total)))
    if number % 200 == 199:
        recent = np.mean([loss.item() for loss in losses[-50:]])
        print(f"step {number + 1}: mean squared error {recent:.5f} (guessing 1 gives {1 / 6:.5f})")
assert recent < 0.02
