"""The fake libraries of AMD's (`fake/fake.h`), as tests see them."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from zyx.plugins.discover import installed
from zyx.plugins.manager import PluginManager
from zyx.plugins.opening import OpenedBackends
from zyx.settings.load import load_settings
from zyx.testing.parts import AROUND_KERNELS, OF_A_DRIVER

if TYPE_CHECKING:
    from zyx.backend import Event
    from zyx_backend_hip.memory import HipBuffer

#: Elements of the arrays of these tests.
COUNT = 64

#: Devices of the fake libraries: with waves of 64 threads, and of 32.
DEVICES = ("hip:0", "hip:1")

#: Tests that train the network of the demo, a transformer block and an LSTM on the default device.
LOSSES = Path(__file__).parents[2] / "tests" / "test_losses.py"

#: Numbers of the kinds of objects, as in ``fake.h``.
KINDS = {
    "streams": 0x51, "events": 0x52, "modules": 0x53, "executable graphs": 0x56, "programs": 0x57, "memory": 0x58,
    "handles of hipBLASLt": 0x59, "descriptors of products": 0x5A, "layouts": 0x5B, "preferences": 0x5C,
}  # fmt: skip


class Fake:
    """The fake libraries, one file.

    Attributes:
        path: The file.
        folder: Where it keeps sources and what it compiled.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        self.path, self.folder = path, folder
        self.native = ctypes.CDLL(str(path))
        self.native.fake_violations.restype = ctypes.c_char_p
        self.native.fake_count.restype = ctypes.c_long

    @property
    def section(self) -> dict[str, object]:
        """Settings of the backend that make it use this."""
        return dict.fromkeys(("runtime", "compiler", "blas"), str(self.path))

    def violations(self) -> str:
        """Return what was done that must not be done, a line each, and forget it."""
        text = self.native.fake_violations().decode()
        self.native.fake_forget_violations()
        return text

    def count(self, function: str) -> int:
        """Return how often a function was called."""
        return int(self.native.fake_count(function.encode()))

    def fail(self, function: str, code: int, after: int = 0) -> None:
        """Let a call of a function fail, once."""
        self.native.fake_fail(function.encode(), code, after)

    def lose(self, code: int, device: int = 0) -> None:
        """Let whatever a device does from here on fail."""
        self.native.fake_break(device, code)

    def be(self, version: int) -> None:
        """Be a version of HIP, such as 60342134 for 6.3.42134, until `recover`."""
        self.native.fake_version(version)

    def recover(self) -> None:
        """Let nothing fail any more, and be HIP 6.3."""
        self.native.fake_version(60342134)
        self.native.fake_no_failures()

    def alive(self) -> dict[str, int]:
        """Return how many objects of each kind there are."""
        return {name: self.native.fake_alive(kind) for name, kind in KINDS.items()}


@dataclass(frozen=True)
class Runs:
    """What the tests gave that run on every device.

    Attributes:
        kit: The last line of the kit's output, by device.
        losses: The same of the tests that train networks.
        sources: The kernels that were compiled.
    """

    kit: dict[str, str]
    losses: dict[str, str]
    sources: tuple[Path, ...]


def opened(tmp_path: Path, **section: object) -> OpenedBackends:
    """Return what opens this backend alone, with settings of it."""
    environ = {"ZYX_CACHE_DIR": str(tmp_path / "cache")}
    own = [entry for entry in installed()[0] if entry.name == "hip"]
    return OpenedBackends(PluginManager(load_settings({"backends": {"hip": section}}, environ=environ), own))


def values(buffer: HipBuffer, events: tuple[Event, ...] = ()) -> set[int]:
    """Return the different integers in a buffer."""
    result = np.empty(buffer.nbytes // 4, np.int32)
    buffer.pool.pool_to_host(buffer, memoryview(result).cast("B"), events)
    return set(result.tolist())


#: Modules of the kit whose kernels depend on how long waves are: the second device has others than the first.
OF_WAVES = (
    "attention", "events", "fourier", "indexing", "kernels", "launches", "plans", "reductions", "sorting", "swaps",
)  # fmt: skip


def run_pytest(fake: Fake, device: str, *arguments: str) -> str:
    """Run tests with a device of the fake libraries as the default one, in a process of its own; return its output.

    The second device begins with the last test: beside the first, it then waits for half of the compiler's work.
    """
    variables = {f"ZYX_HIP_{name}": str(fake.path) for name in ("RUNTIME", "COMPILER", "BLAS")}
    variables |= {"ZYX_DEVICE": device, "ZYX_REQUIRE_DEVICES": "hip", "PYTHONPATH": str(Path(__file__).parent)}
    if device == DEVICES[1]:
        variables["FAKE_HIP_BACKWARDS"] = "1"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "fake_hip_watch", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


def run_kit(fake: Fake, device: str, *arguments: str) -> str:
    """Run the conformance kit on a device of the fake libraries; return what it printed."""
    return run_pytest(fake, device, "--pyargs", "zyx.testing", f"--zyx-device={device}", *arguments)


def run_everything(fake: Fake) -> Runs:
    """Run what the kit has of kernels and drivers on the first device, what depends on waves on the second, and then
    what trains networks. Of combinations of parameters each device has a share of its own.
    """
    of_core = {*AROUND_KERNELS} - {*OF_A_DRIVER, "test_plans"}  # which are captured as graphs
    parts = (
        [f"--ignore-glob=*/suite/{module}.py" for module in sorted(of_core)],
        ["-k", " or ".join(f"test_{module}" for module in OF_WAVES)],
    )
    with ThreadPoolExecutor(len(DEVICES)) as pool:
        made = pool.map(lambda device, part: run_kit(fake, device, f"--zyx-shares={device}", *part), DEVICES, parts)
        kit = dict(zip(DEVICES, made, strict=True))
        trained = dict(
            zip(DEVICES, pool.map(lambda device: run_pytest(fake, device, str(LOSSES)), DEVICES), strict=True)
        )
    sources = tuple(path for path in fake.folder.glob("*.hip") if re.fullmatch("[0-9a-f]{16}", path.stem))
    return Runs(_last_lines(kit), _last_lines(trained), sources)


def _last_lines(printed: dict[str, str]) -> dict[str, str]:
    return {device: text.strip().rpartition("\n")[2] for device, text in printed.items()}
