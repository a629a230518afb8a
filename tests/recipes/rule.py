"""``x and (x or z)`` is x: the sum, and all that only it needs, goes away."""

from __future__ import annotations

from zyx.kernel.parse import parse_kernel
from zyx.passes.eliminate_dead_code import eliminate_dead_code
from zyx.passes.simplify_algebra import simplify_algebra

kernel = parse_kernel("""
    kernel absorbed
    %o = global bool[8]
    %a = global bool[8] readonly
    %b = global bool[8] readonly
    %i = group 0 < 8 : i64
    %x = load %a[%i] : bool
    %z = load %b[%i] : bool
    %s = or %x, %z : bool
    %r = and %x, %s : bool
    store %o[%i] = %r
""")
simple = str(eliminate_dead_code(simplify_algebra(kernel)))
assert " or " in str(kernel)
assert " or " not in simple, simple
assert " and " not in simple, simple
