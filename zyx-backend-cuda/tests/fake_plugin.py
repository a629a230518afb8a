"""The CUDA backend on one paper device, for the conformance kit: ``--zyx-plugin fake_plugin`` beside this folder."""

from __future__ import annotations

import pytest
from fake_driver import FakeSession, fake_cuda

from zyx_backend_cuda.plugin import (  # what a plugin has  # noqa: F401
    zyx_backend_info,
    zyx_config_section,
    zyx_devices,
    zyx_memory_pools,
)

_paper = fake_cuda(pytest.MonkeyPatch(), [FakeSession])
_paper.__enter__()
