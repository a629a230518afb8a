"""Params of small types in words of 32 bits: the same values, in kernels that know of words alone."""

from __future__ import annotations

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.errors import UnsupportedError
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.kernel.parse import parse_kernel
from zyx.kernel.run import run
from zyx.kernel.verify import verify
from zyx.ops import BinaryOp, ReduceOp
from zyx.render.words import in_words
from zyx.testing.kernels import arguments_for, random_kernel, same_values

SMALL = [dtype for dtype in dtypes.ALL if dtype.bits < 32]


def words_of(array):
    """Return an array as words, the last filled up with ones."""
    missing = -array.nbytes % 4
    return np.concatenate([array.view(np.uint8), np.full(missing, 255, np.uint8)]).view(np.uint32)


def check(kernel, arguments):
    """Check that a kernel computes the same, and leaves bytes behind the elements alone; return it in words."""
    packed = in_words(kernel, SMALL)
    verify(packed)
    assert in_words(packed, SMALL) is packed
    arguments = [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in arguments]
    small = [isinstance(param, k.Define) and param.dtype in SMALL for param in kernel.params]
    given = [
        words_of(argument) if is_small else argument.copy() if isinstance(argument, np.ndarray) else argument
        for argument, is_small in zip(arguments, small, strict=True)
    ]
    run(kernel, arguments)
    run(packed, given)
    for wanted, found, is_small in zip(arguments, given, small, strict=True):
        if is_small:
            found_bytes = found.view(np.uint8)
            assert (found_bytes[wanted.nbytes :] == 255).all()
            found = found_bytes[: wanted.nbytes].view(wanted.dtype)
        if isinstance(wanted, np.ndarray):
            assert same_values([wanted], [found])
    return packed


def count(kernel, kind):
    return sum(isinstance(op, kind) for op in kernel.ops)


def copy(dtype, length, lanes, first, groups=1, masked=False):
    """Return a kernel whose groups copy `lanes` elements each, from `first` on, backwards."""
    b = Builder()
    out, x = b.define(k.Memory.GLOBAL, dtype, length), b.define(k.Memory.GLOBAL, dtype, length, mutable=False)
    group = b.index(k.Axis.GROUP, 0, groups)
    at = b.binary(BinaryOp.ADD, b.binary(BinaryOp.MUL, group, b.like(lanes, group)), b.like(first, group))
    mask = None
    if masked:
        even = b.binary(BinaryOp.EQ, b.binary(BinaryOp.AND, group, b.like(1, group)), b.like(0, group))
        mask = b.splat(even, lanes)
    value = b.load(x, at, lanes, mask)
    if lanes > 1:
        value = b.shuffle(value, value, tuple(reversed(range(lanes))))
    b.store(out, at, value, mask)
    return b.finish("copy")


@pytest.mark.parametrize("dtype", SMALL, ids=lambda dtype: dtype.short)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("lanes", "first"), [(1, 0), (1, 3), (2, 0), (2, 1), (4, 0), (4, 2), (8, 4), (8, 1)])
def test_elements_are_copied_wherever_they_lie(dtype, lanes, first, masked):
    kernel = copy(dtype, 3 * lanes + first + 1, lanes, first, groups=3, masked=masked)
    check(kernel, arguments_for(kernel, seed=lanes))


