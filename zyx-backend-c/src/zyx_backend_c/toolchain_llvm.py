"""The default toolchain: LLVM IR text, compiled in this process by llvmlite."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from zyx.errors import CompileError
from zyx_backend_c.driver import Code, Compiler, find_symbols
from zyx_backend_c.render_llvm import LlvmRenderer
from zyx_backend_c.toolchain import SYMBOL, cache_key

if TYPE_CHECKING:
    from zyx.drivers.cache import ProgramCache
    from zyx.kernel.data import Kernel
    from zyx_backend_c.program import Rendered


class LlvmToolchain:
    """Kernels through LLVM.

    Attributes:
        version: Of LLVM, with the processor and its features.
        can_stream: Whether streaming stores are compiled as such.
        has_byte_products: Whether sums of pairs of products of bytes are one instruction.
        imports: Functions of the C library that kernels may call, by name.
    """

    def __init__(self, compiler: Compiler, cache: ProgramCache) -> None:
        self.compiler = compiler
        target = compiler.target
        self.version = f"{compiler.version}, {target.triple}, {target.cpu}, {','.join(sorted(target.features))}"
        self.can_stream = target.has_streaming
        self.has_byte_products = target.has_byte_products
        self.imports = find_symbols(("fmod", "fmodf"))
        self._cache = cache
        self._renderer = LlvmRenderer(target)
        self._lock = Lock()

    def render(self, kernel: Kernel) -> Rendered:
        """Return the LLVM IR of a kernel."""
        with self._lock:
            return self._renderer.render(kernel)

    def build(self, name: str, text: str) -> Code:
        """Return the machine code of LLVM IR, from the cache if it is there."""
        return self.load(name, text, (SYMBOL,), self.imports)

    def load(self, name: str, text: str, symbols: tuple[str, ...], imports: dict[str, int]) -> Code:
        """Return the functions `symbols` of LLVM IR that calls the functions `imports`.

        Raises:
            CompileError: LLVM refused the text; the message has the name, LLVM's complaint and the text.
        """
        key = cache_key(self.version, text)
        image = self._cache.get(key)
        if image is None:
            try:
                image = self.compiler.compile(text)
            except CompileError as error:
                raise CompileError(f"kernel {name}: {error}") from error
            self._cache.put(key, image)
        return self.compiler.link(image, symbols, imports)

    def assembly(self, text: str) -> str:
        """Return the assembly of LLVM IR."""
        return self.compiler.assembly(text)
