"""Long programs of steps that read what was before at several places: as much work a step as one step has."""

from __future__ import annotations

import numpy as np
import pytest

import zyx
from zyx.fusion.recomputation import limit_recomputation
from zyx.fusion.region import follow
from zyx.graph.walk import topological
from zyx.kernel.count import count
from zyx.lowering.lower import lower
from zyx.nest.pool import Pool

pytestmark = pytest.mark.usefixtures("interpreter")


def rolls(x):
    return 0.25 * (zyx.roll(x, 1, 0) + zyx.roll(x, -1, 0) + zyx.roll(x, 1, 1) + zyx.roll(x, -1, 1))


def slices(x):
    return 0.25 * (x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2])


def pads(x):
    return slices(zyx.pad(x, ((1, 1), (1, 1))))


def products(x):
    return (x * zyx.roll(x, 1, 0)).tanh()


def neighbours(x):
    return x[1:] + x[:-1]


def shifted_copies(x):
    wide = zyx.pad(x, ((0, 0), (4, 4)))
    return sum(wide[:, i : i + x.shape[1]] * (i + 1.0) for i in range(9))


def turned(x):
    y = zyx.roll(x, 1, 0) + zyx.roll(x.T, -1, 1)
    return y - y.mean(axis=1, keepdims=True)


def itself(x):
    return x + x.flip(0) + x


def running(x):
    return x + zyx.cumsum(x, axis=1) * 0.1


def haar(x):
    even, odd = x[:, ::2], x[:, 1::2]
    return zyx.concat([even + odd, even - odd], axis=1) * 0.5


STEPS = {
    step.__name__: step
    for step in (rolls, slices, pads, products, neighbours, shifted_copies, turned, itself, running, haar)
}


def after(step, steps, x):
    for _ in range(steps):
        x = step(x)
    return x


def haar_levels(steps, x):
    """Return the levels of a transform, each of half of the one before it, in one array."""
    details = []
    for _ in range(steps):
        even, odd = x[:, ::2], x[:, 1::2]
        details.append((even - odd) * 0.5)
        x = (even + odd) * 0.5
    return zyx.concat([x, *reversed(details)], axis=1)


def gradient(program, x):
    with zyx.Tape() as tape:
        y = program(x).sum()
    return tape.gradient(y, x)


def values(*shape):
    return zyx.Tensor(np.random.default_rng(1).standard_normal(shape).astype(np.float32))


def nests_of(bench, tensor):
    return bench.schedule(tensor.node, run=lambda nests, arrays: None).nests


def operations(bench, tensor):
    """Return the operations of all kernels of a program, each counted at every point."""
    return sum(sum(count(lower(nest, "k")).operations.values()) for nest in nests_of(bench, tensor))


@pytest.mark.parametrize("name", STEPS)
def test_a_chain_of_steps_has_the_operations_of_its_steps(name, bench):
    step = STEPS[name]
    most = 3 * max(operations(bench, after(step, 1, values(48, 48))), operations(bench, after(step, 2, values(48, 48))))
    for steps in (4, 8, 16):
        assert operations(bench, after(step, steps, values(48, 48))) <= most * steps


@pytest.mark.parametrize("name", STEPS)
def test_so_has_its_gradient(name, cpu):
    def work(steps):
        return operations(cpu, gradient(lambda x: after(STEPS[name], steps, x), values(48, 48)))

    most = 3 * max(work(1), work(2))
    for steps in (4, 12):
        assert work(steps) <= most * steps


def test_the_levels_of_a_transform_have_the_operations_of_its_levels(bench):
    one = operations(bench, haar_levels(1, values(32, 256)))
    for levels in range(2, 9):
        assert operations(bench, haar_levels(levels, values(32, 256))) <= 4 * levels * one


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPS)
def test_so_has_a_long_chain(name, cpu):
    step, shape = STEPS[name], (160, 160)
    most = 3 * max(operations(cpu, after(step, 1, values(*shape))), operations(cpu, after(step, 2, values(*shape))))
    assert operations(cpu, after(step, 64, values(*shape))) <= most * 64


@pytest.mark.parametrize("name", STEPS)
def test_the_values_are_those_of_the_steps_one_by_one(name):
    step, x = STEPS[name], values(16, 16)
    expected = x
    for _ in range(4):
        expected = zyx.Tensor(step(expected).numpy())
    np.testing.assert_allclose(after(step, 4, x).numpy(), expected.numpy(), 1e-4, 1e-5)
    np.testing.assert_allclose(haar_levels(3, x).numpy()[:, :2], haar_reference(3, x.numpy()), 1e-5, 1e-6)


