"""Matrix products by NumPy's own OpenBLAS, as candidates beside generated kernels.

NumPy's wheels bring the library along, so it is loaded already and its threads exist. It keeps them: they spin for a
while after a product, and it decides how many there are. A program is a small function, compiled like a kernel, that
calls the library for each product of a batch; so a captured sequence with products in it is still one native call.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from zyx import dtype as dtypes
from zyx.backend.library import Gemm, LibraryKernel
from zyx.errors import UnsupportedError
from zyx_backend_c.driver import call_text, find_symbols
from zyx_backend_c.program import CpuProgram, Parameter, Step
from zyx_backend_c.toolchain import SYMBOL
from zyx_backend_c.toolchain_llvm import LlvmToolchain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zyx.backend.library import Problem
    from zyx_backend_c.device import CpuDevice

#: Names of float32's and float64's product and of the function that tells the version, and the type of sizes.
_SPELLINGS: Final = (
    ("scipy_cblas_sgemm64_", "scipy_cblas_dgemm64_", "scipy_openblas_get_config64_", "i64"),
    ("cblas_sgemm64_", "cblas_dgemm64_", "openblas_get_config64_", "i64"),
    ("cblas_sgemm", "cblas_dgemm", "openblas_get_config", "i32"),
)
_TYPES: Final = {dtypes.float32: "float", dtypes.float64: "double"}

#: Flop a nanosecond, for estimates.
_FLOP_PER_NS: Final = 100.0

_TEXT: Final = """\
declare void @{function}(i32, i32, i32, {n}, {n}, {n}, {t}, ptr, {n}, ptr, {n}, {t}, ptr, {n})

define void @{symbol}(ptr %args, i64 %begin, i64 %end, ptr %scratch) nounwind {{
entry:
  %a = load ptr, ptr %args
  %b.p = getelementptr ptr, ptr %args, i64 1
  %b = load ptr, ptr %b.p
  %c.p = getelementptr ptr, ptr %args, i64 2
  %c = load ptr, ptr %c.p
  br label %product
product:
  %g = phi i64 [ %begin, %entry ], [ %next, %product ]
  %a.i = mul i64 %g, {a_step}
  %a.g = getelementptr {t}, ptr %a, i64 %a.i
  %b.i = mul i64 %g, {b_step}
  %b.g = getelementptr {t}, ptr %b, i64 %b.i
  %c.i = mul i64 %g, {c_step}
  %c.g = getelementptr {t}, ptr %c, i64 %c.i
  ; row-major; then how a and b are stored, extents, alpha, a with its row length, b, beta, c
  call void @{function}(i32 101, i32 {a_order}, i32 {b_order}, {n} {rows}, {n} {columns}, {n} {depth},
                        {t} 1.0, ptr %a.g, {n} {a_row}, ptr %b.g, {n} {b_row}, {t} 0.0, ptr %c.g, {n} {columns})
  %next = add i64 %g, 1
  %more = icmp ult i64 %next, %end
  br i1 %more, label %product, label %done
done:
  ret void
}}
"""
_AS_IS: Final = 111
_TRANSPOSED: Final = 112


def library_kernels(device: CpuDevice, folders: Iterable[Path] | None = None) -> Sequence[LibraryKernel]:
    """Return the products that the library offers; nothing if it is not found, or if `device` does not use LLVM."""
    toolchain = device.toolchain
    if not isinstance(toolchain, LlvmToolchain):
        return ()
    for path in _libraries(_folders() if folders is None else folders):
        for single, double, config, integer in _SPELLINGS:
            found = find_symbols((single, double, config), path)
            if single in found and double in found:
                version = call_text(found[config]).split(" ")[:2] if config in found else ["OpenBLAS"]
                functions = {dtypes.float32: (single, found[single]), dtypes.float64: (double, found[double])}
                return [LibraryKernel(" ".join(version), Gemm, partial(_program, toolchain, functions, integer))]
    return ()


def _folders() -> list[Path]:
    """Return where wheels of NumPy keep the libraries they bring: Linux and Windows, macOS."""
    package = Path(np.__file__).parent
    return [package.parent / "numpy.libs", package / ".dylibs"]


def _libraries(folders: Iterable[Path]) -> list[Path]:
    return sorted(path for folder in folders if folder.is_dir() for path in folder.iterdir() if "openblas" in path.name)


def _program(
    toolchain: LlvmToolchain, functions: dict[dtypes.DType, tuple[str, int]], integer: str, problem: Problem
) -> CpuProgram:
    """Return the program of one product.

    Raises:
        UnsupportedError: It is none, or not one of float32 or float64 alone.
    """
    if not isinstance(problem, Gemm):
        raise UnsupportedError(f"BLAS has no {problem}")
    if problem.dtype not in functions or problem.out_dtype is not problem.dtype:
        raise UnsupportedError(f"BLAS has no product of {problem.dtype} into {problem.out_dtype}")
    batch, m, n, k = problem.batch, problem.m, problem.n, problem.k
    if problem.shared_b and not problem.transpose_a:  # one tall product
        batch, m = 1, batch * m
    name, address = functions[problem.dtype]
    text = _TEXT.format(
        function=name,
        symbol=SYMBOL,
        n=integer,
        t=_TYPES[problem.dtype],
        a_step=m * k,
        b_step=0 if problem.shared_b else k * n,
        c_step=m * n,
        a_order=_TRANSPOSED if problem.transpose_a else _AS_IS,
        b_order=_TRANSPOSED if problem.transpose_b else _AS_IS,
        rows=m,
        columns=n,
        depth=k,
        a_row=m if problem.transpose_a else k,
        b_row=k if problem.transpose_b else n,
    )
    what = f"{name}_{batch}x{m}x{n}x{k}"
    code = toolchain.load(what, text, (SYMBOL,), {name: address})
    cost_ns = int(2 * batch * m * n * k / _FLOP_PER_NS)
    step = Step(code, code.addresses[SYMBOL], (0, 0, 0), batch, batch, cost_ns)  # the library has its own threads
    sizes = (batch * m * k, k * n * (1 if problem.shared_b else batch), batch * m * n)
    item = problem.dtype.itemsize
    parameters = [Parameter(((0, i),), size * item, is_needed=i < 2, is_written=i == 2) for i, size in enumerate(sizes)]
    return CpuProgram(what, text, [step], parameters)