def test_every_value_of_a_type_comes_back():
    for dtype in (dtypes.uint8, dtypes.int8, dtypes.uint16, dtypes.int16, dtypes.float16, dtypes.bfloat16):
        bits = np.arange(1 << dtype.bits, dtype=np.uint8 if dtype.bits == 8 else np.uint16).view(dtype.numpy)
        kernel = copy(dtype, len(bits), 1, 0, groups=len(bits))
        packed = in_words(kernel, SMALL)
        out = np.zeros(len(bits) * dtype.itemsize // 4, np.uint32)
        run(packed, [out, words_of(bits)])
        assert out.tobytes() == bits.tobytes()


def test_whole_words_are_moved_at_once_and_parts_indivisibly():
    whole = check(copy(dtypes.uint8, 32, 8, 8), arguments_for(copy(dtypes.uint8, 32, 8, 8)))
    assert (count(whole, k.Load), count(whole, k.Store), count(whole, k.Atomic)) == (1, 1, 0)
    parts = check(copy(dtypes.uint16, 32, 4, 3), arguments_for(copy(dtypes.uint16, 32, 4, 3)))
    assert (count(parts, k.Load), count(parts, k.Store), count(parts, k.Atomic)) == (4, 0, 8)
    assert {op.op for op in parts.ops if isinstance(op, k.Atomic)} == {ReduceOp.AND, ReduceOp.OR}


def test_threads_share_words():
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtypes.int8, 10)
    thread = b.index(k.Axis.LOCAL, 0, 10)
    b.store(out, thread, b.cast(thread, dtypes.int8))
    check(b.finish("shared"), [np.full(10, 77, np.int8)])


def test_lanes_may_lie_behind_what_the_type_of_an_index_holds():
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtypes.uint8, 140)
    b.store(out, b.const(126, dtypes.int8), b.const(7, dtypes.uint8, 4))
    check(b.finish("behind"), [np.zeros(140, np.uint8)])


def test_other_arrays_and_kernels_without_small_types_stay_as_they_are():
    kernel = parse_kernel("""
        kernel k
        %x = global f32[8] readonly
        %o = global f32[8]
        %l = local u8[8]
        %i = group 0 < 8 : i64
        %c = const 1 : u8
        store %l[%i] = %c
        %v = load %x[%i] : f32
        store %o[%i] = %v
    """)
    assert in_words(kernel, SMALL) is kernel
    halves = copy(dtypes.float16, 8, 1, 0)
    assert in_words(halves, [dtypes.uint8]) is halves


def test_a_byte_is_taken_out_of_its_word_and_put_there():
    kernel = parse_kernel("""
        kernel k
        %o = global u8[19]
        %i = group 0 < 19 : i32
        %v = load %o[%i] : u8
        store %o[%i] = %v
    """)
    place = """
        %three{0} = const 3 : i32
        %place{0} = and %i, %three{0} : i32
        %eight{0} = const 3 : i32
        %bits{0} = shl %place{0}, %eight{0} : i32
        %four{0} = const 2 : i32
        %word{0} = shr %i, %four{0} : i32
        %shift{0} = cast %bits{0} : u32
    """
    assert in_words(kernel, SMALL) == parse_kernel(f"""
        kernel k
        %o = global u32[5]
        %i = group 0 < 19 : i32
        {place.format("a")}
        %w = load %o[%worda] : u32
        %s = shr %w, %shifta : u32
        %v = cast %s : u8
        {place.format("b")}
        %ones = const 255 : u32
        %own = shl %ones, %shiftb : u32
        %others = not %own : u32
        atomic and %o[%wordb] = %others
        %x = cast %v : u32
        %y = shl %x, %shiftb : u32
        atomic or %o[%wordb] = %y
    """)


def test_atomics_on_parts_of_words_are_refused():
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtypes.int16, 4)
    b.atomic(ReduceOp.SUM, out, b.const(0, dtypes.int64), b.const(1, dtypes.int16))
    with pytest.raises(UnsupportedError, match="kernel add_up, operation %3: there is no atomic sum of int16"):
        in_words(b.finish("add_up"), SMALL)


def test_random_kernels_compute_the_same():
    changed = 0
    for seed in range(150):
        kernel = random_kernel(seed, [*SMALL, dtypes.int32, dtypes.float32])
        targets = [kernel.ops[op.target] for op in kernel.ops if isinstance(op, k.Atomic)]
        if any(target.memory is k.Memory.GLOBAL and target.dtype in SMALL for target in targets):
            with pytest.raises(UnsupportedError, match="there is no atomic"):
                in_words(kernel, SMALL)
            continue
        try:
            changed += check(kernel, arguments_for(kernel, seed)) is not kernel
        except Exception as error:
            error.add_note(f"seed {seed}\n{kernel}")
            raise
    assert changed > 50
