from __future__ import annotations

import gc
import weakref
from typing import NamedTuple

import numpy as np
import pytest

import zyx
from zyx.autograd import Tape
from zyx.errors import GradientError
from zyx.graph.node import Leaf, Node
from zyx.runtime.planner import Planner
from zyx.runtime.runtime import Runtime, use


def test_the_gradient_is_taken_inside_or_after_the_block(values):
    x = values.data([2.0, 3.0])
    with Tape() as tape:
        y = (x * x).sum()
        inside = tape.gradient(y, x)
    assert inside.read() == tape.gradient(y, x).read() == [4.0, 6.0]


def test_reading_values_inside_the_block_does_not_lose_their_history(values):
    x = values.data([2.0])
    with Tape() as tape:
        square = x * x
        assert square.read() == [4.0]
        cube = square * x
        assert cube.read() == [8.0]
    assert isinstance(cube.node, Leaf)
    assert cube.node.history_lost
    assert tape.gradient(cube, x).read() == [12.0]
    at_square, at_x = tape.gradient(cube, [square, x])
    assert (at_square.read(), at_x.read()) == ([2.0], [12.0])


def test_reading_values_after_the_block_does_not_lose_their_history(values):
    x = values.data([2.0])
    with Tape() as tape:
        square = x * x
        cube = square * x
    assert (square.read(), cube.read()) == ([4.0], [8.0])
    assert [g.read() for g in tape.gradient(cube, [x, square, cube])] == [[12.0], [2.0], [1.0]]


def test_values_made_from_what_was_read_and_from_what_was_not_are_told_as_one(values):
    x = values.data([2.0])
    with Tape() as tape:
        square = x * x
        before = square * 3.0
        square.read()
        total = before + square * 5.0
    assert tape.gradient(total, square).read() == [8.0]
    assert tape.gradient(total, x).read() == [32.0]


def test_two_handles_of_one_value_share_its_history(values):
    x = values.data([2.0])
    with Tape() as tape:
        first, second = x * x, x * x
        first.read()
        second.read()
        total = first + second
    assert tape.gradient(total, x).read() == [8.0]


def test_the_result_has_the_structure_of_the_sources(values):
    class Pair(NamedTuple):
        left: object
        right: object

    x, y = values.data([2.0]), values.data([3.0])
    with Tape() as tape:
        z = x * y
    found = tape.gradient(z, {"both": [x, (y, None)], "pair": Pair(y, x)})
    assert found["both"][0].read() == [3.0]
    assert found["both"][1][0].read() == [2.0]
    assert found["both"][1][1] is None
    assert isinstance(found["pair"], Pair)
    assert found["pair"].right.read() == [3.0]
    assert isinstance(found["pair"].left, values)


def test_something_else_among_the_sources_is_refused_by_its_place(values):
    x = values.data([2.0])
    with Tape() as tape:
        y = x * x
    with pytest.raises(GradientError, match=r"sources\['a'\]\[1\] is a float; only tensors"):
        tape.gradient(y, {"a": [x, 1.5]})


def test_sources_without_a_gradient_are_refused_by_their_place(values):
    x, number = values.data([2.0]), values.data([2], np.int32)
    with Tape() as tape:
        y = x * x
    with pytest.raises(GradientError, match=r"sources\[1\] is <leaf i32\[1\] on cpu>, not of a float dtype"):
        tape.gradient(y, [x, number])


def test_an_independent_source_has_the_gradient_zero(values):
    x, y = values.data([2.0]), values.data([[1.0, 2.0]], np.float32)
    with Tape() as tape:
        z = x * x
    (found,) = tape.gradient(z, [y])
    assert found.read() == [[0.0, 0.0]]
    assert found.node.dtype is y.node.dtype


def test_a_target_of_several_elements_takes_an_upstream(values):
    x = values.data([2.0, 3.0])
    with Tape() as tape:
        y = x * x
    assert tape.gradient(y, x, upstream=values.data([1.0, 10.0])).read() == [4.0, 60.0]
    with pytest.raises(GradientError, match=r"shape \(2,\), not one element"):
        tape.gradient(y, x)


def test_a_target_from_before_or_after_the_block_is_refused(values):
    x = values.data([2.0])
    before = x * x
    with Tape() as tape:
        inside = x * 3.0
    after = inside * x
    for target in (before, after):
        with pytest.raises(GradientError, match=r"float64\[1\], was not made inside the block of this tape"):
            tape.gradient(target, x)
    with pytest.raises(GradientError, match="was not made inside the block"):
        Tape().gradient(inside, x)


def test_a_number_that_was_read_is_refused_as_a_target(values):
    x = values.data([2.0])
    with Tape() as tape:
        loss = (x * x).read()[0]
    with pytest.raises(GradientError, match="the target is a float, not a tensor"):
        tape.gradient(loss, x)


