"""A runtime of its own for each test that asks for one."""

import pytest

from zyx.runtime.runtime import Runtime, use


@pytest.fixture
def runtime():
    runtime = Runtime()
    with use(runtime):
        yield runtime
    runtime.close()
