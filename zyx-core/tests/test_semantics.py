"""The scalar operations against definitions written per element, in exact rational arithmetic where there is one."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zyx import dtype as dtypes
from zyx.ops import BinaryOp, ReduceOp, UnaryOp, binary_ops, identity, reduce_ops, unary_ops
from zyx.semantics import apply_binary, apply_bitcast, apply_cast, apply_mad, apply_unary, reduce_ufunc
from zyx.testing.compare import assert_within
from zyx.testing.values import special_values

# Digits of the significand (with the hidden one), and the exponent of the least normal number.
FORMATS = {
    dtypes.float16: (11, -14),
    dtypes.bfloat16: (8, -126),
    dtypes.float32: (24, -126),
    dtypes.float64: (53, -1022),
}
few = settings(max_examples=6)  # of each combination of operations and types
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan]


def rounded(exact: Fraction, dtype, zero_sign: float = 1.0) -> float:
    """Round to nearest, ties to even, by the definition of IEEE 754."""
    if exact == 0:
        return math.copysign(0.0, zero_sign)
    digits, least_exponent = FORMATS[dtype]
    numerator, denominator = abs(exact.numerator), exact.denominator
    exponent = numerator.bit_length() - denominator.bit_length()  # floor(log2(magnitude)), or one more
    if _at_scale(numerator, denominator, -exponent) < 1:
        exponent -= 1
    unit_exponent = max(exponent, least_exponent) - digits + 1
    count = round(_at_scale(numerator, denominator, -unit_exponent))  # Python rounds halves to even
    try:
        result = math.ldexp(count, unit_exponent)
    except OverflowError:
        result = math.inf
    largest = math.ldexp(2 - 2.0 ** (1 - digits), 1 - least_exponent)
    return math.copysign(result if result <= largest else math.inf, -1.0 if exact < 0 else 1.0)


def _at_scale(numerator: int, denominator: int, power: int) -> Fraction:
    """The quotient times 2**power."""
    return Fraction(numerator << power, denominator) if power >= 0 else Fraction(numerator, denominator << -power)


def same(x: float, y: float) -> bool:
    if math.isnan(x) or math.isnan(y):
        return math.isnan(x) and math.isnan(y)
    return x == y and math.copysign(1, x) == math.copysign(1, y)


def array(values, dtype):
    return np.array(values, dtype=np.float64).astype(dtype.numpy) if dtype.is_float else np.array(values, dtype.numpy)


def element_values(dtype):
    """A strategy of Python scalars that `dtype` holds exactly, corner cases often among them."""
    if dtype.is_bool:
        return st.booleans()
    if dtype.is_integer:
        low, high = dtype.min, dtype.max
        corners = sorted({v for v in (low, low + 1, -2, -1, 0, 1, 2, 7, dtype.bits - 1, dtype.bits, high - 1, high)
                          if low <= v <= high})  # fmt: skip
        return st.sampled_from(corners) | st.integers(low, high)
    bits = st.integers(0, (1 << dtype.bits) - 1)
    unsigned = {16: np.uint16, 32: np.uint32, 64: np.uint64}[dtype.bits]
    from_bits = bits.map(lambda b: float(np.array(b, unsigned).view(dtype.numpy)))
    return st.sampled_from(SPECIAL) | st.integers(-40, 40).map(float) | from_bits


def binary_reference(op: BinaryOp, x, y, dtype):
    """`op` of two Python scalars, or None where this file has no exact definition."""
    if op in (BinaryOp.LT, BinaryOp.LE, BinaryOp.EQ, BinaryOp.NE):
        return {BinaryOp.LT: x < y, BinaryOp.LE: x <= y, BinaryOp.EQ: x == y, BinaryOp.NE: x != y}[op]
    if dtype.is_float:
        return float_reference(op, x, y, dtype)
    bits = dtype.bits
    match op:
        case BinaryOp.ADD:
            result = x + y
        case BinaryOp.SUB:
            result = x - y
        case BinaryOp.MUL:
            result = x * y
        case BinaryOp.DIV:
            result = 0 if y == 0 else math.trunc(Fraction(x, y))
        case BinaryOp.MOD:
            result = 0 if y == 0 else x - y * math.trunc(Fraction(x, y))
        case BinaryOp.POW if y >= 0:
            result = pow(x, y, 1 << bits)
        case BinaryOp.POW:
            result = 0 if x == 0 else math.trunc(Fraction(x) ** (y % 2 - 2 if abs(x) == 1 else y if y > -70 else -70))
        case BinaryOp.MAX:
            result = x if x > y else y
        case BinaryOp.MIN:
            result = x if x < y else y
        case BinaryOp.AND:
            result = x & y
        case BinaryOp.OR:
            result = x | y
        case BinaryOp.XOR:
            result = x ^ y
        case BinaryOp.SHL:
            result = x << y if 0 <= y < bits else 0
        case BinaryOp.SHR:
            result = x >> y if 0 <= y < bits else (-1 if x < 0 else 0)
    return bool(result) if dtype.is_bool else dtype.wrap(result)


def float_reference(op: BinaryOp, x, y, dtype):
    if math.isnan(x) or math.isnan(y):
        return None if op is BinaryOp.POW else math.nan
    finite = math.isfinite(x) and math.isfinite(y)
    match op:
        case BinaryOp.ADD:
            if finite:
                both_negative = math.copysign(1, x) < 0 and math.copysign(1, y) < 0
                return rounded(Fraction(x) + Fraction(y), dtype, -1.0 if x == y == 0 and both_negative else 1.0)
            return x + y
        case BinaryOp.SUB:
            return float_reference(BinaryOp.ADD, x, -y, dtype)
        case BinaryOp.MUL:
            sign = math.copysign(1, x) * math.copysign(1, y)
            return rounded(Fraction(x) * Fraction(y), dtype, sign) if finite else x * y
        case BinaryOp.DIV:
            sign = math.copysign(1, x) * math.copysign(1, y)
            if y == 0:
                return math.nan if x == 0 else math.copysign(math.inf, sign)
            return rounded(Fraction(x) / Fraction(y), dtype, sign) if finite else x / y
        case BinaryOp.MOD:
            return math.nan if y == 0 or math.isinf(x) else math.fmod(x, y)
        case BinaryOp.MAX | BinaryOp.MIN:
            if x == y:
                return None if math.copysign(1, x) != math.copysign(1, y) else x
            return max(x, y) if op is BinaryOp.MAX else min(x, y)
    return None


BINARY = [(dtype, op) for dtype in dtypes.ALL for op in BinaryOp if op in binary_ops(dtype)]


@pytest.mark.parametrize(("dtype", "op"), BINARY, ids=lambda v: v.name)
@few
@given(data=st.data())
def test_a_binary_operation_is_its_definition(dtype, op, data):
    pairs = data.draw(st.lists(st.tuples(element_values(dtype), element_values(dtype)), min_size=8, max_size=32))
    x, y = array([p[0] for p in pairs], dtype), array([p[1] for p in pairs], dtype)
    result = apply_binary(op, x, y)
    expected_dtype = dtypes.bool_ if op in (BinaryOp.LT, BinaryOp.LE, BinaryOp.EQ, BinaryOp.NE) else dtype
    assert result.dtype == expected_dtype.numpy
    for (a, b), got in zip(pairs, result, strict=True):
        expected = binary_reference(op, a, b, dtype)
        if expected is None:
            continue
        if expected_dtype.is_float:
            assert same(float(got), expected), f"{a!r} {op.value} {b!r} = {expected!r}, not {got!r}"
        else:
            assert got.item() == expected, f"{a!r} {op.value} {b!r} = {expected!r}, not {got!r}"


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
def test_a_float_power_is_close_to_the_c_library(dtype):
    x, y = np.array([2.0, 0.5, -2.0, -2.0, 0.0, 9.0, 1.0, math.nan]), np.array([3.0, -1, 3, 0.5, -1, 0.5, math.nan, 0])
    result = apply_binary(BinaryOp.POW, array(x, dtype), array(y, dtype)).astype(np.float64)
    np.testing.assert_array_equal(result, [8.0, 2.0, -8.0, math.nan, math.inf, 3.0, 1.0, 1.0])


@pytest.mark.parametrize("dtype", [t for t in dtypes.ALL if not t.is_float], ids=str)
@few
@given(data=st.data())
def test_a_unary_operation_on_integers_wraps(dtype, data):
    values = data.draw(st.lists(element_values(dtype), min_size=8, max_size=32))
    for op in unary_ops(dtype):
        result = apply_unary(op, array(values, dtype))
        assert result.dtype == dtype.numpy
        for x, got in zip(values, result.tolist(), strict=True):
            if op is UnaryOp.NOT:
                assert got == (not x if dtype.is_bool else dtype.wrap(~x))
            else:
                assert got == dtype.wrap(-x if op is UnaryOp.NEG else abs(x))


def unary_reference(op: UnaryOp, x: float, dtype):
    """`op` of a float, exact where there is an exact definition."""
    if math.isnan(x):
        return math.nan
    match op:
        case UnaryOp.NEG:
            return -x
        case UnaryOp.ABS:
            return abs(x)
        case UnaryOp.FLOOR if math.isfinite(x):
            return math.copysign(float(math.floor(x)), x) if math.floor(x) == 0 else float(math.floor(x))
        case UnaryOp.TRUNC if math.isfinite(x):
            return math.copysign(float(math.trunc(x)), x)
        case UnaryOp.FLOOR | UnaryOp.TRUNC:
            return x
        case UnaryOp.RECIPROCAL:
            return float_reference(BinaryOp.DIV, 1.0, x, dtype)
        case UnaryOp.SQRT if 0 < x < math.inf:
            scale = 400 + 2 * 1100  # enough digits for the least number
            root = math.isqrt(int(Fraction(x) * (1 << 2 * scale)))
            exact = Fraction(root, 1 << scale)
            return rounded(exact if exact * exact == Fraction(x) else exact + Fraction(1, 1 << scale + 1), dtype)
        case UnaryOp.SQRT:
            return math.nan if x < 0 else x
    return None


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
@few
@given(data=st.data())
def test_a_unary_operation_on_floats_is_correctly_rounded(dtype, data):
    values = data.draw(st.lists(element_values(dtype), min_size=8, max_size=32))
    for op in (UnaryOp.NEG, UnaryOp.ABS, UnaryOp.FLOOR, UnaryOp.TRUNC, UnaryOp.SQRT, UnaryOp.RECIPROCAL):
        result = apply_unary(op, array(values, dtype))
        assert result.dtype == dtype.numpy
        for x, got in zip(values, result, strict=True):
            expected = unary_reference(op, x, dtype)
            assert same(float(got), expected), f"{op.value} of {x!r} is {expected!r}, not {got!r}"


TRANSCENDENTAL = {
    UnaryOp.EXP: math.exp, UnaryOp.EXP2: lambda x: 2.0**x, UnaryOp.EXPM1: math.expm1, UnaryOp.LOG: math.log,
    UnaryOp.LOG2: math.log2, UnaryOp.LOG1P: math.log1p, UnaryOp.SIN: math.sin, UnaryOp.COS: math.cos,
    UnaryOp.TANH: math.tanh, UnaryOp.ATAN: math.atan, UnaryOp.ERF: math.erf,
}  # fmt: skip


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
@pytest.mark.parametrize("op", TRANSCENDENTAL, ids=lambda op: op.value)
def test_a_transcendental_function_is_within_two_units(op, dtype):
    values = array([0.003, 0.25, 0.5, 1.0, 1.5, 2.75, 6.0, 9.5], dtype)
    result = apply_unary(op, values)
    assert result.dtype == dtype.numpy
    digits = FORMATS[dtype][0]
    for x, got in zip(values, result, strict=True):
        expected = TRANSCENDENTAL[op](float(x))
        assert abs(float(got) - expected) <= 2 * abs(expected) * 2.0 ** (1 - digits)


def test_transcendental_functions_keep_nan_and_infinities():
    x = np.array([math.nan, math.inf, -math.inf, -1.0], np.float32)
    nan, inf = math.nan, math.inf
    np.testing.assert_array_equal(apply_unary(UnaryOp.EXP, x)[:3], [nan, inf, 0])
    np.testing.assert_array_equal(apply_unary(UnaryOp.LOG, x), [nan, inf, nan, nan])
    np.testing.assert_array_equal(apply_unary(UnaryOp.LOG1P, x), [nan, inf, nan, -inf])
    np.testing.assert_array_equal(apply_unary(UnaryOp.SIN, x)[:3], [nan, nan, nan])
    np.testing.assert_array_equal(apply_unary(UnaryOp.TANH, x)[:3], [nan, 1, -1])
    np.testing.assert_array_equal(apply_unary(UnaryOp.ERF, x)[:3], [nan, 1, -1])


def cast_reference(x, source, target):
    if target.is_bool:
        return x != 0
    if source.is_float and target.is_integer:
        if math.isnan(x):
            return 0
        if math.isinf(x):
            return target.max if x > 0 else target.min
        return min(max(math.trunc(x), target.min), target.max)
    if target.is_integer:
        return target.wrap(int(x))
    if source.is_float and not math.isfinite(x):
        return x
    return rounded(Fraction(x), target, math.copysign(1.0, x))


@pytest.mark.parametrize("target", dtypes.ALL, ids=str)
@pytest.mark.parametrize("source", dtypes.ALL, ids=str)
@few
@given(data=st.data())
def test_a_cast_is_its_definition(source, target, data):
    values = data.draw(st.lists(element_values(source), min_size=8, max_size=32))
    result = apply_cast(array(values, source), target)
    assert result.dtype == target.numpy
    for x, got in zip(values, result, strict=True):
        expected = cast_reference(x, source, target)
        if target.is_float:
            assert same(float(got), expected), f"{x!r} as {target} is {expected!r}, not {got!r}"
        else:
            assert got.item() == expected, f"{x!r} as {target} is {expected!r}, not {got!r}"


@pytest.mark.parametrize("source", [dtypes.float64, dtypes.int64, dtypes.uint64, dtypes.int32], ids=str)
@few
@given(high=st.integers(128, 255), low=st.integers(-3, 3), scale=st.integers(0, 47))
def test_a_cast_to_bfloat16_rounds_once_near_the_middle_of_two_neighbours(source, high, low, scale):
    value = ((high * 2 + 1) << scale) + low
    if source.is_float:
        value = float(value)
    elif value > source.max:
        value = 0
    got = apply_cast(array([value], source), dtypes.bfloat16)
    assert float(got[0]) == rounded(Fraction(array([value], source)[0].item()), dtypes.bfloat16)


@pytest.mark.parametrize(
    ("source", "target"),
    [(dtypes.float32, dtypes.uint32), (dtypes.bfloat16, dtypes.int16), (dtypes.float16, dtypes.bfloat16)],
    ids=str,
)
def test_a_bitcast_keeps_the_bits(source, target):
    x = array([1.0, -2.5, 0.0], source)
    there = apply_bitcast(x, target)
    assert there.dtype == target.numpy
    assert there.tobytes() == x.tobytes()


def test_a_multiply_add_rounds_each_step():
    x = np.array([1 + 2.0**-12], np.float32)
    product = np.float32(float(x[0]) ** 2)
    assert apply_mad(x, x, np.array([-1.0], np.float32))[0] == product - np.float32(1)
    wrapped = apply_mad(np.array([200], np.uint8), np.array([2], np.uint8), np.array([5], np.uint8))
    assert wrapped.tolist() == [149]


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_a_reduction_function_combines_where_indices_repeat(dtype):
    for op in reduce_ops(dtype):
        target = array([1, 0, 1], dtype)
        reduce_ufunc(op).at(target, np.array([0, 0, 2]), array([1, 1, 0], dtype))
        expected = array([1, 0, 1], dtype)
        for where, value in ((0, 1), (0, 1), (2, 0)):
            operand = array([value], dtype)
            expected[where] = apply_binary(op.binary, expected[where : where + 1], operand)[0]
        assert target.tobytes() == expected.tobytes(), op


def test_operations_that_a_type_lacks_are_refused():
    with pytest.raises(KeyError, match="sqrt is not defined for int32"):
        apply_unary(UnaryOp.SQRT, np.zeros(1, np.int32))
    with pytest.raises(KeyError, match="add is not defined for bool"):
        apply_binary(BinaryOp.ADD, np.zeros(1, np.bool_), np.zeros(1, np.bool_))


def test_arrays_of_rank_zero_stay_arrays():
    x = np.array(1.5, ml_dtypes.bfloat16)
    assert isinstance(apply_unary(UnaryOp.NEG, x), np.ndarray)
    assert isinstance(apply_binary(BinaryOp.SHR, np.array(-8), np.array(99)), np.ndarray)
    assert apply_binary(BinaryOp.SHR, np.array(-8), np.array(99)).item() == -1
    assert isinstance(apply_cast(x, dtypes.int8), np.ndarray)


def test_every_reduction_has_a_function():
    assert all(isinstance(reduce_ufunc(op), np.ufunc) for op in ReduceOp)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_the_identity_of_a_reduction_leaves_every_value_as_it_is(dtype):
    values = special_values(dtype)
    for op in reduce_ops(dtype):
        neutral = np.full_like(values, identity(op, dtype))
        for pair in ((neutral, values), (values, neutral)):
            assert_within(apply_binary(op.binary, *pair), values, f"{op}")
