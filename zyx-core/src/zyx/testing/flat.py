"""What the tests of the flat interface share."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pytest

from zyx.compute import ComputeBackend
from zyx.runtime.runtime import use

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zyx.compute.names import Handle, Place
    from zyx.dtype import DType
    from zyx.runtime.runtime import Runtime
    from zyx.testing.values import Array


@contextmanager
def backend_of(runtime: Runtime) -> Iterator[ComputeBackend]:
    """Give the flat interface on the default device of a runtime."""
    with use(runtime), ComputeBackend() as backend:
        yield backend


def upload(backend: ComputeBackend, values: Array) -> Handle:
    """Return a handle with these values."""
    handle = backend.alloc(values.nbytes)
    backend.copy_htod(handle, values)
    return handle


def download(backend: ComputeBackend, place: Place, like: Array) -> Array:
    """Return values of the shape and dtype of `like`."""
    found = np.empty_like(like)
    backend.copy_dtoh(found, place)
    return found


def require_dtype(backend: ComputeBackend, dtype: DType) -> None:
    """Skip a test of a dtype that the device cannot store."""
    if not backend.info.can_store(dtype.part if dtype.is_complex else dtype):
        pytest.skip(f"{backend.name} does not store {dtype}")
