"""What one branch alone needs moves into it; what a loop in it needs does not move into the loop."""

from __future__ import annotations

import pytest

from zyx.kernel import data as k
from zyx.kernel.parse import parse_kernel
from zyx.passes.sink_into_branches import sink_into_branches
from zyx.testing.passes import check_pass


def test_values_move_into_the_only_branch_that_uses_them():
    kernel = parse_kernel("""
        kernel k
        %o = global f32[64]
        %c = const 4 : i64
        %n = const 2 : i64
        %v = const 1.0 : f32
        %i = loop < 4 : i64
            %p = lt %i, %n : bool
            %m = mul %i, %c : i64
            %s = add %m, %n : i64
            %t = add %m, %c : i64
            store %o[%t] = %v
            if %p
                store %o[%s] = %v
            endif
        endloop
    """)
    assert check_pass(sink_into_branches, kernel) == parse_kernel("""
        kernel k
        %o = global f32[64]
        %c = const 4 : i64
        %n = const 2 : i64
        %v = const 1.0 : f32
        %i = loop < 4 : i64
            %p = lt %i, %n : bool
            %m = mul %i, %c : i64
            %t = add %m, %c : i64
            store %o[%t] = %v
            if %p
                %s = add %m, %n : i64
                store %o[%s] = %v
            endif
        endloop
    """)


BRANCHES = """
    kernel k
    %o = global f32[64]
    %x = global f32[64] readonly
    %v = const 1.0 : f32
    %i = loop < 4 : i64
        %n = const 2 : i64
        %p = lt %i, %n : bool
        %m = mul %i, %n : i64
        %w = load %x[%m] : f32
        {inside}
    endloop
"""


@pytest.mark.parametrize(
    ("inside", "depth"),
    [
        ("if %p\n store %o[%m] = %v\n endif", 1),  # with a load beside it, which stays and needs it
        ("if %p\n store %o[%i] = %v\n endif\n if %p\n store %o[%n] = %v\n endif", 1),
    ],
)
def test_what_others_need_stays(inside, depth):
    kernel = parse_kernel(BRANCHES.format(inside=inside))
    assert depth_of(check_pass(sink_into_branches, kernel), "mul") == depth


def depth_of(kernel, name):
    """Return in how many loops and branches the only operation of that name is."""
    depth = 0
    for op in kernel.ops:
        if isinstance(op, k.Binary) and op.op.value == name:
            return depth
        depth += isinstance(op, k.Loop | k.If) - isinstance(op, k.EndLoop | k.EndIf)
    raise AssertionError(name)


@pytest.mark.parametrize(
    ("inside", "depth"),
    [
        ("store %o[%s] = %v", 1),
        ("if %p\n store %o[%s] = %v\n endif", 2),
        ("if %p\n if %q\n store %o[%s] = %v\n endif\n endif", 3),
        ("if %p\n if %q\n store %o[%s] = %v\n endif\n store %o[%s] = %v\n endif", 2),
        ("if %p\n %j = loop < 3 : i64\n store %o[%s] = %v\n endloop\n endif", 2),
        ("%j = loop < 3 : i64\n if %p\n store %o[%s] = %v\n endif\n endloop", 1),
        ("if %p\n store %o[%s] = %v\n endif\n if %q\n store %o[%s] = %v\n endif", 1),
    ],
)
def test_values_move_as_far_in_as_branches_alone_lead(inside, depth):
    kernel = parse_kernel(f"""
        kernel k
        %o = global f32[64]
        %n = const 2 : i64
        %v = const 1.0 : f32
        %i = loop < 4 : i64
            %p = lt %i, %n : bool
            %q = le %i, %n : bool
            %s = mul %i, %n : i64
            {inside}
        endloop
    """)
    result = check_pass(sink_into_branches, kernel)
    assert depth_of(result, "mul") == depth
    assert (result is kernel) == (depth == 1)
