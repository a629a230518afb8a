"""Parameters of traced functions of which each number has a trace of its own."""

import copy
import dataclasses

import numpy as np
import pytest

import zyx
from zyx.errors import TraceError

X = np.linspace(-2, 2, 6, dtype=np.float32)


def scaled(x, factor=1.0, shift=0.0):
    return x * factor + shift


def shifted(x, *shifts, factor=1.0, **others):
    for shift in (*shifts, *others.values()):
        x = x * factor + shift
    return x


class Scale:
    def __init__(self):
        self.weight = zyx.Tensor(X)

    def scaled(self, x, factor, shift):
        return (x + self.weight) * factor + shift


def traces(function, calls, **options):
    """Return how many traces calls make; their results are those of the function as it is."""
    traced = zyx.jit(function, **options)
    for args, kwargs in (*calls, *calls):
        x = zyx.Tensor(X)
        np.testing.assert_allclose(
            traced(x, *args, **kwargs).numpy(), function(x, *args, **kwargs).numpy(), rtol=1e-6, atol=1e-6
        )
    return len(traced.traces)


BOTH = [((factor, shift), {}) for factor in (0.5, 1.5, 2.5) for shift in (1.0, 2.0, 3.0)]
NAMED = [((), {"shift": shift, "factor": factor}) for (factor, shift), _ in BOTH]


@pytest.mark.parametrize("calls", [BOTH, NAMED], ids=["by place", "by name"])
def test_each_number_of_a_static_parameter_has_a_trace_and_the_others_share(calls):
    assert traces(scaled, calls) == 2
    assert traces(scaled, calls, static="factor") == 4  # and that of the first call
    assert traces(scaled, calls, static=["shift"]) == 4
    assert traces(scaled, calls, static=("factor", "shift")) == 9


def test_methods_bound_and_unbound_have_static_parameters():
    assert traces(Scale().scaled, BOTH, static="factor") == 4
    traced = zyx.jit(Scale.scaled, static="factor")
    scale, x = Scale(), zyx.Tensor(X)
    for (factor, shift), _ in BOTH:
        np.testing.assert_allclose(
            traced(scale, x, factor, shift).numpy(), 2 * X * factor + shift, rtol=1e-6, atol=1e-6
        )
    assert len(traced.traces) == 4


@dataclasses.dataclass
class Line:
    slope: float
    start: float

    def at(self, x, factor, shift):
        return (x * self.slope + self.start) * factor + shift


def test_numbers_of_the_object_of_a_method_are_not_taken_for_those_of_its_parameters():
    assert traces(Line(0.5, 1.5).at, BOTH, static="factor") == 4
    assert traces(Line(0.5, 1.5).at, BOTH, static="shift") == 4


def test_all_that_is_taken_by_place_or_by_name_may_be_static():
    calls = [
        ((a, b), {"factor": c, "other": d}) for a in (1.5, 2.5) for b in (3.5, 4.5) for c in (2, 3) for d in (5, 6)
    ]
    assert traces(shifted, calls) == 2
    assert traces(shifted, calls, static="shifts") == 5
    assert traces(shifted, calls, static="others") == 3
    assert traces(shifted, calls, static="factor") == 3


def test_a_static_number_is_a_number_while_it_is_traced():
    seen = []

    @zyx.jit(static="depth")
    def nested(x, depth, factor):
        seen.append((type(depth), type(factor)))
        return x * depth * factor

    for depth in (2, 3):
        for factor in (1.5, 2.5, 3.5):
            assert nested(zyx.Tensor(X), depth, factor).shape == (6,)
    assert {kind for kind, _ in seen} == {int}
    assert len(seen) < 6


def test_copies_have_the_same_static_parameters():
    for copied in (copy.copy(zyx.jit(scaled, static="factor")), copy.deepcopy(zyx.jit(scaled, static="factor"))):
        for (factor, shift), _ in BOTH:
            copied(zyx.Tensor(X), factor, shift)
        assert len(copied.traces) == 4


def test_what_is_no_parameter_is_refused_with_those_there_are():
    with pytest.raises(TraceError, match=r"static: scaled has no parameter 'scale'; it has x, factor, shift"):
        zyx.jit(scaled, static="scale")
    with pytest.raises(TraceError, match=r"has no parameter 'self'; it has x, factor, shift"):
        zyx.jit(Scale().scaled, static=("factor", "self"))
