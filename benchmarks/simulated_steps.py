"""Beside each other: a training step of a transformer as it is measured, and as `zyx.distributed.simulate` has it.

    zyx launch --processes 2 benchmarks/simulated_steps.py                in two processes
    zyx launch --processes 2 benchmarks/simulated_steps.py --larger       8, 64 and 1,024, by the links of two
    python benchmarks/simulated_steps.py --threads                        in two threads of one

Links are measured by `measure_links` first. Each way to train is then measured in one process and in two, and
simulated for as many; rounds of both take turns, both processes simulate at the same time, so that they share memory as
they do in a step, and the figure is the median. Larger groups, of which there are no others, are simulated: eight
processes a host, with links of a stated rate between hosts.
"""

from __future__ import annotations

import argparse
import statistics
import time
from functools import partial
from typing import Any

import zyx
import zyx.distributed as dist
from zyx import nn, optim

VOCABULARY, WIDTH, HEADS, LAYERS, LENGTH, SEQUENCES = 512, 192, 6, 3, 64, 8
ROUNDS, CALLS = 5, 5
#: Between hosts, as of 100 Gbit/s Ethernet that eight processes share.
BETWEEN = dist.Link(20e-6, 1.5e9, 5e-6)


class Block(nn.Module):
    """Attention and a feed-forward layer, of which each process may compute a part."""

    def __init__(self) -> None:
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = [nn.Linear(WIDTH, WIDTH) for _ in range(4)]
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: zyx.Tensor) -> zyx.Tensor:
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
    """A small language model."""

    def __init__(self) -> None:
        self.words, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = [Block() for _ in range(LAYERS)]
        self.norm, self.last = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, x: zyx.Tensor) -> zyx.Tensor:
        h = self.words(x) + self.places(zyx.arange(x.shape[1]))
        for block in self.blocks:
            h = block(h)
        return self.last(self.norm(h)).reshape((-1, VOCABULARY))


def train(way: str) -> tuple[Any, dict[str, Any]]:
    """Return what does a step, with as many sequences in each process, and what it keeps."""
    zyx.manual_seed(0)
    mesh = dist.Mesh({"data": -1})
    net = Transformer()
    if way == "fully sharded":
        for block in net.blocks:
            dist.fully_shard(block, mesh)
        dist.fully_shard(net, mesh)
    optimizer = optim.AdamW(net.named_parameters(), lr=1e-3)
    x = zyx.randint(0, VOCABULARY, (SEQUENCES, LENGTH))

    @zyx.jit
    def step(x: zyx.Tensor) -> zyx.Tensor:
        with zyx.Tape() as tape:
            loss = zyx.cross_entropy(net(x), x.reshape((-1,)))
        grads = tape.gradient(loss, net.parameters())
        optimizer.step(grads if way == "fully sharded" else dist.average_gradients(grads))
        return dist.all_reduce(loss, "mean")

    return lambda: step(x).item(), {"parameters": net, "state of the optimiser": optimizer}


def seconds(step: Any) -> float:
    """Return the median of some calls."""
    times = []
    for _ in range(CALLS):
        started = time.perf_counter()
        step()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def beside(way: str, network: dist.Network, group: dist.Group) -> None:
    """Print a step of a group, measured and simulated."""
    step, _ = train(way)
    step(), step(), step()
    measured, simulated = [], []
    for _ in range(ROUNDS):
        measured.append(seconds(step))
        found = dist.simulate(partial(train, way), group.size, network)
        simulated.append(found.step_s)
    if group.rank == 0:
        apart = statistics.median(simulated) / statistics.median(measured) - 1
        print(
            f"{way}, {group.size}: measured {text(measured)}, simulated {text(simulated)}, {100 * apart:+.0f} %",
            flush=True,
        )


def text(times: list[float]) -> str:
    """Return the median of times, and how far they reach."""
    return f"{statistics.median(times) * 1e3:.1f} ms ({min(times) * 1e3:.1f} to {max(times) * 1e3:.1f})"


def report(is_beside: bool) -> None:
    """Print everything, or larger groups alone; every rank calls it."""
    group = dist.init()
    link = dist.measure_links(group)
    network = dist.Network(link, BETWEEN, per_host=8)
    if group.rank == 0:
        print(f"{group.engine.name}: {link}", flush=True)
    for way in ("data parallel", "fully sharded") if is_beside else ():
        if group.rank == 0:
            with dist.group.in_group(dist.Group()):
                beside(way, network, dist.init())
        dist.barrier()
        beside(way, network, group)
    dist.barrier()
    if group.rank == 0 and not is_beside:
        for way in ("data parallel", "fully sharded"):
            for size in (8, 64, 1024):
                found = dist.simulate(partial(train, way), size, network)
                record = dist.simulate(partial(train, way), size, network, record=zyx.device_info())
                print(f"\n{way}, {size}\n{found}", flush=True)
                print(f"from the record: computing {record.compute_s * 1e3:.1f} ms, {record.peak_bytes >> 20} MiB")
    dist.barrier()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", action="store_true", help="ranks are threads of this process")
    parser.add_argument("--larger", action="store_true", help="simulate larger groups, and measure nothing beside")
    chosen = parser.parse_args()
    if chosen.threads:
        dist.run(report, [zyx.default_device()] * 2, not chosen.larger)
    else:
        report(not chosen.larger)
