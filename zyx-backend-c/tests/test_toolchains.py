"""Compilers: what they are, what they cache, how they fail."""

import os
import shutil
import stat
from pathlib import Path

import pytest

from zyx import dtype as dtypes
from zyx.builtin.host import HostPool
from zyx.drivers.cache import MemoryCache
from zyx.drivers.disk_cache import DiskCache
from zyx.errors import CompileError, DriverNotFoundError, InitializationError
from zyx.kernel.build import Builder
from zyx.kernel.data import Kernel, Memory
from zyx.ops import BinaryOp
from zyx_backend_c.driver import Compiler, host_target, load_shared_library
from zyx_backend_c.start import make_device, make_workers
from zyx_backend_c.target import Target
from zyx_backend_c.toolchain import SYMBOL
from zyx_backend_c.toolchain_cc import CcToolchain, find_compiler
from zyx_backend_c.toolchain_llvm import LlvmToolchain
from zyx_backend_c.workers import Sharing

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")


class CountingCache(MemoryCache):
    """Counts what it gives."""

    hits = 0

    def get(self, key: str) -> bytes | None:
        found = super().get(key)
        self.hits += found is not None
        return found


def small_kernel(name: str = "small") -> Kernel:
    b = Builder()
    y = b.define(Memory.GLOBAL, dtypes.float32, 1)
    zero = b.const(0, dtypes.int64)
    b.store(y, zero, b.binary(BinaryOp.ADD, b.load(y, zero), b.const(1.5, dtypes.float32)))
    return b.finish(name)


def fake_compiler(folder: Path, script: str) -> str:
    path = folder / "fakecc"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.parametrize("kind", ["llvm", pytest.param("cc", marks=needs_compiler)])
def test_machine_code_is_compiled_once_and_then_taken_from_the_cache(kind: str) -> None:
    cache = CountingCache()

    def make() -> CcToolchain | LlvmToolchain:
        return LlvmToolchain(Compiler(), cache) if kind == "llvm" else CcToolchain("", host_target(), cache)

    first, second = make(), make()
    text = first.render(small_kernel()).text
    assert first.build("small", text).addresses[SYMBOL]
    assert cache.hits == 0
    assert second.build("small", second.render(small_kernel("other name")).text).addresses[SYMBOL]
    assert cache.hits == 1
    first.build("other", text.replace("1.5", "2.5"))
    assert cache.hits == 1


def test_code_for_another_processor_or_version_is_not_taken() -> None:
    host = LlvmToolchain(Compiler(), MemoryCache())
    if not host.compiler.target.is_x86:
        pytest.skip("the other processor is an x86")
    other = LlvmToolchain(Compiler(Target(host.compiler.target.triple, "x86-64", frozenset())), MemoryCache())
    assert host.version != other.version


def test_damaged_code_in_the_cache_is_compiled_again(tmp_path: Path) -> None:
    toolchain = LlvmToolchain(Compiler(), DiskCache(tmp_path, "c", executable=True))
    text = toolchain.render(small_kernel()).text
    toolchain.build("small", text)
    image = bytearray((tmp_path / "c-1.sqlite").read_bytes())
    place = image.rindex(b"ELF") if b"ELF" in image else len(image) // 2
    image[place + 40] ^= 1
    (tmp_path / "c-1.sqlite").write_bytes(bytes(image))
    fresh = LlvmToolchain(Compiler(), DiskCache(tmp_path, "c", executable=True))
    assert fresh.build("small", text).addresses[SYMBOL]


def test_an_object_that_calls_an_unknown_function_is_a_compile_error() -> None:
    compiler = Compiler()
    text = f"declare void @nobody()\ndefine void @{SYMBOL}() {{\n  call void @nobody()\n  ret void\n}}\n"
    with pytest.raises(CompileError, match="could not link zyx_kernel"):
        compiler.link(compiler.compile(text), (SYMBOL,), {})


def test_a_target_that_llvm_does_not_know_is_an_initialization_error() -> None:
    with pytest.raises(InitializationError, match="LLVM does not start"):
        Compiler(Target("nonsense-unknown-unknown", "generic", frozenset()))


def test_the_compiler_named_in_the_configuration_comes_first_then_cc_then_the_usual_ones(tmp_path: Path) -> None:
    for name in ("mine", "theirs", "clang", "cc"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o700)
    path = {"PATH": str(tmp_path)}
    assert find_compiler("mine -m64", {**path, "CC": "theirs"}) == ("mine", "-m64")
    assert find_compiler("", {**path, "CC": "theirs"}) == ("theirs",)
    assert find_compiler("", path) == ("clang",)


def test_without_a_compiler_the_error_says_what_was_looked_for(tmp_path: Path) -> None:
    empty = {"PATH": str(tmp_path)}
    with pytest.raises(DriverNotFoundError, match=r"looked for gcc, clang, cc on PATH\. .* llvm, which needs none"):
        find_compiler("", empty)
    with pytest.raises(DriverNotFoundError, match=r"no C compiler 'tcc', which backends\.c\.compiler asks for"):
        find_compiler("tcc", empty)
    with pytest.raises(DriverNotFoundError, match=r"no C compiler 'icc', which CC asks for"):
        find_compiler("", {**empty, "CC": "icc -fast"})


@pytest.mark.skipif(os.name != "posix", reason="the fake compilers are shell scripts")
def test_a_compiler_that_fails_leaves_its_log_and_the_source(tmp_path: Path) -> None:
    script = 'case "$1" in --version) echo fake 1.0;; *) echo "it is raining" >&2; exit 3;; esac'
    toolchain = CcToolchain(fake_compiler(tmp_path, script), host_target(), MemoryCache())
    assert "fake 1.0" in toolchain.version
    with pytest.raises(CompileError, match=r"(?s)kernel rain: .* failed with status 3; .*it is raining") as caught:
        toolchain.build("rain", "int x;")
    kept = Path(str(caught.value).partition("the source is in ")[2].splitlines()[0])
    assert kept.read_text() == "int x;"
    shutil.rmtree(kept.parent)


@pytest.mark.skipif(os.name != "posix", reason="the fake compilers are shell scripts")
def test_a_compiler_that_writes_nonsense_is_a_compile_error(tmp_path: Path) -> None:
    script = (
        'case "$1" in --version) echo fake;; *) while [ "$1" != -o ]; do shift; done; echo no library > "$2";; esac'
    )
    toolchain = CcToolchain(fake_compiler(tmp_path, script), host_target(), MemoryCache())
    with pytest.raises(CompileError, match="cannot be loaded"):
        toolchain.build("nonsense", "int x;")


@needs_compiler
def test_no_files_are_left_behind() -> None:
    toolchain = CcToolchain("", host_target(), MemoryCache())
    toolchain.build("small", toolchain.render(small_kernel()).text)
    folder = toolchain._folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert list(folder.iterdir()) == []
    toolchain._remove_folder()
    assert not folder.exists()


def test_a_library_without_the_function_is_a_compile_error(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="cannot be loaded"):
        load_shared_library(tmp_path / "missing.so", (SYMBOL,))


def test_a_device_can_be_built_from_parts() -> None:
    pool = HostPool(capacity_bytes=1 << 20)
    toolchain = LlvmToolchain(Compiler(), MemoryCache())
    device = make_device(0, pool, toolchain, toolchain, make_workers(toolchain, 1, Sharing()))
    program = device.compile(small_kernel())
    buffer, _ = pool.allocate(4)
    buffer.array[:] = 0
    device.launch(program, [buffer])
    assert buffer.array.view("f4").tolist() == [1.5]
    device.close()
