"""Every operation, dtype and size beside NumPy, from no bytes to 64 MiB; how many there were is printed.

    mpiexec -n 4 python -m mpi4py matrix.py               in 4 processes, or in 2
    python matrix.py --threads 2                          in threads of one

Long arrays are made from few numbers, so that what NumPy makes of them is known from few: a row of 4,099 numbers, a
prime, over and over, which parts of an array cut anywhere.
"""

import argparse

import numpy as np
from values import ALL, FLOATS, close, drawn, wide

import zyx
import zyx.distributed as dist

#: Bytes of the whole array that an operation is about.
SIZES = (0, 1, 1 << 10, 1 << 16, 1 << 20, 64 << 20)
OPS = ("sum", "prod", "mean", "max", "min")
PERIOD = 4099


def ops_of(dtype):
    """Return the reductions that are defined for a dtype."""
    kind = dtype.kind
    if kind == "b":
        return ("max", "min")
    if kind in "iu":
        return ("sum", "prod", "max", "min")
    return ("sum", "prod", "mean") if kind == "c" else OPS


def rows_of(group, dtype, length):
    """Return the arrays of all ranks, of `length` numbers each."""
    rows = [drawn(rank, dtype, (min(length, PERIOD),)) for rank in range(group.size)]
    return [np.resize(row, length) if length else row for row in rows]


def combined(op, rows, dtype):
    """Return what NumPy makes of arrays that repeat, from one period of them."""
    length = len(rows[0])
    stack = wide(np.stack([row[:PERIOD] for row in rows]))
    given = {"dtype": dtype} if dtype.kind in "iu" and op in ("sum", "prod") else {}
    found = getattr(stack, op)(0, **given).astype(dtype)
    return np.resize(found, length) if length else found


def count_of(nbytes, dtype, size):
    """Return how many numbers an array of so many bytes has, so that it divides among the processes."""
    return -(-max(nbytes // dtype.itemsize, nbytes > 0) // size) * size


def reductions(group, dtype, nbytes):
    """Compare the reductions; yield a name for each."""
    length = count_of(nbytes, dtype, group.size)
    rows = rows_of(group, dtype, length)
    x = zyx.Tensor(rows[group.rank])
    part = slice(group.rank * length // group.size, (group.rank + 1) * length // group.size)
    for op in ops_of(dtype):
        wanted = combined(op, rows, dtype)
        close(dist.all_reduce(x, op).numpy(), wanted, dtype)
        yield f"all_reduce {op}"
        close(dist.reduce_scatter(x, op=op).numpy(), wanted[part], dtype)
        yield f"reduce_scatter {op}"
    if dtype in FLOATS:  # whose gradient is the sum at the root, and zeros elsewhere
        slope = zyx.grad(lambda y: (dist.broadcast(y, group.size - 1) * x).sum())(zyx.zeros_like(x))
        is_root = group.rank == group.size - 1
        wanted = combined("sum", rows, dtype)
        close(slope.numpy(), wanted if is_root else np.zeros_like(wanted), dtype)
        yield "reduce"


def moves(group, dtype, nbytes):
    """Compare what is moved; yield a name for each."""
    size, rank = group.size, group.rank
    length = count_of(nbytes, dtype, size)
    rows = rows_of(group, dtype, length)
    x, parts = zyx.Tensor(rows[rank]), [np.split(row, size)[rank] for row in rows]
    step = length // size
    whole = dist.all_gather(x[rank * step : (rank + 1) * step]).numpy()
    np.testing.assert_array_equal(whole, np.concatenate([np.split(row, size)[each] for each, row in enumerate(rows)]))
    yield "all_gather"
    np.testing.assert_array_equal(dist.broadcast(x, size - 1).numpy(), rows[-1])
    yield "broadcast"
    np.testing.assert_array_equal(dist.all_to_all(x).numpy(), np.concatenate(parts))
    yield "all_to_all"
    right, left = (rank + 1) % size, (rank - 1) % size
    if rank % 2 == 0:
        dist.send(x, right)
    found = dist.recv(x, source=left)
    if rank % 2:
        dist.send(x, right)
    np.testing.assert_array_equal(found.numpy(), rows[left])
    yield "send and recv"


def run(largest):
    """Compare all, of at most `largest` bytes; return how many there were."""
    group = dist.init()
    dist.all_reduce(zyx.ones(1))  # the first one on a device, at which ranks tell each other what they have
    return sum(
        1
        for dtype in ALL
        for nbytes in SIZES
        if nbytes <= largest
        for part in (reductions, moves)
        for _ in part(group, dtype, nbytes)
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=0, help="so many threads of this process")
    parser.add_argument("--largest", type=int, default=64, help="of the arrays, in MiB: 64, which takes minutes, or 1")
    chosen = parser.parse_args()
    threads, largest = chosen.threads, chosen.largest << 20
    counts = dist.run(run, [zyx.default_device()] * threads, largest) if threads else [run(largest)]
    assert len(set(counts)) == 1
    if threads or dist.init().rank == 0:
        print(f"{counts[0]} combinations are those of NumPy, in each of {threads or dist.init().size}")
