"""Cards, as far as a mock chip shows: it is opened, gets memory and programs, and runs nothing.

Programs go through the compiler of TT-Lang to C++ of TT-Metalium, and no further: no package compiles that.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import mock_chip
import numpy as np
import pytest
import test_programs

import zyx
from zyx.errors import AllocationError, CompileError, LaunchError
from zyx.runtime.runtime import use
from zyx.testing.opening import open_runtime
from zyx_backend_tenstorrent.errors import Cause, Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zyx.runtime.runtime import Runtime

CARDS = {"backends": {"tenstorrent": {"serve": "cards"}}}
ONES = np.ones((64, 64), np.float32)

#: The programs of `test_programs.WHOLE` that the compiler refuses, and why.
REFUSED = dict.fromkeys(
    ("sum of rows", "sum of columns", "sum of all", "greatest of rows", "least of columns", "mean of squares"),
    "the compiler stores what it reduces, and computes no further with it; programs combine it with what they have",
)

NO_CARDS = """
from importlib.metadata import version
from zyx.errors import NoDeviceError
from zyx.testing.opening import open_runtime
try:
    open_runtime("tenstorrent", settings={"backends": {"tenstorrent": {"serve": "cards"}}})
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
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """A runtime on the mock chip. What is set for it stays: TT-Metalium reads it once in a process."""
    os.environ.update(mock_chip.environment(tmp_path_factory.mktemp("mock")))
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


@pytest.mark.parametrize("name", test_programs.WHOLE)
def test_programs_are_compiled_to_cpp_and_not_run(name: str, runtime: Runtime, request: pytest.FixtureRequest):
    if name in REFUSED:
        request.applymarker(pytest.mark.xfail(strict=True, raises=CompileError, reason=REFUSED[name]))
    make, _ = test_programs.WHOLE[name]
    with pytest.raises(LaunchError, match="a mock chip runs nothing"):
        make().numpy()


def test_a_text_that_the_compiler_refuses_is_an_error_with_its_place(runtime: Runtime, monkeypatch):
    servant = runtime.device().pool.servant
    build = servant.build
    monkeypatch.setattr(servant, "build", lambda text, *rest: build(text.replace("exp(", "expo("), *rest))
    with pytest.raises(CompileError, match=r"Unknown function: .*expo.*--> <op_"):
        zyx.exp(zyx.Tensor(ONES) + zyx.Tensor(ONES)).numpy()
