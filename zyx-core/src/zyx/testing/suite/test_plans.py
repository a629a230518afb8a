"""Plans: made once for a structure, captured where the device can, without a launch too many, and without a leak."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zyx
from zyx import dtype as dtypes
from zyx.backend import SupportsCapture
from zyx.errors import NoDeviceError
from zyx.ops import BinaryOp, ReduceOp, UnaryOp
from zyx.runtime.runtime import use
from zyx.testing.faults import Faults
from zyx.testing.graph_runs import GraphRunner, case_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zyx.backend import Device, MemoryPool
    from zyx.graph import Graph, Node
    from zyx.runtime.runtime import Runtime


@pytest.fixture
def fresh(open_again: Callable[[], Runtime]) -> GraphRunner:
    """A runner on a runtime that has compiled nothing yet."""
    runtime = open_again()
    return GraphRunner(runtime, runtime.default_device)


@pytest.fixture
def bound(runtime: Runtime) -> Iterator[Runtime]:
    """The runtime, as the one that tensors belong to."""
    with use(runtime):
        yield runtime


def layers(graph: Graph, x: Node) -> Node:
    """Return `x` after three steps that take a kernel each."""
    for _ in range(3):
        total = graph.expand(graph.reduce(ReduceOp.MAX, x, (0,)), x.shape)
        x = graph.contiguous(graph.binary(BinaryOp.SUB, graph.reshape(total, x.shape), x))
    return x


def test_a_structure_that_was_computed_before_is_not_compiled_again(fresh: GraphRunner) -> None:
    random = np.random.default_rng(0)
    compiler = fresh.runtime.compiler
    counts = []
    for _ in range(4):
        x = random.integers(-9, 10, (6, 50)).astype(np.int32)
        fresh.check(case_of(fresh.device, [x], layers))
        counts.append(compiler.compiled)
    assert counts[0] > 0
    assert counts == counts[:1] * 4


def test_a_captured_plan_is_one_launch(device: Device, runner: GraphRunner) -> None:
    if not isinstance(device, SupportsCapture):
        pytest.skip(f"{device.name} does not capture sequences")
    x = np.arange(300, dtype=np.int32).reshape(6, 50)
    case = case_of(runner.device, [x], layers)
    runner.check(case)
    runner.check(case)
    with Faults(device) as faults:
        runner.results(case)
        assert faults.calls["launch"] == 1
        assert faults.calls["compile"] == 0


def test_a_plan_that_is_given_numbers_takes_those_of_each_run(device: Device, bound: Runtime) -> None:
    x = np.linspace(-3, 3, 300, dtype=np.float32).reshape(6, 50)
    launches = []
    for number in (0.5, 1.5, -2.0, 0.25, 3.0, 0.0):
        with Faults(device) as faults:
            y = zyx.Tensor(x)
            for _ in range(3):
                y = (y.max(axis=0) - y * number).contiguous()
            found = y.numpy()
            launches.append(faults.calls["launch"])
        wanted = x
        for _ in range(3):
            wanted = wanted.max(axis=0) - wanted * np.float32(number)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5, err_msg=repr(number))
    assert launches[-1] <= launches[0]


def test_what_has_no_elements_launches_nothing(device: Device, runner: GraphRunner) -> None:
    x = np.zeros((4, 0, 3), np.float32)
    case = case_of(
        runner.device,
        [x],
        lambda graph, x: [graph.unary(UnaryOp.NEG, x), graph.contiguous(graph.permute(x, (2, 1, 0)))],
    )
    with Faults(device) as faults:
        negated, permuted = runner.results(case)
        assert not faults.calls["launch"]
        assert not faults.calls["compile"]
        assert not faults.calls["allocate"]
    assert (negated.shape, permuted.shape) == ((4, 0, 3), (3, 0, 4))


def test_more_inputs_than_a_kernel_binds_are_added_in_several(device: Device, runner: GraphRunner) -> None:
    count = min(device.info.max_params + 3, 70)
    arrays = [np.full(5, number, np.int32) for number in range(count)]

    def total(graph: Graph, *leaves: Node) -> Node:
        result = leaves[0]
        for leaf in leaves[1:]:
            result = graph.binary(BinaryOp.ADD, result, leaf)
        return result

    runner.check(case_of(runner.device, arrays, total))


def test_more_outputs_than_a_kernel_binds_are_stored_by_several(device: Device, runner: GraphRunner) -> None:
    count = min(device.info.max_params + 3, 70)
    x = np.arange(9, dtype=np.int32)

    def shifted(graph: Graph, x: Node) -> list[Node]:
        return [
            graph.binary(BinaryOp.ADD, x, graph.const(number, dtypes.int32, x.device, x.shape))
            for number in range(count)
        ]

    runner.check(case_of(runner.device, [x], shifted))


@pytest.mark.parametrize("count", [65_536, 1_000_003])
def test_many_elements_are_all_computed(runner: GraphRunner, count: int) -> None:
    x = np.arange(count, dtype=np.int32)
    (result,) = runner.results(case_of(runner.device, [x], lambda graph, x: graph.unary(UnaryOp.NEG, x)))
    np.testing.assert_array_equal(result, -x)


def test_memory_comes_back_when_tensors_die(pool: MemoryPool, runner: GraphRunner) -> None:
    runtime = runner.runtime
    case = case_of(runner.device, [np.ones((64, 64), np.int32)], layers)
    runner.check(case)
    gc.collect()
    runtime.memory.reclaim()
    before = pool.free_bytes
    for _ in range(20):
        handles = runner.handles(case)
        runtime.realize(handles)
    assert pool.free_bytes < before, "results that are alive take no memory"
    del handles
    gc.collect()
    runtime.memory.reclaim()
    runtime.synchronize()
    assert pool.free_bytes == before


def test_memory_of_the_dead_is_given_back_while_the_device_is_at_work(
    bound: Runtime, pool: MemoryPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever sizes a program allocates and drops: the host waits for results, and for nothing else."""
    if pool.completed().again() is None:
        pytest.skip("events of this device cannot be had again")
    lengths = [3, 1700, 80, 4000, 5, 1701, 640, 3, 100, 7]

    def chain() -> zyx.Tensor:
        x = (zyx.ones(lengths[0]) + 1.0).realize()
        for length in lengths[1:]:
            x = (x.sum() * zyx.ones(length) / float(x.shape[0])).realize()
        return x

    twos = pytest.approx([2.0] * lengths[-1])  # quotients need not be the nearest ones
    assert chain().tolist() == twos  # compiled from now on
    bound.memory.reclaim()
    waits: list[str] = []
    for name in ("sync_events", "synchronize", "pool_to_host", "trim"):
        method = getattr(pool, name)

        def call(*args: Any, name: str = name, method: Callable[..., Any] = method) -> Any:  # noqa: ANN401
            if args != ([],) and args != ((),):  # no events, nothing to wait for
                waits.append(name)
            return method(*args)

        monkeypatch.setattr(pool, name, call)
    x = chain()
    bound.memory.reclaim()
    assert not waits
    assert x.tolist() == twos
    assert waits


