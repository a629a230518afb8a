"""What WGSL makes difficult: many groups, types smaller than a word, floats that are not real numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.errors import UnsupportedError
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.ops import BinaryOp, UnaryOp
from zyx.testing.launching import expected, prepare, run_on
from zyx.testing.values import random_array
from zyx_backend_wgpu.render import Language, render
from zyx_backend_wgpu.wgsl import held_types

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DType
    from zyx.kernel.data import Kernel, ValueId
    from zyx_backend_wgpu.device import WgpuDevice

SMALL = [dtype for dtype in dtypes.ALL if dtype.bits < 32]
NAN, INFINITY = float("nan"), float("inf")


# ---- grids


@pytest.mark.parametrize("dtype", [dtypes.int64, dtypes.uint64, dtypes.float64], ids=str)
def test_a_type_that_is_only_passed_through_is_refused_by_name_as_well(dtype: DType):
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtypes.int32, 8)
    at = b.index(k.Axis.GROUP, 0, 8, dtypes.int32)
    b.store(out, at, b.cast(b.cast(b.load(out, at), dtype), dtypes.int32))
    language = Language(held_types(has_f16=False, has_f64=False, has_i64=False))
    with pytest.raises(UnsupportedError, match=f"WGSL has no {dtype.name}"):
        render(b.finish("through"), language)


@pytest.mark.parametrize("groups", [(70_001,), (2, 65_537), (65_537, 2), (3, 1, 65_539)])
def test_every_group_of_a_folded_grid_runs_once(device: WgpuDevice, groups: tuple[int, ...]):
    count = int(np.prod(groups))
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtypes.int32, count)
    at = b.const(0, dtypes.int64)
    for number, size in enumerate(groups):
        step = b.const(size, dtypes.int64)
        at = b.binary(BinaryOp.ADD, b.binary(BinaryOp.MUL, at, step), b.index(k.Axis.GROUP, number, size))
    b.store(out, at, b.binary(BinaryOp.ADD, b.load(out, at), b.cast(at, dtypes.int32)))
    (result,) = run_on(device, prepare(b.finish("folded"), device), [np.ones(count, np.int32)])
    np.testing.assert_array_equal(result, np.arange(count, dtype=np.int32) + 1)


@pytest.mark.parametrize("dtype", [dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64], ids=str)
def test_constants_of_any_type_are_positions(device: WgpuDevice, dtype: DType):
    if not device.info.can_compute(dtype):
        pytest.skip(f"{device.name} has no {dtype}")
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtypes.float32, 6)
    b.store(out, b.index(k.Axis.GROUP, 0, 1, dtype), b.const(2.0, dtypes.float32))
    b.store(out, b.const(2, dtype), b.load(out, b.const(4, dtype), 2))
    (result,) = run_on(device, b.finish("constants"), [np.arange(6, dtype=np.float32)])
    np.testing.assert_array_equal(result, np.array([2, 1, 4, 5, 4, 5], np.float32))


# ---- words that threads share


def reversed_copy(dtype: DType, count: int, threads: int, *, only_even: bool) -> Kernel:
    """Return a kernel of which each thread writes one element, far from where its neighbours read."""
    b = Builder()
    out, x = b.define(k.Memory.GLOBAL, dtype, count), b.define(k.Memory.GLOBAL, dtype, count, mutable=False)
    group, thread = b.index(k.Axis.GROUP, 0, count // threads), b.index(k.Axis.LOCAL, 0, threads)
    at = b.binary(BinaryOp.ADD, b.binary(BinaryOp.MUL, group, b.like(threads, group)), thread)
    value = b.load(x, b.binary(BinaryOp.SUB, b.like(count - 1, at), at))
    is_even = b.binary(BinaryOp.EQ, b.binary(BinaryOp.AND, at, b.like(1, at)), b.like(0, at))
    b.store(out, at, value, is_even if only_even else None)
    return b.finish(f"reversed_{dtype.short}")


@pytest.mark.parametrize("only_even", [False, True])
@pytest.mark.parametrize("dtype", SMALL, ids=lambda dtype: dtype.short)
def test_threads_that_share_a_word_lose_nothing_of_it(device: WgpuDevice, dtype: DType, only_even: bool):
    count = 64 * 250
    random = np.random.default_rng(dtype.bits)
    before, x = (random_array(dtype, count, random) for _ in range(2))
    kernel = reversed_copy(dtype, count, 64, only_even=only_even)
    for _ in range(3):
        (result, _) = run_on(device, prepare(kernel, device), [before, x])
        wanted = np.where(np.arange(count) % 2 == 0, x[::-1], before) if only_even else x[::-1]
        np.testing.assert_array_equal(result, wanted)


def test_whole_words_are_stored_without_care_for_others_and_parts_with_it():
    language = Language(held_types(has_f16=False, has_f64=False, has_i64=True))

    def text(lanes: int, offset: int) -> str:
        b = Builder()
        out = b.define(k.Memory.GLOBAL, dtypes.uint8, 64)
        at = b.binary(BinaryOp.MUL, b.index(k.Axis.GROUP, 0, 8), b.const(4, dtypes.int64))
        at = b.binary(BinaryOp.ADD, at, b.const(offset, dtypes.int64))
        b.store(out, at, b.const(5, dtypes.uint8, lanes))
        return render(b.finish("bytes"), language).text

    assert "atomic" not in text(4, 8)
    assert "atomicAnd" in text(4, 1)
    assert "atomicAnd" in text(1, 0)


@pytest.mark.parametrize("dtype", SMALL, ids=lambda dtype: dtype.short)
def test_an_array_may_be_written_in_words_and_in_parts_and_read(device: WgpuDevice, dtype: DType):
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtype, 19)
    zero, five = b.const(0, dtypes.int64), b.const(5, dtypes.int64)
    first = b.load(out, five, 4)
    b.store(out, zero, first)
    b.store(out, b.const(13, dtypes.int64), first)
    b.store(out, b.const(18, dtypes.int64), b.load(out, zero))
    kernel = b.finish("words_and_parts")
    array = random_array(dtype, 19, np.random.default_rng(2))
    (result,) = run_on(device, prepare(kernel, device), [array])
    np.testing.assert_array_equal(result, expected(kernel, [array])[0])


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=str)
def test_lanes_of_bools_become_halves_and_are_taken_apart(device: WgpuDevice, dtype: DType):
    b = Builder()
    out, x = b.define(k.Memory.GLOBAL, dtype, 2), b.define(k.Memory.GLOBAL, dtypes.bool_, 2, mutable=False)
    zero, one = b.const(0, dtypes.int64), b.const(1, dtypes.int64)
    halves = b.cast(b.load(x, zero, 2), dtype)
    b.store(out, zero, b.devectorize(halves, 1))
    b.store(out, one, b.devectorize(halves, 0))
    kernel = prepare(b.finish("halves"), device)
    (result, _) = run_on(device, kernel, [np.zeros(2, dtype.numpy), np.array([True, False])])
    np.testing.assert_array_equal(result, np.array([0, 1], dtype.numpy))


def test_local_memory_of_small_types_is_counted_as_it_is_laid_out(device: WgpuDevice):
    length = device.info.local_bytes  # of a byte each: they fit as zyx counts, and not as words
    b = Builder()
    out, shared = b.define(k.Memory.GLOBAL, dtypes.uint8, 1), b.define(k.Memory.LOCAL, dtypes.uint8, length)
    zero = b.const(0, dtypes.int64)
    b.store(shared, zero, b.const(1, dtypes.uint8))
    b.store(out, zero, b.load(shared, zero))
    with pytest.raises(UnsupportedError, match=rf"bytes takes {4 * length} bytes of local memory.*{length}"):
        device.compile(b.finish("bytes"))


# ---- floats


Make = "Callable[[Builder, Sequence[ValueId]], ValueId]"


def compute(device: WgpuDevice, dtype: DType, make: Make, *args: Sequence[float]) -> np.ndarray:
    """Return what a device makes of arrays; no pass has looked at the kernel."""
    count = len(args[0])
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtype, count)
    arrays = [b.define(k.Memory.GLOBAL, dtype, count, mutable=False) for _ in args]
    at = b.index(k.Axis.GROUP, 0, count)
    b.store(out, at, make(b, [b.load(array, at) for array in arrays]))
    given = [np.array(arg, dtype.numpy) for arg in args]
    return run_on(device, b.finish("floats"), [np.zeros(count, dtype.numpy), *given])[0]


@pytest.fixture(params=[dtypes.float32, dtypes.float64], ids=lambda dtype: dtype.short)
def real(request: pytest.FixtureRequest, device: WgpuDevice) -> DType:
    if not device.info.can_compute(request.param):
        pytest.skip(f"{device.name} has no {request.param}")
    return request.param


def test_adding_and_subtracting_a_large_number_rounds(device: WgpuDevice, real: DType):
    large = 1.5 * 2.0 ** (23 if real.bits == 32 else 52)

    def make(b: Builder, args: Sequence[ValueId]) -> ValueId:
        number = b.const(large, real)
        return b.binary(BinaryOp.SUB, b.binary(BinaryOp.ADD, args[0], number), number)

    np.testing.assert_array_equal(compute(device, real, make, [0.4, 0.6, 2.5, -7.7]), [0.0, 1.0, 2.0, -8.0])


def test_differences_and_quotients_of_equals_keep_nan(device: WgpuDevice, real: DType):
    values = [1.0, 0.0, INFINITY, -INFINITY, NAN]
    for op, wanted in ((BinaryOp.SUB, [0.0, 0.0, NAN, NAN, NAN]), (BinaryOp.DIV, [1.0, NAN, NAN, NAN, NAN])):
        actual = compute(device, real, lambda b, args, op=op: b.binary(op, args[0], args[0]), values)
        np.testing.assert_array_equal(actual, wanted)
    actual = compute(
        device, real, lambda b, args: b.binary(BinaryOp.ADD, args[0], b.unary(UnaryOp.NEG, args[0])), values
    )
    np.testing.assert_array_equal(actual, [0.0, 0.0, NAN, NAN, NAN])


def test_zero_times_infinity_is_nan_whatever_the_zero_is_made_from(device: WgpuDevice, real: DType):
    values = [1.0, INFINITY, NAN]
    zero = lambda b: b.const(0.0, real)  # noqa: E731
    never = lambda b, x: b.binary(BinaryOp.LT, x, x)  # noqa: E731
    makes = {
        "a literal": lambda b, args: b.binary(BinaryOp.MUL, args[0], zero(b)),
        "a bool": lambda b, args: b.binary(BinaryOp.MUL, args[0], b.cast(never(b, args[0]), real)),
        "a choice": lambda b, args: b.binary(
            BinaryOp.MUL, args[0], b.where(never(b, args[0]), b.const(1.0, real), zero(b))
        ),
    }
    for what, make in makes.items():
        np.testing.assert_array_equal(compute(device, real, make, values), [0.0, NAN, NAN], what)


def test_products_are_not_reassociated(device: WgpuDevice, real: DType):
    step = 2.0 ** (100 if real.bits == 32 else 1000)

    def make(b: Builder, args: Sequence[ValueId]) -> ValueId:
        once = b.binary(BinaryOp.MUL, args[0], b.const(step, real))
        return b.binary(BinaryOp.MUL, once, b.const(1 / step, real))

    np.testing.assert_array_equal(compute(device, real, make, [1.0, step]), [1.0, INFINITY])


def test_products_and_sums_are_rounded_apart(device: WgpuDevice, real: DType):
    x = 1.0 + float(np.finfo(real.numpy).eps)
    square = float(real.numpy.type(x) * real.numpy.type(x))
    actual = compute(
        device, real, lambda b, args: b.binary(BinaryOp.SUB, b.binary(BinaryOp.MUL, args[0], args[0]), args[1]),
        [x], [square],
    )  # fmt: skip
    np.testing.assert_array_equal(actual, [0.0])


def test_comparisons_with_nan_are_false_also_when_they_are_negated_or_combined(device: WgpuDevice, real: DType):
    x, y = [1.0, 2.0, NAN, 1.0, NAN], [2.0, 1.0, 1.0, NAN, NAN]

    def number(b: Builder, condition: ValueId) -> ValueId:
        return b.where(condition, b.const(1.0, real), b.const(0.0, real))

    less = lambda b, args: b.binary(BinaryOp.LT, args[0], args[1])  # noqa: E731
    most = lambda b, args: b.binary(BinaryOp.LE, args[0], args[1])  # noqa: E731
    cases = {
        "less": (less, [1, 0, 0, 0, 0]),
        "not less": (lambda b, args: b.unary(UnaryOp.NOT, less(b, args)), [0, 1, 1, 1, 1]),
        "not at most": (lambda b, args: b.unary(UnaryOp.NOT, most(b, args)), [0, 1, 1, 1, 1]),
        "equal": (lambda b, args: b.binary(BinaryOp.EQ, args[0], args[1]), [0, 0, 0, 0, 0]),
        "not equal": (lambda b, args: b.binary(BinaryOp.NE, args[0], args[1]), [1, 1, 1, 1, 1]),
        "not itself": (lambda b, args: b.binary(BinaryOp.NE, args[0], args[0]), [0, 0, 1, 0, 1]),
        "less than both": (
            lambda b, args: b.binary(
                BinaryOp.AND, b.binary(BinaryOp.LT, args[0], b.const(5.0, real)), less(b, args)
            ),
            [1, 0, 0, 0, 0],
        ),
    }  # fmt: skip
    for what, (make, wanted) in cases.items():
        actual = compute(device, real, lambda b, args, make=make: number(b, make(b, args)), x, y)
        np.testing.assert_array_equal(actual, wanted, what)


def test_a_choice_of_the_smaller_is_no_minimum_and_a_minimum_keeps_nan(device: WgpuDevice, real: DType):
    x, y = [1.0, 2.0, NAN, 1.0], [2.0, 1.0, 1.0, NAN]
    chosen = compute(
        device, real, lambda b, args: b.where(b.binary(BinaryOp.LT, args[0], args[1]), args[0], args[1]), x, y
    )
    np.testing.assert_array_equal(chosen, [1.0, 1.0, 1.0, NAN])
    for op, wanted in ((BinaryOp.MIN, [1.0, 1.0, NAN, NAN]), (BinaryOp.MAX, [2.0, 2.0, NAN, NAN])):
        np.testing.assert_array_equal(compute(device, real, lambda b, args, op=op: b.binary(op, *args), x, y), wanted)


def test_compensated_sums_keep_what_plain_ones_lose(device: WgpuDevice):
    count = 4096
    b = Builder()
    out, x = (
        b.define(k.Memory.GLOBAL, dtypes.float32, 1),
        b.define(k.Memory.GLOBAL, dtypes.float32, count, mutable=False),
    )
    state = b.define(k.Memory.REGISTER, dtypes.float32, 2)
    zero, one = b.const(0, dtypes.int64), b.const(1, dtypes.int64)
    b.store(state, zero, b.const(0.0, dtypes.float32))
    b.store(state, one, b.const(0.0, dtypes.float32))
    at = b.loop(count)
    total = b.load(state, zero)
    term = b.binary(BinaryOp.SUB, b.load(x, at), b.load(state, one))
    more = b.binary(BinaryOp.ADD, total, term)
    b.store(state, one, b.binary(BinaryOp.SUB, b.binary(BinaryOp.SUB, more, total), term))
    b.store(state, zero, more)
    b.end_loop()
    b.store(out, zero, b.load(state, zero))
    data = np.full(count, 1e-4, np.float32)
    data[0] = 1e4
    (result, _) = run_on(device, prepare(b.finish("kahan"), device), [np.zeros(1, np.float32), data])
    assert abs(float(result[0]) - data.astype(np.float64).sum()) < 1e-3
