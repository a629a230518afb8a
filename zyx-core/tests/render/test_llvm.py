"""LLVM IR text of operations, without LLVM: what a backend gets from core, and adds to it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from zyx import dtype as dtypes
from zyx.errors import UnsupportedError
from zyx.kernel import data as k
from zyx.kernel.data import Type
from zyx.kernel.parse import parse_kernel
from zyx.ops import BinaryOp
from zyx.render.llvm.operations import OPERATIONS
from zyx.render.llvm.slots import find_slots
from zyx.render.llvm.templates import Templates
from zyx.render.llvm.types import literal
from zyx.render.llvm.writer import Writer


def machine(**differs):
    return SimpleNamespace(**({"has_fma": True, "has_half_conversion": False, "has_streaming": False} | differs))


def name(w, i, op):
    w.names[i] = f"%v{i}"


def written(text, **differs):
    """Return the lines of a kernel whose arrays and positions are names."""
    kernel = parse_kernel(text)
    w = Writer(kernel, find_slots(kernel), Templates(machine(**differs)))
    writers = {**OPERATIONS, k.Define: name, k.Index: name}
    for i, op in enumerate(kernel.ops):
        writers[type(op)](w, i, op)
    return "\n".join(w.lines).splitlines()


KERNEL = """
    kernel k
    %x = global f32[64] readonly
    %o = global f32[64]
    %i = group 0 < 64 : i32
    %a = load %x[%i] : f32
    %b = mad %a, %a, %a : f32
    store %o[%i] = %b
"""


def test_loads_arithmetic_and_stores_are_lines():
    assert written(KERNEL) == [
        "  %a3 = getelementptr inbounds float, ptr %v0, i32 %v2",
        "  %v3 = load float, ptr %a3, align 4",
        "  %v4 = call float @llvm.fma.f32(float %v3, float %v3, float %v3)",
        "  %a5 = getelementptr inbounds float, ptr %v1, i32 %v2",
        "  store float %v4, ptr %a5, align 4",
    ]


def test_a_machine_that_does_not_fuse_rounds_twice():
    assert written(KERNEL, has_fma=False)[2:4] == ["  %v4.p = fmul float %v3, %v3", "  %v4 = fadd float %v4.p, %v3"]


LOOP = """
    kernel k
    %o = global i32[1]
    %r = register i32[2]
    %m = register i32[4]
    %z = const 0 : i32
    %n = const 1 : i32
    store %r[%z] = %z
    store %r[%n] = %n
    store %m[%z] = %n
    %i = loop < 8 : i32
        %s = load %r[%z] : i32
        %t = add %s, %i : i32
        store %r[%z] = %t
        %c = lt %t, %i : i32
        if %c
            store %r[%n] = %t
        endif
        %g = const 3 : i32
        %h = and %i, %g : i32
        %u = load %m[%h] : i32
    endloop
    %w = load %r[%n] : i32
    store %o[%z] = %w
"""


def test_slots_are_the_elements_of_arrays_at_constant_places_and_regions_know_what_they_join():
    found = find_slots(parse_kernel(LOOP))
    assert found.arrays == {1}
    loop, branch = (i for i, op in enumerate(parse_kernel(LOOP).ops) if isinstance(op, k.Loop | k.If))
    assert found.joined == {branch: ((1, 1),), loop: ((1, 0), (1, 1))}


SUMS = """
    kernel sums
    %o = global i32[8]
    %r = register i32[2]
    %z = const 0 : i32
    %n = const 1 : i32
    %i = loop < 8 : i32
        store %r[%z] = %z
        %j = loop < 4 : i32
            %s = load %r[%z] : i32
            %t = add %s, %j : i32
            store %r[%z] = %t
            %c = lt %t, %n : i32
            if %c
                store %r[%n] = %t
                store %r[%z] = %n
            endif
        endloop
        %w = load %r[%z] : i32
        store %o[%i] = %w
    endloop
"""


def test_slots_that_nobody_reads_before_they_are_written_again_are_not_joined():
    """A sum starts anew in each turn of the loop around it; what is stored and never read has no name behind an If."""
    ops = parse_kernel(SUMS).ops
    outer, inner, branch = (i for i, op in enumerate(ops) if isinstance(op, k.Loop | k.If))
    assert find_slots(parse_kernel(SUMS)).joined == {outer: (), inner: ((1, 0),), branch: ((1, 0),)}
    phis = [line for line in written(SUMS) if " phi " in line]
    assert [line.split(" = ")[0].strip() for line in phis] == [
        f"%v{outer}",
        f"%v{inner}",
        f"%p{inner}.0",
        f"%p{branch}.0",
    ]


CARRIED = """
    kernel carried
    %o = global i32[8]
    %r = register i32[1]
    %z = const 0 : i32
    store %r[%z] = %z
    %i = loop < 8 : i32
        %j = loop < 4 : i32
            %s = load %r[%z] : i32
            store %o[%i] = %s
        endloop
        store %r[%z] = %i
    endloop
