"""Windows as columns, and channels that change places with positions, as modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.integers import as_given, as_index
from zyx.nn.functional import folding
from zyx.nn.module import Module

if TYPE_CHECKING:
    from zyx.functions.conv import Sizes
    from zyx.tensor.tensor import Tensor


class Unfold(Module):
    """`zyx.nn.functional.unfold`.

    From ``(N, C, H, W)`` to ``(N, C * window, places)``.

    Raises:
        ShapeError: When called: another rank than 3 or 4.

    >>> zyx.nn.Unfold(2)(zyx.ones(1, 3, 4, 4)).shape
    (1, 12, 9)
    """

    def __init__(self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> None:
        self.kernel_size, self.dilation = as_given(kernel_size, "kernel_size"), as_given(dilation, "dilation")
        self.padding, self.stride = as_given(padding, "padding"), as_given(stride, "stride")

    def forward(self, x: Tensor) -> Tensor:
        return folding.unfold(x, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Fold(Unfold):
    """`zyx.nn.functional.fold`.

    From ``(N, C * window, places)`` to ``(N, C, *output_size)``.

    Raises:
        ShapeError: When called: the input has other columns than windows of that output.

    >>> zyx.nn.Fold((3, 3), 2)(zyx.ones(1, 4, 4)).shape
    (1, 1, 3, 3)
    """

    def __init__(
        self, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = as_given(output_size, "output_size")

    def forward(self, x: Tensor) -> Tensor:
        return folding.fold(x, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}, {super().extra_repr()}"


class PixelShuffle(Module):
    """`zyx.nn.functional.pixel_shuffle`.

    Raises:
        ShapeError: When called: the channels are no multiple of the square of the factor.

    >>> zyx.nn.PixelShuffle(2)(zyx.ones(1, 4, 3, 3)).shape
    (1, 1, 6, 6)
    """

    def __init__(self, upscale_factor: int) -> None:
        self.upscale_factor = as_index(upscale_factor, "upscale_factor")

    def forward(self, x: Tensor) -> Tensor:
        return folding.pixel_shuffle(x, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """`zyx.nn.functional.pixel_unshuffle`.

    From ``(..., C, H * r, W * r)`` to ``(..., C * r * r, H, W)``, r being `downscale_factor`.

    Raises:
        ShapeError: When called: H or W is no multiple of the factor.

    >>> zyx.nn.PixelUnshuffle(2)(zyx.ones(1, 1, 4, 6)).shape
    (1, 4, 2, 3)
    """

    def __init__(self, downscale_factor: int) -> None:
        self.downscale_factor = as_index(downscale_factor, "downscale_factor")

    def forward(self, x: Tensor) -> Tensor:
        return folding.pixel_unshuffle(x, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """`zyx.nn.functional.channel_shuffle`.

    From ``(N, C, ...)`` to the same shape; C is a multiple of `groups`.

    Raises:
        ShapeError: When called: the channels do not fall into as many groups.

    >>> zyx.nn.ChannelShuffle(2)(zyx.arange(4).reshape(1, 4, 1)).flatten().tolist()
    [0, 2, 1, 3]
    """

    def __init__(self, groups: int) -> None:
        self.groups = as_index(groups, "groups")

    def forward(self, x: Tensor) -> Tensor:
        return folding.channel_shuffle(x, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
