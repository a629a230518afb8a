"""Functions of two operands and the operators: promotion, broadcasting, signs of remainders, comparisons, bits."""

import math
import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import zyx
from zyx.errors import DeviceError, DTypeError, ShapeError

DTYPES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
)

#: Python's name, NumPy's function, ours.
QUOTIENTS = [
    (operator.truediv, np.true_divide, zyx.divide), (operator.floordiv, np.floor_divide, zyx.floor_divide),
    (operator.mod, np.remainder, zyx.remainder),
]  # fmt: skip
NAMES = [symbol.__name__ for symbol, _, _ in QUOTIENTS]


def samples(dtype, seed):
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, 40).astype(bool)
    if dtype.startswith("float"):
        return (rng.standard_normal(40) * 8).round(1).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(max(info.min, -100), min(info.max, 100), 40, endpoint=True).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize(("symbol", "reference", "function"), QUOTIENTS, ids=NAMES)
def test_quotients_and_remainders_agree_with_numpy_within_a_dtype(symbol, reference, function, dtype):
    x, y = samples(dtype, 1), samples(dtype, 2)
    y = np.where(y == 0, np.ones_like(y), y)
    with np.errstate(all="ignore"):
        wanted = reference(x, y)
        if symbol is operator.truediv and not dtype.startswith("float"):
            wanted = reference(x.astype(np.float32), y.astype(np.float32))
    for found in (symbol(zyx.Tensor(x), zyx.Tensor(y)), function(zyx.Tensor(x), zyx.Tensor(y))):
        assert found.numpy().dtype == wanted.dtype
        assert np.array_equal(found.numpy(), wanted)


@pytest.mark.parametrize("function", [operator.and_, operator.or_, operator.xor])
def test_bits_of_bools_are_their_truths(function):
    x, y = samples("bool", 3), samples("bool", 4)
    assert np.array_equal(function(zyx.Tensor(x), zyx.Tensor(y)).numpy(), function(x, y))
    assert np.array_equal((~zyx.Tensor(x)).numpy(), ~x)


def test_shifts_keep_the_sign_and_run_empty():
    x = zyx.Tensor([1, -8, 100], zyx.int8)
    assert (x << 2).tolist() == [4, -32, -112]
    assert (x >> 1).tolist() == [0, -4, 50]
    assert (x << 8).tolist() == [0, 0, 0]
    assert (x >> 100).tolist() == [0, -1, 0]
    assert (3 << zyx.Tensor([0, 1])).tolist() == [3, 6]


@pytest.mark.parametrize("first", DTYPES)
@pytest.mark.parametrize("second", DTYPES)
def test_promotion_is_symmetric_and_that_of_numpy_where_the_standard_defines_it(first, second):
    x, y = zyx.Tensor(np.ones(2, first)), zyx.Tensor(np.ones(2, second))
    if {first, second} & {"uint64"} and {first, second} & {"int8", "int16", "int32", "int64"}:
        with pytest.raises(DTypeError, match="no integer type holds both"):
            zyx.maximum(x, y)
        return
    found = zyx.maximum(x, y).dtype
    assert found is zyx.maximum(y, x).dtype is zyx.result_type(x, y)
    kinds = {np.dtype(first).kind, np.dtype(second).kind}
    if "f" in kinds and kinds != {"f"}:
        assert found.name == (first if first.startswith("float") else second)
    else:
        assert found.name == np.result_type(first, second).name


@pytest.mark.parametrize(
    ("dtype", "number", "wanted"),
    [
        ("float32", 2, "float32"), ("float16", 2.5, "float16"), ("float64", 1, "float64"),
        ("bfloat16", 2.5, "bfloat16"),
        ("int8", 3, "int8"), ("int8", 2.5, "float32"), ("uint8", True, "uint8"), ("bool", 2, "int64"),
        ("bool", 2.5, "float32"), ("int64", 0.5, "float32"),
    ],
)  # fmt: skip
def test_python_numbers_are_weak(dtype, number, wanted):
    x = zyx.ones(2, dtype=dtype)
    for found in (x + number, number + x):
        assert found.dtype.name == wanted
        assert found.tolist() == [1 + number] * 2
    assert zyx.maximum(number, x).dtype is zyx.maximum(x, number).dtype is (x + number).dtype


