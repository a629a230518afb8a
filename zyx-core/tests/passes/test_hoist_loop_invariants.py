"""What does not change in a loop moves out of it; what a branch guards does not."""

from __future__ import annotations

from zyx.kernel import data as k
from zyx.kernel.parse import parse_kernel
from zyx.passes.hoist_loop_invariants import hoist_loop_invariants
from zyx.testing.passes import check_pass


def test_values_move_as_far_out_as_their_operands():
    kernel = parse_kernel("""
        kernel k
        %x = global f32[64] readonly
        %o = global f32[64]
        %i = loop < 4 : i64
            %j = loop < 4 : i64
                %c = const 4 : i64
                %m = mul %i, %c : i64
                %v = load %x[%m] : f32
                %s = add %m, %j : i64
                %w = load %x[%s] : f32
                %t = group 0 < 2 : i64
                %u = add %s, %t : i64
                store %o[%u] = %w
            endloop
        endloop
    """)
    assert check_pass(hoist_loop_invariants, kernel) == parse_kernel("""
        kernel k
        %x = global f32[64] readonly
        %o = global f32[64]
        %c = const 4 : i64
        %t = group 0 < 2 : i64
        %i = loop < 4 : i64
            %m = mul %i, %c : i64
            %v = load %x[%m] : f32
            %j = loop < 4 : i64
                %s = add %m, %j : i64
                %w = load %x[%s] : f32
                %u = add %s, %t : i64
                store %o[%u] = %w
            endloop
        endloop
    """)


LOOP = """
    kernel k
    %x = global f32[8] readonly
    %o = global f32[8]
    %p = global f32[8]
    %l = local f32[8]
    %t = thread 0 < 8 : i64
    %one = const 1.0 : f32
    store %l[%t] = %one
    barrier
    %i = loop < {size} : i64
        %v = load {array}[%t] : f32
        %w = add %v, %one : f32
        {inside}
        store %p[%t] = %w
    endloop
"""


def is_hoisted(array: str, inside: str = "", size: int = 3) -> bool:
    """Return whether the load leaves the loop."""
    kernel = parse_kernel(LOOP.format(array=array, inside=inside, size=size))
    result = check_pass(hoist_loop_invariants, kernel)
    loop = next(number for number, op in enumerate(result.ops) if isinstance(op, k.Loop))
    return any(isinstance(op, k.Load) for op in result.ops[:loop])


def test_a_load_moves_if_nothing_in_the_loop_stores_to_its_array():
    assert is_hoisted("%x")
    assert is_hoisted("%o")
    assert is_hoisted("%l")
    assert not is_hoisted("%p")
    assert not is_hoisted("%o", "atomic sum %o[%t] = %one")
    assert not is_hoisted("%l", "store %l[%t] = %w")


def test_a_barrier_in_the_loop_keeps_loads_of_what_others_may_change():
    assert is_hoisted("%x", "barrier")
    assert not is_hoisted("%o", "barrier")
    assert not is_hoisted("%l", "barrier")


def test_a_load_stays_in_a_loop_that_never_runs():
    assert not is_hoisted("%x", size=0)


def test_nothing_leaves_a_branch():
    kernel = parse_kernel("""
        kernel k
        %x = global f32[8] readonly
        %o = global f32[16]
        %t = thread 0 < 16 : i64
        %n = const 8 : i64
        %p = lt %t, %n : bool
        %i = loop < 3 : i64
            if %p
                %d = add %t, %t : i64
                %v = load %x[%t] : f32
                store %o[%d] = %v
            endif
        endloop
    """)
    assert check_pass(hoist_loop_invariants, kernel) is kernel


def test_a_loop_in_a_branch_loses_its_invariants_to_the_branch():
    kernel = parse_kernel("""
        kernel k
        %x = global f32[8] readonly
        %o = global f32[16]
        %t = thread 0 < 16 : i64
        %n = const 8 : i64
        %p = lt %t, %n : bool
        if %p
            %i = loop < 3 : i64
                %v = load %x[%t] : f32
                store %o[%t] = %v
            endloop
        endif
    """)
    result = check_pass(hoist_loop_invariants, kernel)
    kinds = [type(op) for op in result.ops]
    assert kinds.index(k.If) < kinds.index(k.Load) < kinds.index(k.Loop)
