"""The device that the tests run on, and kernels to run."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from every_driver.fixtures import *  # noqa: F403
from every_driver.fixtures import COUNT, Card, open_or_skip

from zyx import dtype as dtypes
from zyx.errors import NoDeviceError
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.ops import BinaryOp
from zyx.testing.opening import open_runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.kernel.data import Kernel
    from zyx.runtime.runtime import Runtime
    from zyx_backend_vulkan.device import VulkanDevice
    from zyx_backend_vulkan.memory import VulkanPool

sys.path.insert(0, str(Path(__file__).parent))  # tests are imported by their paths; what they share is not


@pytest.fixture(scope="session")
def card() -> Card:
    return Card("vulkan", "vulkan", "pip install 'vulkan>=1.3.275.1,<1.4'", index=dtypes.int32)


def open_checked() -> Runtime:
    """Open the first device, which there is, with the validation layer; skip the test if that is not installed."""
    try:
        return open_runtime("vulkan", settings={"backends": {"vulkan": {"validation": True}}})
    except NoDeviceError as error:
        assert "VK_LAYER_KHRONOS_validation" in str(error), "it fails for another reason"
        if "vulkan-validation" in os.environ.get("ZYX_REQUIRE_DEVICES", "").split(","):
            pytest.fail("ZYX_REQUIRE_DEVICES names vulkan-validation: the layer is not installed", pytrace=False)
        pytest.skip("the layer VK_LAYER_KHRONOS_validation is not installed")


@pytest.fixture
def open_device() -> Callable[..., Runtime]:
    """A function that opens the first device, with settings of this backend."""
    return functools.partial(open_or_skip, "vulkan")


@pytest.fixture(scope="session")
def add_number() -> Kernel:
    """A kernel that adds a number, its second argument, to each of 64 integers."""
    b = Builder()
    x = b.define(k.Memory.GLOBAL, dtypes.int32, COUNT)
    number = b.variable(dtypes.int32, "number")
    at = b.index(k.Axis.GROUP, 0, COUNT, dtypes.int32)
    b.store(x, at, b.binary(BinaryOp.ADD, b.load(x, at), number))
    return b.finish("add_number")


def hide(pool: VulkanPool) -> None:
    """Keep the host from what a pool will allocate."""
    obtain = pool._blocks.obtain

    def obtain_hidden(nbytes: int) -> Any:
        memory = obtain(nbytes)
        memory.block.view = None
        return memory

    pool._blocks.obtain = obtain_hidden  # type: ignore[method-assign]
    pool.heaps.is_cached = False  # type: ignore[misc]


@pytest.fixture
def hidden(fresh: Callable[..., Runtime]) -> VulkanPool:
    """A pool whose memory the host does not reach, as that of most GPUs."""
    pool = fresh().device().memory_pool
    hide(pool)  # type: ignore[arg-type]  # of this backend
    return pool  # type: ignore[return-value]


@pytest.fixture
def queues_apart(device: VulkanDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices opened from now on have queues of their own for uploads and downloads, and memory the host cannot reach.

    So have most GPUs. Here three queues of ours with a timeline each submit to the one there is, in the order of calls.
    """
    from zyx_backend_vulkan import start
    from zyx_backend_vulkan.driver_device import Session
    from zyx_backend_vulkan.driver_queue import Queue
    from zyx_backend_vulkan.memory import VulkanPool

    def open_session(listed: Any) -> Session:
        session = Session(listed)
        (family,) = session.families[:1]
        session.uploads, session.downloads = Queue(session, family, 0), Queue(session, family, 0)
        return session

    class HiddenPool(VulkanPool):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            hide(self)

    monkeypatch.setattr(start, "Session", open_session)
    monkeypatch.setattr(start, "VulkanPool", HiddenPool)
