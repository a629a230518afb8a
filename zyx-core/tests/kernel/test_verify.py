"""Each rule has a kernel that breaks only that rule."""

from __future__ import annotations

import re

import pytest
from hypothesis import given

from zyx import dtype as dtypes
from zyx.errors import VerifyError
from zyx.kernel import data as k
from zyx.kernel.data import Kernel, Type
from zyx.kernel.parse import parse_kernel
from zyx.kernel.verify import verify
from zyx.ops import UnaryOp
from zyx.testing.kernels import kernels

VALID = """
kernel valid
%x = global f32[64] readonly
%o = global f32[64]
%n = variable i32 n
%l = local f32[64]
%r = register f32x4[2]
%g = group 0 < 4 : i32
%t = thread 0 < 16 : i32
%c = const 16 : i32
%m = mul %g, %c : i32
%i = add %m, %t : i32
%v = load %x[%i] : f32
store %o[%i] = %v
"""

# Lines appended to the valid kernel, by the rule that they break.
BREAKING = [
    (9, "%b = add %v, %i : f32"),
    (9, "%b = lt %v, %v : f32"),
    (9, "%b = and %v, %v : f32"),
    (9, "%b = exp %i : i32"),
    (9, "%b = neg %i : f32"),
    (9, "%b = where %i, %v, %v : f32"),
    (9, "%b = where %v, %v, %i : f32"),
    (9, "%b = cast %v : f32x2"),
    (9, "%b = bitcast %v : i64"),
    (9, "%p = lt %i, %i : bool\n%b = bitcast %p : u8"),
    (9, "%b = mad %v, %v, %i : f32"),
    (9, "%p = lt %i, %i : bool\n%b = mad %p, %p, %p : bool"),
    (9, "%b = vectorize %v, %v : f32x3"),
    (9, "%b = vectorize %v : f32"),
    (9, "%b = vectorize %v, %i : f32x2"),
    (9, "%w = vectorize %v, %v : f32x2\n%b = devectorize %w[2] : f32"),
    (9, "%w = vectorize %v, %v : f32x2\n%b = devectorize %w[1] : f64"),
    (9, "%w = vectorize %v, %v : f32x2\n%b = shuffle %w, %w[0, 4] : f32x2"),
    (9, "%w = vectorize %v, %v : f32x2\n%b = shuffle %w, %v[0, 1] : f32x2"),
    (9, "%w = vectorize %v, %v : f32x2\n%b = shuffle %w, %w[0, 1, 2] : f32x2"),
    (9, "%a = const 0.0 : f16x8\n%d = const 0.0 : f32x4\n%b = wmma 16x8x4 %a, %a, %d : f32x4"),
    (9, "%a = const 0.0 : f16x8\n%d = const 0.0 : f32x4\n%b = wmma 16x8x16 %a, %a, %d : f32x4"),
    (9, "%a = const 0.0 : f32x8\n%e = const 0.0 : f32x4\n%b = wmma 16x8x16 %a, %e, %e : f32x4"),
    (9, "%a = const 0.0 : f16x8\n%e = const 0.0 : f16x4\n%b = wmma 16x8x16 %a, %e, %e : f16x4"),
    (10, "%b = load %x[%v] : f32"),
    (10, "%b = load %x[%i] : f64"),
    (10, "%b = load %x[%i] if %i : f32"),
    (10, "%p = const true : boolx2\n%b = load %x[%i] if %p : f32"),
    (10, "store %x[%i] = %v"),
    (10, "store %o[%i] = %i"),
    (10, "store %r[%g] = %v"),
    (10, "%b = load %r[%g] : f32"),
    (10, "store %l[%t] = %v streaming"),
    (10, "atomic and %o[%i] = %v"),
    (10, "atomic sum %x[%i] = %v"),
    (10, "%w = vectorize %v, %v : f32x2\natomic sum %o[%i] = %w"),
    (10, "%z = const 0 : i32\n%w = const 0.0 : f32x4\natomic sum %r[%z] = %w"),
    (11, "if %i\nendif"),
    (11, "%p = const true : boolx2\nif %p\nendif"),
    (12, "%p = lt %t, %g : bool\nif %p\nbarrier\nendif"),
    (12, "%z = const 0.0 : f32\n%p = lt %v, %z : bool\n%u = loop < 2 : i32\nif %p\nbarrier\nendif\nendloop"),
    (12, "%u = loop < 2, %t : i32\nbarrier\nendloop"),
    (12, "%a = const 0.0 : f16x4\n%e = const 0.0 : f16x2\n%d = const 0.0 : f32x4\n%b = wmma 16x8x8 %a, %e, %d : f32x4"),
    (13, "%b = load %x[%i] : f32x2"),
    (13, "store %o[%n] = %v"),
    (13, "atomic sum %o[%n] = %v"),
    (13, "%q = neg %i : i32\n%b = load %x[%q] : f32"),
    (13, "%f = const 0.0 : f32x4\nstore %r[%g] = %f"),
]  # fmt: skip


