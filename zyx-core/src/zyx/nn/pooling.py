"""Pooling as modules, for `Sequential`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from zyx.functions.movement import spread
from zyx.functions.pooling import avg_pool, max_pool
from zyx.integers import as_given, as_index, is_several
from zyx.nn.functional.resizing import adaptive_avg_pool, interpolate
from zyx.nn.module import Module

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.functions.conv import Padding, Sizes
    from zyx.tensor.tensor import Tensor


class _MaxPool(Module):
    """The greatest of each window; see `zyx.max_pool`."""

    ndim: ClassVar[int]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Padding = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel_size = spread(kernel_size, self.ndim, "kernel_size")
        self.stride, self.padding = as_given(stride, "stride"), as_given(padding, "padding")
        self.dilation, self.ceil_mode = as_given(dilation, "dilation"), ceil_mode

    def forward(self, x: Tensor) -> Tensor:
        return max_pool(x, self.kernel_size, self.stride, self.padding, self.dilation, ceil_mode=self.ceil_mode)

    def describe(self) -> str:
        return f"{self.kernel_size}, stride={self.stride or self.kernel_size}"


class MaxPool1d(_MaxPool):
    """The greatest of each window of ``(..., L)``."""

    ndim = 1


class MaxPool2d(_MaxPool):
    """The greatest of each window of ``(..., H, W)``."""

    ndim = 2


class MaxPool3d(_MaxPool):
    """The greatest of each window of ``(..., D, H, W)``."""

    ndim = 3


class _AvgPool(Module):
    """The mean of each window; see `zyx.avg_pool`."""

    ndim: ClassVar[int]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Padding = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self.kernel_size = spread(kernel_size, self.ndim, "kernel_size")
        self.stride, self.padding = as_given(stride, "stride"), as_given(padding, "padding")
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, x: Tensor) -> Tensor:
        return avg_pool(
            x,
            self.kernel_size,
            self.stride,
            self.padding,
            ceil_mode=self.ceil_mode,
            count_include_pad=self.count_include_pad,
        )

    def describe(self) -> str:
        return f"{self.kernel_size}, stride={self.stride or self.kernel_size}"


class AvgPool1d(_AvgPool):
    """The mean of each window of ``(..., L)``."""

    ndim = 1


class AvgPool2d(_AvgPool):
    """The mean of each window of ``(..., H, W)``."""

    ndim = 2


class AvgPool3d(_AvgPool):
    """The mean of each window of ``(..., D, H, W)``."""

    ndim = 3


class _AdaptiveAvgPool(Module):
    """Means of as many windows as are wanted; see `zyx.nn.functional.adaptive_avg_pool`."""

    ndim: ClassVar[int]

    def __init__(self, output_size: int | Sequence[int | None]) -> None:
        given = output_size if is_several(output_size) else [output_size] * self.ndim
        self.output_size: tuple[int | None, ...] = tuple(
            [None if n is None else as_index(n, "output_size") for n in given]
        )

    def forward(self, x: Tensor) -> Tensor:
        return adaptive_avg_pool(x, self.output_size)

    def describe(self) -> str:
        return str(self.output_size)


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Means of windows of ``(..., L)``."""

    ndim = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Means of windows of ``(..., H, W)``."""

    ndim = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Means of windows of ``(..., D, H, W)``."""

    ndim = 3


class Upsample(Module):
    """``(N, C, ...)`` at another size; see `zyx.nn.functional.interpolate`."""

    def __init__(
        self,
        size: Sizes | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool = False,
    ) -> None:
        self.size, self.scale_factor = as_given(size, "size"), scale_factor
        self.mode, self.align_corners = mode, align_corners

    def forward(self, x: Tensor) -> Tensor:
        return interpolate(x, self.size, self.scale_factor, self.mode, self.align_corners)

    def describe(self) -> str:
        return f"size={self.size}, scale_factor={self.scale_factor}, mode={self.mode!r}"
