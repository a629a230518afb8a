"""Compare gradients with central differences in float64, computed by the NumPy oracle of graphs."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pytest
from meanings.slopes import differences

from zyx import dtype as dtypes
from zyx.autograd import gradient
from zyx.graph import Graph
from zyx.graph.evaluate import evaluate
from zyx.ops import BinaryOp, ReduceOp, UnaryOp
from zyx.runtime.handle import Handle
from zyx.runtime.runtime import Runtime, current, use

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zyx.graph import Node

Array: TypeAlias = "np.ndarray[Any, Any]"
Build: TypeAlias = "Callable[..., Node]"

STEP = 1e-5  # truncation error ~ STEP**2, rounding error ~ 1e-16 / STEP: both near 1e-10 for slopes of about 1


class Lab:
    """A graph, leaves on one device, and their values."""

    def __init__(self, seed: int) -> None:
        self.graph = Graph()
        self.random = np.random.default_rng(seed)

    def leaf(self, values: Any) -> Node:
        """Return a leaf that holds `values`."""
        array = np.asarray(values)
        return self.graph.leaf(array.shape, dtypes.as_dtype(array.dtype), "cpu", array)

    def normal(self, *shape: int) -> Array:
        return self.random.normal(size=shape)

    def value(self, node: Node) -> Array:
        return evaluate([node])[0]

    def gradients(self, build: Build, *arrays: Any, upstream: Any = None) -> list[Array]:
        """Return the gradients of ``build(graph, *leaves)``, weighted by `upstream`, 1 by default."""
        leaves = [self.leaf(np.asarray(array, dtype=np.float64)) for array in arrays]
        target = build(self.graph, *leaves)
        weights = np.ones(target.shape) if upstream is None else upstream
        return evaluate(gradient(self.graph, target, leaves, self.leaf(np.asarray(weights, dtype=np.float64))))

    def check(self, build: Build, *arrays: Any, tolerance: float = 1e-7) -> None:
        """Assert that the gradients at `arrays`, under a random upstream, are what central differences say."""
        arrays = tuple(np.array(array, dtype=np.float64) for array in arrays)
        shape = build(self.graph, *map(self.leaf, arrays)).shape
        upstream = self.random.normal(size=shape)
        found = self.gradients(build, *arrays, upstream=upstream)

        def loss(*moved: Array) -> float:
            return float((self.value(build(self.graph, *map(self.leaf, moved))) * upstream).sum())

        for values, expected in zip(found, differences(loss, arrays, STEP), strict=True):
            np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)

    def check_twice(self, build: Build, *arrays: Any, tolerance: float = 1e-6) -> None:
        """Assert `check` for the function and for each of its gradients."""
        self.check(build, *arrays, tolerance=tolerance)
        shape = build(self.graph, *(self.leaf(np.asarray(array, dtype=np.float64)) for array in arrays)).shape
        weights = self.leaf(self.random.normal(size=shape))
        for number in range(len(arrays)):

            def slope(graph: Graph, *leaves: Node, number: int = number) -> Node:
                return gradient(graph, build(graph, *leaves), leaves, weights)[number]

            self.check(slope, *arrays, tolerance=tolerance)


@pytest.fixture
def lab(request: pytest.FixtureRequest) -> Lab:
    return Lab(zlib.crc32(request.node.nodeid.encode()))


class Value(Handle):
    """A tensor with just enough operations to write tests; like a tensor's, its `==` is not that of objects."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise AssertionError("handles must not be compared")

    __hash__ = None  # type: ignore[assignment]  # as for tensors, which compare element by element

    @classmethod
    def data(cls, values: Any, dtype: type[np.generic] = np.float64) -> Value:
        runtime = current()
        return cls.of(runtime.upload(np.asarray(values, dtype=dtype), "cpu"), runtime)

    @classmethod
    def zeros(cls, *shape: int) -> Value:
        """Return zeros as a creation function makes them: equal to no others."""
        runtime = current()
        return cls.of(runtime.graph.alias(runtime.graph.const(0.0, dtypes.float64, "cpu", shape)), runtime)

    def _binary(self, op: BinaryOp, other: Value | float) -> Value:
        graph, node = self.runtime.graph, self.node
        operand = graph.const(other, node.dtype, node.device, node.shape) if isinstance(other, float) else other.node
        return Value.of(graph.binary(op, node, operand), self.runtime)

    def __mul__(self, other: Value | float) -> Value:
        return self._binary(BinaryOp.MUL, other)

    def __add__(self, other: Value | float) -> Value:
        return self._binary(BinaryOp.ADD, other)

    def __sub__(self, other: Value | float) -> Value:
        return self._binary(BinaryOp.SUB, other)

    def exp(self) -> Value:
        return Value.of(self.runtime.graph.unary(UnaryOp.EXP, self.node), self.runtime)

    def sum(self) -> Value:
        axes = tuple(range(self.node.ndim))
        return Value.of(self.runtime.graph.reduce(ReduceOp.SUM, self.node, axes), self.runtime)

    def assign(self, other: Value) -> None:
        self.runtime.assign(self, other.node)

    def read(self) -> list[Any]:
        """Return the values, computing them: from then on the handle stands for a leaf."""
        return self.runtime.download(self).tolist()


@pytest.fixture
def values() -> Iterator[type[Value]]:
    """Give the class `Value` in a runtime of the test's own."""
    with use(Runtime()):
        yield Value
