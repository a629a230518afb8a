"""What a toolchain is: the way from a kernel to machine code. There are two, LLVM and a C compiler."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from zyx.kernel.data import Kernel
    from zyx_backend_c.driver import Code
    from zyx_backend_c.program import Rendered

#: Name of the function in the machine code of a kernel: void (args, begin, end, scratch).
SYMBOL: Final = "zyx_kernel"


class Toolchain(Protocol):
    """Renders and compiles kernels. Methods may be called from any thread.

    Attributes:
        version: Everything that decides which code comes out, processor included.
        can_stream: Whether streaming stores are compiled as such.
        has_byte_products: Whether sums of pairs of products of bytes are one instruction.
    """

    version: str
    can_stream: bool
    has_byte_products: bool

    def render(self, kernel: Kernel) -> Rendered:
        """Return the source text of a kernel; raises `UnsupportedError`."""

    def build(self, name: str, text: str) -> Code:
        """Return the machine code of a source text, with the function `SYMBOL`; raises `CompileError`."""

    def assembly(self, text: str) -> str:
        """Return the assembly of a source text, for people."""


def cache_key(version: str, text: str) -> str:
    """Return the key under which the code of a text is kept."""
    return hashlib.sha256(f"{version}\0{text}".encode()).hexdigest()
