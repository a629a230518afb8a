"""A fake of AMD's libraries that runs on the CPU (`fake/fake.h`), and devices on it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from every_driver.fixtures import Card, add, integers  # noqa: F401

from zyx.testing.opening import open_runtime

sys.path.insert(0, str(Path(__file__).parent))  # tests are imported by their paths; what they share is not

import amd_toolchains  # found there
from fake_hip import Fake, Runs, run_everything

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zyx.runtime.runtime import Runtime
    from zyx_backend_hip.device import HipDevice
    from zyx_backend_hip.memory import HipPool


@pytest.fixture(scope="session")
def fake_libraries(tmp_path_factory: pytest.TempPathFactory) -> Fake:
    folder = tmp_path_factory.mktemp("fake")
    command = amd_toolchains.host_command(folder)
    path = amd_toolchains.build_fake(folder)
    if path is None:
        amd_toolchains.skip_or_fail(
            "there is no C compiler to build the fake libraries with: apt install gcc libc6-dev"
        )
    if command is None:
        packages = " or ".join(amd_toolchains.BRINGS_CLANG.values())
        amd_toolchains.skip_or_fail(f"the fake libraries have no clang to compile kernels with: {packages}")
    os.environ["FAKE_HIP_FOLDER"], os.environ["FAKE_HIP_CXX"] = str(folder), str(command)
    return Fake(path, folder)


@pytest.fixture
def fake(fake_libraries: Fake) -> Iterator[Fake]:
    """The fake libraries; the test fails if something was done that must not be done."""
    fake_libraries.violations()
    yield fake_libraries
    fake_libraries.recover()
    assert not fake_libraries.violations()


@pytest.fixture(scope="session")
def runs(fake_libraries: Fake) -> Runs:
    """What the kit, and training, gave on each device of the fake libraries; made once, since it takes minutes."""
    return run_everything(fake_libraries)


@pytest.fixture
def fresh(fake: Fake) -> Iterator[Callable[..., Runtime]]:
    """A function that opens a device, with settings of this backend; nothing must be left behind."""
    opened: list[Runtime] = []
    before = fake.alive()

    def open_one(device: str = "hip:0", **section: object) -> Runtime:
        opened.append(open_runtime(device, settings={"backends": {"hip": {**fake.section, **section}}}))
        return opened[-1]

    yield open_one
    fake.recover()
    for runtime in opened:
        runtime.close()
    left = {kind: count - before[kind] for kind, count in fake.alive().items() if count > before[kind]}
    go_with_references = ("events", "modules", "executable graphs")
    assert not {kind: count for kind, count in left.items() if kind not in go_with_references}


@pytest.fixture
def device(fresh: Callable[..., Runtime]) -> HipDevice:
    return fresh().device()  # type: ignore[return-value]  # devices of this backend are of this class


@pytest.fixture
def pool(device: HipDevice) -> HipPool:
    return device.pool


@pytest.fixture(scope="session")
def card() -> Card:
    return Card("hip", "hip", "pip install hip-python")