def haar_reference(steps, x):
    for _ in range(steps):
        x = (x[:, ::2] + x[:, 1::2]) * 0.5
    return x


def test_one_cheap_stencil_stays_one_kernel(bench):
    x, y = values(40, 40), values(40, 40)
    for step in (rolls, slices, pads, neighbours):
        assert len(nests_of(bench, step(x + y))) == 1
    assert len(nests_of(bench, after(neighbours, 4, x))) == 1


def test_what_is_costly_is_computed_once_for_all_places(cpu):
    x = values(100)
    assert len(nests_of(cpu, (x.tanh())[1:] + 1.0)) == 1
    assert len(nests_of(cpu, neighbours(x.tanh()))) == 2


def test_what_is_repeated_is_kept_by_its_cost_down_to_what_is_there(cpu):
    x, matrix = values(64), values(500, 64)
    cheap, costly = x * 2.0 + 1.0, x
    for _ in range(8):
        costly = costly * costly + x
    assert len(nests_of(cpu, matrix * cheap)) == 1
    assert len(nests_of(cpu, matrix * costly)) == 2
    assert len(nests_of(cpu, matrix.T * costly[:, None])) == 1  # for a row at a time


def test_what_several_kernels_would_read_a_lot_for_is_kept(cpu):
    def reads(*terms):
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        nodes = [total.sum(axis=0).node, (total * 2.0).max(axis=1).node]
        parts = cpu.schedule(*nodes, run=lambda nests, arrays: None).parts
        return sum(terms[0].node in part.reads for part in parts)

    wide = [values(300, 300) for _ in range(4)]
    assert reads(*wide[:2]) == 2  # two arrays are read as soon as one is stored and read back
    assert reads(*wide) == 1
    assert reads(wide[0], *(values(300) for _ in range(3))) == 2  # rows are read once for all


def test_short_elements_are_kept_sooner(cpu):
    x = values(300, 300)
    short = ((x > 0.5) | (x < -0.5)) & (x != 1.0)
    nodes = [(short & (x > 0.1)).sum(axis=0).node, short.sum(axis=1).node]
    stored = [node for part in cpu.schedule(*nodes, run=lambda nests, arrays: None).parts for node in part.stored]
    assert any(node.dtype.is_bool for node in stored)


def test_a_short_value_that_is_shown_often_does_not_unfold(cpu):
    x, matrix = values(6), values(2000, 6)
    for _ in range(30):
        x = x * zyx.roll(x, 1, 0) * zyx.roll(x, 2, 0)
    for nest in nests_of(cpu, matrix + x):
        assert len(lower(nest, "k").ops) < 1000


def views_of(node):
    """Return the number of views of all nodes, in the kernels of a program."""
    order = topological([node])
    kept = {node}
    limit_recomputation(order, kept)
    position = {n: number for number, n in enumerate(order)}
    regions = [follow(root, Pool(), position, lambda region, n: n in kept) for root in kept]
    return sum(len(views) for region in regions for views in region.views.values())


@pytest.mark.parametrize("step", [rolls, lambda x: x + x, lambda x: x * zyx.roll(x, 3, 1), lambda x: x + x.T])
def test_planning_looks_at_as_many_places_as_there_are_steps(step):
    once = max(views_of(after(step, steps, values(9, 9)).node) for steps in (1, 2))
    assert views_of(after(step, 100, values(9, 9)).node) <= 3 * 100 * once


def test_what_coordinates_decide_is_never_stored(cpu):
    """The masks of a roll are the same in every step."""
    parts = cpu.schedule(after(rolls, 30, values(9, 9)).node, run=lambda nests, arrays: None).parts
    stored = [node.dtype.is_float for part in parts for node in part.stored]
    assert stored == [True] * len(stored)
    assert 1 <= len(stored) <= 30


def test_chains_made_of_coordinates_do_not_unfold_either(cpu):
    x = zyx.arange(300)
    for _ in range(30):
        x = x + zyx.roll(x, 1) * zyx.roll(x, 2)
    assert max(len(lower(nest, "k").ops) for nest in nests_of(cpu, x)) < 500
