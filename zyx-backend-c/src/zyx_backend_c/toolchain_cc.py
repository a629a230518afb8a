"""The other toolchain: C, compiled by the system's compiler into shared libraries, for people who want to read it.

No flag that changes results is given: no fast-math. Signed integers wrap, and multiply-adds are fused only where a
kernel says so.
"""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import subprocess
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zyx.errors import CompileError, DriverNotFoundError
from zyx_backend_c.driver import Code, load_shared_library
from zyx_backend_c.errors import compiler_failed
from zyx_backend_c.render_c import CRenderer
from zyx_backend_c.toolchain import SYMBOL, cache_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.drivers.cache import ProgramCache
    from zyx.kernel.data import Kernel
    from zyx_backend_c.program import Rendered
    from zyx_backend_c.target import Target

#: Commands that are looked for, in this order.
COMPILERS: Final = ("gcc", "clang", "cc")

_FLAGS: Final = (
    "-std=gnu11", "-O2", "-fPIC", "-w", "-fwrapv", "-fno-strict-aliasing", "-fno-math-errno", "-fno-trapping-math",
    "-ffp-contract=off",
    # What can be vectors is vectors already, and gcc 12 crashes on casts to short integers when it looks for more.
    "-fno-tree-slp-vectorize",
)  # fmt: skip
_TIMEOUT_S: Final = 120.0


def find_compiler(command: str, environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the command of the C compiler: `command`, else the variable CC, else the first of `COMPILERS`.

    Raises:
        DriverNotFoundError: It is not there; the text has what was looked for.
    """
    for given, origin in ((command, "backends.c.compiler"), (environ.get("CC", ""), "CC")):
        words = tuple(shlex.split(given))
        if words:
            if shutil.which(words[0], path=environ.get("PATH")) is None:
                raise DriverNotFoundError(f"there is no C compiler {words[0]!r}, which {origin} asks for")
            return words
    for name in COMPILERS:
        if shutil.which(name, path=environ.get("PATH")) is not None:
            return (name,)
    raise DriverNotFoundError(
        f"no C compiler: looked for {', '.join(COMPILERS)} on PATH. Install one, or leave backends.c.toolchain at "
        "llvm, which needs none"
    )


class CcToolchain:
    """Kernels through C.

    Attributes:
        version: Of the compiler, with the processor and its features.
        can_stream: False: compilers have no common word for streaming stores.
        has_byte_products: False: they do not find them in products and sums.
    """

    can_stream = False
    has_byte_products = False

    def __init__(self, command: str, target: Target, cache: ProgramCache) -> None:
        self._command = find_compiler(command)
        self._flags = (*_FLAGS, *_machine_flags(target))
        self._cache = cache
        self._renderer = CRenderer(target)
        self._folder = Path(tempfile.mkdtemp(prefix="zyx-c-"))  # for this user alone
        self._remove_folder = weakref.finalize(self, _remove, self._folder, os.getpid())
        self._numbers = itertools.count()
        reply = self._run([*self._command, "--version"])
        name = reply.stdout.partition("\n")[0].strip() or "unknown compiler"
        processor = f"{target.cpu}, {','.join(sorted(target.features))}"
        self.version = f"{shlex.join(self._command)}, {name}, {shlex.join(self._flags)}, {processor}"

    def render(self, kernel: Kernel) -> Rendered:
        """Return the C of a kernel."""
        return self._renderer.render(kernel)

    def build(self, name: str, text: str) -> Code:
        """Return the machine code of C, from the cache if it is there."""
        key = cache_key(self.version, text)
        image = self._cache.get(key)
        if image is None:
            image = self._compile(name, text, "-shared", ".so")
            self._cache.put(key, image)
        library = self._file(".so")
        library.write_bytes(image)
        try:
            return load_shared_library(library, (SYMBOL,))
        finally:
            library.unlink(missing_ok=True)  # it stays mapped

    def assembly(self, text: str) -> str:
        """Return the assembly of C."""
        return self._compile("assembly", text, "-S", ".s").decode(errors="replace")

    def _compile(self, name: str, text: str, kind: str, suffix: str) -> bytes:
        source, result = self._file(".c"), self._file(suffix)
        source.write_text(text, encoding="utf-8")
        reply = self._run([*self._command, *self._flags, kind, str(source), "-o", str(result), "-lm"])
        if reply.returncode or not result.exists():
            kept = Path(tempfile.mkdtemp(prefix="zyx-c-failed-")) / "kernel.c"  # outlives the process, to be looked at
            shutil.move(source, kept)
            raise compiler_failed(name, shlex.join(self._command), reply.returncode, reply.stderr, kept)
        image = result.read_bytes()
        source.unlink()
        result.unlink()
        return image

    def _file(self, suffix: str) -> Path:
        return self._folder / f"k{next(self._numbers)}-{os.getpid()}{suffix}"

    def _run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CompileError(f"the C compiler cannot be run: {error}") from error


def _machine_flags(target: Target) -> tuple[str, ...]:
    if target.is_x86:
        return ("-march=native", f"-mprefer-vector-width={target.vector_bytes * 8}")
    return ("-mcpu=native",)


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # not the child of a fork
        shutil.rmtree(folder, ignore_errors=True)
