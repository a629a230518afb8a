"""The arguments of a kernel as they lie in memory."""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.drivers.arguments import Parameter

_POINTER: Final = 8


class ArgumentBlock:
    """Arguments side by side, each at a multiple of its size, as the calling convention of kernels has it.

    Attributes:
        size: Bytes of all arguments.
        buffer: The arguments.
        pointers: Address of an array with the address of each argument.
    """

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        offsets, formats, end = [], [], 0
        for parameter in parameters:
            size = _POINTER if parameter.scalar is None else parameter.scalar.itemsize
            gap = -end % size
            formats.append(f"{gap}x" + ("Q" if parameter.scalar is None else f"{size}s"))
            offsets.append(end + gap)
            end += gap + size
        self.size: Final = end
        self.buffer: Final = (ctypes.c_char * max(end, 1))()
        base = ctypes.addressof(self.buffer)
        self._array = (ctypes.c_void_p * max(len(offsets), 1))(*[base + offset for offset in offsets])
        self.pointers: Final = ctypes.addressof(self._array)
        self._pack = struct.Struct("=" + "".join(formats)).pack_into

    def fill(self, values: Sequence[int | bytes]) -> None:
        """Put arguments in: the address of a buffer, or the bytes of a number."""
        self._pack(self.buffer, 0, *values)
