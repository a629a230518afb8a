"""Runtimes on a backend's first device, and small work for it; a conftest brings `card`, and a `runtime` of its own."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.errors import NoDeviceError
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.ops import BinaryOp
from zyx.testing.opening import open_runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zyx.backend import Device, MemoryPool
    from zyx.dtype import DType
    from zyx.kernel.data import Kernel
    from zyx.runtime.runtime import Runtime

#: Elements of the arrays of these tests.
COUNT = 64


@dataclass(frozen=True)
class Card:
    """What a backend says of itself.

    Attributes:
        name: Of the backend.
        binding: The module that is its way to the driver.
        install: What it says if that is missing.
        setting: One of its settings, and what may not be its value.
        index: What positions are counted with in hand-written kernels.
    """

    name: str
    binding: str
    install: str
    setting: tuple[str, str] = ("memory_bytes", "much")
    index: DType = dtypes.int64


def open_or_skip(name: str, **section: object) -> Runtime:
    """Open the first device of a backend, with settings of it; skip the test if there is none, and say why."""
    try:
        return open_runtime(name, settings={"backends": {name: section}})
    except NoDeviceError as error:
        reason = str(error).partition("\n")[0]
        if name in os.environ.get("ZYX_REQUIRE_DEVICES", "").split(","):
            pytest.fail(f"ZYX_REQUIRE_DEVICES names {name}: {reason}", pytrace=False)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def runtime(card: Card) -> Iterator[Runtime]:
    """A runtime on the first device."""
    opened = open_or_skip(card.name)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def device(runtime: Runtime) -> Device:
    return runtime.device()


@pytest.fixture(scope="session")
def pool(device: Device) -> MemoryPool:
    return device.memory_pool


@pytest.fixture
def fresh(card: Card) -> Iterator[Callable[..., Runtime]]:
    """A function that opens the device another time, with settings of this backend."""
    opened: list[Runtime] = []

    def open_one(**section: object) -> Runtime:
        opened.append(open_or_skip(card.name, **section))
        return opened[-1]

    yield open_one
    for runtime in opened:
        runtime.close()


@pytest.fixture(scope="session")
def add(card: Card) -> Callable[..., Kernel]:
    """``add(constant, name)`` is a kernel that adds a constant to each of 64 integers."""

    def make(constant: int, name: str = "") -> Kernel:
        b = Builder()
        x = b.define(k.Memory.GLOBAL, dtypes.int32, COUNT)
        at = b.index(k.Axis.GROUP, 0, COUNT, card.index)
        b.store(x, at, b.binary(BinaryOp.ADD, b.load(x, at), b.const(constant, dtypes.int32)))
        return b.finish(name or f"add_{constant}")

    return make


@pytest.fixture
def integers(pool: MemoryPool) -> Callable[[int], Any]:
    """``integers(value)`` is a buffer of 64 integers, all the same."""

    def make(value: int) -> Any:
        buffer, event = pool.allocate(4 * COUNT)
        data = np.full(COUNT, value, np.int32)
        pool.sync_events([pool.host_to_pool(memoryview(data).cast("B"), buffer, [event])])
        return buffer

    return make


@pytest.fixture
def values(pool: MemoryPool) -> Callable[[Any], set[int]]:
    """``values(buffer)`` are the different integers in it."""

    def read(buffer: Any) -> set[int]:
        result = np.empty(buffer.nbytes // 4, np.int32)
        pool.pool_to_host(buffer, memoryview(result).cast("B"))
        return set(result.tolist())

    return read
