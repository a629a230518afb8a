"""Random graphs reach every family of schedules, by devices on paper that have little of one thing or another."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.fusion.build import build_nest
from zyx.fusion.partition import partition
from zyx.fusion.prepare import VARIANTS, prepare
from zyx.fusion.split_scatters import split_scatter
from zyx.graph import Graph
from zyx.graph import node as n
from zyx.graph.walk import topological
from zyx.ops import BinaryOp, ReduceOp, UnaryOp
from zyx.schedule import seeds
from zyx.schedule.choose import choose_schedule
from zyx.testing.choices import Seeded
from zyx.testing.graph_runs import case_of
from zyx.testing.graphs import GraphOptions, random_case
from zyx.testing.nests import kernels_of
from zyx.testing.paper import PAPER
from zyx.testing.schedules import run_lowered

MACHINES = list(PAPER.values())
FLOATS = (dtypes.float32, dtypes.float16, dtypes.bfloat16, dtypes.float64)


def random_product(choices, most=1024):
    """Return a graph of a product of matrices: turned, padded, in batches, with something after it."""
    sizes = [size for size in (1, 3, 8, 16, 17, 32, 48, 64, 96, 128, 256, 512, 512, 1024) if size <= most]
    m, columns, k = (choices.pick(sizes) for _ in range(3))
    dtype = choices.pick(FLOATS)
    sums = dtypes.accumulator(dtype)
    batch = choices.pick((1, 1, 1, 2, 5))
    random = np.random.default_rng(choices.integer(0, 1 << 30))
    turned = choices.chance(40), choices.chance(40)
    shapes = [(batch, k, m) if turned[0] else (batch, m, k), (batch, columns, k) if turned[1] else (batch, k, columns)]
    arrays = [(random.integers(-8, 9, shape) / 8).astype(dtype.numpy) for shape in shapes]
    arrays.append((random.integers(-8, 9, (1, 1, columns)) / 8).astype(dtype.numpy))
    padding = choices.pick((0, 0, 1))
    after = choices.pick(("nothing", "bias", "largest", "scaled"))

    def make(graph, a, b, bias):
        a = graph.permute(a, (0, 2, 1)) if turned[0] else a
        b = b if turned[1] else graph.permute(b, (0, 2, 1))
        a = graph.pad(a, [(0, 0), (padding, 0), (0, 0)])
        rows = m + padding
        wide = (batch, rows, columns, k)
        left, right = (
            graph.cast(graph.expand(graph.reshape(x, shape), wide), sums)
            for x, shape in ((a, (batch, rows, 1, k)), (b, (batch, 1, columns, k)))
        )
        total = graph.reduce(ReduceOp.SUM, graph.binary(BinaryOp.MUL, left, right), (3,))
        result = graph.cast(graph.reshape(total, (batch, rows, columns)), dtype)
        if after == "bias":
            result = graph.binary(BinaryOp.ADD, result, graph.expand(bias, result.shape))
        elif after == "scaled":
            result = graph.binary(BinaryOp.MUL, result, graph.const(0.5, dtype, "test:0", result.shape))
        return graph.reduce(ReduceOp.MAX, result, (2,)) if after == "largest" else result

    return case_of("test:0", arrays, make)


def rows_and_columns(choices):
    """Return a graph of sums over rows or columns of a matrix, combined with it or not; or scan it, or turn it over."""
    shape = choices.pick(((4, 512), (512, 64), (64, 1024), (1000, 32), (3, 4096), (257, 33), (128, 128)))
    x = np.random.default_rng(3).integers(-8, 9, shape).astype(choices.pick(FLOATS).numpy)
    axis, follows, is_turned, is_scanned = (
        choices.integer(0, 1), choices.chance(50), choices.chance(40), choices.chance(30)
    )  # fmt: skip

    def make(graph, x):
        if is_turned and shape[1] % 4:
            return graph.unary(UnaryOp.NEG, graph.permute(x, (1, 0)))
        if is_turned:
            boxes = graph.reshape(x, (shape[0], 4, shape[1] // 4))
            return graph.unary(UnaryOp.NEG, graph.permute(boxes, choices.pick(((2, 1, 0), (2, 0, 1), (1, 0, 2)))))
        if is_scanned:
            return graph.scan(ReduceOp.SUM, x, axis)
        total = graph.reduce(choices.pick((ReduceOp.SUM, ReduceOp.MAX)), x, (axis,))
        return graph.binary(BinaryOp.SUB, x, graph.expand(total, x.shape)) if follows else total

    return case_of("test:0", [x], make)


def windows(choices):
    """Return a graph of a convolution of small images along one axis."""
    images, channels, size, kernels = (choices.pick(sizes) for sizes in ((1, 8), (3, 16), (4, 8, 9), (5, 12, 130)))
    random = np.random.default_rng(5)
    arrays = [random.integers(-8, 9, shape) / 8 for shape in ((images, channels, size, size), (kernels, channels, 3))]

    def make(graph, x, w):
        wide = graph.expand(graph.reshape(x, (*x.shape, 1)), (*x.shape, 3))
        slid = graph.slide(graph.pad(wide, [(0, 0), (0, 0), (0, 0), (1, 1), (0, 0)]), 3, 4, size)
        shape = (images, kernels, size, size, channels, 3)
        left = graph.reshape(graph.permute(slid, (0, 2, 3, 1, 4)), (images, 1, size, size, channels, 3))
        right = graph.expand(graph.reshape(w, (1, kernels, 1, 1, channels, 3)), shape)
        return graph.reduce(ReduceOp.SUM, graph.binary(BinaryOp.MUL, graph.expand(left, shape), right), (4, 5))

    return case_of("test:0", [array.astype(np.float32) for array in arrays], make)


def scattered_rows(choices):
    """Return a graph of rows that are scattered, into a few places or many."""
    rows, columns, places = choices.pick(((600, 64, 40), (2000, 16, 9), (9000, 1, 3), (700, 23, 300)))
    random = np.random.default_rng(4)
    index = random.integers(-places, places + 1, (rows, choices.pick((1, columns)))).astype(np.int32)
    updates = random.integers(-8, 9, (rows, columns)).astype(choices.pick(FLOATS).numpy)
    base = np.zeros((places, columns), updates.dtype)
    op = choices.pick((None, ReduceOp.SUM, ReduceOp.MAX))

    def make(graph, base, index, updates):
        return graph.scatter(base, graph.expand(index, updates.shape), updates, 0, op)

    return case_of("test:0", [base, index, updates], make)


def functions_of_the_seeds():
    """Return the code of every function and method in the folder."""
    found = {}
    for module in pkgutil.iter_modules(seeds.__path__):
        loaded = importlib.import_module(f"{seeds.__name__}.{module.name}")
        for name, item in vars(loaded).items():
            members = vars(item).items() if inspect.isclass(item) else [(name, item)]
            for own, member in members:
                function = member.fget if isinstance(member, property) else member
                code = getattr(function, "__code__", None)
                if code is not None and code.co_filename == loaded.__file__:
                    found[code] = f"{module.name}.{own}"
    return found


def nests_of(choices, case, info):
    """Return the nests of a graph on a machine, without values."""
    outputs = [node for node in case.outputs if 0 not in node.shape]
    computed = [
        node
        for node in dict.fromkeys(prepare(Graph(), topological(outputs), outputs, info, variant=VARIANTS - 1))
        if not isinstance(node, n.Leaf)
    ]
    nests = [build_nest(part, {}) for part in partition(topological(computed), computed, info)]
    return [launch for nest in nests for launch in split_scatter(nest, info, deterministic=choices.chance(50))]


@pytest.mark.slow
def test_every_function_of_the_seeds_is_reached():
    wanted = functions_of_the_seeds()
    reached = set()

    def note(frame, event, _):
        if event == "call":
            reached.add(frame.f_code)

    for seed in range(700):
        choices = Seeded(seed)
        info = choices.pick(MACHINES)
        what = choices.pick(("graph", "product", "product", "rows", "rows", "scatter", "windows", "windows"))
        if what == "graph":
            case = random_case(choices, GraphOptions(most_nodes=8, most_elements=5000, with_special=False))
        else:
            drawn = {"product": random_product, "rows": rows_and_columns, "scatter": scattered_rows, "windows": windows}
            case = drawn[what](choices)
        nests = nests_of(choices, case, info)
        sys.setprofile(note)
        try:
            for nest in nests:
                choose_schedule(nest, info)
        finally:
            sys.setprofile(None)
        if reached >= wanted.keys():
            break
    assert sorted(name for code, name in wanted.items() if code not in reached and "<" not in name) == []


@pytest.mark.parametrize("info", MACHINES, ids=lambda info: info.model)
def test_products_scheduled_for_devices_on_paper_keep_their_values(info):
    for seed in range(6):
        choices = Seeded(seed)
        for kernel in kernels_of(random_product(choices, most=32), info, together=False)[0]:
            nests = [choose_schedule(nest, info)[0] for nest in kernel.nests]
            try:
                kernel.check(run_lowered, nests, f"seed {seed}")
            except BaseException as error:
                error.add_note("\n".join(map(str, nests)))
                raise


@pytest.mark.parametrize("info", MACHINES, ids=lambda info: info.model)
def test_random_graphs_scheduled_for_devices_on_paper_keep_their_values(info):
    for seed in range(12):
        choices = Seeded(2000 + seed)
        case = random_case(choices, GraphOptions(most_nodes=6, most_elements=300))
        for kernel in kernels_of(case, info)[0]:
            nests = [choose_schedule(nest, info, is_alone=len(kernel.nests) == 1)[0] for nest in kernel.nests]
            kernel.check(run_lowered, nests, f"seed {seed}")
