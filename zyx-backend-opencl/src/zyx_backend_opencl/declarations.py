"""Declarations of the functions of OpenCL C that a kernel calls, for compilers that read all there are every time.

PoCL includes clang's ``opencl-c.h`` in every program, as text, and its 900 kB are most of what a small kernel takes to
build. The header leaves itself out where its guard is defined, as `WITHOUT_HEADER` does; types and macros are in
another one, which is short, and stays. Then a program has to declare what it calls. The text here is what the header
says (clang 14 to 16; OpenCL C 1.2, sections 6.12.1, 2, 3, 8 and 11), attributes included, so the same code comes out.
"""

from __future__ import annotations

import re
from typing import Final

from zyx_backend_opencl.render import ATOMICS, FUNCTIONS

#: The option of a compiler that keeps the header out.
WITHOUT_HEADER: Final = "-D_OPENCL_H_"

#: Names of platforms whose compiler reads the header as text. Oclgrind's and Intel's read one that is compiled already.
_READS_HEADER: Final = frozenset({"Portable Computing Language"})

_OVERLOAD: Final = "__attribute__((overloadable))"
_VALUE: Final = "__attribute__((overloadable, const))"
_TOGETHER: Final = "__attribute__((overloadable, convergent))"

#: Types of reals, with the extension that brings them.
_REALS: Final = {"float": "", "half": "cl_khr_fp16", "double": "cl_khr_fp64"}
#: Functions of reals, with how many they take.
_OPERANDS: Final = {**dict.fromkeys(FUNCTIONS.values(), 1), "fmod": 2, "fma": 3}
#: Functions that change memory, with how many values they take, and by their prefix what the memory holds.
_ATOMICS: Final = {**dict.fromkeys(ATOMICS.values(), 1), "cmpxchg": 2}
_ATOMIC_TYPES: Final = {"atomic_": ("int", "uint"), "atom_": ("long", "ulong")}
_FIXED: Final = {
    "get_group_id": f"size_t {_VALUE} get_group_id(uint);",
    "get_local_id": f"size_t {_VALUE} get_local_id(uint);",
    "barrier": f"void {_TOGETHER} barrier(cl_mem_fence_flags);",
    "upsample": f"ulong {_VALUE} upsample(uint, uint);",
}


def reads_header(platform: str) -> bool:
    """Whether the compiler of a platform of this name reads all declarations of the language with every program."""
    return platform in _READS_HEADER


def declared(source: str) -> str:
    """Return `source` behind declarations of what it calls, for a compiler with the option `WITHOUT_HEADER`."""
    named = set(re.findall(r"\b([A-Za-z_]\w*?)\d*\b", source))  # without lanes
    reals = [real for real in _REALS if real in named]
    lines = [f"#pragma OPENCL EXTENSION {_REALS[real]} : enable" for real in reals if _REALS[real]]
    lines += [text for name, text in _FIXED.items() if name in named]
    lines += [
        f"{real} {_VALUE} {name}({', '.join([real] * count)});"
        for name, count in _OPERANDS.items()
        if name in named
        for real in reals
    ]
    lines += [
        f"{integer} {_OVERLOAD} {prefix}{name}(volatile {space} {integer} *{f', {integer}' * count});"
        for prefix, integers in _ATOMIC_TYPES.items()
        for name, count in _ATOMICS.items()
        if prefix + name in named
        for integer in integers
        for space in ("__global", "__local")
    ]
    if "sub_group_shuffle_xor" in named:
        words = ("int", "uint", "long", "ulong", *reals)
        lines += [f"{word} {_TOGETHER} sub_group_shuffle_xor({word}, uint);" for word in words]
    return "\n".join([*lines, source])
