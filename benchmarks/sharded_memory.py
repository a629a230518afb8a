"""Print how much memory of a device training takes with whole parameters, and with `zyx.distributed.fully_shard`.

    mpirun -np 2 python benchmarks/sharded_memory.py
    zyx launch --processes 2 benchmarks/sharded_memory.py --sharded

Each process takes the GPU of its number on the machine. A chain of linear layers is trained by AdamW for a few steps.
Counted are parameters and the state of the optimiser, and the most bytes of all tensors that there were at once.
"""

from __future__ import annotations

import argparse
import os
from typing import Final

LOCAL_RANKS: Final = "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "PMI_RANK"
LOCAL_RANK: Final = next((os.environ[name] for name in LOCAL_RANKS if name in os.environ), "0")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", LOCAL_RANK)  # before anything looks for devices

import numpy as np  # noqa: E402  # see above

import zyx  # noqa: E402
import zyx.distributed as dist  # noqa: E402
from zyx import nn, optim  # noqa: E402
from zyx.runtime.runtime import current  # noqa: E402

MIB: Final = 1 << 20


def train(group: dist.Group, width: int, layers: int, *, is_sharded: bool) -> tuple[int, int, float]:
    """Return the bytes of parameters and states here, the most that all tensors took, and the last loss."""
    memory = current().memory
    zyx.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(width, width) for _ in range(layers)])
    if is_sharded:
        dist.fully_shard(model, dist.Mesh({"data": -1}))
    optimizer = optim.AdamW(model.parameters(), lr=1e-4)
    x = zyx.Tensor(np.random.default_rng(group.rank).standard_normal((32, width)).astype(np.float32))
    for number in range(3):
        if number == 1:  # when all states are there
            memory.reset_peak()
        with zyx.Tape() as tape:
            loss = ((model(x) - x) ** 2).mean()
        grads = tape.gradient(loss, model.parameters())
        optimizer.step(grads if is_sharded else dist.average_gradients(grads))
        last = loss.item()
        del loss, grads, tape
    tensors = 3 * sum(parameter.nbytes for parameter in model.parameters())  # with two moments each
    return tensors, memory.peak_bytes, last


def main() -> None:
    """Train twice, and print what each took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=4096, help="of the layers (4096)")
    parser.add_argument("--layers", type=int, default=8, help="how many there are (8)")
    parser.add_argument("--sharded", action="store_true", help="keep parameters in parts")
    options = parser.parse_args()
    group = dist.init()
    dist.all_reduce(zyx.ones(1))
    tensors, peak, loss = train(group, options.width, options.layers, is_sharded=options.sharded)
    if group.rank == 0:
        name = "in parts" if options.sharded else "whole"
        print(
            f"{group.size} processes, {zyx.device_info(zyx.default_device()).model}, parameters {name}: "
            f"{tensors / MIB:.1f} MiB of parameters and states, {peak / MIB:.1f} MiB at most, loss {loss:.6f}"
        )


main()
