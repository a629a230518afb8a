"""Arrays are made of vectors where threads access vectors of them, and write nothing else."""

from __future__ import annotations

import pytest

from zyx.kernel.parse import parse_kernel
from zyx_backend_wgpu.render import Language, render
from zyx_backend_wgpu.wgsl import held_types

LANGUAGE = Language(types=held_types(has_f16=False, has_f64=False, has_i64=True))
KERNEL = """
    kernel k
    %a = global {dtype}[{length}] readonly
    %o = global {dtype}[{length}]
    %t = thread 0 < 8 : i32
    %s = const {step} : i32
    %at = mul %t, %s : i32
    {body}
"""
WHOLE = "%x = load %a[%at] : {0}x4\nstore %o[%at] = %x"


def text_of(body=WHOLE, dtype="f32", length=32, step=4):
    kernel = parse_kernel(KERNEL.format(body=body.format(dtype), dtype=dtype, length=length, step=step))
    return render(kernel, LANGUAGE).text


@pytest.mark.parametrize(("dtype", "name"), [("f32", "f32"), ("i32", "i32"), ("u32", "u32")])
def test_numbers_of_a_word_are_loaded_and_stored_by_vectors(dtype, name):
    text = text_of(dtype=dtype)
    assert text.count(f"array<vec4<{name}>>") == 2
    assert text.count("/ 4u]") == 2


def test_one_number_of_a_vector_can_be_read():
    text = text_of("%x = load %a[%at] : {0}x4\nstore %o[%at] = %x\n%y = load %a[%t] : {0}\nstore %o[%at] = %x")
    assert "var<storage, read> p0: array<vec4<f32>>" in text
    assert "/ 4u][u32(" in text


OTHERS = {
    "a part that is written": ({"body": "%x = load %o[%at] : {0}x4\n%y = load %a[%t] : {0}\nstore %o[%t] = %y"}, "p1"),
    "a mask": ({"body": "%x = load %a[%at] : {0}x4\n%m = const true : boolx4\nstore %o[%at] = %x if %m"}, "p1"),
    "neighbours from anywhere": ({"step": 3}, "p0"),
    "a length that vectors do not fill": ({"length": 34}, "p0"),
    "numbers of two words": ({"dtype": "i64"}, "p0"),
    "numbers of a part of a word": ({"dtype": "u8"}, "p0"),
}


@pytest.mark.parametrize(("options", "array"), OTHERS.values(), ids=OTHERS.keys())
def test_others_stay(options, array):
    text = text_of(**options)
    (declaration,) = (line for line in text.splitlines() if f" {array}: array" in line)
    assert "vec4" not in declaration
