"""What programs of drivers have in common: what they are called, and where and with what they may be launched."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from zyx.backend.device import Program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.pool import MemoryPool
    from zyx.drivers.arguments import Parameter


class DeviceProgram(Program):
    """A program that was made for one device.

    Attributes:
        what: What it is and on which device, for error texts.
        pool: Memory of the device that it was made for.
        parameters: The launch arguments.
        is_released: Whether it was given back.
    """

    __slots__ = ("is_released", "parameters", "pool", "what")

    #: Whether it is a captured sequence, which cannot be part of another.
    is_sequence: ClassVar[bool] = False

    def __init__(self, name: str, source: str, what: str, pool: MemoryPool, parameters: Sequence[Parameter]) -> None:
        super().__init__(name, source)
        self.what = what
        self.pool = pool
        self.parameters = tuple(parameters)
        self.is_released = False

    def release(self) -> None:
        """Note that it was given back. Backends drop the driver's objects that captured sequences do not need."""
        self.is_released = True
