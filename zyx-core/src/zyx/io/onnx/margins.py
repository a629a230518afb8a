"""Where windows lie: the margins that attributes of convolutions and poolings ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.io.onnx.node import NodeCall


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows over spatial axes, one entry an axis.

    Attributes:
        size: Elements of a window.
        stride: Distance between windows.
        dilation: Distance between elements.
        margins: Elements in front and behind.
    """

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    margins: tuple[tuple[int, int], ...]

    @property
    def extents(self) -> tuple[int, ...]:
        """How far each window reaches."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.size, self.dilation, strict=True))


def windows_of(node: NodeCall, sizes: Sequence[int], kernel: Sequence[int]) -> Windows:
    """Return the windows that a node asks for, over spatial axes of `sizes`."""
    count = len(kernel)
    stride = tuple(node.get("strides") or (1,) * count)
    dilation = tuple(node.get("dilations") or (1,) * count)
    pads = node.get("pads") or (0,) * (2 * count)
    margins = tuple(zip(pads[:count], pads[count:], strict=True))
    found = Windows(tuple(kernel), stride, dilation, margins)
    auto = node.get("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        needed = [
            max((-(-n // s) - 1) * s + extent - n, 0) for n, s, extent in zip(sizes, stride, found.extents, strict=True)
        ]
        margins = tuple((total // 2, total - total // 2) for total in needed)
        if auto == "SAME_LOWER":
            margins = tuple((after, before) for before, after in margins)
    elif auto == "VALID":
        margins = ((0, 0),) * count
    return Windows(found.size, stride, dilation, margins)


def rounded_up(windows: Windows, sizes: Sequence[int]) -> Windows:
    """Return windows with more behind, so that a last one that begins inside is not lost."""
    margins = []
    for n, s, extent, (before, after) in zip(sizes, windows.stride, windows.extents, windows.margins, strict=True):
        room = n + before + after - extent
        count = -(-room // s)  # of strides, at most
        if count * s >= n + before:  # it would begin behind the last element
            count -= 1
        margins.append((before, after + max(count * s - room, 0)))
    return Windows(windows.size, windows.stride, windows.dilation, tuple(margins))
