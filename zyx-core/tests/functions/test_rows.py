"""Each row of the table of meanings by itself: values, of examples as well, special ones, the method, and slopes."""

import contextlib

import numpy as np
import pytest
from fuzz.campaign import TABLE, _call
from fuzz.drawing import Draw, Unfit
from fuzz.program import compiled
from fuzz.rows import Family, call_of
from fuzz.running import Way, check
from meanings import elementwise
from meanings.row import Bits, Of
from meanings.slopes import STEP, differences

import zyx
import zyx.nn.functional as F
from zyx import dtype as dtypes
from zyx.testing.choices import Seeded

#: All rows, and what draws calls that are none.
ROWS = [row for family, _ in TABLE if isinstance(family, Family) for row in family.rows]
OTHERS = {draw.__name__: draw for draw, _ in TABLE if not isinstance(draw, Family)}
#: Functions of one operand and of two, element by element.
UNARY = [*elementwise.ROUNDED, *elementwise.EXACT, *elementwise.JUMPING]
BINARY = [*elementwise.PAIRS, *elementwise.JUMPING_PAIRS]

SPECIAL = [
    0.0, -0.0, 0.3, -0.3, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 3.7, -3.7, 30.0, -30.0, np.inf, -np.inf, np.nan,
]  # fmt: skip
ORDINARY = [-3.5, -1.0, -0.25, 0.0, 0.25, 1.0, 3.5]
#: Seeds that are tried for calls, and how many calls are wanted.
SEEDS, VALUES, EXAMPLES, SLOPES = 200, 12, 2, 3
#: Elements of the largest value, so that differences of all of them are quick.
ELEMENTS, FEW = 60, 24


def programs(draw_call, used, count, *, is_smooth=False, elements=ELEMENTS):
    """Yield programs of one call each, of some dtypes; if smooth, such as gradients go through."""
    found = 0
    for seed in range(SEEDS):
        draw = Draw(Seeded(seed), elements, used, zyx.Tensor, _call, is_smooth=is_smooth)
        try:
            call = draw_call(draw)
            if is_smooth and not call.has_slope:
                continue
            draw.add(call)
        except Unfit:
            continue
        (result,) = draw.computed[-1:]
        program = draw.program([result])
        if is_smooth and not (draw.dtype(result).is_float and any(x.dtype.kind == "f" for x in program.inputs)):
            continue
        found += 1
        yield program
        if found == count:
            return


def within(found, wanted, ulps):
    """Assert that floats lie within units in the last place, and that special ones are the same."""
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    with np.errstate(all="ignore"):
        error = np.abs(found.astype(np.float64) - wanted.astype(np.float64))
        unit = np.spacing(np.maximum(np.abs(wanted), np.finfo(wanted.dtype).tiny)).astype(np.float64)
        assert np.all(same | (error <= ulps * unit)), (found, wanted)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_values_and_dtypes_are_numpys(row):
    drawn = list(programs(lambda draw: call_of(draw, row), dtypes.ALL, VALUES))
    assert len(drawn) == VALUES
    for program in drawn:
        check(program, Way.EAGER)
        given, (found,) = program.inputs[0].dtype, program.dtypes
        if row.bits is not Bits.ROUNDED and (given.kind in "iub" or not found.is_float):
            assert found.numpy == program.exactly(program.inputs)[0].dtype
        elif given.kind not in "iub":
            assert found.numpy == given


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_of_many_examples_each_has_its_value(row):
    for program in programs(lambda draw: call_of(draw, row), dtypes.ALL, EXAMPLES):
        check(program, Way.MAPPED)


@pytest.mark.parametrize("name", OTHERS)
def test_values_of_calls_that_are_no_rows_are_numpys(name):
    drawn = list(programs(OTHERS[name], dtypes.ALL, VALUES))
    assert drawn
    for number, program in enumerate(drawn):
        check(program, Way.EAGER)
        if number < EXAMPLES and program.inputs:
            check(program, Way.MAPPED)


@pytest.mark.parametrize("seed", range(40))
def test_chains_of_movements_are_numpys(seed):
    draw = Draw(Seeded(seed), 5000, dtypes.ALL, zyx.Tensor, _call)
    rows = [row for row in ROWS if row.of is Of.VALUES and row.bits is Bits.CERTAIN]
    while len(draw.computed) < 6:
        with contextlib.suppress(Unfit):
            draw.add(call_of(draw, draw.choices.pick(rows)))
    check(draw.program(draw.computed[-3:]), Way.EAGER)


