"""Cards, as far as a mock chip shows: it is opened, gets memory and programs, and runs nothing.

Programs go through the compiler of TT-Lang to C++ of TT-Metalium, and no further: no package compiles that.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import mock_chip
import numpy as np
import pytest

import zyx
from zyx.drivers.faults import Cause, Fault
from zyx.errors import AllocationError, CompileError, LaunchError
from zyx.runtime.runtime import use
from zyx.testing.opening import open_runtime
from zyx.testing.tile_programs import compute, operands

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zyx.runtime.runtime import Runtime

#: Loading torch, TT-NN and the compiler for the first time takes longer than backends are waited for by default.
CARDS = {"backends": {"tenstorrent": {"serve": "cards"}}, "devices": {"default": "tenstorrent", "timeout_s": 120.0}}
ONES = np.ones((64, 64), np.float32)

#: Programs of `zyx.testing.tile_programs` that the compiler takes.
TAKEN = ("chain", "row", "column", "vector", "part", "product", "layer", "transposed factor", "products")
#: Those that it refuses, by reasons.
_REASONS = {
    "the compiler stores what it reduces, and computes no further with it; programs combine it with what they have": (
        "sum of rows", "sum of columns", "sum of all", "greatest of rows", "least of columns", "mean of squares",
        "softmax of rows", "log of softmax", "layer norm", "RMS norm",
    ),
    "the compiler stores what it turns, and computes no further with it": ("transposition",),
    "the compiler spreads what lies in a buffer, and not what was filled": (
        "choice of a number", "clip", "gradient of relu", "padding", "side by side",
    ),
    "the compiler reads float32 from a buffer either for matrices or for elements, and not for both": ("triangle",),
}  # fmt: skip
REFUSED = {name: reason for reason, names in _REASONS.items() for name in names}

NO_CARDS = f"""
from zyx.errors import NoDeviceError
from zyx.testing.opening import open_runtime
try:
    open_runtime("tenstorrent", settings={CARDS})
except NoDeviceError as error:
    print(error)
"""


@pytest.fixture(scope="module", autouse=True)
def _installed() -> None:
    for package in ("tt-lang", "ttnn"):
        try:
            version(package)
        except PackageNotFoundError:
            pytest.skip(f"no package {package}: README.md says which environment has it")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the mock chip has its files."""
    return tmp_path_factory.mktemp("mock")


@pytest.fixture(scope="module")
def runtime(folder: Path) -> Iterator[Runtime]:
    """A runtime on the mock chip. What is set for it stays: TT-Metalium reads it once in a process."""
    os.environ.update(mock_chip.environment(folder))
    opened = open_runtime("tenstorrent", settings=CARDS)
    with use(opened):
        yield opened
    opened.close()


