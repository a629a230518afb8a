"""What tests of several folders share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from zyx.runtime.runtime import Runtime, use

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def interpreter() -> Iterator[Runtime]:
    """Make a runtime of its own the current one, whose default device is the interpreter."""
    runtime = Runtime()
    with use(runtime), runtime.default("interpreter"):
        yield runtime
    runtime.close()
