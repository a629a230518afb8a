"""Kernels are written in Slang, by what it has otherwise than C alone."""

from __future__ import annotations

from zyx.kernel.parse import parse_kernel
from zyx.render import c_family, slang

kernel = parse_kernel("""
    kernel scaled
    %o = global f32[8]
    %x = global f32[8] readonly
    %i = group 0 < 8 : i32
    %v = load %x[%i] : f32
    %c = const 2.5 : f32
    %r = mad %v, %c, %c : f32
    store %o[%i] = %r
""")
text = c_family.render(kernel, slang.SLANG, "scaled")
assert "void scaled(uniform float* p0, uniform float* p1, uint3 g : SV_GroupID) {" in text, text
assert "g.x" in text
assert "fma(" in text
assert "2.5f" in text