def test_values_realized_before_the_block_count_as_given(values):
    x = values.data([2.0])
    given = x * x
    given.runtime.realize([given])
    with Tape() as tape:
        y = given * given
    assert tape.gradient(y, given).read() == [8.0]
    assert tape.gradient(y, x).read() == [0.0]


LOST = r"depends on float64\[1\], which was made from sources, float64\[1\], and computed outside the block"


def test_a_look_before_the_block_changes_no_gradient_in_silence(values):
    x, other = values.data([2.0]), values.data([1.0])
    looked_at = x * x
    looked_at.read()
    with Tape() as tape:
        y = looked_at * looked_at * other
        part = looked_at * x
        given = values.of(x.runtime.graph.detach(looked_at.node), x.runtime) * x
    assert tape.gradient(y, looked_at).read() == [8.0]
    assert tape.gradient(y, other).read() == [16.0]
    assert tape.gradient(given, x).read() == [4.0]
    for target in (y, part):
        with pytest.raises(GradientError, match=LOST):
            tape.gradient(target, x)


def test_a_look_at_what_was_made_from_what_was_looked_at_is_followed_back(values):
    x = values.data([2.0])
    first = x * 3.0
    first.read()
    second = first * 5.0
    second.read()
    del first
    with Tape() as tape:
        y = second * second
    with pytest.raises(GradientError, match=LOST):
        tape.gradient(y, x)


def test_a_look_at_an_equal_value_or_at_a_source_changes_nothing(values):
    x = values.data([2.0]) * 1.0
    one, two = x * 3.0, x * 3.0
    one.read()
    assert x.read() == [2.0]
    with Tape() as tape:
        y, z = one * one, two * two * x
    with pytest.raises(GradientError, match=LOST):
        tape.gradient(y, x)
    assert tape.gradient(z, x).read() == [108.0]


def test_what_was_looked_at_has_its_history_as_long_as_something_else_has(values):
    x = values.data([2.0])
    h = x * 3.0
    more = h * 5.0
    h.read()
    with Tape() as tape:
        y = h * more
    assert tape.gradient(y, x).read() == [180.0]
    assert tape.gradient(y, h).read() == [60.0]


def test_a_look_inside_the_block_of_one_tape_is_seen_by_another(values):
    x = values.data([2.0])
    with Tape() as tape:
        h = x * 2.0
        assert h.read() == [4.0]
        y = h * h
        with Tape() as inner:
            z = h * h
    assert tape.gradient(y, x).read() == [16.0]
    with pytest.raises(GradientError, match=LOST):
        inner.gradient(z, x)


def test_looks_are_forgotten_with_what_was_looked_at(values):
    x = values.data([1.0])
    runtime = x.runtime
    state = x * 2.0
    for _ in range(200):
        state = state * 1.0 + x
        state.read()
    assert len(runtime.observers.pasts) < 20
    del state, x
    gc.collect()
    assert not runtime.observers.pasts


def test_a_source_that_is_first_computed_after_its_use_is_still_the_source(values):
    weight = values.data([2.0]) * 3.0  # not computed
    with Tape() as tape:
        loss = weight * weight
    assert weight.read() == [6.0]
    assert tape.gradient(loss, weight).read() == [12.0]


def test_a_source_that_is_first_computed_inside_the_block_is_one_source(values):
    x = values.data([2.0])
    weight = x * 3.0
    with Tape() as tape:
        first = weight * weight
        assert weight.read() == [6.0]
        loss = first + weight * 10.0
    assert tape.gradient(loss, weight).read() == [22.0]
    assert tape.gradient(loss, x).read() == [66.0]


def test_equal_zeros_that_were_created_apart_have_gradients_apart(values):
    x, first, second = values.data([2.0]), values.zeros(1), values.zeros(1)
    with Tape() as tape:
        y = first * x + second * 5.0
    assert [g.read() for g in tape.gradient(y, [first, second])] == [[2.0], [5.0]]


def test_an_assigned_source_means_the_value_that_the_target_was_computed_from(values):
    weight = values.data([2.0])
    with Tape() as tape:
        first = weight * weight
        weight.assign(values.data([5.0]))
        second = weight * weight
    weight.assign(values.data([7.0]))
    assert tape.gradient(first, weight).read() == [4.0]
    assert tape.gradient(second, weight).read() == [10.0]


def test_of_several_values_that_the_target_depends_on_the_last_is_meant(values):
    weight = values.data([2.0])
    with Tape() as tape:
        weight.assign(weight * 3.0)
        loss = weight * weight
        weight.assign(values.data([0.0]))
    assert tape.gradient(loss, weight).read() == [12.0]


def test_an_assigned_source_that_was_computed_means_what_it_was(values):
    x = values.data([2.0])
    with Tape() as tape:
        weight = x * 3.0
        loss = weight * weight
        weight.read()
        weight.assign(values.data([0.0]))
    assert tape.gradient(loss, weight).read() == [12.0]


def test_gradients_flow_through_assignments(values):
    x, state = values.data([2.0]), values.data([1.0])
    with Tape() as tape:
        for _ in range(3):
            state.assign(state * x)
        y = state * 1.0
    assert tape.gradient(y, x).read() == [12.0]