def rule_of(kernel: Kernel) -> int:
    with pytest.raises(VerifyError) as caught:
        verify(kernel)
    found = re.match(r"kernel .*?, rule (\d+)", str(caught.value))
    assert found, str(caught.value)
    return int(found[1])


def test_the_kernel_that_is_to_be_broken_is_valid():
    verify(parse_kernel(VALID))


@given(kernel=kernels())
def test_every_drawn_kernel_is_valid(kernel):
    verify(kernel)


@pytest.mark.parametrize(("rule", "lines"), BREAKING)
def test_a_kernel_that_breaks_a_rule_is_refused_by_that_rule(rule, lines):
    assert rule_of(parse_kernel(VALID + lines)) == rule


I32, F32 = Type(dtypes.int32), Type(dtypes.float32)
OUT = k.Define(k.Memory.GLOBAL, dtypes.float32, 4)
ZERO = k.Const(0, I32)
LOOP = k.Loop(2, I32)
GROUP = k.Index(k.Axis.GROUP, 0, 4, I32)


@pytest.mark.parametrize(
    ("rule", "ops"),
    [
        (1, [OUT, k.Unary(UnaryOp.NEG, 1, F32)]),  # itself
        (1, [OUT, k.Unary(UnaryOp.NEG, 7, F32)]),
        (1, [OUT, k.Unary(UnaryOp.NEG, -1, F32)]),
        (1, [OUT, k.Unary(UnaryOp.NEG, 0, F32)]),  # an array
        (1, [OUT, ZERO, k.Load(1, 1, F32)]),  # no array
        (1, [OUT, ZERO, k.Barrier(), k.Load(0, 2, F32)]),  # no value
        (1, [OUT, LOOP, k.EndLoop(), k.Load(0, 1, F32)]),  # of a region that has ended
        (1, [OUT, LOOP, ZERO, k.EndLoop(), k.Load(0, 2, F32)]),
        (2, [OUT, LOOP]),
        (2, [OUT, k.EndLoop()]),
        (2, [OUT, k.EndIf()]),
        (2, [OUT, LOOP, k.EndIf()]),
        (3, [OUT, ZERO, OUT]),
        (3, [OUT, k.Define(k.Memory.LOCAL, dtypes.float32, 4), OUT]),
        (3, [OUT, ZERO, k.Variable(I32, "n")]),
        (4, [k.Define(k.Memory.GLOBAL, dtypes.float32, 4, mutable=False), ZERO]),
        (4, [k.Variable(I32, "n")]),
        (4, []),
        (5, [OUT, k.Variable(I32, "n m")]),
        (5, [OUT, k.Variable(I32, "n"), k.Variable(I32, "n")]),
        (6, [OUT, k.Define(k.Memory.LOCAL, dtypes.float32, 4, is_front=True)]),
        (6, [OUT, k.Define(k.Memory.LOCAL, dtypes.float32, 0)]),
        (6, [OUT, k.Define(k.Memory.GLOBAL, dtypes.float32, -1)]),
        (6, [OUT, k.Define(k.Memory.LOCAL, dtypes.float32, 4, mutable=False)]),
        (6, [OUT, k.Define(k.Memory.LOCAL, dtypes.float32, 4, lanes=2)]),
        (6, [k.Define(k.Memory.GLOBAL, dtypes.float32, 4, lanes=2)]),
        (7, [OUT, k.Variable(Type(dtypes.int32, 2), "n")]),
        (7, [OUT, k.Index(k.Axis.GROUP, 3, 4, I32)]),
        (7, [OUT, k.Index(k.Axis.GROUP, 0, 0, I32)]),
        (7, [OUT, k.Index(k.Axis.GROUP, 0, 300, Type(dtypes.uint8))]),
        (7, [OUT, k.Index(k.Axis.GROUP, 0, 4, F32)]),
        (7, [OUT, k.Index(k.Axis.GROUP, 0, 4, Type(dtypes.int32, 2))]),
        (7, [OUT, GROUP, GROUP]),
        (7, [OUT, k.Loop(-1, I32), k.EndLoop()]),
        (7, [OUT, k.Const(2, Type(dtypes.int64)), k.Loop(3, I32, 1), k.EndLoop()]),
        (7, [OUT, k.Const(0.0, F32), k.Loop(3, I32, 1), k.EndLoop()]),
        (1, [OUT, k.Loop(3, I32, 1), k.EndLoop()]),
        (8, [OUT, k.Const(1.0, I32)]),
        (8, [OUT, k.Const(1, F32)]),
        (8, [OUT, k.Const(1, Type(dtypes.bool_))]),
        (8, [OUT, k.Const(True, I32)]),
        (8, [OUT, k.Const(300, Type(dtypes.uint8))]),
        (8, [OUT, k.Const(0.1, F32)]),
        (8, [OUT, k.Const(1e6, Type(dtypes.float16))]),
    ],
)
def test_a_malformed_list_of_operations_is_refused_by_the_rule_it_breaks(rule, ops):
    assert rule_of(Kernel("k", tuple(ops))) == rule


