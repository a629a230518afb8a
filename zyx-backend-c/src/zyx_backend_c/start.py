"""Put the parts together: compiler, cache, workers, devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from zyx_backend_c.device import CpuDevice
from zyx_backend_c.driver import Builtins, Compiler, find_symbols
from zyx_backend_c.entry import SYMBOL as ENTRY
from zyx_backend_c.entry import entry_imports, entry_text
from zyx_backend_c.info import device_info
from zyx_backend_c.toolchain_llvm import LlvmToolchain
from zyx_backend_c.version import __version__
from zyx_backend_c.workers import COUNTERS, Sharing, WorkerPool, can_share, runtime_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import MemoryPool
    from zyx.drivers.cache import ProgramCache
    from zyx_backend_c.toolchain import Toolchain


def open_devices(
    toolchain: Literal["llvm", "cc", "both"],
    compiler: str,
    threads: int,
    cache: ProgramCache,
    pool: MemoryPool,
) -> Sequence[CpuDevice]:
    """Return the devices of this machine: ``c:0``, and ``c:1`` for both toolchains.

    Raises:
        InitializationError: LLVM does not start.
        DriverNotFoundError: The C compiler asked for is not there.
    """
    llvm = LlvmToolchain(Compiler(), cache)
    chains: list[Toolchain] = [llvm]
    if toolchain != "llvm":
        from zyx_backend_c.toolchain_cc import CcToolchain

        cc = CcToolchain(compiler, llvm.compiler.target, cache)
        chains = [cc] if toolchain == "cc" else [llvm, cc]
    workers = make_workers(llvm, threads, Sharing())
    return [make_device(number, pool, chain, llvm, workers) for number, chain in enumerate(chains)]


def make_workers(llvm: LlvmToolchain, threads: int, sharing: Sharing) -> WorkerPool:
    """Return a pool of `threads` threads, or of one where the system has no workers."""
    target = llvm.compiler.target
    can = can_share(target)
    symbols: tuple[str, ...] = ("zyx_run", "zyx_work", "zyx_stop")
    imports = find_symbols(("syscall",)) if can else {}
    text = runtime_text(target)
    from_python = entry_imports()
    if from_python:  # in one text, which takes half as long as two
        symbols, imports, text = (*symbols, ENTRY), imports | from_python, text + entry_text(COUNTERS)
    code = llvm.load("worker pool", text, symbols, imports)
    entries = Builtins("launch", code, ENTRY) if from_python else None
    return WorkerPool(code, threads if can else 1, sharing, entries)


def make_device(number: int, pool: MemoryPool, chain: Toolchain, llvm: LlvmToolchain, workers: WorkerPool) -> CpuDevice:
    """Return device ``c:<number>``."""
    info = device_info(
        llvm.compiler.target,
        workers.threads,
        f"zyx-backend-c {__version__}, {chain.version}",
        has_fmod=len(llvm.imports) == 2,
        can_stream=chain.can_stream,
        has_byte_products=chain.has_byte_products,
    )
    return CpuDevice(f"c:{number}", pool, info, chain, workers)
