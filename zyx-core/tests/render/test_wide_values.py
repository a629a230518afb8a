"""Values of 8 and 16 bits as values of 32: the same results, in kernels without narrow types."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.backend.info import Capability, DeviceInfo, full_capability
from zyx.errors import UnsupportedError
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.kernel.run import run
from zyx.kernel.verify import verify
from zyx.ops import BinaryOp, ReduceOp, UnaryOp, binary_ops, unary_ops
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.render.wide_values import in_wide_values
from zyx.render.words import in_words
from zyx.testing.kernels import arguments_for, random_kernel, same_values
from zyx.testing.values import random_array

SMALL = [dtype for dtype in dtypes.ALL if dtype.bits < 32]
NARROW = [dtype for dtype in SMALL if not dtype.is_bool]
INTEGERS = [dtype for dtype in NARROW if dtype.is_integer]
HALVES = [dtypes.float16, dtypes.bfloat16]
#: A device that does not compute with halves, as those have that hold them as bits.
DEVICE = DeviceInfo(
    "wide", "1",
    {dtype: Capability() if dtype in HALVES else full_capability(dtype, transcendental=False) for dtype in dtypes.ALL},
)  # fmt: skip


def widened(kernel, small=SMALL):
    """Return a kernel with words and wide values."""
    result = in_wide_values(in_words(kernel, small), small)
    verify(result)
    return result


def word_of(argument, dtype):
    """Return an argument as it is given to a kernel in words: bits with zeros above, filled up to words."""
    data = np.asarray(argument, dtype.numpy).reshape(-1).tobytes()
    return np.frombuffer(data + bytes(-len(data) % 4), np.uint32).copy()


def check(kernel, arguments, small=SMALL):
    """Check that a kernel computes the same in words; return it."""
    result = widened(kernel, small)
    types = {op.type.dtype for op in result.ops if isinstance(op, k.Value)}
    assert types.isdisjoint(set(small) - {dtypes.bool_})
    given = []
    for param, new, argument in zip(kernel.params, result.params, arguments, strict=True):
        if isinstance(param, k.Define):
            given.append(word_of(argument, param.dtype) if param.dtype in small else argument.copy())
        elif param.type.dtype in small and not param.type.dtype.is_bool:
            word = word_of(argument, param.type.dtype)
            given.append(word.view(new.type.dtype.numpy)[0].item())
        else:
            given.append(argument)
    wanted = [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in arguments]
    run(kernel, wanted)
    run(result, given)
    for param, expected, found in zip(kernel.params, wanted, given, strict=True):
        if isinstance(param, k.Define):
            values = found.view(np.uint8)[: expected.nbytes].view(expected.dtype)
            with np.errstate(invalid="ignore"):  # some bits are NaNs that signal
                assert same_values([expected], [values]), f"{expected} != {values}"
    return result


def elementwise(make, sources, target, count, lanes=1):
    """Return a kernel that stores ``make(builder, *values)`` of `count` elements."""
    b = Builder()
    out = b.define(k.Memory.GLOBAL, target, count)
    arrays = [b.define(k.Memory.GLOBAL, dtype, count, mutable=False) for dtype in sources]
    at = b.binary(BinaryOp.MUL, b.index(k.Axis.GROUP, 0, count // lanes), b.const(lanes, dtypes.int64))
    b.store(out, at, make(b, *(b.load(array, at, lanes) for array in arrays)))
    return b.finish("elementwise")


def arrays(dtypes_, count):
    random = np.random.default_rng(count)
    return [random_array(dtype, count, random, special=0.3) for dtype in dtypes_]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_are_computed_as_their_type_says(dtype):
    numbers = [dtype.min, dtype.min + 1, 0, 1, 2, 3, 7, 8, 15, 16, 100, dtype.max - 1, dtype.max]
    x, y = np.array(list(itertools.product(numbers, numbers)), dtype.numpy).T.copy()
    for op in sorted(binary_ops(dtype) - {BinaryOp.POW}, key=str):
        target = dtypes.bool_ if op in (BinaryOp.LT, BinaryOp.LE, BinaryOp.EQ, BinaryOp.NE) else dtype
        kernel = elementwise(lambda b, x, y, op=op: b.binary(op, x, y), [dtype] * 2, target, len(x))
        check(kernel, [np.zeros(len(x), target.numpy), x.copy(), y])
    for op in sorted(unary_ops(dtype), key=str):
        kernel = elementwise(lambda b, x, op=op: b.unary(op, x), [dtype], dtype, len(x))
        check(kernel, [np.zeros(len(x), dtype.numpy), x.copy()])
    kernel = elementwise(lambda b, x, y: b.mad(x, y, x), [dtype] * 2, dtype, len(x))
    check(kernel, [np.zeros(len(x), dtype.numpy), x.copy(), y])


@pytest.mark.parametrize("source", dtypes.ALL, ids=str)
@pytest.mark.parametrize("target", dtypes.ALL, ids=str)
def test_conversions_round_wrap_and_saturate(source, target):
    kernel = elementwise(lambda b, x: b.cast(x, target), [source], target, 240, lanes=2)
    given = [np.zeros(240, target.numpy), *arrays([source], 240)]
    if target in HALVES and source.bits > 16 and source is not dtypes.float32:
        with pytest.raises(UnsupportedError, match=rf"there is no native form of conversion of {source} to {target}"):
            widened(kernel)
        kernel = run_passes(kernel, standard_passes(DEVICE))
    check(kernel, given)


@pytest.mark.parametrize("half", HALVES, ids=str)
def test_every_half_is_converted_there_and_back(half):
    bits = np.arange(1 << 16, dtype=np.uint16)
    x = bits.view(half.numpy)
    kernel = elementwise(lambda b, x: b.cast(x, dtypes.float32), [half], dtypes.float32, 1 << 16)
    check(kernel, [np.zeros(1 << 16, np.float32), x])
    kernel = elementwise(lambda b, x: b.cast(x, half), [dtypes.float32], half, 1 << 16)
    single = x.astype(np.float32)
    with np.errstate(all="ignore"):
        for near in (single, np.nextafter(single, np.float32(9e9)), (single + np.roll(single, -1)) / 2):
            check(kernel, [np.zeros(1 << 16, half.numpy), near.astype(np.float32)])


@pytest.mark.parametrize("half", HALVES, ids=str)
def test_any_float_is_rounded_to_a_half_once(half):
    x = np.random.default_rng(3).integers(0, 1 << 32, 20_000, dtype=np.uint32).view(np.float32)
    kernel = elementwise(lambda b, x: b.cast(x, half), [dtypes.float32], half, len(x))
    check(kernel, [np.zeros(len(x), half.numpy), x])


def test_bits_are_read_as_other_types_of_their_size():
    for sources in ([dtypes.uint8, dtypes.int8], [dtypes.uint16, dtypes.int16, *HALVES]):
        for source in sources:
            for target in sources:
                kernel = elementwise(lambda b, x, target=target: b.bitcast(x, target), [source], target, 50)
                check(kernel, [np.zeros(50, target.numpy), *arrays([source], 50)])


def test_a_half_of_the_language_s_own_is_converted_by_way_of_float32():
    small = [dtype for dtype in SMALL if dtype is not dtypes.float16]
    half = dtypes.float16
    for other in (dtypes.int8, dtypes.uint16, dtypes.bfloat16, dtypes.bool_, dtypes.float32, dtypes.int32):
        kernel = elementwise(lambda b, x, other=other: b.cast(x, other), [half], other, 60)
        result = widened(kernel, small)
        sources = {result.ops[op.x].type.dtype: op.type.dtype for op in result.ops if isinstance(op, k.Cast)}
        assert sources[half] in (dtypes.float32, dtypes.bool_)
    kernel = elementwise(lambda b, x: b.bitcast(b.bitcast(x, dtypes.int16), half), [half], half, 60)
    result = widened(kernel, small)
    x = arrays([half], 60)[0]
    out = np.zeros(60, half.numpy)
    run(result, [out, x])
    assert out.tobytes() == x.tobytes()


def test_scalars_are_given_as_bits():
    for dtype in NARROW:
        b = Builder()
        out = b.define(k.Memory.GLOBAL, dtype, 1)
        x = b.variable(dtype, "x")
        b.store(out, b.const(0, dtypes.int64), x)
        value = -3 if dtype.is_integer and not dtype.is_unsigned else 3.5 if dtype.is_float else 250
        check(b.finish("given"), [np.zeros(1, dtype.numpy), value])


def test_local_memory_takes_words_and_indexed_bools_are_numbers():
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtypes.bool_, 8)
    shared = b.define(k.Memory.LOCAL, dtypes.int8, 8)
    flags = b.define(k.Memory.LOCAL, dtypes.bool_, 8)
    own, fixed = b.define(k.Memory.REGISTER, dtypes.bool_, 2), b.define(k.Memory.REGISTER, dtypes.bool_, 1)
    thread, zero, one = b.index(k.Axis.LOCAL, 0, 8), b.const(0, dtypes.int64), b.const(1, dtypes.int64)
    odd = b.binary(BinaryOp.AND, thread, one)
    b.store(shared, thread, b.cast(b.binary(BinaryOp.SUB, thread, b.const(4, dtypes.int64)), dtypes.int8))
    b.store(flags, thread, b.cast(odd, dtypes.bool_))
    b.store(own, odd, b.cast(thread, dtypes.bool_))
    b.store(own, b.binary(BinaryOp.SUB, one, odd), b.const(True, dtypes.bool_))
    b.store(fixed, zero, b.const(True, dtypes.bool_))
    b.barrier()
    last = b.binary(BinaryOp.SUB, b.const(7, dtypes.int64), thread)
    found = b.binary(BinaryOp.LT, b.load(shared, last), b.const(0, dtypes.int8))
    for more in (b.load(flags, last), b.load(own, odd), b.load(fixed, zero)):
        found = b.binary(BinaryOp.XOR, found, more)
    b.store(out, thread, found)
    result = check(b.finish("shared"), [np.zeros(8, np.bool_)])
    held = [op.dtype for op in result.ops if isinstance(op, k.Define)]
    assert held == [dtypes.uint32, dtypes.int32, dtypes.uint32, dtypes.uint32, dtypes.bool_]


def test_what_there_is_no_form_for_is_refused():
    def local_atomic(b):
        shared = b.define(k.Memory.LOCAL, dtypes.uint8, 1)
        b.atomic(ReduceOp.SUM, shared, b.const(0, dtypes.int64), b.const(1, dtypes.uint8))

    cases = {
        "atomic sum of uint8": local_atomic,
        "neg of float16": lambda b: b.unary(UnaryOp.NEG, b.const(1.0, dtypes.float16)),
        "lt of bfloat16": lambda b: b.binary(BinaryOp.LT, *[b.const(1.0, dtypes.bfloat16)] * 2),
        "mad of float16": lambda b: b.mad(*[b.const(1.0, dtypes.float16)] * 3),
    }
    for what, make in cases.items():
        b = Builder()
        b.define(k.Memory.GLOBAL, dtypes.int32, 1)
        make(b)
        with pytest.raises(UnsupportedError, match=rf"kernel refused, operation %\d: .* no native form of {what}"):
            in_wide_values(b.finish("refused"), SMALL)


def test_a_kernel_without_narrow_values_stays_as_it_is():
    kernel = elementwise(lambda b, x: b.binary(BinaryOp.ADD, x, x), [dtypes.float32], dtypes.float32, 8)
    assert in_wide_values(kernel, SMALL) is kernel
    once = widened(elementwise(lambda b, x: b.binary(BinaryOp.ADD, x, x), [dtypes.uint8], dtypes.uint8, 8))
    assert in_wide_values(once, SMALL) is once


def test_random_kernels_compute_the_same():
    checked = 0
    for seed in range(150):
        kernel = run_passes(random_kernel(seed, [*SMALL, dtypes.int32, dtypes.float32]), standard_passes(DEVICE))
        targets = [kernel.ops[op.target] for op in kernel.ops if isinstance(op, k.Atomic)]
        if any(target.dtype in SMALL for target in targets):
            continue
        try:
            check(kernel, arguments_for(kernel, seed))
        except Exception as error:
            error.add_note(f"seed {seed}\n{kernel}")
            raise
        checked += 1
    assert checked > 50
