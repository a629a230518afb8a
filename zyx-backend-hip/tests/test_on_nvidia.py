"""What the HIP backend writes, through NVRTC and on an NVIDIA GPU, by a thin mapping of built-ins (`nvidia/`).

    pytest zyx-backend-hip/tests/test_on_nvidia.py -s

Needs zyx-backend-cuda; compiling needs NVRTC alone, running a GPU. There the whole kit compares with the interpreter.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from batches import random_sources

from zyx.errors import NoDeviceError
from zyx.testing.kernels import random_kernel
from zyx.testing.launching import prepare
from zyx.testing.opening import open_runtime
from zyx.testing.suite.test_transformations import compare, fitting_kernels
from zyx_backend_hip.render import render

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zyx.runtime.runtime import Runtime

cuda = pytest.importorskip(
    "zyx_backend_cuda", reason="pip install zyx-backend-cuda: it calls NVRTC and NVIDIA's driver"
)

FOLDER = Path(__file__).parent / "nvidia"
sys.path.insert(0, str(FOLDER))


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    """A runtime on the first NVIDIA GPU, for which the HIP backend writes the kernels."""
    try:
        opened = open_runtime("cuda", ["hip_on_nvidia"])
    except NoDeviceError as error:
        reason = f"no NVIDIA GPU: {str(error).splitlines()[0]}"
        if "cuda" in os.environ.get("ZYX_REQUIRE_DEVICES", "").split(","):
            pytest.fail(f"ZYX_REQUIRE_DEVICES names cuda: {reason}", pytrace=False)
        pytest.skip(reason)
    yield opened
    opened.close()


def test_kernels_compile_for_nvidia_by_the_mapping():
    from hip_on_nvidia import MAPPING

    from zyx_backend_cuda.libraries import load_library
    from zyx_backend_cuda.nvrtc import OPTIONS, Nvrtc

    library = load_library("nvrtc")
    if library is None:
        pytest.skip("there is no NVRTC: pip install nvidia-cuda-nvrtc")
    compiler = Nvrtc(library)
    for source in random_sources(20).values():
        code = compiler.compile(MAPPING + source, [*OPTIONS, f"--gpu-architecture={compiler.target(90)}"])
        assert b"zyx_kernel" in code


def test_kernels_on_an_nvidia_gpu_are_those_of_hip(runtime: Runtime):
    device = runtime.device()
    assert device.info.model.endswith("by HIP")
    kernel = prepare(random_kernel(0), device)
    source = device.compile(kernel).source  # type: ignore[attr-defined]  # programs of the CUDA backend have it
    assert source.endswith(render(kernel))


def test_random_kernels_give_on_an_nvidia_gpu_what_the_interpreter_says(
    runtime: Runtime, capsys: pytest.CaptureFixture[str]
):
    device, count = runtime.device(), 300
    for number, kernel in fitting_kernels(device, 10_000, count):  # the kit has others
        compare(device, kernel, number)
    with capsys.disabled():
        print(f"\n{count} random kernels on {device.info.model}, {device.info.driver}")


def test_the_kit_passes_on_an_nvidia_gpu(runtime: Runtime, capsys: pytest.CaptureFixture[str]):
    device = runtime.device()
    command = [
        sys.executable, "-m", "pytest", "--pyargs", "zyx.testing", "--zyx-device=cuda", "--zyx-plugin=hip_on_nvidia",
        "-q", "-p", "no:cacheprovider",
    ]  # fmt: skip
    path = os.pathsep.join(filter(None, [str(FOLDER), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "ZYX_REQUIRE_DEVICES": "cuda"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=1800)
    with capsys.disabled():
        print(f"\nthe kit on {device.info.model}: {done.stdout.strip().rpartition(chr(10))[2]}")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert re.search(r"\d+ passed", done.stdout)
