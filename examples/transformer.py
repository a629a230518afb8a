"""A transformer that writes the digits it was given in reverse.

The input is six digits, a mark, and the digits of the answer so far; the network predicts the next one. It is trained
on whole sequences at once, and writes one digit at a time.
"""

import numpy as np

import zyx
from zyx import nn, optim

zyx.manual_seed(1)
random = np.random.default_rng(1)

LENGTH, MARK, BLANK = 6, 10, 11


class Writer(nn.Module):
    def __init__(self, width=48, heads=4, layers=2):
        self.tokens = nn.Embedding(12, width)
        self.positions = nn.PositionalEncoding(2 * LENGTH + 1, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 2 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width))
        self.head = nn.Linear(width, 12)

    def forward(self, tokens):
        return self.head(self.layers(self.positions(self.tokens(tokens)), is_causal=True))


def examples(count):
    """Return token sequences (count, 2 * LENGTH + 1)."""
    digits = random.integers(0, 10, (count, LENGTH))
    return np.concatenate([digits, np.full((count, 1), MARK), digits[:, ::-1]], axis=1)


network = Writer().train()
optimizer = optim.AdamW(network.parameters(), lr=optim.LinearWarmup(optim.CosineAnnealingLR(5e-3, 450), 50))
print(f"{sum(parameter.size for parameter in network.parameters())} parameters on {zyx.default_device()}")


@zyx.jit
def step(tokens):
    with zyx.Tape() as tape:
        logits = network(tokens[:, :-1])[:, LENGTH:]
        loss = zyx.cross_entropy(logits.reshape(-1, 12), tokens[:, LENGTH + 1 :].reshape(-1))
    optimizer.step(tape.gradient(loss, network.parameters()))
    return loss


for number in range(500):
    loss = step(zyx.Tensor(examples(64)))
    if number % 100 == 99:
        print(f"step {number + 1}: loss {loss.item():.4f}")

network.eval()
predict = zyx.jit(network)


def write(digits):
    """Return the answer to rows of digits, written one digit at a time. What is not written yet is blank."""
    tokens = np.full((len(digits), 2 * LENGTH + 1), BLANK)
    tokens[:, :LENGTH], tokens[:, LENGTH] = digits, MARK
    for place in range(LENGTH, 2 * LENGTH):
        logits = predict(zyx.Tensor(tokens[:, :-1]))
        tokens[:, place + 1] = logits[:, place].argmax(axis=1).numpy()
    return tokens[:, LENGTH + 1 :]


test = examples(200)
written = write(test[:, :LENGTH])
for question, answer in zip(test[:3, :LENGTH], written, strict=False):
    print("".join(map(str, question)), "->", "".join(map(str, answer)))
right = (written == test[:, LENGTH + 1 :]).all(axis=1).mean()
print(f"{right:.1%} of {len(test)} answers are right")
assert right > 0.9
