"""Pooling as modules, for `Sequential`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from zyx.functions.pooling import avg_pool, max_pool
from zyx.integers import as_given, is_several, spread
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
        spread(kernel_size, self.ndim, "kernel_size")  # which checks it
        self.kernel_size = as_given(kernel_size, "kernel_size")
        self.stride, self.padding = as_given(stride, "stride"), as_given(padding, "padding")
        self.dilation, self.ceil_mode = as_given(dilation, "dilation"), ceil_mode

    def forward(self, x: Tensor) -> Tensor:
        window = spread(self.kernel_size, self.ndim, "kernel_size")
        return max_pool(x, window, self.stride, self.padding, self.dilation, ceil_mode=self.ceil_mode)

    def extra_repr(self) -> str:
        text = f"kernel_size={self.kernel_size}, stride={self.kernel_size if self.stride is None else self.stride}"
        return f"{text}, padding={self.padding!r}, dilation={self.dilation}, ceil_mode={self.ceil_mode}"


class MaxPool1d(_MaxPool):
    """The greatest of each window of ``(..., L)``.

    Raises:
        ShapeError: When called: a window is larger than the input with its border.

    >>> zyx.nn.MaxPool1d(2)(zyx.ones(1, 3, 8)).shape
    (1, 3, 4)
    """

    ndim = 1


class MaxPool2d(_MaxPool):
    """The greatest of each window of ``(..., H, W)``.

    Raises:
        ShapeError: When called: a window is larger than the input with its border.

    >>> zyx.nn.MaxPool2d(2)(zyx.ones(1, 3, 8, 8)).shape
    (1, 3, 4, 4)
    """

    ndim = 2


class MaxPool3d(_MaxPool):
    """The greatest of each window of ``(..., D, H, W)``.

    Raises:
        ShapeError: When called: a window is larger than the input with its border.

    >>> zyx.nn.MaxPool3d(2)(zyx.ones(1, 3, 4, 4, 4)).shape
    (1, 3, 2, 2, 2)
    """

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
        spread(kernel_size, self.ndim, "kernel_size")  # which checks it
        self.kernel_size = as_given(kernel_size, "kernel_size")
        self.stride, self.padding = as_given(stride, "stride"), as_given(padding, "padding")
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, x: Tensor) -> Tensor:
        return avg_pool(
            x,
            spread(self.kernel_size, self.ndim, "kernel_size"),
            self.stride,
            self.padding,
            ceil_mode=self.ceil_mode,
            count_include_pad=self.count_include_pad,
        )

    def extra_repr(self) -> str:
        given = (self.kernel_size, self.kernel_size if self.stride is None else self.stride, self.padding)
        shown = [spread(each, 1, "") if self.ndim == 1 and not isinstance(each, str) else each for each in given]
        return f"kernel_size={shown[0]}, stride={shown[1]}, padding={shown[2]!r}"


class AvgPool1d(_AvgPool):
    """The mean of each window of ``(..., L)``.

    Raises:
        ShapeError: When called: a window is larger than the input with its border.

    >>> zyx.nn.AvgPool1d(2)(zyx.ones(1, 3, 8)).shape
    (1, 3, 4)
    """

    ndim = 1


class AvgPool2d(_AvgPool):
    """The mean of each window of ``(..., H, W)``.

    Raises:
        ShapeError: When called: a window is larger than the input with its border.

    >>> zyx.nn.AvgPool2d(2)(zyx.ones(1, 3, 8, 8)).shape
    (1, 3, 4, 4)
    """

    ndim = 2


class AvgPool3d(_AvgPool):
    """The mean of each window of ``(..., D, H, W)``.

    Raises:
        ShapeError: When called: a window is larger than the input with its border.

    >>> zyx.nn.AvgPool3d(2)(zyx.ones(1, 3, 4, 4, 4)).shape
    (1, 3, 2, 2, 2)
    """

    ndim = 3


class _AdaptiveAvgPool(Module):
    """Means of as many windows as are wanted; see `zyx.nn.functional.adaptive_avg_pool`."""

    ndim: ClassVar[int]

    def __init__(self, output_size: int | Sequence[int | None]) -> None:
        self.output_size = as_given(output_size, "output_size")

    def forward(self, x: Tensor) -> Tensor:
        size = self.output_size
        return adaptive_avg_pool(x, list(size) if is_several(size) else [size] * self.ndim)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Means of windows of ``(..., L)``.

    Raises:
        ShapeError: When called: a size below 1.

    >>> zyx.nn.AdaptiveAvgPool1d(2)(zyx.ones(1, 3, 8)).shape
    (1, 3, 2)
    """

    ndim = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Means of windows of ``(..., H, W)``.

    Raises:
        ShapeError: When called: a size below 1.

    >>> zyx.nn.AdaptiveAvgPool2d(1)(zyx.ones(1, 3, 8, 8)).shape
    (1, 3, 1, 1)
    """

    ndim = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Means of windows of ``(..., D, H, W)``.

    Raises:
        ShapeError: When called: a size below 1.

    >>> zyx.nn.AdaptiveAvgPool3d(2)(zyx.ones(1, 3, 4, 4, 4)).shape
    (1, 3, 2, 2, 2)
    """

    ndim = 3


class Upsample(Module):
    """``(N, C, ...)`` at another size; see `zyx.nn.functional.interpolate`.

    Raises:
        ShapeError: When called: not one of `size` and `scale_factor` was given.

    >>> zyx.nn.Upsample(scale_factor=2)(zyx.ones(1, 1, 2, 2)).shape
    (1, 1, 4, 4)
    """

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

    def extra_repr(self) -> str:
        factor = float(self.scale_factor) if isinstance(self.scale_factor, int) else self.scale_factor
        return (f"size={self.size}" if factor is None else f"scale_factor={factor}") + f", mode={self.mode!r}"
