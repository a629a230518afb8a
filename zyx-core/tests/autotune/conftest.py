"""A backend that offers moves and kernels of a library, and a clock that nothing disturbs."""

from __future__ import annotations

import contextlib
import itertools
import warnings
from pathlib import Path

import pytest

from zyx.autotune.measure import Scratch
from zyx.builtin.interpreter import InterpreterDevice
from zyx.hookspecs import API_VERSION, BackendInfo, hookimpl
from zyx.plugins.discover import Found
from zyx.plugins.manager import PluginManager
from zyx.plugins.opening import OpenedBackends
from zyx.runtime.runtime import Runtime, use
from zyx.settings.load import load_settings


class Backend:
    """What a package of somebody else has."""

    def __init__(self, passes=(), libraries=()):
        self.passes, self.libraries = passes, libraries

    @hookimpl
    def zyx_backend_info(self):
        return BackendInfo("toy", "1.0", API_VERSION, "offers what it is given", works_on_host_memory=True)

    @hookimpl
    def zyx_devices(self, config, pools):
        return [InterpreterDevice("toy:0", pools["host"])]

    @hookimpl
    def zyx_kernel_passes(self, device):
        return list(self.passes)

    @hookimpl
    def zyx_library_kernels(self, device):
        return list(self.libraries)


@pytest.fixture
def opened(tmp_path):
    """``opened(...)`` makes a runtime the current one: with a toy backend, settings, and a cache of this test."""

    @contextlib.contextmanager
    def open_(passes=(), libraries=(), folder=tmp_path / "cache", **given):
        given = {"cache": {"directory": str(folder)}, "devices": {"default": "toy"}} | given
        settings = load_settings(given, {}, Path("/nonexistent/config.json"))
        runtime = Runtime(settings)
        found = [Found("toy", "toy", "zyx-backend-toy", "1.0", lambda: Backend(passes, libraries))]
        runtime._opened = OpenedBackends(PluginManager(settings, found))
        with use(runtime), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield runtime
        runtime.close()

    return open_


@pytest.fixture
def each_faster(monkeypatch):
    """Each program takes less time than all that were timed before it: what is timed last is the fastest."""
    seen, count = {}, itertools.count(1)

    def seconds(self, program, launches, **how):
        if program not in seen:
            seen[program] = 1.0 / next(count)
        return seen[program]

    monkeypatch.setattr(Scratch, "seconds", seconds)
