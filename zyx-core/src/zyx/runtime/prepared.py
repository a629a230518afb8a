"""Whether a graph means the same once it is prepared for a device, as far as drawn values show."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from zyx.graph.evaluate import evaluate
from zyx.graph.walk import topological
from zyx.kernel.run import run as run_kernel
from zyx.kernels.custom import CustomKernel
from zyx.runtime.differences import Difference, Expected, first_difference, shifted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.graph import node as n
    from zyx.graph.node import Node

    Array = np.ndarray[Any, Any]


def points_of_graph(outputs: Sequence[Node]) -> int:
    """Return how many elements the nodes of a graph have, together."""
    return sum(math.prod(node.shape) for node in topological(outputs))


def difference_of_graphs(
    outputs: Sequence[Node], prepared: Sequence[Node], tolerance: float | None = None
) -> Difference | None:
    """Return how the values of two graphs over the same leaves differ; None if they do not.

    What is not known of leaves is drawn: floats around 0, integers from 0 on. Indices that are out of range have a
    meaning, so that any will do.

    Raises:
        UnsupportedError: A node has a meaning at a launch only.
    """
    generator = np.random.default_rng(0)
    values: dict[Node, Array] = {}

    def value_of(leaf: Node) -> Array:
        if leaf not in values:
            values[leaf] = _drawn(leaf, generator)
        return values[leaf]

    own, exact = (evaluate(outputs, value_of, custom=_run, exact=is_exact) for is_exact in (False, True))
    others = [evaluate(each, value_of, custom=_run) for each in shifted(outputs, tolerance)]
    wanted = [
        Expected(node.shape, node.dtype, node.shape, own[at], exact[at], tuple(each[at] for each in others))
        for at, node in enumerate(outputs)
    ]
    found = [
        array.reshape(node.shape)
        for array, node in zip(evaluate(prepared, value_of, custom=_run), outputs, strict=True)
    ]
    return first_difference(wanted, found, tolerance)


def _drawn(leaf: Node, generator: np.random.Generator) -> Array:
    dtype = leaf.dtype
    if dtype.is_bool or dtype.is_integer:
        return generator.integers(0, 2 if dtype.is_bool else 8, leaf.shape).astype(dtype.numpy)
    return generator.standard_normal(leaf.shape, np.float32).astype(dtype.numpy)


def _run(node: n.Custom, sources: Sequence[Array]) -> Array:
    """Return an output of a hand-written kernel, by the interpreter."""
    custom = node.kernel
    assert isinstance(custom, CustomKernel)  # others are run by `evaluate`
    outputs = [np.zeros(math.prod(shape), dtype.numpy) for shape, dtype in custom.outputs]
    inputs = [
        np.ascontiguousarray(array, source.dtype.numpy).reshape(-1)
        for array, source in zip(sources, node.sources, strict=True)
    ]
    run_kernel(custom.kernel, [*outputs, *inputs])
    return outputs[node.output].reshape(node.shape)
