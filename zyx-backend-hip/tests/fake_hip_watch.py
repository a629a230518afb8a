"""A plugin of pytest: the run fails if something was done on the fake libraries that must not be done."""

from __future__ import annotations

import ctypes
import os

import pytest


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Look at the violations when all devices are closed."""
    fake = ctypes.CDLL(os.environ["ZYX_HIP_RUNTIME"])
    fake.fake_violations.restype = ctypes.c_char_p
    text = fake.fake_violations().decode()
    if text:
        print(f"\nviolations:\n{text}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