def test_the_name_of_a_kernel_has_letters_digits_and_underscores_alone():
    for name in ("no name", "", "a-b"):
        assert rule_of(Kernel(name, parse_kernel(VALID).ops)) == 5
    verify(Kernel("2_sum_8x200", parse_kernel(VALID).ops))  # two that share a launch


def test_special_constants_are_valid():
    ops = [OUT, *(k.Const(float(text), F32) for text in ("nan", "inf", "-inf", "-0.0")), k.Const(0.5, F32)]
    verify(Kernel("k", tuple(ops)))


def test_params_may_have_no_elements_and_loops_no_iterations():
    empty = k.Define(k.Memory.GLOBAL, dtypes.float32, 0, mutable=False)
    verify(Kernel("k", (OUT, empty, k.Loop(0, I32), k.EndLoop())))


def test_barriers_may_stand_where_whole_groups_agree():
    verify(parse_kernel(VALID + "%p = lt %g, %n : bool\nif %p\n%u = loop < 3 : i32\nbarrier\nendloop\nendif"))


def test_a_warp_may_multiply_matrices():
    text = VALID.replace("%t = thread 0 < 16", "%t = thread 0 < 32").replace("[64]", "[128]")
    constants = "%a = const 0.0 : bf16x4\n%e = const 0.0 : bf16x2\n%d = const 0.0 : f32x4\n"
    verify(parse_kernel(text + constants + "%b = wmma 16x8x8 %a, %e, %d : f32x4"))


def test_the_message_names_the_rule_and_the_operation_and_shows_where_it_is():
    with pytest.raises(VerifyError) as caught:
        verify(parse_kernel(VALID + "%b = add %v, %i : f32"))
    assert str(caught.value) == (
        "kernel valid, rule 9, operation 12 (%12 = add %10, %9 : f32): the operands are f32 and i32\n"
        "  (6 operations)\n"
        "  %6 = thread 0 < 16 : i32\n"
        "  %7 = const 16 : i32\n"
        "  %8 = mul %5, %7 : i32\n"
        "  %9 = add %8, %6 : i32\n"
        "  %10 = load %0[%9] : f32\n"
        "  store %1[%9] = %10\n"
        "> %12 = add %10, %9 : f32"
    )
