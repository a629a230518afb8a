"""Kernels compile and link to code objects for AMD's processors, without one of them."""

from __future__ import annotations

import itertools
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import amd_toolchains
import pytest
from fake_hip import run_kit

from zyx import dtype as dtypes
from zyx.backend import DeviceInfo
from zyx.errors import UnsupportedError
from zyx.ir import kernel as k
from zyx.ir.builder import Builder
from zyx.ops import UnaryOp
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.testing.kernels import random_kernel
from zyx_backend_hip.info import capabilities
from zyx_backend_hip.render import render

if TYPE_CHECKING:
    from fake_hip import Fake

CLANGS = amd_toolchains.clangs()
#: Threads of a wave, by architecture.
WAVES = {"gfx90a": 64, "gfx942": 64, "gfx1100": 32, "gfx1201": 32}


def info(arch: str) -> DeviceInfo:
    """Return the record of a device of an architecture."""
    return DeviceInfo(
        arch, "none", capabilities(), max_group_threads=1024, max_group_shape=(1024, 1024, 1024), local_bytes=65536,
        warp_size=WAVES[arch], vector_bytes=16,
    )  # fmt: skip


def write_sources(folder: Path, count: int) -> list[Path]:
    """Write random kernels of all dtypes, made ready for a device, and return their paths."""
    passes, paths = standard_passes(info("gfx90a")), []
    for seed in itertools.count():
        try:
            source = render(run_passes(random_kernel(seed), passes))
        except UnsupportedError as error:
            assert "no atomic" in str(error)  # of 8 and 16 bits, which devices do not claim
            continue
        paths.append(folder / f"random_{seed}.hip")
        paths[-1].write_text(source)
        if len(paths) == count:
            break
    return paths


def compile_all(clang: amd_toolchains.Clang, sources: list[Path], folder: Path) -> int:
    """Compile sources for each architecture, check the code objects, and return how many there are."""
    jobs = [(source, arch) for source in sources for arch in amd_toolchains.ARCHITECTURES]

    def one(job: tuple[Path, str]) -> str:
        source, arch = job
        target = folder / f"{source.stem}-{arch}.hsaco"
        said = amd_toolchains.compile_for(clang, arch, source, target, ("-O1", "-ffp-contract=off"))
        if said:
            return f"{source.name} for {arch}: {said}"
        code = target.read_bytes()
        target.unlink()
        wave = code.partition(b".wavefront_size")[2][:1]
        if code[:4] != b"\x7fELF" or code[16] != 3 or b"zyx_kernel" not in code or wave != bytes([WAVES[arch]]):
            return f"{source.name} for {arch}: no code object with a kernel for waves of {WAVES[arch]}, but {wave!r}"
        return ""

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        failures = [text for text in pool.map(one, jobs) if text]
    assert not failures, f"{len(failures)} of {len(jobs)}: {failures[0]}"
    return len(jobs)


@pytest.mark.parametrize("clang", CLANGS or [None], ids=lambda clang: Path(clang.command[0]).name if clang else "none")
def test_a_sample_of_kernels_compiles_for_every_architecture(clang: amd_toolchains.Clang | None, tmp_path: Path):
    if clang is None:
        pytest.skip(amd_toolchains.without_clang())
    sources = write_sources(tmp_path, 6)
    print(f"{compile_all(clang, sources, tmp_path)} code objects of {len(sources)} kernels")


def test_a_source_that_is_wrong_does_not_compile(tmp_path: Path):
    if not CLANGS:
        pytest.skip(amd_toolchains.without_clang())
    (source,) = write_sources(tmp_path, 1)
    source.write_text(source.read_text().replace("__builtin_amdgcn_workgroup_id", "__builtin_amdgcn_no_such_id") + "x")
    with pytest.raises(AssertionError, match="4 of 4"):
        compile_all(CLANGS[0], [source], tmp_path)


def test_a_source_includes_nothing_and_says_how_many_threads_a_group_has(tmp_path: Path):
    for path in write_sources(tmp_path, 20):
        source = path.read_text()
        assert "#include" not in source
        assert re.search(r"amdgpu_flat_work_group_size\((\d+), \1\)", source)


def test_a_kernel_that_needs_what_no_device_has_is_refused():
    b = Builder()
    x, at = b.define(k.Memory.GLOBAL, dtypes.bfloat16, 8), b.const(0, dtypes.int64)
    b.store(x, at, b.unary(UnaryOp.SQRT, b.load(x, at)))
    with pytest.raises(UnsupportedError, match="no native form of sqrt"):
        render(b.finish("root"))


@pytest.mark.slow
def test_every_kernel_of_the_kit_compiles_for_every_architecture(fake: Fake, tmp_path: Path):
    """Run the kit on both devices of the fake libraries, which keep the sources; compile them all."""
    if not CLANGS:
        pytest.skip(amd_toolchains.without_clang())
    for device in ("hip:0", "hip:1"):
        run_kit(fake, device)
    sources = [path for path in fake.folder.glob("*.hip") if re.fullmatch("[0-9a-f]{16}", path.stem)]
    assert len(sources) > 1000
    print(f"{compile_all(CLANGS[0], sources, tmp_path)} code objects of {len(sources)} kernels")
