"""Powers of integers without `POW` are the same powers."""

from __future__ import annotations

import pytest

from zyx import dtype as dtypes
from zyx.backend.info import DeviceInfo, full_capability
from zyx.kernel import data as k
from zyx.kernel.data import Memory
from zyx.kernel.parse import parse_kernel
from zyx.ops import BinaryOp
from zyx.passes.decompose_integer_power import decompose_integer_power
from zyx.testing.passes import check_pass

HEAD = """
    kernel k
    %x = global i32[8] readonly
    %o = global i32[8]
    %i = group 0 < 8 : i32
    %a = load %x[%i] : i32
"""


def decomposed(lines: str) -> k.Kernel:
    return check_pass(decompose_integer_power, parse_kernel(HEAD + lines + "\nstore %o[%i] = %r"))


@pytest.mark.parametrize("exponent", [0, 1, 2, 5, 31, -1, -2, -3])
def test_a_literal_exponent_needs_no_loop(exponent):
    result = decomposed(f"%n = const {exponent} : i32\n%r = pow %a, %n : i32")
    assert not any(isinstance(op, k.Loop) for op in result.ops)


def test_five_is_three_products():
    result = decomposed("%n = const 5 : i32\n%r = pow %a, %n : i32")
    assert sum(isinstance(op, k.Binary) for op in result.ops) == 3


def test_a_power_of_two_is_a_shift():
    result = decomposed("%n = const 2 : i32\n%r = pow %n, %a : i32")
    assert [op.op for op in result.ops if isinstance(op, k.Binary)] == [BinaryOp.SHL]


def test_the_loop_is_as_long_as_the_exponent_has_bits():
    result = decomposed("%r = pow %a, %i : i32")
    assert [op.size for op in result.ops if isinstance(op, k.Loop)] == [3]


def test_loops_share_their_registers():
    result = decomposed("%s = pow %a, %a : i32\n%r = pow %s, %a : i32")
    assert sum(isinstance(op, k.Define) and op.memory is Memory.REGISTER for op in result.ops) == 3
    assert sum(isinstance(op, k.Loop) for op in result.ops) == 2


def test_what_the_device_computes_itself_stays():
    info = DeviceInfo("test", "1", {dtype: full_capability(dtype) for dtype in dtypes.ALL})
    kernel = parse_kernel(HEAD + "%r = pow %a, %a : i32\nstore %o[%i] = %r")
    assert decompose_integer_power(kernel, info) is kernel
    info = DeviceInfo("test", "1", {dtype: full_capability(dtype, transcendental=False) for dtype in dtypes.ALL})
    assert decompose_integer_power(kernel, info) is not kernel
