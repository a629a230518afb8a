"""Whatever call fails, and whenever: the error is the right one, nothing leaks, and the next attempt succeeds."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

import zyx
from zyx import dtype as dtypes
from zyx.backend import SupportsCapture
from zyx.errors import AllocationError, BackendError, UnsupportedError
from zyx.ops import BinaryOp, ReduceOp, UnaryOp
from zyx.runtime.runtime import use
from zyx.specialise.table import Table
from zyx.testing.compare import assert_within
from zyx.testing.faults import ERRORS, Faults
from zyx.testing.graph_runs import case_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.backend import Device, MemoryPool
    from zyx.graph import Graph, Node
    from zyx.runtime.handle import Handle
    from zyx.runtime.runtime import Runtime
    from zyx.testing.graph_runs import GraphRunner
    from zyx.testing.graphs import GraphCase

#: More than a run of the graph calls.
_NEVER: Final = 10_000


def steps(graph: Graph, x: Node, y: Node) -> list[Node]:
    """Return two results of a graph of several kernels."""
    scale = graph.const(1.5, dtypes.float32, x.device, x.shape)
    scaled = graph.contiguous(graph.binary(BinaryOp.ADD, graph.binary(BinaryOp.MUL, x, scale), scale))
    totals = graph.expand(graph.reduce(ReduceOp.SUM, scaled, (0,)), x.shape)
    rows = graph.contiguous(graph.binary(BinaryOp.SUB, scaled, totals))
    wide = (*x.shape, y.shape[1])
    left = graph.expand(graph.reshape(graph.permute(rows, (1, 0)), (*x.shape[::-1], 1)), (x.shape[1], *wide[::2]))
    right = graph.expand(graph.reshape(y, (1, *y.shape)), left.shape)
    product = graph.reduce(ReduceOp.SUM, graph.binary(BinaryOp.MUL, left, right), (1,))
    return [graph.unary(UnaryOp.NEG, rows), graph.scan(ReduceOp.SUM, product, 2)]


def case_number(runner: GraphRunner, number: int) -> GraphCase:
    """Return the graph of a number, whose shapes, and so kernels, are those of no other.

    The runtime forgets all plans, programs and lengths, so that everything is done anew, also for a number that was
    there before; drivers may have kept what they compiled for it, which spares most of the time.
    """
    runtime = runner.runtime
    runtime.drop_plans()
    gc.collect()  # an error may have a plan in its traceback still
    runtime._drop_programs()
    runtime.outlines = Table()
    random = np.random.default_rng(0)
    rows, columns, width = 8 + number % 97, 20 + number // 97, 3 + number % 97
    arrays = [random.integers(-4, 5, shape).astype(np.float32) for shape in ((rows, columns), (rows, width))]
    return case_of(runner.device, arrays, steps)


def finish(runtime: Runtime, handles: list[Handle], case: GraphCase) -> None:
    """Compute `handles`, the outputs of a graph, together, and compare them with the oracle."""
    references = case.reference()
    runtime.realize(handles)
    for handle, reference in zip(handles, references, strict=True):
        assert_within(runtime.download(handle), reference)


def settle(runtime: Runtime, pool: MemoryPool) -> int:
    """Wait until nothing is in flight; return how many bytes are free then."""
    gc.collect()
    runtime.memory.reclaim()
    runtime.synchronize()
    return pool.free_bytes


def count_calls(device: Device, runner: GraphRunner, number: int, method: str) -> int:
    """Return how often the graph of a number, new to the runtime, calls `method`."""
    case = case_number(runner, number)
    with Faults(device) as faults:
        finish(runner.runtime, runner.handles(case), case)
        return faults.calls[method]


@pytest.mark.parametrize("method", list(ERRORS))
def test_a_call_that_fails_leaves_nothing_behind(
    device: Device, pool: MemoryPool, runner: GraphRunner, method: str, effort: Callable[[int, int], int]
) -> None:
    """Of allocations two fail in a row: after the first one the runtime makes room, and tries again.

    Of compilations all do from one on: what is refused is tried again in simpler forms. These are remembered, so there
    each time has a graph of its own.
    """
    runtime = runner.runtime
    base = 100 * list(ERRORS).index(method)
    calls = count_calls(device, runner, base, method)
    assert calls, f"nothing calls {method}"
    times = {"allocate": 2, "compile": _NEVER}.get(method, 1)
    for number in range(1, calls + 1)[: effort(6, 40)]:
        case = case_number(runner, base + number if method == "compile" else base)
        before = settle(runtime, pool)
        handles: list[Handle] = []
        with Faults(device) as faults, faults.failing(method, number, times):
            with pytest.raises(ERRORS[method]) as raised:
                handles = runner.handles(case)
                finish(runtime, handles, case)
            assert str(raised.value)
        finish(runtime, handles or runner.handles(case), case)  # the very same tensors can be computed now
        del handles, raised
        assert settle(runtime, pool) == before, f"{method} number {number} failed, and memory was lost"


def test_memory_that_runs_out_once_is_found(device: Device, runner: GraphRunner) -> None:
    """The runtime drops what it can do without, and tries again."""
    calls = count_calls(device, runner, 900, "allocate")
    for number in range(1, calls + 1):
        case = case_number(runner, 900)
        with Faults(device) as faults, faults.failing("allocate", number):
            finish(runner.runtime, runner.handles(case), case)


def test_compilers_that_fail_several_times_are_tried_again(device: Device, runner: GraphRunner) -> None:
    case = case_number(runner, 1000)
    handles = runner.handles(case)
    with Faults(device) as faults, faults.failing("compile", 1, _NEVER), pytest.raises(ERRORS["compile"]):
        finish(runner.runtime, handles, case)
    finish(runner.runtime, handles, case)


def test_a_launch_that_fails_the_second_time_leaves_the_plan_usable(device: Device, runner: GraphRunner) -> None:
    case = case_number(runner, 1001)
    for _ in range(3):  # planned, captured where the device can, taken from the cache
        handles = runner.handles(case)
        with Faults(device) as faults, faults.failing("launch", 1), pytest.raises(ERRORS["launch"]):
            runner.runtime.realize(handles)
        finish(runner.runtime, handles, case)


@pytest.mark.parametrize("error", [UnsupportedError, AllocationError])
def test_a_capture_that_is_refused_leaves_the_launches_as_they_are(
    device: Device, runner: GraphRunner, error: type[BackendError]
) -> None:
    if not isinstance(device, SupportsCapture):
        pytest.skip(f"{device.name} does not capture sequences")
    case = case_number(runner, 1102 + (error is AllocationError))
    finish(runner.runtime, runner.handles(case), case)
    with Faults(device) as faults:
        with faults.failing("capture", 1, _NEVER, error):
            for _ in range(3):
                finish(runner.runtime, runner.handles(case), case)
        assert faults.calls["capture"] == 1
        assert faults.calls["launch"] > 3
    with use(runner.runtime), Faults(device) as faults, faults.failing("capture", 1, _NEVER, error):
        step = zyx.jit(lambda x: (x.softmax(0) @ x).cumsum(1))
        values = np.random.default_rng(0).standard_normal((17, 17)).astype(np.float32)
        for _ in range(3):
            wanted = np.cumsum((np.exp(values) / np.exp(values).sum(0)) @ values, 1)
            np.testing.assert_allclose(step(zyx.Tensor(values)).numpy(), wanted, rtol=1e-4, atol=1e-4)
        assert faults.calls["capture"] == 1


def test_out_of_memory_is_an_error_that_says_how_much(pool: MemoryPool, runner: GraphRunner) -> None:
    runtime = runner.runtime
    before = settle(runtime, pool)
    count = before // 4 + (1 << 20)

    def make(graph: Graph, x: Node) -> Node:
        return graph.contiguous(graph.expand(x, (count,)))

    case = case_of(runner.device, [np.ones(1, np.float32)], make)
    handles = runner.handles(case)
    with pytest.raises(MemoryError) as refused:
        runtime.realize(handles)
    assert isinstance(refused.value, BackendError)
    assert str(count * 4) in str(refused.value), f"{refused.value} does not say how much was asked for"
    del handles, refused
    assert settle(runtime, pool) == before
    small = case_number(runner, 1002)
    finish(runtime, runner.handles(small), small)
