"""What the page of ``zyx view`` is tried with: a transformer of one layer makes three jitted steps of training."""

import numpy as np

import zyx
from zyx import nn, optim

WORDS, WIDTH, LENGTH = 100, 64, 32


class Network(nn.Module):
    def __init__(self):
        self.words = nn.Embedding(WORDS, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, 4, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 1, nn.LayerNorm(WIDTH))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        return self.head(self.layers(self.words(words), is_causal=True))


zyx.manual_seed(0)
network = Network().train()
optimizer = optim.SGD(network.parameters(), lr=0.1, momentum=0.9)


@zyx.jit
def step(words):
    optimizer.zero_grad()
    logits = network(words[:, :-1])
    loss = zyx.cross_entropy(logits.reshape(-1, WORDS), words[:, 1:].reshape(-1))
    loss.backward()
    optimizer.step()
    return loss


words = zyx.Tensor(np.random.default_rng(0).integers(0, WORDS, (8, LENGTH)))
print(*(f"{step(words).item():.3f}" for _ in range(3)))
