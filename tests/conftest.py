"""A runtime of its own for each test that asks for one."""

import pytest


@pytest.fixture
def runtime():
    from zyx.runtime.runtime import Runtime, use  # not where only packages are built

    runtime = Runtime()
    with use(runtime):
        yield runtime
    runtime.close()