"""


def test_what_a_turn_reads_of_the_one_before_is_joined():
    outer, inner = (i for i, op in enumerate(parse_kernel(CARRIED).ops) if isinstance(op, k.Loop))
    assert find_slots(parse_kernel(CARRIED)).joined == {outer: ((1, 0),), inner: ()}


def test_a_loop_without_turns_may_leave_a_slot_as_it_was():
    text = CARRIED.replace("loop < 8", "loop < 0")
    kernel = parse_kernel(text.rstrip() + "\n    %e = load %r[%z] : i32\n    store %o[%z] = %e\n")
    outer = next(i for i, op in enumerate(kernel.ops) if isinstance(op, k.Loop))
    assert find_slots(kernel).joined[outer] == ((1, 0),)


def test_slots_are_joined_by_phis_where_control_flow_meets():
    lines = written(LOOP)
    loop, branch = (i for i, op in enumerate(parse_kernel(LOOP).ops) if isinstance(op, k.Loop | k.If))
    phis = [line for line in lines if " phi " in line]
    assert f"  %v{loop} = phi i32 [ 0, %entry ], [ %n{loop}, " in phis[0]
    assert phis[1].startswith(f"  %p{loop}.0 = phi i32 [ 0, %entry ], [ ")
    assert phis[2].startswith(f"  %p{loop}.1 = phi i32 [ 1, %entry ], [ ")
    assert phis[3].startswith(f"  %p{branch}.0 = phi i32 [ %v")
    assert len(phis) == 4
    assert lines[-1] == f"  store i32 %p{branch}.0, ptr %v0, align 4"  # loops are left at their end


@pytest.mark.parametrize(
    ("value", "type_", "text"),
    [
        (True, Type(dtypes.bool_), "true"),
        (-3, Type(dtypes.int8), "-3"),
        (1.5, Type(dtypes.float32), "1.5"),
        (float("inf"), Type(dtypes.float64), "0x7FF0000000000000"),
        (1.0, Type(dtypes.float16), "15360"),
        (1.0, Type(dtypes.bfloat16), "16256"),
        (2, Type(dtypes.uint16, 4), "splat (i16 2)"),
    ],
)
def test_constants(value, type_, text):
    assert literal(value, type_) == text


def test_what_there_is_no_form_for_is_refused():
    half = Type(dtypes.float16)
    with pytest.raises(UnsupportedError, match="there is no native form of add of f16"):
        Templates(machine()).binary(k.Binary(BinaryOp.ADD, 0, 0, half), half, ())


@pytest.mark.parametrize(("shift", "is_near"), [(60, True), (-15, True), (4000, False), (-4000, False)])
def test_what_is_masked_away_far_from_an_array_is_looked_up_in_it(shift, is_near):
    lines = written(f"""
        kernel k
        %x = global f32[64] readonly
        %o = global f32[64]
        %i = group 0 < 4 : i64
        %c = const 16 : i64
        %s = const {shift} : i64
        %m = mul %i, %c : i64
        %j = add %m, %s : i64
        %t = const true : bool
        %f = const false : bool
        %k = vectorize {", ".join(["%t"] + ["%f"] * 15)} : boolx16
        %a = load %x[%j] if %k : f32x16
        store %o[%m] = %a
    """)
    (pointer,) = (line for line in lines if "getelementptr" in line and "%v0" in line)
    assert pointer.endswith("%v6") == is_near
    assert any("select i1" in line and line.endswith("i64 %v6, i64 0") for line in lines) != is_near


@pytest.mark.parametrize(("length", "is_plain"), [(64, True), (16, True), (15, False)])
def test_vectors_that_exist_whole_or_not_at_all_are_loaded_without_a_mask_of_lanes(length, is_plain):
    """From the start of the array where they do not exist, if it is long enough for one."""
    lines = written(f"""
        kernel k
        %x = global f32[{length}] readonly
        %o = global f32[64]
        %i = group 0 < 4 : i64
        %c = const 16 : i64
        %m = mul %i, %c : i64
        %e = const 2 : i64
        %f = lt %i, %e : bool
        %k = vectorize {", ".join(["%f"] * 16)} : boolx16
        %a = load %x[%m] if %k : f32x16
        store %o[%m] = %a
    """)
    text = "\n".join(lines)
    assert ("@llvm.masked.load" not in text) == is_plain
    assert ("load <16 x float>, ptr" in text) == is_plain
    assert any("select i1" in line and line.endswith("i64 %v4, i64 0") for line in lines) == is_plain
    assert any("select i1" in line and line.endswith("<16 x float> zeroinitializer") for line in lines) == is_plain


class TestBetween:
    KERNEL = """
        kernel k
        %o = global bool[64]
        %i = group 0 < 64 : i32
        %zero = const {zero} : {type}
        %last = const {last} : {type}
        %x = cast %i : {type}
        %a = le %zero, %x : bool
        %b = le %x, %last : bool
        %c = and {operands} : bool
        store %o[%i] = %c
    """

    @pytest.mark.parametrize("operands", ["%a, %b", "%b, %a"])
    @pytest.mark.parametrize("type_", ["i32", "i64"])
    def test_two_comparisons_become_one(self, operands, type_):
        lines = written(self.KERNEL.format(zero=0, last=9, type=type_, operands=operands))
        x = "%v1" if type_ == "i32" else "%v4"
        assert f"  %v7 = icmp ule {type_} {x}, 9" in lines

    @pytest.mark.parametrize(
        ("zero", "last", "type_"), [(1, 9, "i32"), (0, -1, "i32"), (0, 9, "u32"), (0.0, 9.0, "f32")]
    )
    def test_others_stay(self, zero, last, type_):
        lines = written(self.KERNEL.format(zero=zero, last=last, type=type_, operands="%a, %b"))
        assert "  %v7 = and i1 %v5, %v6" in lines