def test_results_stay_as_they_are_while_others_are_computed(runner: GraphRunner) -> None:
    cases = [
        case_of(runner.device, [np.full((8, 40), number, np.int32)], lambda graph, x: graph.unary(UnaryOp.NEG, x))
        for number in range(30)
    ]
    kept = [runner.handles(case) for case in cases]
    for handles in kept:
        runner.runtime.realize(handles)
    for number, (handle,) in enumerate(kept):
        np.testing.assert_array_equal(runner.runtime.download(handle), np.full((8, 40), -number, np.int32))


def test_threads_compute_at_the_same_time(runner: GraphRunner) -> None:
    def work(number: int) -> None:
        random = np.random.default_rng(number)
        for _ in range(5):
            x = random.integers(-9, 10, (6, 40 + number % 3)).astype(np.int32)
            runner.check(case_of(runner.device, [x], layers))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(8)))


def test_a_traced_function_keeps_its_state_from_call_to_call(bound: Runtime) -> None:
    weight = zyx.Tensor(np.ones((3, 4), np.float32))
    rate = zyx.Tensor(np.array(0.5, np.float32))

    @zyx.jit
    def step(x: zyx.Tensor) -> zyx.Tensor:
        result = (x @ weight).sum()
        weight.assign(weight + rate * x.sum())
        return result

    wanted = np.ones((3, 4), np.float32)
    for turn in range(6):
        x = np.full((2, 3), turn - 2, np.float32)
        assert step(zyx.Tensor(x)).item() == (x @ wanted).sum()
        wanted = wanted + np.float32(0.5) * x.sum()
        np.testing.assert_array_equal(weight.numpy(), wanted)
    assert len(step.traces) == 1


@pytest.mark.parametrize("change", ["flip", "roll", "product"])
def test_a_traced_function_stores_over_no_state_that_is_its_argument_too(bound: Runtime, change: str) -> None:
    """Long enough for the parts of a result to be computed at different times."""
    side = 60
    start = np.random.default_rng(0).integers(-4, 5, (side, side)).astype(np.float32)
    state = zyx.Tensor(start)
    changes: dict[str, tuple[Callable[[zyx.Tensor], zyx.Tensor], Callable[[np.ndarray], np.ndarray]]] = {
        "flip": (lambda x: x.flip(0), lambda x: x[::-1]),
        "roll": (lambda x: zyx.roll(x, 7, 1), lambda x: np.roll(x, 7, 1)),
        "product": (lambda x: x @ x, lambda x: x @ x),
    }
    changed, expected = changes[change]
    step = zyx.jit(lambda x: state.assign((state + changed(x)) % 5.0))
    wanted = start
    for turn in range(3):
        step(state if turn % 2 == 0 else state.reshape(-1).reshape(side, side))
        wanted = (wanted + expected(wanted)) % 5
        np.testing.assert_array_equal(state.numpy(), wanted)


def test_values_move_to_another_device_and_back(bound: Runtime, device: Device) -> None:
    x = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    here = zyx.Tensor(x) * 2
    there = here.to("interpreter") + 1
    back = there.to(device.name).transpose(0, 2) - 1
    np.testing.assert_array_equal(back.numpy(), x.transpose(2, 1, 0) * 2)
    np.testing.assert_array_equal(here.numpy(), x * 2)


@pytest.mark.parametrize("name", ["no_such_backend", "{}:99", "{}:no such model", ""])
def test_a_device_that_is_not_there_is_an_error_that_lists_those_there_are(
    runtime: Runtime, device: Device, name: str
) -> None:
    backend = device.name.partition(":")[0]
    with pytest.raises(NoDeviceError, match=device.name):
        runtime.device(name.format(backend))


def test_memory_of_tensors_in_garbage_that_refers_to_itself_is_used_again(open_again: Callable[[], Runtime]) -> None:
    class Cycle:
        def __init__(self, tensor: zyx.Tensor) -> None:
            self.tensor, self.own = tensor, self

    with use(open_again()):
        for number in range(5):
            for value in range(3):
                Cycle(zyx.Tensor(np.full(64, value, np.float32)).realize())
                Cycle((zyx.Tensor(np.full(64, value, np.float32)) + 1.0).realize())
            gc.collect()
            found = zyx.Tensor(np.full(64, number, np.float32))
            np.testing.assert_array_equal((found * 2.0).numpy(), np.full(64, 2 * number, np.float32))
