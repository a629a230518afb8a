"""Loops end at the sizes that a kernel is given, by whatever schedule, and compute what is there."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import zyx
from zyx import dtype as dtypes
from zyx.backend.info import DeviceInfo, full_capability
from zyx.errors import ScheduleError, VerifyError
from zyx.fusion.arrange import arrange
from zyx.fusion.build import build_nest
from zyx.fusion.partition import partition
from zyx.fusion.prepare import prepare
from zyx.graph import Graph
from zyx.graph import node as n
from zyx.graph.evaluate import evaluate
from zyx.graph.given import Front, Number
from zyx.graph.walk import topological
from zyx.kernel import data as k
from zyx.kernel import run as interpreter
from zyx.kernel.verify import verify
from zyx.lowering.lower import lower_together
from zyx.nest.data import params_of
from zyx.ops import reduce_ops
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.schedule.choose import choose_schedule
from zyx.specialise.follow import Followed, follow
from zyx.specialise.longer import NoPrefixError, longer
from zyx.specialise.outline import outline
from zyx.testing.choices import Seeded
from zyx.testing.lengths import operand, program
from zyx.testing.schedules import MOST_WRITTEN_OUT, is_about_bounds, random_schedule, written_out

BOUND = 64


def machine(**limits):
    lanes = limits.pop("lanes")
    capabilities = {dtype: full_capability(dtype, lanes=lanes, atomic=reduce_ops(dtype)) for dtype in dtypes.ALL}
    return DeviceInfo("test", "0", capabilities, **limits)


CPU = machine(units=2, vector_bytes=32, cache_bytes=(1 << 15, 1 << 18), lanes=(2, 4, 8))
WIDE = machine(units=2, vector_bytes=64, registers=32, lanes=(2, 4, 8, 16), cache_bytes=(1 << 15, 1 << 18))
GPU = machine(
    units=16, max_group_threads=256, max_group_shape=(256, 256, 64), warp_size=32, cache_bytes=(1 << 16,), lanes=(2, 4)
)


def graph_at(function, shape):
    array = operand(shape, 5)
    node = function(zyx.Tensor(array)).node
    return array, node, topological([node])


def sizes_of(function, shape_at):
    """Return the structure of a program, and how its sizes follow its length; None of them if they follow none."""
    (_, node, order), (_, other, its_order) = (graph_at(function, shape_at(length)) for length in (6, 9))
    one, two = outline([node], order), outline([other], its_order)
    return (one[0], follow([one[1], two[1]], 1)) if one and two and one[0] == two[0] else (None, None)


def constants_of(order):
    return [node for node in order if isinstance(node, n.Const)]


class Given:
    """A program for all lengths up to `BOUND`, as nests of a device."""

    def __init__(self, function, shape_at, info, bound=BOUND):
        self.structure, self.sizes = sizes_of(function, shape_at)
        if self.sizes is None:
            raise NoPrefixError("there is no length")
        self.function, self.shape_at, self.info = function, shape_at, info
        _, node, order = graph_at(function, shape_at(6))
        self.made = longer([node], order, self.sizes, bound, constants_of(order))
        self.outputs = prepare(Graph(), topological(self.made.outputs), self.made.outputs, info)
        launches = arrange(partition(topological(self.outputs), self.outputs, info), info)
        self.launches = []
        for launch in launches:
            params = {}
            self.launches.append(([build_nest(part, params) for part in launch], params))

    def kernels(self, schedule):
        """Return the kernel of each launch, whose nests are scheduled by ``schedule(nest)``."""
        found = []
        for nests, _ in self.launches:
            kernel = lower_together([schedule(nest) for nest in nests], "test")
            try:
                verify(kernel)
            except VerifyError as error:  # of products of coordinates and numbers not all that holds is proved
                if not is_about_bounds(error):
                    raise
            found.append(run_passes(kernel, standard_passes(self.info)))
        return found

    def check(self, kernels, length):
        """Compare what kernels compute at a length with what the program means."""
        array, node, order = graph_at(self.function, self.shape_at(length))
        found = outline([node], order)
        if found is None or found[0] != self.structure or (at := Followed(self.sizes).lengths_of(found[1])) is None:
            return
        values = {number: size.at(*at) for size, number in self.made.lengths.items()}
        numbers = self.made.constants.values()
        values |= {number: each.value for number, each in zip(numbers, constants_of(order), strict=True)}
        buffers = {}
        for kernel, (nests, params) in zip(kernels, self.launches, strict=True):
            for each, param in params.items():
                if isinstance(each, Number):
                    buffers[each] = values[each]
                elif isinstance(each, Front):
                    buffers[each] = array.ravel()  # and nothing behind it
                elif each not in buffers:
                    buffers[each] = np.full(param.length, 99, param.dtype.numpy)
            node_of = {param: each for each, param in reversed(params.items())}
            interpreter.run(kernel, [buffers[node_of[param]] for param in params_of(nests)])
        (expected,) = evaluate([node], lambda _: array)
        result = buffers[self.outputs[0]].ravel()[: expected.size].reshape(expected.shape)
        np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-5, err_msg=f"length {length}")


def drawn(seed, info):
    """Return a drawn program for many lengths, None if there is none."""
    shape_at, function = program(seed)
    try:
        return Given(function, shape_at, info)
    except (NoPrefixError, zyx.ZyxError):
        return None


@pytest.mark.one_in(3)
@pytest.mark.parametrize("info", [CPU, WIDE, GPU], ids=["cpu", "wide", "gpu"])
@pytest.mark.parametrize("block", range(3))
def test_drawn_programs_compute_what_is_there(info, block, interpreter):
    counts = Counter()
    for seed in range(20 * block, 20 * block + 20):
        given = drawn(seed, info)
        if given is None or any(isinstance(each, n.Custom) for each in topological(given.outputs)):
            continue
        kernels = given.kernels(lambda nest: choose_schedule(nest, info)[0])
        counts["ended"] += any(isinstance(op, k.Loop) and op.end is not None for kernel in kernels for op in kernel.ops)
        choices = Seeded(seed)

        def anyhow(nest, choices=choices):
            found = random_schedule(choices, nest, 8).nest
            if written_out(found) > MOST_WRITTEN_OUT:
                raise ScheduleError("written out too far")
            return found

        for length in (2, 3, 7, 16, 20):
            given.check(kernels, length)
        try:
            kernels = given.kernels(anyhow)
        except ScheduleError:
            continue
        counts["anyhow"] += 1
        for length in (2, 9, 20):
            given.check(kernels, length)
    assert counts["ended"] >= 2 or info is GPU  # threads of a group go over as many points as its loops
    assert counts["anyhow"] >= 3


PROGRAMS = {
    "a sum": (lambda x: x.sum(0), lambda length: (length, 5)),
    "a sum along lanes": (lambda x: x.sum(1), lambda length: (5, length)),
    "element by element": (lambda x: (x * 2).exp(), lambda length: (5, length)),
    "rows": (lambda x: x - x.mean(1, keepdim=True), lambda length: (length, 8)),
    "softmax": (lambda x: x.softmax(1), lambda length: (5, length)),
    "products": (lambda x: x @ x.T, lambda length: (5, length)),
    "turned over": (lambda x: x.T.contiguous(), lambda length: (5, length)),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("info", [CPU, GPU], ids=["cpu", "gpu"])
def test_what_is_not_there_is_not_gone_over(name, info, interpreter):
    """Whatever the schedule, memory is read as often as it would be if the greatest length were this one, or less."""
    function, shape_at = PROGRAMS[name]
    given = Given(function, shape_at, info)
    kernels = given.kernels(lambda nest: choose_schedule(nest, info)[0])
    for length in (2, 5, 20, 33, 63, 64):
        given.check(kernels, length)
    if info is CPU:
        assert any(isinstance(op, k.Loop) and op.end is not None for kernel in kernels for op in kernel.ops)


@pytest.mark.parametrize("info", [CPU, GPU], ids=["cpu", "gpu"])
def test_long_sums_go_from_block_to_block_up_to_the_end(info, interpreter):
    given = Given(lambda x: x.sum(0), lambda length: (length,), info, 4096)
    kernels = given.kernels(lambda nest: choose_schedule(nest, info)[0])
    for length in (2, 64, 65, 1000, 4095, 4096):
        given.check(kernels, length)


def test_without_ends_loops_go_on_under_masks(interpreter):
    function, shape_at = PROGRAMS["a sum"]
    given = Given(function, shape_at, CPU)
    kernels = [
        lower_together([choose_schedule(nest, CPU)[0] for nest in nests], "test", with_ends=False)
        for nests, _ in given.launches
    ]
    assert not any(isinstance(op, k.Loop) and op.end is not None for kernel in kernels for op in kernel.ops)
    for length in (2, 5, 63):
        given.check(kernels, length)


def test_a_factor_that_is_not_there_may_meet_one_that_is_infinite(interpreter):
    """Zero times infinity is no zero: only where both factors are masked is nothing added."""
    function, shape_at = (lambda x: (x * zyx.full(x.shape, float("inf"))).sum(0)), (lambda length: (length, 3))
    given = Given(function, shape_at, CPU)
    kernels = given.kernels(lambda nest: choose_schedule(nest, CPU)[0])
    given.check(kernels, 7)