def test_integers_that_do_not_fit_are_refused_in_arithmetic_and_compared_right():
    x = zyx.Tensor([0, 200], zyx.uint8)
    with pytest.raises(DTypeError, match="300 does not fit uint8"):
        x + 300
    assert (x < 300).tolist() == [True, True]
    assert (x > 300).tolist() == [False, False]
    assert (x == -1).tolist() == [False, False]
    assert (x != -1).tolist() == [True, True]
    assert (x >= -1).tolist() == [True, True]
    assert (x <= 300).tolist() == [True, True]
    assert (x < -1).tolist() == [False, False]


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64, 2**200])
def test_numbers_beside_bools_have_to_fit_int64(number):
    flags = zyx.Tensor(np.array([True, False]))
    assert (flags * (2**63 - 1)).tolist() == [2**63 - 1, 0]
    with pytest.raises(DTypeError, match="does not fit int64"):
        flags * number
    assert (flags < number).tolist() == [number > 0] * 2
    assert (number <= flags).tolist() == [number < 0] * 2
    assert (flags == number).tolist() == [False, False]


def test_numpy_arrays_and_numbers_take_part_on_either_side():
    x, a = zyx.Tensor([1.0, 2.0]), np.array([3.0, 4.0], dtype=np.float32)
    for found in (x + a, a + x, x * np.float32(2) + 2 * a - a - x):
        assert isinstance(found, zyx.Tensor)
    assert (a - x).tolist() == [2.0, 2.0]
    assert (a @ x).item() == 11.0
    assert (x + np.float64(0.5)).dtype is zyx.float32  # a Python float
    assert (x.astype(zyx.int8) + np.int32(1)).dtype is zyx.int32
    assert (x + np.array(0.5)).dtype is zyx.float64


def test_shapes_broadcast_as_numpy_has_it():
    for first, second in [((3,), ()), ((4, 1), (3,)), ((2, 1, 3), (5, 1)), ((0, 3), (3,)), ((1,), (0,))]:
        x, y = np.arange(np.prod(first)).reshape(first), np.arange(np.prod(second)).reshape(second)
        found = zyx.Tensor(x.astype(np.float32)) + zyx.Tensor(y.astype(np.float32))
        assert np.array_equal(found.numpy(), x + y)


def test_shapes_that_do_not_broadcast_are_named():
    with pytest.raises(ShapeError, match=r"\(3,\), \(4,\) do not broadcast"):
        zyx.ones(3) + zyx.ones(4)


def test_division_of_integers_is_true_division():
    x = zyx.Tensor([7, -7])
    assert (x / 2).tolist() == [3.5, -3.5]
    assert (x / 2).dtype is zyx.float32
    assert zyx.divide(x, 2, "floor").tolist() == [3, -4]
    assert zyx.divide(x, 2, "trunc").tolist() == [3, -3]
    assert zyx.divide(zyx.Tensor([7.5, -7.5]), 2, "trunc").tolist() == [3.0, -3.0]
    with pytest.raises(DTypeError, match="rounding_mode"):
        zyx.divide(x, 2, "up")


