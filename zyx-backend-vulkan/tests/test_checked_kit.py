"""The conformance kit passes under the validation layer, which finds nothing, and every module of it is valid."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conftest import open_checked
from targets import ENVIRONMENTS, complaint_of

import zyx.testing

if TYPE_CHECKING:
    from zyx_backend_vulkan.device import VulkanDevice

HERE = Path(__file__).parent
SUITE = Path(zyx.testing.__file__).parent / "suite"
#: Ways to give kernels their arguments, as `checked_plugin` knows them, and queues that do things in any order.
WAYS = ("as it comes", "sets", "addresses", "numbers in a buffer", "any order")
_QUICK = [("casts", "addresses")]
_PARTS = sorted(path.stem.removeprefix("test_") for path in SUITE.glob("test_*.py"))
#: A part of the kit takes at most so long.
_TIMEOUT_S = 1200
#: Validators that run at once.
_AT_ONCE = 2


@pytest.mark.parametrize(
    ("part", "way"),
    [
        pytest.param(part, way, marks=() if (part, way) in _QUICK else pytest.mark.slow)
        for part in _PARTS
        for way in WAYS
    ],
)
def test_the_kit_passes_and_neither_layer_nor_validator_finds_anything(
    device: VulkanDevice, tmp_path: Path, part: str, way: str
):
    del device  # there is one
    open_checked().close()
    arguments = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--zyx-device", "vulkan",
        "--zyx-plugin", "checked_plugin", "--zyx-xfails", str(HERE / "expected_failures.txt"),
        str(SUITE / f"test_{part}.py"),
    ]  # fmt: skip
    environment = {
        **os.environ, "PYTHONPATH": str(HERE), "ZYX_VULKAN_VALIDATION": "true", "ZYX_TEST_WAY": way,
        "ZYX_TEST_FOUND": str(tmp_path),
    }  # fmt: skip
    done = subprocess.run(
        arguments, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout
    messages = tmp_path / "messages.txt"
    assert not messages.exists(), messages.read_text()[:3000]
    _check_modules(tmp_path)


def _check_modules(folder: Path) -> None:
    tool = shutil.which("spirv-val")
    if tool is None:
        return  # what else there is to see was seen

    def complaint(path: Path) -> str:
        return complaint_of(tool, path.read_bytes(), path.parent.name)

    found = [path for name in ENVIRONMENTS.values() for path in sorted((folder / name).glob("*.spv"))]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        complaints = [text for text in pool.map(complaint, found) if text]
    assert not complaints, f"{len(complaints)} of {len(found)} modules: {complaints[0]}"