def test_without_a_card_there_is_no_device_and_nothing_is_printed():
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TT_METAL")}
    command = [sys.executable, "-c", NO_CARDS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    assert "no cards: TT-Metalium finds no card" in done.stdout
    assert "TT_FATAL" not in done.stdout + done.stderr


def test_the_device_says_what_it_is(runtime: Runtime):
    info = runtime.device().info
    assert info.model == "mock Blackhole"
    assert f"tt-lang {version('tt-lang')}" in info.driver
    assert info.max_groups == (14, 10)
    assert info.can_compute(zyx.float32)
    assert info.can_compute(zyx.bfloat16)
    assert not info.can_compute(zyx.float16)


@pytest.mark.parametrize("dtype", [zyx.float32, zyx.bfloat16], ids=str)
def test_memory_is_laid_out_in_tiles(dtype, runtime: Runtime):
    servant = runtime.device().pool.servant
    tensors = [servant.tensor(ONES.astype(dtype.numpy), dtype) for _ in range(2)]
    assert tensors[0].layout.name == "TILE"
    assert tensors[0].buffer_address() != tensors[1].buffer_address()
    assert servant.matrix(tensors[0], dtype).shape == ONES.shape


def test_a_tensor_that_does_not_fit_is_a_fault_of_memory(runtime: Runtime):
    servant = runtime.device().pool.servant
    rows = 1 << 17
    columns = servant.memory_bytes // rows // 4 // 32 * 32 + 32
    with pytest.raises(Fault, match="Out of Memory") as found:
        servant.build("", "nothing", [((rows, columns), zyx.float32)])
    assert found.value.cause is Cause.MEMORY
    assert "backtrace" not in str(found.value)


def test_dtypes_that_cards_lack_are_refused(runtime: Runtime):
    with pytest.raises(Fault, match="no tiles of float16"):
        runtime.device().pool.servant.tensor(ONES.astype(np.float16), zyx.float16)


def test_buffers_beyond_the_memory_of_the_chip_are_refused(runtime: Runtime):
    pool = runtime.device().pool
    with pytest.raises(AllocationError, match=str(pool.capacity_bytes)):
        pool.allocate(pool.capacity_bytes + 1)


def test_without_sfpi_the_error_says_what_is_missing_and_where_it_is(runtime: Runtime, monkeypatch):
    driver = sys.modules["zyx_backend_tenstorrent.driver_ttnn"]
    monkeypatch.setattr(driver, "sfpi_folders", list)
    with pytest.raises(CompileError, match=r"SFPI is missing.*Tenstorrent publishes it"):
        (zyx.Tensor(ONES) + zyx.Tensor(ONES)).numpy()


@pytest.mark.parametrize("name", [*TAKEN, *REFUSED])
def test_programs_are_compiled_to_cpp_and_not_run(name: str, runtime: Runtime, request: pytest.FixtureRequest):
    if name in REFUSED:
        request.applymarker(pytest.mark.xfail(strict=True, raises=CompileError, reason=REFUSED[name]))
    with pytest.raises(LaunchError, match="a mock chip runs nothing"):
        compute(name, operands(rows=150, columns=200)).numpy()


def test_a_text_that_the_compiler_refuses_is_an_error_with_its_place(runtime: Runtime, monkeypatch):
    servant = runtime.device().pool.servant
    build = servant.build
    monkeypatch.setattr(servant, "build", lambda text, *rest: build(text.replace("exp(", "expo("), *rest))
    with pytest.raises(CompileError, match=r"Unknown function: .*expo.*--> <op_"):
        zyx.exp(zyx.Tensor(ONES) + zyx.Tensor(ONES)).numpy()


@pytest.fixture
def compile_kernel(folder: Path, runtime: Runtime, tmp_path: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """A function that compiles C++ that moves data for a processor of the kind of the cores, with Zig's Clang.

    What it is compiled with are the headers of TT-Metalium, as for a kernel of the second core that moves data. What
    computes needs SFPI, whose own operations its headers use.
    """
    pytest.importorskip("ziglang", reason="no package ziglang, which has a compiler for RISC-V")
    ttnn = sys.modules["ttnn"]
    device = runtime.device().pool.servant._device
    spec = ttnn.TensorSpec((32, 32), ttnn.float32, ttnn.TILE_LAYOUT, ttnn.BufferType.DRAM)
    of_a_tensor = ttnn.TensorAccessorArgs(ttnn.allocate_tensor_on_device(spec, device)).get_compile_time_args()
    firmware = Path(os.environ["TT_METAL_RUNTIME_ROOT"]) / "tt_metal" / "hw" / "firmware" / "src" / "tt-1xx"

    def run(text: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "kernel_includes.hpp").write_text(text, encoding="utf-8")
        (tmp_path / "defines_generated.h").touch()
        (buffers,) = {int(found) for found in re.findall(r"cta_offset<\d+, (\d+)>", text)}
        arguments = [*range(buffers), *(list(of_a_tensor) * buffers)]
        target = ("-target", "riscv32-linux-musl", "-c", "-std=c++20", "-w", "-o", str(tmp_path / "kernel.o"))
        # Clang wants what GCC does without; the place is TT-Metalium's.
        lenient = "-Wno-missing-template-arg-list-after-template-kw"
        given = f"-DKERNEL_COMPILE_TIME_ARGS={','.join(map(str, arguments))}"
        flags = [*mock_chip.kernel_flags(folder), given, "-DNOC_INDEX=1", "-DNOC_MODE=0", f"-I{tmp_path}"]
        command = [sys.executable, "-m", "ziglang", "c++", *target, lenient, *flags, str(firmware / "ncrisck.cc")]
        caches = {f"ZIG_{kind}_CACHE_DIR": str(tmp_path / "zig") for kind in ("GLOBAL", "LOCAL")}
        environment = {**os.environ, **caches}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=250)

    return run


def test_what_moves_data_compiles_with_the_headers_of_tt_metalium(runtime: Runtime, compile_kernel, monkeypatch):
    api = sys.modules["ttl.ttl_api"]
    keep, texts = api._write_kernel_to_tmp, {}

    def noted(kind: str, text: str) -> str:
        texts[kind] = text
        return keep(kind, text)

    monkeypatch.setattr(api, "_write_kernel_to_tmp", noted)
    x, row = np.ones((70, 90), np.float32), np.ones(90, np.float32)  # of no other test here, whose programs are kept
    with pytest.raises(LaunchError, match="a mock chip runs nothing"):
        (zyx.Tensor(x) * zyx.Tensor(row)).numpy()
    for kind, call in (("read", "async_read_barrier"), ("write", "async_write_barrier")):
        assert call in texts[kind]
        done = compile_kernel(texts[kind])
        assert done.returncode == 0, done.stderr
        wrong = compile_kernel(texts[kind].replace(call, f"{call}_of_nobody"))
        assert f"no member named '{call}_of_nobody'" in wrong.stderr