def test_integer_division_by_zero_gives_zero():
    x = zyx.Tensor([5, -5, 0])
    assert (x // 0).tolist() == [0, 0, 0]
    assert (x % 0).tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_float_floor_division_and_remainder_follow_python(dtype):
    values = [0.0, 0.1, 0.3, 1.0, -1.0, 7.0, -7.0, 2.5, -2.5, 1e10]
    x, y = (a.reshape(-1).astype(dtype) for a in np.meshgrid(values, [v for v in values if v]))
    assert np.array_equal((zyx.Tensor(x) // zyx.Tensor(y)).numpy(), x // y)
    assert np.array_equal((zyx.Tensor(x) % zyx.Tensor(y)).numpy(), x % y)
    assert np.array_equal(np.signbit((zyx.Tensor(x) % zyx.Tensor(y)).numpy()), np.signbit(x % y))
    assert np.array_equal(zyx.fmod(zyx.Tensor(x), zyx.Tensor(y)).numpy(), np.fmod(x, y))


def test_float_floor_division_by_zero_and_infinity():
    x = zyx.Tensor([1.0, -1.0, 0.0])
    found = (x // 0.0).numpy()
    assert found[0] == math.inf
    assert found[1] == -math.inf
    assert np.isnan(found[2])
    assert (x // math.inf).tolist() == [0.0, -1.0, 0.0]
    assert (x % math.inf).tolist() == [1.0, math.inf, 0.0]


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 0.5, -1, 2.5, -2.0])
def test_powers_of_floats(exponent):
    x = np.array([0.5, 1.0, 2.0, 3.5], dtype=np.float32)
    assert np.allclose((zyx.Tensor(x) ** exponent).numpy(), x**exponent, rtol=1e-6)
    assert np.allclose((zyx.Tensor(x) ** zyx.Tensor(exponent)).numpy(), x**exponent, rtol=1e-6)


def test_powers_of_integers():
    x = zyx.Tensor([-2, 0, 1, 3])
    assert (x**2).tolist() == [4, 0, 1, 9]
    assert (x**3).tolist() == [-8, 0, 1, 27]
    assert (x**-1).tolist() == [0, 0, 1, 0]
    assert (2 ** zyx.Tensor([0, 3])).tolist() == [1, 8]
    assert (x**0.5).dtype is zyx.float32


def test_maximum_and_minimum_pass_nan_on_from_either_side():
    x, y = zyx.Tensor([math.nan, 1.0, 2.0]), zyx.Tensor([1.0, math.nan, 1.0])
    assert np.isnan(zyx.maximum(x, y).numpy()).tolist() == [True, True, False]
    assert np.isnan(zyx.minimum(x, y).numpy()).tolist() == [True, True, False]


def test_bools_are_joined_by_plus_and_times():
    x, y = zyx.Tensor([True, True, False]), zyx.Tensor([True, False, False])
    assert (x + y).tolist() == [True, True, False]
    assert (x * y).tolist() == [True, False, False]
    with pytest.raises(DTypeError, match="sub is not defined for bool"):
        x - y


def test_logic_tests_for_nonzero():
    x, y = zyx.Tensor([0.0, 2.0, math.nan]), zyx.Tensor([1.0, 0.0, 0.0])
    assert zyx.logical_and(x, y).tolist() == [False, False, False]
    assert zyx.logical_or(x, y).tolist() == [True, True, True]
    assert zyx.logical_xor(x, y).tolist() == [True, True, True]
    assert zyx.logical_not(x).tolist() == [True, False, False]


def test_bits_of_floats_are_refused():
    for function in (zyx.bitwise_and, zyx.bitwise_left_shift):
        with pytest.raises(DTypeError, match="integers or bools, not float32"):
            function(zyx.ones(2), zyx.ones(2))
    with pytest.raises(DTypeError, match="integers or bools, not float32"):
        ~zyx.ones(2)


def test_foreign_operands_are_left_to_python():
    x = zyx.ones(2)
    assert (x == "text") is False
    assert (x != None) is True  # noqa: E711  # the operator is meant
    with pytest.raises(TypeError, match="unsupported operand"):
        x + "text"
    with pytest.raises(TypeError, match="unsupported operand"):
        x + None


def test_functions_of_numbers_alone_are_refused():
    with pytest.raises(DTypeError, match=r"add takes at least one zyx.Tensor, not int, int"):
        zyx.add(1, 2)


@pytest.mark.parametrize(
    "compute",
    [
        operator.add,
        operator.matmul,
        operator.lt,
        lambda x, y: zyx.where(x > 0, x, y),
        lambda x, y: zyx.where(x > 0, y, y),
        lambda x, y: zyx.concat([x, y]),
        lambda x, y: zyx.stack([x, y]),
        lambda x, y: zyx.take(x, y.astype("int32")),
        lambda x, y: zyx.Tensor([1.0, 2.0]).assign(y) + y,
    ],
)
def test_devices_that_differ_are_named(compute):
    with pytest.raises(DeviceError, match=r"different devices, oracle:0, other:0.*; move them with \.to\(") as refused:
        compute(zyx.ones(2), zyx.ones(2, device="other:0"))
    assert isinstance(refused.value, ValueError)
    assert not isinstance(refused.value, ShapeError)


def test_mixed_dtypes_are_an_error_while_implicit_casts_are_off():
    x, y = zyx.ones(2), zyx.ones(2, dtype="int32")
    with zyx.set_implicit_casts(False):
        assert not zyx.implicit_casts()
        with pytest.raises(DTypeError, match="float32 and int32 differ, and implicit casts are off"):
            x + y
        assert (x + 1).dtype is zyx.float32
    assert (x + y).dtype is zyx.float32


def test_in_place_operators_make_new_tensors():
    x = y = zyx.ones(2)
    x += 1
    assert x.tolist() == [2.0, 2.0]
    assert y.tolist() == [1.0, 1.0]


@given(
    x=st.integers(-(2**31), 2**31 - 1),
    y=st.integers(-(2**31), 2**31 - 1).filter(bool),
)
def test_integer_division_follows_python_for_any_signs(x, y):
    left, right = zyx.Tensor([x], zyx.int64), zyx.Tensor([y], zyx.int64)
    assert (left // right).item() == x // y
    assert (left % right).item() == x % y
