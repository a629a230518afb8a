"""A plugin of pytest: the run fails if something was done on the fake libraries that must not be done.

With FAKE_HIP_BACKWARDS the last test is run first. The fake libraries keep what they compiled: of two runs side by
side, one forwards and one backwards, each finds half of its kernels compiled; two in step would compile each twice.
"""

from __future__ import annotations

import ctypes
import os

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Turn the order of the tests, if that is wanted."""
    if os.environ.get("FAKE_HIP_BACKWARDS"):
        items.reverse()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Look at the violations when all devices are closed."""
    fake = ctypes.CDLL(os.environ["ZYX_HIP_RUNTIME"])
    fake.fake_violations.restype = ctypes.c_char_p
    text = fake.fake_violations().decode()
    if text:
        print(f"\nviolations:\n{text}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
