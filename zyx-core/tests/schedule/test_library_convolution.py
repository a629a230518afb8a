"""Which nests are convolutions that a library may compute, and which are not."""

from __future__ import annotations

import numpy as np
import pytest
from meanings.formulas import conv

import zyx
from zyx.backend.library import Convolution
from zyx.fusion.build import build_nest
from zyx.fusion.partition import partition
from zyx.fusion.prepare import prepare
from zyx.graph import Graph
from zyx.graph.walk import topological
from zyx.libraries.match import match_problem
from zyx.nest.run import run_nest
from zyx.runtime.runtime import current


def nests_of(tensor):
    """Return the nests that compute a tensor."""
    info, graph = current().device(tensor.device).info, Graph()
    outputs = prepare(graph, topological([tensor._node]), [tensor._node], info, deterministic=False)
    return [build_nest(part, {}) for part in partition(topological(outputs), outputs, info)]


def leaf(*shape, seed=0):
    values = np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)
    return zyx.Tensor(values, device="interpreter").realize()


def convolved(problem, x, w):
    """Return what a problem says."""
    x = x.reshape(problem.batch, problem.groups * problem.in_channels, *problem.size)
    w = w.reshape(problem.groups * problem.out_channels, problem.in_channels, *problem.kernel)
    return conv(x, w, problem.stride, problem.padding, problem.dilation, problem.groups).ravel()


def checked(nest):
    """Return the convolution that a nest is, whose values are those of the nest; None if it is none."""
    found = match_problem(nest)
    if found is None or not isinstance(found[0], Convolution):
        return None
    problem, params = found
    generator = np.random.default_rng(1)
    arrays = {param: generator.integers(-4, 5, param.length).astype(np.float32) for param in params}
    run_nest(nest, [arrays[param] for param in nest.params])
    x, w, y = (arrays[param] for param in params)
    np.testing.assert_array_equal(convolved(problem, x, w), y)
    return problem


@pytest.mark.parametrize(
    ("x", "w", "how"),
    [
        ((2, 3, 12), (5, 3, 3), {}),
        ((2, 3, 10, 12), (8, 3, 3, 3), {"padding": 1}),
        ((1, 3, 10, 12), (8, 3, 3, 5), {"padding": (1, 2), "stride": 2}),
        ((2, 4, 9, 11), (6, 2, 3, 3), {"groups": 2, "dilation": 2, "padding": 2}),
        ((2, 1, 11, 9), (4, 1, 3, 2), {"stride": (3, 1)}),
        ((2, 3, 6, 7, 8), (4, 3, 3, 2, 3), {"padding": (1, 0, 2), "stride": (1, 2, 1)}),
        ((2, 3, 9, 8), (4, 3, 1, 3), {"stride": (2, 1), "padding": (0, 1)}),
    ],
)
def test_convolutions_are_found_with_all_they_are_told(x, w, how):
    axes = len(x) - 2

    def each(what, default):
        given = how.get(what, default)
        return given if isinstance(given, tuple) else (given,) * axes

    groups = how.get("groups", 1)
    (nest,) = nests_of(zyx.conv(leaf(*x), leaf(*w), **how))
    assert checked(nest) == Convolution(
        x[0], groups, x[1] // groups, w[0] // groups, x[2:], w[2:], each("stride", 1), each("padding", 0),
        each("dilation", 1), zyx.float32,
    )  # fmt: skip


def test_whatever_is_found_computes_what_the_nest_does():
    generator = np.random.default_rng(0)
    found = 0
    for _ in range(60):
        axes, groups, each, out = (int(generator.integers(1, most)) for most in (4, 3, 4, 5))
        size, kernel, stride, dilation, padding = (
            generator.integers(low, high, axes).tolist() for low, high in ((4, 9), (1, 4), (1, 4), (1, 3), (0, 3))
        )
        spans = [n + 2 * p - d * (k - 1) for n, p, d, k in zip(size, padding, dilation, kernel, strict=True)]
        if min(spans) < 1:
            continue
        images = leaf(int(generator.integers(1, 3)), groups * each, *size)
        how = {"stride": tuple(stride), "padding": tuple(padding), "dilation": tuple(dilation), "groups": groups}
        for nest in nests_of(zyx.conv(images, leaf(groups * out, each, *kernel), **how)):
            found += checked(nest) is not None
    assert found > 20


@pytest.mark.parametrize(
    "make",
    [
        lambda x, w: zyx.conv(x, w).relu(),
        lambda x, w: zyx.conv(x, w) + leaf(4, 1, 1),
        lambda x, w: zyx.conv(x, w, padding=((1, 0), (0, 1))),
        lambda x, w: zyx.conv(x.pad([(0, 0), (0, 0), (1, 1), (1, 1)], value=2.0), w),
        lambda x, w: zyx.conv(x[:, :, 1:], w),
        lambda x, w: zyx.conv(x.permute(0, 1, 3, 2), w),
        lambda x, w: zyx.conv(x, w.flip(3)),
        lambda x, w: zyx.conv(x, w).permute(0, 2, 3, 1).contiguous(),
    ],
)
def test_what_is_more_than_a_convolution_is_left_to_generated_kernels(make):
    nests = nests_of(make(leaf(2, 3, 9, 8), leaf(4, 3, 3, 3)))
    assert [checked(nest) for nest in nests] == [None] * len(nests)
