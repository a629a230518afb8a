"""Networks that several processes train in different ways, each as one process does."""

import json
import sys
from pathlib import Path

import numpy as np
from reporting import report
from training import digits

import zyx
import zyx.distributed as dist
from zyx import nn, optim

STEPS = 25
VOCABULARY, WIDTH, HEADS, LENGTH, BATCH = 12, 8, 4, 4, 8


RULES = {
    "*.[qkv]_proj": "columns", "*.o_proj": "rows", "*.up": "columns", "*.down": "rows",
    "words": "rows", "places": "columns", "last": "gathered",
}  # fmt: skip


class Block(nn.Module):
    """Attention with heads of a width, however many of them there are here, and a feed-forward layer."""

    def __init__(self):
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = [nn.Linear(WIDTH, WIDTH) for _ in range(4)]
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        n, length, _ = x.shape
        h = self.norm1(x)
        q, k, v = [
            layer(h).reshape((n, length, -1, WIDTH // HEADS)).permute_dims((0, 2, 1, 3))
            for layer in (self.q_proj, self.k_proj, self.v_proj)
        ]
        found = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o_proj(found.permute_dims((0, 2, 1, 3)).reshape((n, length, -1)))
        return x + self.down(self.up(self.norm2(x)).gelu())


class Transformer(nn.Module):
    def __init__(self):
        self.words, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = [Block()]
        self.norm, self.last = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, x):
        h = self.words(x) + self.places(zyx.arange(x.shape[1]))
        for block in self.blocks:
            h = block(h)
        return self.last(self.norm(h)).reshape((-1, VOCABULARY))


class Digits(nn.Module):
    def __init__(self):
        self.up, self.down = nn.Linear(64, 20), nn.Linear(20, 10)
        self.blocks = [self.up]

    def forward(self, x):
        return self.down(self.up(x).relu())


def sentences(number):
    """Return words and the ones that follow, which count up by a step of each sentence's own."""
    generator = np.random.default_rng(number)
    start, step = generator.integers(0, VOCABULARY, (BATCH, 1)), generator.integers(1, 3, (BATCH, 1))
    words = (start + step * np.arange(LENGTH + 1)) % VOCABULARY
    return words[:, :-1], words[:, 1:]


def images(number):
    pixels, labels = images.loaded
    batch = np.arange(number * 64, (number + 1) * 64) % len(pixels)
    return pixels[batch], labels[batch]


def trained(kind, rules, batches, mesh, way):
    """Return the losses of a network that the processes of a mesh train in some way."""
    zyx.manual_seed(1)
    net = kind()
    if "t" in way:
        dist.parallelize(net, mesh, rules)
    if "f" in way:
        for block in net.blocks:
            dist.fully_shard(block, mesh)
        dist.fully_shard(net, mesh)
    optimizer = optim.AdamW(net.named_parameters(), lr=3e-2)
    data = mesh.group("data")

    @zyx.jit
    def step(x, y):
        with zyx.Tape() as tape:
            loss = zyx.cross_entropy(net(x), y.reshape((-1,)))
        grads = tape.gradient(loss, net.parameters())
        grads = grads if "f" in way else dist.average_gradients(grads, group=data)
        grads, _ = dist.clip_grad_norm(grads, net.parameters(), 0.5)
        optimizer.step(grads)
        return dist.all_reduce(loss, "mean", data)

    losses = []
    for number in range(STEPS):
        x, y = (dist.shard(zyx.Tensor(part), mesh, {0: "data"}) for part in batches(number))
        losses.append(step(x, y).item())
    return np.array(losses)


def beside_one(group, kind, rules, batches, *ways):
    alone = np.empty(STEPS)
    if group.rank == 0:
        alone = trained(kind, rules, batches, dist.Mesh({"data": 1, "model": 1}, dist.Group()), "")
    alone = dist.broadcast(zyx.Tensor(alone)).numpy()
    assert alone[-1] < alone[0] * 0.75
    ways = [("fully sharded", group.size, "f"), ("tensor parallel", 1, "t"), *ways]
    ways += [("sharded and tensor parallel", 2, "ft")] if group.size > 2 else []
    apart = {}
    for name, data, way in ways:
        losses = trained(kind, rules, batches, dist.Mesh({"data": data, "model": -1}), way)
        apart[name] = float(np.abs(losses - alone).max())
    text = json.dumps({"losses": [alone[0], alone[-1]], "apart": apart})
    Path(sys.argv[1], f"{kind.__name__}.json").write_text(text)
    assert max(apart.values()) < 1e-5, text


def test_a_transformer_has_the_losses_of_one_process(group):
    beside_one(group, Transformer, RULES, sentences, ("data parallel", group.size, ""))


def test_digits_have_the_losses_of_one_process(group):
    images.loaded = digits()
    beside_one(group, Digits, {"up": "columns", "down": "rows"}, images)


if __name__ == "__main__":
    report([thing for name, thing in list(globals().items()) if name.startswith("test_")])