@pytest.mark.parametrize("row", [row for row in ROWS if not row.text and hasattr(zyx.Tensor, row.name)], ids=str)
def test_methods_are_the_functions(row):
    for as_function, as_method in zip(
        *(programs(lambda draw, m=m: call_of(draw, row, as_method=m), dtypes.ALL, 3) for m in (False, True)),
        strict=True,
    ):
        first, second = (p.function()(zyx, F, *map(zyx.Tensor, p.inputs))[0] for p in (as_function, as_method))
        assert as_function.source() != as_method.source()
        np.testing.assert_array_equal(first.numpy(), second.numpy())


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("row", [row for row in UNARY if row.ulps is not None], ids=str)
def test_special_values_are_numpys(row, dtype):
    x = np.array([*SPECIAL, *np.linspace(-4, 4, 41)], dtype)
    with np.errstate(all="ignore"):
        wanted = np.asarray(row.meaning(x.astype(np.float64), *row.arguments, **row.keywords))
        wanted = wanted.astype(dtype) if wanted.dtype.kind == "f" else wanted
    found = getattr(zyx, row.name)(zyx.Tensor(x), *row.arguments, **row.keywords).numpy()
    if wanted.dtype.kind == "f":
        within(found, wanted, row.ulps)
    else:
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("row", [row for row in BINARY if row.ulps is not None], ids=str)
def test_pairs_of_special_values_are_numpys(row, dtype):
    values = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -3.5, 1e-3, 1e30, -1e30, np.inf, -np.inf, np.nan], dtype)
    x, y = (a.reshape(-1) for a in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        wanted = row.meaning(x, y)
    found = getattr(zyx, row.name)(zyx.Tensor(x), zyx.Tensor(y)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=0)
    np.testing.assert_array_equal(
        np.signbit(found), np.signbit(wanted) & ~np.isnan(wanted) | np.signbit(found) & np.isnan(wanted)
    )


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 1e-6), ("bfloat16", 1e-2)])
@pytest.mark.parametrize("row", [row for row in UNARY if row.ulps is None and not row.text and not row.into], ids=str)
def test_ordinary_values_are_those_of_the_formula(row, dtype, tolerance):
    wanted = row.meaning(np.array(ORDINARY), *row.arguments, **row.keywords)
    found = getattr(zyx, row.name)(zyx.Tensor(ORDINARY, dtype), *row.arguments, **row.keywords)
    assert found.dtype.name == dtype
    np.testing.assert_allclose(found.numpy().astype(np.float64), wanted, rtol=tolerance, atol=tolerance / 10)


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "uint64", "bool"])
@pytest.mark.parametrize("row", [row for row in elementwise.ROUNDED if not row.text and row.name != "square"], ids=str)
def test_integers_and_bools_become_float32(row, dtype):
    found = getattr(zyx, row.name)(zyx.Tensor(np.array([0, 1], dtype)), *row.arguments, **row.keywords)
    assert found.dtype is zyx.float32


def slopes_are_differences(program):
    """Assert that gradients of a weighted sum, in float64, are differences of what the program means."""
    sources = [number for number, x in enumerate(program.inputs) if x.dtype.kind == "f"]
    function = compiled(program.source())
    given = [zyx.Tensor(x) for x in program.inputs]
    (value,) = program.exactly(program.inputs)
    weights = np.random.default_rng(0).standard_normal(value.shape)
    with zyx.Tape() as tape:
        (found,) = function(zyx, F, *given)
        loss = (found * zyx.Tensor(weights)).sum()
    np.testing.assert_allclose(found.numpy(), value, rtol=1e-12, atol=1e-12, err_msg=program.source())

    def total(*moved):
        inputs = list(program.inputs)
        for number, x in zip(sources, moved, strict=True):
            inputs[number] = x
        return (program.exactly(inputs)[0] * weights).sum()

    lost = np.finfo(np.float64).eps * np.abs(value).max(initial=0) / STEP
    gradients = tape.gradient(loss, [given[n] for n in sources])
    wanted = differences(total, [program.inputs[n] for n in sources])
    for slope, differential in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(
            slope.numpy(), differential, rtol=1e-5, atol=1e-5 + 4 * lost, err_msg=program.source()
        )


def has_slope(row):
    return row.has_slope and row.of is not Of.INTEGERS and row.bits is not Bits.JUMPING


@pytest.mark.parametrize("row", [row for row in ROWS if has_slope(row)], ids=str)
def test_slopes_are_differences_of_the_meaning(row):
    drawn = list(programs(lambda draw: call_of(draw, row), [dtypes.float64], SLOPES, is_smooth=True, elements=FEW))
    assert len(drawn) == SLOPES
    for program in drawn:
        slopes_are_differences(program)
    check(drawn[0], Way.MAPPED_GRADIENT)


#: Those without slopes, and why.
FLAT = {"arange": "takes no tensor", "integer_quotient": "of integers", "one_hot": "of integers"}


@pytest.mark.parametrize("name", [name for name in OTHERS if name not in FLAT])
def test_slopes_of_calls_that_are_no_rows_are_differences(name):
    used = [dtypes.float64, dtypes.int64]
    drawn = list(programs(OTHERS[name], used, SLOPES, is_smooth=True, elements=FEW))
    assert drawn
    for program in drawn:
        slopes_are_differences(program)
    check(drawn[0], Way.MAPPED_GRADIENT)