def test_a_gradient_taken_inside_another_block_is_differentiated_again(values):
    x = values.data([2.0])
    with Tape() as outer:
        with Tape() as inner:
            y = x * x * x
            y.read()
        slope = inner.gradient(y, x)
        assert slope.read() == [12.0]
    assert outer.gradient(slope, x).read() == [12.0]


def test_one_tape_gives_gradients_of_its_own_gradients(values):
    x = values.data([2.0])
    with Tape() as tape:
        y = x * x * x * x
        first = tape.gradient(y, x)
        first.read()
        second = tape.gradient(first, x)
        third = tape.gradient(second, x)
    assert [g.read() for g in (first, second, third)] == [[32.0], [48.0], [48.0]]


def test_blocks_may_be_entered_again_but_not_within_themselves(values):
    x = values.data([2.0])
    tape = Tape()
    with tape:
        first = x * x
        with pytest.raises(GradientError, match="recording already"), tape:
            pass
    with tape:
        second = first * x
    assert tape.gradient(second, x).read() == [12.0]


def test_a_tape_belongs_to_one_runtime(values):
    tape = Tape()
    with tape:
        pass
    with use(Runtime()), pytest.raises(GradientError, match="another runtime"), tape:
        pass


def test_an_error_inside_the_block_ends_recording_and_passes(values):
    tape = Tape()
    with pytest.raises(ZeroDivisionError), tape:
        raise ZeroDivisionError
    late = values.data([1.0]) * 2.0
    with pytest.raises(GradientError):
        tape.gradient(late, late)


# ---- memory


def test_history_is_freed_when_the_tape_dies_though_the_values_live(values):
    x = values.data([2.0])
    with Tape() as tape:
        middle = x * x
        loss = middle.exp()
        inner = weakref.ref(middle.node)
        del middle
        loss.read()
    assert inner() is not None
    del tape
    assert inner() is None
    assert loss.read() == [pytest.approx(np.exp(4.0))]


def test_history_is_freed_when_the_values_die_though_the_tape_lives(values):
    x = values.data([2.0])
    with Tape() as tape:
        middle = x * x
        middle.read()
        node = weakref.ref(next(iter(tape._history.values())))
        del middle
        assert node() is None
    assert len(tape._history) == 0


def test_without_a_tape_computing_a_value_frees_its_history(values):
    x = values.data([2.0])
    y = x * x
    node = weakref.ref(y.node)
    y.read()
    assert node() is None


def test_a_step_after_the_block_is_not_kept_by_the_tape(values):
    weight = values.data([2.0])
    with Tape() as tape:
        loss = weight * weight
    step = weight - tape.gradient(loss, weight)
    node = weakref.ref(step.node)
    step.read()
    assert node() is None


def test_old_values_of_assigned_tensors_are_kept_only_if_something_depends_on_them(values):
    weight, counter = values.data([2.0]), values.data([0.0])
    with Tape() as tape:
        loss = weight * weight
        used, unused = weakref.ref(weight.node), weakref.ref(counter.node)
        weight.assign(values.data([3.0]))
        counter.assign(values.data([1.0]))
    assert used() is not None
    assert unused() is None
    del loss, tape
    assert used() is None


def test_tapes_leave_nothing_behind_in_their_runtime(values):
    def operations():
        return {id(thing) for thing in gc.get_objects() if isinstance(thing, Node) and thing.sources}

    x = values.data([2.0])
    gc.collect()
    before = operations()
    for _ in range(3):
        with Tape() as tape:
            loss = x * x
            loss.read()
            x.assign(x - tape.gradient(loss, x))
            x.read()
    runtime = x.runtime
    del loss, tape
    gc.collect()
    assert runtime.observers.references == []
    assert operations() <= before


def test_dead_handles_are_forgotten_by_the_tape(values):
    with Tape() as tape:
        x = values.data([2.0])
        for _ in range(5):
            x.assign(values.data([1.0]))
        assert len(tape._earlier) == 1
        assert len(next(iter(tape._earlier.values()))[1]) == 1
        del x
    assert tape._earlier == {}


def test_gradients_of_a_deep_graph_are_computed_together(interpreter, monkeypatch):
    """Each by itself, they would all be computed from the beginning."""
    monkeypatch.setattr("zyx.runtime.handle.MAX_DEPTH", 120)
    plans = []
    make = Planner.make
    monkeypatch.setattr(Planner, "make", lambda self, *args: plans.append(args) or make(self, *args))
    weights = [zyx.Tensor([1.0 + number / 8]).realize() for number in range(8)]
    with zyx.Tape() as tape:
        x = zyx.ones(1)
        for number in range(48):
            x = (x * weights[number % 8]).sin()
    found = tape.gradient(x, weights)
    assert plans
    assert len(plans) <= 2
    assert all(slope.is_realized for slope in found)
