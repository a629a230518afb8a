"""Every call of the table of random programs under `zyx.vmap`: of each example what it means in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from fuzz.campaign import TABLE, Campaign, _call
from fuzz.drawing import Draw, Unfit
from fuzz.running import Way, check

import zyx
from zyx import dtype as dtypes
from zyx.runtime.runtime import use
from zyx.testing.choices import Seeded
from zyx.testing.opening import open_runtime

ROWS = {row.__name__: row for row, _ in TABLE}
#: Rows that are not run, with the reason.
LEFT_OUT = {"arange": "takes no tensor, so that there are no examples"}
#: Rows of calls that gradients go through, but of which the first draws have none.
WITHOUT_SLOPES = {
    "average_of_integers": "integers", "integer_function": "integers", "integer_pair": "integers",
    "integer_quotient": "integers", "jumping_function": "jumps", "jumping_pair": "jumps", "one_hot": "integers",
    "place_of_extreme": "integers", "search": "integers", "truth": "bools",
}  # fmt: skip
SMOOTH = (dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64)


@pytest.fixture(scope="module")
def runtime():
    opened = open_runtime("interpreter")
    yield opened
    opened.close()


def programs(row, used, count, *, is_smooth):
    """Yield programs of one call each."""
    found = 0
    for seed in range(60):
        draw = Draw(Seeded(seed), 60, used, zyx.Tensor, _call, is_smooth=is_smooth)
        try:
            call = row(draw)
            if is_smooth and not call.has_slope:
                continue
            draw.add(call)
        except Unfit:
            continue
        (result,) = draw.computed[-1:]
        program = draw.program([result])
        if program.inputs and (not is_smooth or (draw.dtype(result).is_float and draw.dtype(result).bits >= 32)):
            found += 1
            yield program
        if found == count:
            return


@pytest.mark.parametrize("name", [name for name in ROWS if name not in LEFT_OUT])
def test_a_call_of_many_examples_means_what_each_does(name, runtime):
    with use(runtime):
        drawn = list(programs(ROWS[name], Campaign(runtime).dtypes, 2, is_smooth=False))
        assert drawn
        for program in drawn:
            check(program, Way.MAPPED)


@pytest.mark.parametrize("name", [name for name in ROWS if name not in LEFT_OUT.keys() | WITHOUT_SLOPES.keys()])
def test_gradients_of_many_examples_are_those_of_each(name, runtime):
    with use(runtime):
        drawn = list(programs(ROWS[name], SMOOTH, 1, is_smooth=True))
        assert drawn
        for program in drawn:
            check(program, Way.MAPPED_GRADIENT)


def test_what_is_left_out_is_in_the_table(runtime):
    assert {*LEFT_OUT, *WITHOUT_SLOPES} <= ROWS.keys()
    with use(runtime):
        for name in LEFT_OUT:
            assert not list(programs(ROWS[name], Campaign(runtime).dtypes, 1, is_smooth=False))
        for name in WITHOUT_SLOPES:
            assert not list(programs(ROWS[name], SMOOTH, 1, is_smooth=True))


def test_an_example_that_gets_the_result_of_another_is_found(runtime, monkeypatch):
    vmap = zyx.vmap

    def mixed(f, **given_by_name):
        return lambda *given: [zyx.flip(x, 0) for x in vmap(f, **given_by_name)(*given)]

    with use(runtime):
        draw = Draw(Seeded(1), 60, SMOOTH, zyx.Tensor, _call, is_smooth=True)
        draw.leaf((4,), dtypes.float32, np.arange(4, dtype=np.float32))
        draw.add(ROWS["function"](draw)) if "function" in ROWS else draw.add(next(iter(ROWS.values()))(draw))
        program = draw.program(draw.computed[-1:])
        check(program, Way.MAPPED)
        monkeypatch.setattr(zyx, "vmap", mixed)
        with pytest.raises(AssertionError):
            check(program, Way.MAPPED)
