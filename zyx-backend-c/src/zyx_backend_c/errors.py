"""Errors of this backend. All are of `zyx.errors`; what its drivers raise is translated where they are called.

llvmlite's RuntimeError at start                  InitializationError     zyx_backend_c.driver
llvmlite's RuntimeError in parsing and linking    CompileError            zyx_backend_c.driver
OSError of a shared library                       CompileError            zyx_backend_c.driver
a C compiler that is not there                    DriverNotFoundError     zyx_backend_c.toolchain_cc
a C compiler that fails                           CompileError            zyx_backend_c.toolchain_cc
OSError of scratch memory                         AllocationError         zyx_backend_c.workers
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.errors import CompileError

if TYPE_CHECKING:
    from pathlib import Path


def compiler_failed(kernel: str, command: str, status: int, log: str, source: Path) -> CompileError:
    """Return the error of a compiler that refused a kernel whose source was kept."""
    return CompileError(f"kernel {kernel}: {command} failed with status {status}; the source is in {source}\n{log}")
