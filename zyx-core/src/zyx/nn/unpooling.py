"""Pooling as modules, beside that of `zyx.nn.pooling`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from zyx.errors import ShapeError
from zyx.integers import as_given, is_several, spread
from zyx.nn.families import by_rank
from zyx.nn.functional import unpooling
from zyx.nn.functional.resizing import interpolate
from zyx.nn.module import Module

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.functions.conv import Sizes
    from zyx.tensor.tensor import Tensor


class _AdaptiveMaxPool(Module):
    """The greatest of as many windows as are wanted; see `zyx.nn.functional.adaptive_max_pool`."""

    ndim: ClassVar[int]

    def __init__(self, output_size: int | Sequence[int | None] | None, return_indices: bool = False) -> None:
        self.output_size, self.return_indices = as_given(output_size, "output_size"), return_indices

    def forward(self, x: Tensor) -> Any:  # noqa: ANN401  # a tensor, or two
        size = self.output_size
        wanted = list(size) if is_several(size) else [size] * self.ndim
        return unpooling.adaptive_max_pool(x, wanted, self.ndim, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class _MaxUnpool(Module):
    """Zeros with elements where pooling found them; see `zyx.nn.functional.max_unpool`."""

    ndim: ClassVar[int]

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        self.kernel_size = spread(kernel_size, self.ndim, "kernel_size")
        self.stride = self.kernel_size if stride is None else spread(stride, self.ndim, "stride")
        self.padding = spread(padding, self.ndim, "padding")

    def forward(self, x: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return unpooling.max_unpool(x, indices, self.kernel_size, self.stride, self.padding, output_size, self.ndim)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _LPPool(Module):
    """The p-norm of each window; see `zyx.nn.functional.lp_pool1d`."""

    ndim: ClassVar[int]

    def __init__(
        self, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
    ) -> None:
        spread(kernel_size, self.ndim, "kernel_size")  # which checks it
        self.norm_type, self.kernel_size = norm_type, as_given(kernel_size, "kernel_size")
        self.stride, self.ceil_mode = as_given(stride, "stride"), ceil_mode

    def forward(self, x: Tensor) -> Tensor:
        pool = (unpooling.lp_pool1d, unpooling.lp_pool2d, unpooling.lp_pool3d)[self.ndim - 1]
        return pool(x, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        text = f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}"
        return f"{text}, ceil_mode={self.ceil_mode}"


class _FractionalMaxPool(Module):
    """The greatest of windows at random places; see `zyx.nn.functional.fractional_max_pool2d`."""

    ndim: ClassVar[int]

    def __init__(
        self,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        """Make the layer.

        Raises:
            ShapeError: Not one of `output_size` and `output_ratio`.
        """
        if (output_size is None) == (output_ratio is None):
            raise ShapeError(f"{type(self).__name__} takes either output_size or output_ratio")
        self.kernel_size = spread(kernel_size, self.ndim, "kernel_size")
        self.output_size, self.output_ratio = as_given(output_size, "output_size"), output_ratio
        self.return_indices, self._random_samples = return_indices, _random_samples

    def forward(self, x: Tensor) -> Any:  # noqa: ANN401  # a tensor, or two
        pool = unpooling.fractional_max_pool2d if self.ndim == 2 else unpooling.fractional_max_pool3d
        return pool(x, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples)


AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d = by_rank(
    _AdaptiveMaxPool,
    "AdaptiveMaxPool{}d",
    "The greatest of as many windows as are wanted over the last {}.\n\n"
    "Raises:\n    ShapeError: When called: a size below 1.\n"
    "\n>>> zyx.nn.{name}(2)(zyx.ones{shape:8}).shape\n{shape:2}\n",
)
MaxUnpool1d, MaxUnpool2d, MaxUnpool3d = by_rank(
    _MaxUnpool,
    "MaxUnpool{}d",
    "`zyx.nn.functional.max_unpool` over the last {}.\n\n"
    "Raises:\n    ShapeError: When called: elements and places have other shapes.\n"
    "\n>>> zyx.nn.{name}(2)(zyx.ones{shape:1}, zyx.zeros({shape:1}, dtype='int64')).shape\n{shape:2}\n",
)
LPPool1d, LPPool2d, LPPool3d = by_rank(
    _LPPool,
    "LPPool{}d",
    "The p-norm of each window over the last {}.\n\n"
    "Raises:\n    ShapeError: When called: a window is larger than the input.\n"
    "\n>>> zyx.nn.{name}(2.0, 2)(zyx.ones{shape:8}).shape\n{shape:4}\n",
)
FractionalMaxPool2d, FractionalMaxPool3d = by_rank(
    _FractionalMaxPool,
    "FractionalMaxPool{}d",
    "The greatest of windows at random places over the last {}.\n\n"
    "Raises:\n    ShapeError: Not one of `output_size` and `output_ratio`.\n"
    "\n>>> zyx.nn.{name}(2, 3)(zyx.ones{shape:8}).shape\n{shape:3}\n",
    (2, 3),
)


class _Upsampling(Module):
    """Pictures ``(N, C, H, W)`` at another size."""

    mode: ClassVar[str]
    align_corners: ClassVar[bool | None]

    def __init__(self, size: Sizes | None = None, scale_factor: float | Sequence[float] | None = None) -> None:
        self.size, self.scale_factor = as_given(size, "size"), scale_factor

    def forward(self, x: Tensor) -> Tensor:
        return interpolate(x, self.size, self.scale_factor, self.mode, self.align_corners)

    def extra_repr(self) -> str:
        factor = float(self.scale_factor) if isinstance(self.scale_factor, int) else self.scale_factor
        return (f"size={self.size}" if factor is None else f"scale_factor={factor}") + f", mode={self.mode!r}"


class UpsamplingNearest2d(_Upsampling):
    """Each element of the new picture is the one at its place in the old.

    Raises:
        ShapeError: When called: not one of `size` and `scale_factor` was given.

    >>> zyx.nn.UpsamplingNearest2d(scale_factor=2)(zyx.Tensor([[[[1.0, 2.0]]]])).tolist()
    [[[[1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0, 2.0]]]]
    """

    mode = "nearest"
    align_corners = None


class UpsamplingBilinear2d(_Upsampling):
    """Each element of the new picture weighs its neighbours in the old; the outermost lie on the border.

    Raises:
        ShapeError: When called: not one of `size` and `scale_factor` was given.

    >>> zyx.nn.UpsamplingBilinear2d(scale_factor=2)(zyx.ones(1, 1, 2, 3)).shape
    (1, 1, 4, 6)
    """

    mode = "bilinear"
    align_corners = True
