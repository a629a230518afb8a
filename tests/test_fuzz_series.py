"""Programs that are run with several numbers, starts and lengths: what is stale is found, and made small."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from fuzz import campaign as campaign_module
from fuzz.campaign import Campaign
from fuzz.program import Call, Program
from fuzz.running import Way
from fuzz.series import Again, Series, check_series, is_like, series_as_text

import zyx
from zyx import dtype as dtypes
from zyx.errors import IndexRangeError, LaunchError
from zyx.runtime.runtime import use
from zyx.specialise import numbers
from zyx.specialise.lengths import Bounded
from zyx.testing.choices import Seeded
from zyx.testing.opening import open_runtime

WAYS = [Way.EAGER, Way.JIT, Way.GRADIENT]


@pytest.fixture(scope="module")
def runtime():
    opened = open_runtime("interpreter")
    yield opened
    opened.close()


def turn(length, *calls):
    """Return a program of calls, each a text and a meaning of what is before it, over floats of some length."""
    made = Program([np.random.default_rng(length).standard_normal((length, 3)).astype(np.float32)])
    for number, (text, meaning) in enumerate(calls):
        made.calls.append(Call(text, meaning, (number,)))
        made.dtypes.append(dtypes.float32)
    made.outputs = [len(calls)]
    return made


def times(number):
    return f"{{0}} * {number}", lambda x: x * number


def cut(start, stop):
    return f"{{0}}[{start}:{stop}]", lambda x: x[start:stop]


def total():
    return "zyx.sum({0}, 0)", lambda x: x.sum(axis=0)


RIGHT = {
    "numbers": Series([turn(8, times(number), total()) for number in (0.5, -0.25, 2.0, 1.0)]),
    "starts": Series([turn(8, cut(start, start + 4), times(2.0)) for start in (0, 2, -6, 4)]),
    "lengths": Series([turn(length, times(2.0), total()) for length in (8, 20, 33, 1)]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", RIGHT)
def test_what_is_right_passes(runtime, what, way):
    with use(runtime):
        check_series(RIGHT[what], way)


@pytest.mark.parametrize("way", [Way.EAGER, Way.GRADIENT])
def test_a_stale_number_is_found(runtime, monkeypatch, way):
    right, latest = numbers.given, []

    def given(table, key, order, *, is_traced=False):
        found = right(table, key, order, is_traced=is_traced)
        if found is not None and found.values:
            latest.append(found.values)
            found = dataclasses.replace(found, values=latest[max(len(latest) - 2, 0)])
        return found

    monkeypatch.setattr(numbers, "given", given)
    with use(runtime), pytest.raises(AssertionError):
        check_series(RIGHT["numbers"], way)


def test_a_mask_for_another_length_is_found(runtime, monkeypatch):
    def values(self):
        return [size.at(*self.bounds) for size in self.symbolic.made[self.bounds, self.changed]]

    monkeypatch.setattr(Bounded, "values", values)
    with use(runtime), pytest.raises((AssertionError, LaunchError)):  # another value, or one that is not there
        check_series(RIGHT["lengths"], Way.EAGER)


def test_a_number_that_a_trace_keeps_is_found(runtime, monkeypatch):
    from zyx.jit.numbers import StandIn

    monkeypatch.setattr(StandIn, "look", lambda self: self._value)
    with use(runtime), pytest.raises(AssertionError):
        check_series(RIGHT["starts"], Way.JIT)


def test_what_is_refused_must_be_refused_when_traced(runtime, monkeypatch):
    kept = Series([turn(8, (f"{{0}}[{at}]", lambda x, at=at: x[at])) for at in (0, 2, -6)])
    with use(runtime):
        check_series(kept, Way.JIT)
        monkeypatch.setattr(zyx, "jit", lambda function: lambda given, row: function(given, [1 for _ in row]))
        wrong = Series([turn(8, (f"{{0}}[{at}]", lambda x: x[1])) for at in (0, 2)])
        with pytest.raises(AssertionError, match=IndexRangeError.__name__):
            check_series(wrong, Way.JIT)


def test_numbers_that_differ_become_parameters():
    turns = [
        turn(4, ("zyx.pad({0}, [(1, 2)], value=0.5)[%s:9]" % start, None), ("%s + {0}" % number, None))  # noqa: UP031
        for start, number in ((-3, "1e+30"), (2, "float('nan')"))
    ]
    source, numbers = Series(turns).source()
    assert source.splitlines()[1:3] == ["    t1 = zyx.pad(t0, [(1, 2)], value=0.5)[k0:9]", "    t2 = k1 + t1"]
    assert numbers == [["-3", "1e+30"], ["2", "float('nan')"]]
    assert is_like(*turns)
    assert not is_like(turns[0], turn(4, total(), total()))


def test_choices_are_the_same_again_within_other_bounds():
    choices = Again(Seeded(1))
    first = [choices.integer(0, 9), choices.pick("abcdef"), choices.chance(50)]
    choices.again()
    assert [choices.integer(0, 9), choices.pick("abcdef"), choices.chance(50)] == first
    choices.again()
    assert choices.integer(50, 60) == 50


def drawn(campaign, monkeypatch, seeds):
    """Return the series of seeds."""
    found = []
    with monkeypatch.context() as patched:
        patched.setattr(campaign_module, "check_series", lambda series, way: found.append(series))
        campaign.run(seeds)
    return found


def test_one_seed_is_one_series_and_all_kinds_of_turns_are_drawn(runtime, monkeypatch):
    first, second = (drawn(Campaign(runtime, varying=100), monkeypatch, range(60)) for _ in range(2))
    assert [series.source() for series in first] == [series.source() for series in second]
    numbers = {text for series in first for row in series.source()[1] for text in row}
    assert {"0.0", "-0.0", "1.0", "float('nan')", "float('inf')"} <= numbers
    assert any(abs(int(text)) >= 2**31 - 1 for text in numbers if text.lstrip("-").isdigit())
    assert any(int(text) < 0 for text in numbers if text.lstrip("-").isdigit())
    sizes = {max(x.shape, default=0) for series in first for turn in series.turns for x in turn.inputs}
    assert {0, 1, 33, 64, 256} <= sizes | {
        min(x.shape, default=1) for series in first for turn in series.turns for x in turn.inputs
    }
    assert any(len({turn.inputs[0].dtype for turn in series.turns}) > 1 for series in first)


def test_some_series_agree(runtime):
    campaign = Campaign(runtime, most_elements=2000, most_calls=5, varying=100)
    campaign.run(range(8))
    assert campaign.ways["turns"] > 30
    assert not campaign.failures, campaign.summary()


def test_a_failing_series_is_made_small_and_its_text_runs(runtime, monkeypatch):
    import builtins

    wrong = "zyx.abs({0})", lambda x: np.abs(x) + (len(x) == 20)  # at one length
    failing = Series([turn(length, times(2.0), wrong, total()) for length in (8, 20, 33)])
    campaign = Campaign(runtime)
    with use(runtime):
        assert not campaign._passes(3, failing, Way.EAGER)
        (failure,) = campaign.failures
        assert "in turn 1" in failure.error
        assert "zyx.abs" in failure.text
        assert "zyx.sum" not in failure.text
        assert failure.text.count("\nfound = ") == 1
        printed = []
        monkeypatch.setattr(builtins, "print", lambda *values: printed.append(values))
        exec(failure.text, {})
        exec(series_as_text(RIGHT["starts"]), {})
    assert len(printed) == 5


def test_numbers_are_written_as_they_are():
    for number in (math.nan, -math.inf):
        assert repr(eval(f"float('{number}')")) == repr(number)
