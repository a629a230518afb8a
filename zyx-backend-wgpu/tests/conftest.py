"""The device that the tests run on, and kernels to run."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest
from every_driver.fixtures import *  # noqa: F403
from every_driver.fixtures import Card, open_or_skip

from zyx.runtime.runtime import use

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zyx.runtime.runtime import Runtime


@pytest.fixture(scope="session")
def card() -> Card:
    return Card("wgpu", "wgpu", "pip install 'wgpu>=0.32,<0.33'")


@pytest.fixture
def open_device() -> Callable[..., Runtime]:
    """A function that opens the first device, with settings of this backend."""
    return functools.partial(open_or_skip, "wgpu")


@pytest.fixture(scope="module")
def least() -> Iterator[Runtime]:
    """A runtime in use, on the first device without what WebGPU leaves optional."""
    opened = open_or_skip("wgpu", extensions=False)
    with use(opened):
        yield opened
    opened.close()
