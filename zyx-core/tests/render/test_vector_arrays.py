"""Arrays are made of vectors where these are accessed, and never written in part."""

from __future__ import annotations

import pytest

from zyx.kernel.parse import parse_kernel
from zyx.render.divisors import divisors
from zyx.render.vector_arrays import is_whole, vector_arrays

WHOLE_LOAD = "%v = load %x[%m] : f32x4"
ANY_LOAD = "%v = load %x[%i] : f32x4"
SCALAR_LOAD = "%v = load %x[%i] : f32"
WHOLE_STORE = "%c = const 1.0 : f32x4\nstore %x[%m] = %c"
PART_STORE = "%d = const 1.0 : f32\nstore %x[%i] = %d"
ANY_STORE = "%e = const 1.0 : f32x4\nstore %x[%i] = %e"
ATOMIC = "%f = const 1.0 : f32\natomic sum %x[%i] = %f"


def found(*statements, array="global f32[64]"):
    body = "\n".join(statements)
    kernel = parse_kernel(f"""
        kernel k
        %o = global f32[64]
        %x = {array}
        %i = group 0 < 8 : i32
        %s = const 4 : i32
        %m = mul %i, %s : i32
        {body}
        %one = const 1.0 : f32
        store %o[%i] = %one
    """)
    return vector_arrays(kernel, divisors(kernel)) == {1}


@pytest.mark.parametrize("array", ["global f32[64]", "local f32[64]"])
def test_whole_vectors_make_an_array_of_vectors_of_which_numbers_are_read_too(array):
    assert found(WHOLE_LOAD, array=array)
    assert found(WHOLE_LOAD, SCALAR_LOAD.replace("%v", "%w"), array=array)
    assert found(WHOLE_STORE, array=array)


@pytest.mark.parametrize("other", [PART_STORE, ANY_STORE, ATOMIC])
def test_what_is_written_in_part_is_no_array_of_vectors(other):
    assert not found(WHOLE_LOAD, other)
    assert not found(WHOLE_STORE, other)


def test_without_whole_vectors_an_array_stays_one_of_numbers():
    assert not found(ANY_LOAD)
    assert not found(SCALAR_LOAD)
    assert not found(WHOLE_LOAD, array="global f32[62]")


def test_other_types_than_of_32_bits_stay_numbers():
    assert not found(WHOLE_LOAD.replace("f32", "i64"), array="global i64[64]")
    assert found(WHOLE_LOAD.replace("f32", "u32"), array="global u32[64]")


def test_vectors_are_four_numbers_from_a_multiple_of_four_on():
    assert is_whole(4, 4)
    assert is_whole(8, 16)
    assert not is_whole(4, 2)
    assert not is_whole(2, 4)
