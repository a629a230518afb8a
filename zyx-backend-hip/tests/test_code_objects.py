"""Kernels compile and link to code objects for AMD's processors, without one of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import amd_toolchains
import pytest
from batches import OPTIONS, compile_batches, random_sources, translation_unit
from code_objects import MACHINES, read_code_object

from zyx import dtype as dtypes
from zyx.errors import UnsupportedError
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.ops import UnaryOp
from zyx_backend_hip.info import build_options
from zyx_backend_hip.render import render

if TYPE_CHECKING:
    from fake_hip import Runs


@pytest.fixture
def clang() -> amd_toolchains.Clang:
    """The first clang there is."""
    found = amd_toolchains.clangs()
    if not found:
        amd_toolchains.skip_or_fail(f"there is no clang with lld: {' or '.join(amd_toolchains.BRINGS_CLANG.values())}")
    return next(iter(found.values()))


@pytest.fixture(params=amd_toolchains.BRINGS_CLANG)
def each_clang(request: pytest.FixtureRequest, clang: amd_toolchains.Clang) -> amd_toolchains.Clang:
    """Each clang: that of the system, and that of the package ziglang."""
    del clang  # one of them there must be
    found = amd_toolchains.clangs().get(request.param)
    if found is None:
        pytest.skip(f"there is no clang with lld by {amd_toolchains.BRINGS_CLANG[request.param]}")
    return found


def test_a_sample_of_kernels_compiles_as_devices_compile_them(each_clang: amd_toolchains.Clang, tmp_path: Path):
    sources = random_sources(4)
    options = build_options("")[1:]
    assert "16 compiled kernels in 16 code objects" in compile_batches(each_clang, sources, tmp_path, options, batch=1)


@pytest.mark.parametrize("arch", ["gfx90a:sramecc+:xnack-", "gfx942:sramecc+:xnack+"])
def test_a_kernel_compiles_for_an_architecture_as_drivers_name_it(
    arch: str, clang: amd_toolchains.Clang, tmp_path: Path
):
    (tmp_path / "kernel.hip").write_text(random_sources(1)["random_0"])
    target = tmp_path / "kernel.hsaco"
    _, *options = build_options(arch)
    assert amd_toolchains.compile_for(clang, arch, tmp_path / "kernel.hip", target, options) == ""
    code = read_code_object(target.read_bytes())
    assert code.machine == MACHINES[arch.partition(":")[0]]
    assert code.kernels == {"zyx_kernel": 64}


def test_many_kernels_compile_at_once(
    each_clang: amd_toolchains.Clang, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    counts = compile_batches(each_clang, random_sources(60), tmp_path, OPTIONS, batch=30)
    assert "240 compiled kernels in 8 code objects" in counts
    with capsys.disabled():
        print(f"\nrandom kernels, {Path(each_clang.command[0]).name}: {counts}")


def test_a_source_that_is_wrong_does_not_compile(clang: amd_toolchains.Clang, tmp_path: Path):
    sources = random_sources(2)
    sources["random_0"] = sources["random_0"].replace("__builtin_amdgcn_workgroup_id", "__builtin_amdgcn_no_such_id")
    sources["random_0"] += "x"
    with pytest.raises(AssertionError, match="4 failures"):
        compile_batches(clang, sources, tmp_path, OPTIONS)


def test_a_source_that_calls_what_is_nowhere_does_not_link(clang: amd_toolchains.Clang, tmp_path: Path):
    name, source = next(iter(random_sources(1).items()))
    source = re.sub(r"(zyx_kernel\(.*\n)", r"\1    extern __device__ void zyx_nowhere();\n    zyx_nowhere();\n", source)
    with pytest.raises(AssertionError, match="zyx_nowhere"):
        compile_batches(clang, {name: source}, tmp_path, OPTIONS)


def test_a_kernel_that_is_not_in_its_code_object_is_missed(
    clang: amd_toolchains.Clang, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    sources = random_sources(3)

    def without_one(own: dict[str, str]) -> str:
        return translation_unit(dict([*own.items()][1:]))

    monkeypatch.setattr("batches.translation_unit", without_one)
    with pytest.raises(AssertionError, match="4 failures; random_0 for gfx90a is not there"):
        compile_batches(clang, sources, tmp_path, OPTIONS)


def test_waves_of_another_length_are_noticed(clang: amd_toolchains.Clang, tmp_path: Path):
    with pytest.raises(AssertionError, match=r"2 failures; random_0 for gfx1100 runs in waves of 64 threads"):
        # gfx9 has no other waves, and ignores it.
        compile_batches(clang, random_sources(1), tmp_path, (*OPTIONS, "-Wno-error", "-mwavefrontsize64", "-w"))


@pytest.mark.parametrize("code", [b"", b"\x7fELF", Path("/bin/sh").read_bytes()], ids=["empty", "short", "program"])
def test_what_is_no_code_object_is_told(code: bytes):
    with pytest.raises(ValueError, match="it is no"):
        read_code_object(code)


def test_a_source_includes_nothing_and_says_how_many_threads_a_group_has():
    for source in random_sources(20).values():
        assert "#include" not in source
        assert re.search(r"amdgpu_flat_work_group_size\((\d+), \1\)", source)


def test_a_kernel_that_needs_what_no_device_has_is_refused():
    b = Builder()
    x, at = b.define(k.Memory.GLOBAL, dtypes.bfloat16, 8), b.const(0, dtypes.int64)
    b.store(x, at, b.unary(UnaryOp.SQRT, b.load(x, at)))
    with pytest.raises(UnsupportedError, match="no native form of sqrt"):
        render(b.finish("root"))


def test_a_half_becomes_an_integer_by_way_of_float32_which_holds_the_bounds():
    b = Builder()
    x, out = (b.define(k.Memory.GLOBAL, dtype, 8) for dtype in (dtypes.float16, dtypes.int64))
    zero = b.const(0, dtypes.int64)
    b.store(out, zero, b.cast(b.load(x, zero), dtypes.int64))
    assert "((float)v3) >= -0x1.0000000000000p+63f ? (long long)((float)v3)" in render(b.finish("convert"))


@pytest.mark.slow
def test_every_kernel_of_the_test_suite_compiles_for_an_architecture_of_each_length_of_waves(
    runs: Runs, clang: amd_toolchains.Clang, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """The kernels are those that were compiled on the fake libraries, for a device of each length of waves."""
    sources = {f"kernel_{path.stem}": path.read_text() for path in runs.sources}
    assert len(sources) > 1000
    counts = compile_batches(clang, sources, tmp_path, OPTIONS, in_turns=True)
    with capsys.disabled():
        print(f"\nthe test suite's kernels, {Path(clang.command[0]).name}: {counts}")
