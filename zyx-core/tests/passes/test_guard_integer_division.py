"""After the pass, dividing plainly is safe."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.kernel.data import Axis, Memory
from zyx.kernel.parse import parse_kernel
from zyx.kernel.run import run
from zyx.ops import BinaryOp
from zyx.passes.fold_constants import fold_constants
from zyx.passes.guard_integer_division import guard_integer_division
from zyx.passes.simplify_algebra import simplify_algebra
from zyx.semantics import apply_binary
from zyx.testing.passes import check_pass

CORNERS = [-128, -127, -2, -1, 0, 1, 2, 3, 126, 127, 128, 255]


def divide(op: BinaryOp, dtype, count: int):
    b = Builder()
    arrays = [b.define(Memory.GLOBAL, dtype, count, mutable=False) for _ in range(2)]
    out = b.define(Memory.GLOBAL, dtype, count)
    place = b.index(Axis.GROUP, 0, count)
    b.store(out, place, b.binary(op, *(b.load(array, place) for array in arrays)))
    return b.finish("divide")


@pytest.mark.parametrize("op", [BinaryOp.DIV, BinaryOp.MOD])
@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.uint8], ids=str)
def test_results_are_the_pinned_ones_and_no_divisor_is_unsafe(dtype, op):
    values = [value for value in CORNERS if dtype.min <= value <= dtype.max]
    pairs = np.array(list(itertools.product(values, values)), dtype.numpy)
    x, y = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
    kernel = guard_integer_division(divide(op, dtype, len(x)))
    out = np.zeros_like(x)
    run(kernel, [x, y, out])
    assert out.tolist() == apply_binary(op, x, y).tolist()
    divisors = np.zeros_like(x)
    division = next(op_ for op_ in kernel.ops if isinstance(op_, k.Binary) and op_.op is op)
    ops = tuple(k.Store(o.target, o.index, division.y) if isinstance(o, k.Store) else o for o in kernel.ops)
    run(k.Kernel("divisors", ops), [x, y, divisors])
    assert not (divisors == 0).any()
    if not dtype.is_unsigned:
        assert not (divisors == -1).any()


@pytest.mark.parametrize("op", [BinaryOp.DIV, BinaryOp.MOD])
def test_a_second_run_after_other_passes_adds_no_guard(op):
    once = check_pass(guard_integer_division, divide(op, dtypes.int32, 8))
    changed = simplify_algebra(fold_constants(once))
    assert guard_integer_division(changed) is changed


def left_alone(lines: str) -> bool:
    kernel = parse_kernel("""
        kernel k
        %x = global i32[8] readonly
        %o = global i32[8]
        %i = group 0 < 8 : i32
        %a = load %x[%i] : i32
        %zero = const 0 : i32
        %one = const 1 : i32
        %minus = const -1 : i32
    """ + lines + "\nstore %o[%i] = %r")  # fmt: skip
    return check_pass(guard_integer_division, kernel) is kernel


def test_divisors_that_are_known_to_be_safe_stay():
    assert left_alone("%c = const 3 : i32\n%r = div %a, %c : i32")
    assert left_alone("%c = const -2 : i32\n%r = mod %a, %c : i32")
    assert left_alone("%d = add %i, %one : i32\n%r = div %a, %d : i32")
    assert not left_alone("%r = div %a, %i : i32")
    assert not left_alone("%r = div %a, %minus : i32")
    assert left_alone("%r = div %i, %minus : i32")  # overflows only for the least integer
    assert not left_alone("%r = div %i, %zero : i32")
    assert left_alone("%p = lt %zero, %a : bool\nif %p\n%s = div %i, %a : i32\nendif\n%r = add %i, %i : i32")


def test_only_the_tests_that_can_hold_are_written():
    kernel = parse_kernel("""
        kernel k
        %x = global i32[8] readonly
        %o = global i32[8]
        %i = group 0 < 8 : i32
        %a = load %x[%i] : i32
        %r = mod %a, %i : i32
        store %o[%i] = %r
    """)
    result = check_pass(guard_integer_division, kernel)
    assert sum(isinstance(op, k.Binary) and op.op is BinaryOp.EQ for op in result.ops) == 1
