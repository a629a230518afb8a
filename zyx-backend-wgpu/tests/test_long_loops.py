"""Threads run loops to their end also where the driver ends them after some iterations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zyx
from zyx import dtype as dtypes
from zyx.errors import UnsupportedError
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.kernel.run import run
from zyx.kernel.verify import verify
from zyx.ops import BinaryOp, ReduceOp
from zyx.render.long_loops import in_fewer_iterations
from zyx.runtime.runtime import use
from zyx.testing.kernels import random_kernel, results_of, same_values
from zyx.testing.launching import prepare, run_on

if TYPE_CHECKING:
    from zyx.kernel.data import Kernel
    from zyx.runtime.runtime import Runtime
    from zyx_backend_wgpu.device import WgpuDevice


def counting(*nests: tuple[int, ...]) -> Kernel:
    """Return a kernel of one thread that counts how often the body of each nest of loops runs and sums up positions."""
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtypes.int32, 2 * len(nests))
    for number, sizes in enumerate(nests):
        count, total = b.const(2 * number, dtypes.int32), b.const(2 * number + 1, dtypes.int32)
        places = [b.loop(size, dtypes.int32) for size in sizes]
        b.store(out, count, b.binary(BinaryOp.ADD, b.load(out, count), b.const(1, dtypes.int32)))
        for place in places:
            b.store(out, total, b.binary(BinaryOp.ADD, b.load(out, total), place))
        for _ in places:
            b.end_loop()
    return b.finish("counting")


def counted(*nests: tuple[int, ...]) -> list[int]:
    """Return what a kernel of `counting` gives."""
    return [
        number
        for sizes in nests
        for number in (math.prod(sizes), sum(math.prod(sizes) * (size - 1) // 2 for size in sizes))
    ]


def iterations(kernel: Kernel) -> int:
    """Return how many iterations a thread runs, as the driver counts."""
    total, runs = 0, [1]
    for op in kernel.ops:
        if isinstance(op, k.Loop):
            total += runs[-1] * (op.size + 1)
            runs.append(runs[-1] * op.size)
        elif isinstance(op, k.EndLoop):
            runs.pop()
    return total


@pytest.mark.parametrize(
    "nests",
    [
        ((65_536,),), ((200_003,),), ((1_000_000,),), ((3, 40_000),), ((20_011, 7),), ((300, 300),), ((41, 41, 41),),
        ((40_000,), (40_000,)), ((2, 9_000, 2), (100, 411)),
    ],
    ids=str,
)  # fmt: skip
def test_a_thread_runs_all_iterations_of_its_loops(device: WgpuDevice, nests: tuple[tuple[int, ...], ...]):
    wanted = np.array(counted(*nests), np.int64).astype(np.int32)
    kernel = prepare(counting(*nests), device)
    (result,) = run_on(device, kernel, [np.zeros(2 * len(nests), np.int32)])
    np.testing.assert_array_equal(result, wanted)


def test_threads_of_a_group_meet_in_long_loops(device: WgpuDevice):
    count, threads = 70_001, 4
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtypes.int32, threads)
    shared = b.define(k.Memory.LOCAL, dtypes.int32, threads)
    thread = b.index(k.Axis.LOCAL, 0, threads, dtypes.int32)
    other = b.binary(BinaryOp.XOR, thread, b.const(1, dtypes.int32))
    b.store(shared, thread, thread)
    b.loop(count, dtypes.int32)
    b.barrier()
    seen = b.load(shared, other)
    b.barrier()
    b.store(shared, thread, b.binary(BinaryOp.ADD, seen, b.const(1, dtypes.int32)))
    b.end_loop()
    b.store(out, thread, b.load(shared, thread))
    (result,) = run_on(device, prepare(b.finish("meeting"), device), [np.zeros(threads, np.int32)])
    np.testing.assert_array_equal(result, (np.arange(threads) ^ (count % 2)) + count)


def test_running_sums_are_right_to_their_end(runtime: Runtime):
    x = np.random.default_rng(1).random(300_000).astype(np.float32)
    with use(runtime):
        found = zyx.cumsum(zyx.Tensor(x), 0).numpy()
        spread = zyx.var(zyx.Tensor(x)).numpy()
    np.testing.assert_allclose(found, np.cumsum(x.astype(np.float64)), rtol=1e-5)
    np.testing.assert_allclose(spread, x.astype(np.float64).var(), rtol=1e-5)


@pytest.mark.parametrize("most", [1, 5, 9])
def test_kernels_in_fewer_iterations_mean_the_same(most: int):
    changed = 0
    for seed in range(60):
        kernel = random_kernel(seed)
        try:
            fewer = in_fewer_iterations(kernel, most, _Everything())
        except UnsupportedError:
            continue
        verify(fewer)
        assert iterations(fewer) <= most
        assert (fewer is kernel) == (iterations(kernel) <= most)
        changed += fewer is not kernel
        assert same_values(results_of(fewer, seed), results_of(kernel, seed)), f"seed {seed}"
    assert changed > 2


@pytest.mark.parametrize("sizes", [(1, 50), (50, 1), (7, 9, 2), (64,), (63,), (5, 0), (2, 33)], ids=str)
def test_every_iteration_runs_once_in_any_step(sizes: tuple[int, ...]):
    for most in (2, 5, 17, 40):
        kernel = in_fewer_iterations(counting(sizes), most, ())
        assert iterations(kernel) <= most
        assert results_like(kernel) == counted(sizes)


def results_like(kernel: Kernel) -> list[int]:
    """Return what a kernel makes of zeros."""
    out = np.zeros(2, np.int32)
    run(kernel, [out])
    return [int(number) for number in out]


def test_exchanges_in_memory_count_as_loops():
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtypes.float32, 1)
    place = b.const(0, dtypes.int32)
    b.loop(1000, dtypes.int32)
    b.atomic(ReduceOp.SUM, out, place, b.const(1.0, dtypes.float32))
    b.end_loop()
    kernel = b.finish("exchanging")
    assert in_fewer_iterations(kernel, 2000, _Everything()) is kernel
    with pytest.raises(UnsupportedError, match="17001 iterations of loops, which the driver ends after 2000"):
        in_fewer_iterations(kernel, 2000, ())


def test_what_takes_too_many_iterations_is_refused():
    with pytest.raises(UnsupportedError, match=r"2000000001 iterations of loops.* another device, or in parts"):
        in_fewer_iterations(counting((2_000_000_000,)), 65_535, ())


class _Everything:
    """Contains whatever it is asked for."""

    def __contains__(self, item: object) -> bool:
        return True
