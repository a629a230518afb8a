"""From graphs to nests and kernels without a runtime, checked against the meaning of the graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.backend.info import DeviceInfo, full_capability
from zyx.fusion.arrange import arrange
from zyx.fusion.build import build_nest
from zyx.fusion.partition import partition
from zyx.fusion.prepare import prepare
from zyx.fusion.split_scatters import split_scatter
from zyx.graph import Graph
from zyx.graph import node as n
from zyx.graph.evaluate import evaluate
from zyx.graph.walk import topological
from zyx.kernel import run as interpreter
from zyx.kernel.verify import verify
from zyx.lowering.lower import lower, lower_together
from zyx.nest.run import run_nest
from zyx.ops import BinaryOp, ReduceOp, UnaryOp, reduce_ops
from zyx.schedule.choose import choose_schedule
from zyx.schedule.seeds import groups
from zyx.testing.traffic import Traffic, run_counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.fusion.partition import KernelPart
    from zyx.kernel.data import Kernel
    from zyx.nest.data import Nest
    from zyx.nest.expr import Param
    from zyx.schedule.moves import Move


def device(**limits) -> DeviceInfo:
    lanes = limits.pop("lanes", (2, 4, 8))
    capabilities = {dtype: full_capability(dtype, lanes=lanes, atomic=reduce_ops(dtype)) for dtype in dtypes.ALL}
    return DeviceInfo("test", "0", capabilities, **limits)


#: A processor of two cores with vectors, and a machine of many threads.
CPU = device(units=2, vector_bytes=32, cache_bytes=(1 << 15, 1 << 18))
GPU = device(
    units=16, max_group_threads=256, max_group_shape=(256, 256, 64), warp_size=32, cache_bytes=(1 << 16,), lanes=(2, 4)
)


#: A card with few units and short groups, so that little work keeps it busy.
CARD = {
    "units": 1, "max_group_threads": 256, "max_group_shape": (256, 256, 64), "warp_size": 32, "vector_bytes": 16,
    "lanes": (2, 4, 8), "registers": 255, "local_bytes": 49152, "cache_bytes": (1 << 17,), "subgroup_size": 32,
    "swaps": frozenset({dtypes.float32, dtypes.int32}), "flops_per_s": 5e11, "bytes_per_s": 2.5e10,
}  # fmt: skip


@dataclass
class Counted:
    """A kernel of one nest: what was chosen for it, and what its threads read and stored when it ran."""

    nest: Nest
    moves: Sequence[Move]
    kernel: Kernel
    traffic: Traffic

    @property
    def waste(self) -> float:
        """How many times more bytes came than the threads had use for."""
        return self.traffic.waste(self.kernel)

    @property
    def threads(self) -> int:
        """The threads of a group."""
        return int(np.prod(self.kernel.grid[1]))


@dataclass
class Scheduled:
    """What became of a graph: `launches` of parts, their nests, and the values of everything that was stored."""

    outputs: list[n.Node]
    launches: list[list[KernelPart]]
    nests: list[Nest]
    values: dict[n.Node, np.ndarray]

    @property
    def parts(self) -> list[KernelPart]:
        return [part for launch in self.launches for part in launch]

    def value(self, number: int = 0) -> np.ndarray:
        """Return the values of an output."""
        node = self.outputs[number]
        return node.storage if node.storage is not None else self.values[node].reshape(node.shape)

    @property
    def stored(self) -> list[n.Node]:
        return [node for part in self.parts for node in part.stored]

    @property
    def stored_bytes(self) -> int:
        return sum(int(np.prod(node.shape)) * node.dtype.itemsize for node in self.stored)


class Bench:
    """Makes graphs, and schedules them for `info`."""

    def __init__(self, info: DeviceInfo) -> None:
        self.graph = Graph()
        self.info = info
        self.random = np.random.default_rng(1)

    # ---- graphs

    def leaf(self, values) -> n.Node:
        array = np.asarray(values)
        return self.graph.leaf(array.shape, dtypes.as_dtype(array.dtype), "cpu", array)

    def normal(self, *shape: int, dtype=np.float32) -> n.Node:
        return self.leaf(self.random.standard_normal(shape).astype(dtype))

    def expand(self, x: n.Node, *shape: int) -> n.Node:
        return self.graph.expand(x, shape)

    def add(self, x: n.Node, y: n.Node) -> n.Node:
        return self.graph.binary(BinaryOp.ADD, *self._wide(x, y))

    def sub(self, x: n.Node, y: n.Node) -> n.Node:
        return self.graph.binary(BinaryOp.SUB, *self._wide(x, y))

    def mul(self, x: n.Node, y: n.Node) -> n.Node:
        return self.graph.binary(BinaryOp.MUL, *self._wide(x, y))

    def _wide(self, x: n.Node, y: n.Node) -> list[n.Node]:
        shape = np.broadcast_shapes(x.shape, y.shape)
        long = [self.graph.reshape(node, (*[1] * (len(shape) - node.ndim), *node.shape)) for node in (x, y)]
        return [self.graph.expand(node, shape) for node in long]

    def constant(self, value: float, shape=()) -> n.Node:
        return self.graph.const(value, dtypes.float32, "cpu", shape)

    def exp(self, x: n.Node) -> n.Node:
        return self.graph.unary(UnaryOp.EXP2, x)

    def sqrt(self, x: n.Node) -> n.Node:
        return self.graph.unary(UnaryOp.SQRT, x)

    def tanh(self, x: n.Node) -> n.Node:
        return self.graph.unary(UnaryOp.TANH, x)

    def sum(self, x: n.Node, *axes: int) -> n.Node:
        return self.graph.reduce(ReduceOp.SUM, x, axes)

    def max(self, x: n.Node, *axes: int) -> n.Node:
        return self.graph.reduce(ReduceOp.MAX, x, axes)

    def softmax(self, x: n.Node) -> n.Node:
        last = x.ndim - 1
        e = self.exp(self.sub(x, self.max(x, last)))
        return self.graph.binary(BinaryOp.DIV, *self._wide(e, self.sum(e, last)))

    def layer_norm(self, x: n.Node) -> n.Node:
        size = x.shape[-1]
        centred = self.sub(x, self.mul(self.sum(x, x.ndim - 1), self.constant(1 / size, (*x.shape[:-1], 1))))
        variance = self.mul(self.sum(self.mul(centred, centred), x.ndim - 1), self.constant(1 / size, (1,) * x.ndim))
        return self.graph.binary(BinaryOp.DIV, *self._wide(centred, self.sqrt(variance)))

    def matmul(self, a: n.Node, b: n.Node) -> n.Node:
        (i, k), j = a.shape, b.shape[1]
        left = self.graph.expand(self.graph.reshape(a, (i, 1, k)), (i, j, k))
        right = self.graph.expand(self.graph.reshape(self.graph.permute(b, (1, 0)), (1, j, k)), (i, j, k))
        return self.graph.reshape(self.sum(self.graph.binary(BinaryOp.MUL, left, right), 2), (i, j))

    # ---- scheduling

    def prepare(self, *outputs: n.Node) -> list[n.Node]:
        return prepare(Graph(), topological(outputs), outputs, self.info)

    def schedule(self, *outputs: n.Node, run: Callable[..., None] | None = None) -> Scheduled:
        """Return what becomes of the graph of `outputs`, each launch run by ``run(nests, arrays)``."""
        prepared = self.prepare(*outputs)
        computed = [node for node in dict.fromkeys(prepared) if node.storage is None and not isinstance(node, n.Leaf)]
        launches = arrange(partition(topological(computed), computed, self.info), self.info)
        scheduled = Scheduled(prepared, launches, [], {})
        for launch in launches:
            params: dict[n.Node, Param] = {}
            nests = [build_nest(part, params) for part in launch]
            scheduled.nests += nests
            arrays: dict[Param, np.ndarray] = {}
            for node, param in params.items():
                if node.storage is not None:
                    arrays[param] = np.ascontiguousarray(node.storage).reshape(-1)
                elif node in scheduled.values:
                    arrays[param] = scheduled.values[node]
                else:
                    arrays[param] = scheduled.values[node] = np.empty(param.length, param.dtype.numpy)
            scatter = split_scatter(nests[0], self.info, deterministic=False) if len(nests) == 1 else []
            for phase in [[nest] for nest in scatter] or [nests]:
                (run or run_nests)(phase, arrays)
        return scheduled

    def check(self, *outputs: n.Node, tolerance: float = 1e-5, run: Callable[..., None] | None = None) -> Scheduled:
        """Return what becomes of the graph, having checked that its values are those of the graph."""
        scheduled = self.schedule(*outputs, run=run)
        for number, expected in enumerate(evaluate(outputs)):
            found = scheduled.value(number).reshape(expected.shape)  # what is only another shape may share a buffer
            np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), tolerance, tolerance)
        return scheduled

    def kernels(self, *outputs: n.Node) -> int:
        """Return the number of launches, having checked the values."""
        return len(self.check(*outputs).launches)

    def counted(self, *outputs: n.Node, tolerance: float = 1e-4) -> list[Counted]:
        """Return the kernels of the graph, each of one nest, having run them and checked the values."""
        found = []

        def run(nests: Sequence[Nest], arrays: dict[Param, np.ndarray]) -> None:
            (nest,) = nests
            chosen, moves = choose_schedule(nest, self.info)
            kernel = lower(chosen, "test")
            verify(kernel)
            traffic = run_counted(kernel, [arrays[param] for param in nest.params])
            found.append(Counted(chosen, moves, kernel, traffic))

        self.check(*outputs, tolerance=tolerance, run=run)
        return found

    def run_kernels(self, nests: Sequence[Nest], arrays: dict[Param, np.ndarray]) -> None:
        """Schedule and lower nests as for the device, verify the kernel, and run it."""
        is_alone = len(nests) == 1
        kernel = lower_together([choose_schedule(nest, self.info, is_alone=is_alone)[0] for nest in nests], "test")
        verify(kernel)
        params = dict.fromkeys(param for nest in nests for param in nest.params)
        interpreter.run(kernel, [arrays[param] for param in params])


def run_nests(nests, arrays) -> None:
    for nest in nests:
        run_nest(nest, [arrays[param] for param in nest.params])


@pytest.fixture(params=[CPU, GPU], ids=["cpu", "gpu"])
def bench(request) -> Bench:
    """A bench for a processor, and one for a machine of many threads."""
    return Bench(request.param)


@pytest.fixture
def cpu() -> Bench:
    return Bench(CPU)


@pytest.fixture
def gpu() -> Bench:
    return Bench(GPU)


@pytest.fixture
def device_with() -> Callable[..., Bench]:
    """A function that makes a bench for a device with some limits."""
    return lambda **limits: Bench(device(**limits))


@pytest.fixture
def card() -> Bench:
    return Bench(device(**CARD))


@pytest.fixture
def card_with() -> Callable[..., Bench]:
    """A function that makes a bench for the card with other limits."""
    return lambda **limits: Bench(device(**{**CARD, **limits}))


@pytest.fixture
def only(monkeypatch) -> Callable[[str], None]:
    """Return a function that leaves devices with threads one family of schedules, by the name of what yields it."""

    def leave(family: str) -> None:
        for name in [name for name in vars(groups) if name.endswith("_seeds") and name not in (family, "group_seeds")]:
            monkeypatch.setattr(groups, name, lambda *_, **__: ())

    return leave
