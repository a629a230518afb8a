"""A backend whose device computes on the interpreter, and has every kernel validated as a module for a target.

The variable ``ZYX_TEST_TARGET`` names the target.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from targets import TARGETS, info_of, validated

from zyx.testing.paper import PaperBackend, PaperDevice

if TYPE_CHECKING:
    from zyx.backend import Program
    from zyx.kernel.data import Kernel

TARGET = TARGETS[os.environ["ZYX_TEST_TARGET"]]


class ValidatingDevice(PaperDevice):
    """Refuses kernels that are no valid modules."""

    def compile(self, kernel: Kernel) -> Program:
        program = super().compile(kernel)
        validated(kernel, TARGET)
        return program


_BACKEND = PaperBackend(info_of(TARGET), ValidatingDevice)
zyx_backend_info = _BACKEND.zyx_backend_info
zyx_devices = _BACKEND.zyx_devices
