"""Convolutions and their transposes.

Weights and biases begin within ``1 / sqrt(n)``, n being the inputs of one window: channels of a group times positions.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from zyx.dtype import float32
from zyx.errors import ShapeError
from zyx.functions.conv import conv, conv_transpose
from zyx.functions.joining import pad
from zyx.integers import as_given, as_index, is_several, spread
from zyx.nn import initial
from zyx.nn.module import Module

if TYPE_CHECKING:
    from zyx.dtype import DTypeLike
    from zyx.functions.conv import Padding, Sizes
    from zyx.tensor.tensor import Tensor

_PADDING_MODES = {"zeros": "constant", "reflect": "reflect", "replicate": "replicate", "circular": "circular"}


class _Convolution(Module):
    """What convolutions of all ranks share; sizes are for all axes, or each."""

    ndim: ClassVar[int]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Padding = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        dtype: DTypeLike = float32,
        device: str | None = None,
    ) -> None:
        """Make the layer.

        Args:
            in_channels: A multiple of `groups`.
            out_channels: A multiple of `groups`.
            kernel_size: Extents of a filter.
            stride: Distance between windows.
            padding: Border on both sides; "valid" is none, "same" keeps the size.
            dilation: Distance between the elements of a window.
            groups: Parts into which the channels fall.
            bias: Whether one number a channel is added.
            padding_mode: What the border consists of: "zeros", "reflect", "replicate" or "circular".
            dtype: Of weights and biases.
            device: Where they lie.

        Raises:
            ShapeError: Channels that are no multiple of `groups`, or an unknown mode.
        """
        in_channels, out_channels = as_index(in_channels, "in_channels"), as_index(out_channels, "out_channels")
        groups, window = as_index(groups, "groups"), spread(kernel_size, self.ndim, "kernel_size")
        _check_groups(in_channels, out_channels, groups)
        if padding_mode not in _PADDING_MODES:
            raise ShapeError(f"padding_mode is one of {', '.join(_PADDING_MODES)}, not {padding_mode!r}")
        if padding_mode != "zeros" and isinstance(padding, str):
            raise ShapeError(f"padding {padding!r} goes with padding_mode 'zeros' only; give it as numbers")
        self.stride, self.padding = as_given(stride, "stride"), as_given(padding, "padding")
        self.dilation, self.groups = as_given(dilation, "dilation"), groups
        self.padding_mode = padding_mode
        inputs = in_channels // groups * math.prod(window)
        shape = (out_channels, in_channels // groups, *window)
        self.weight = initial.for_inputs(inputs, shape, dtype, device)
        self.bias = initial.for_inputs(inputs, (out_channels,), dtype, device) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            widths = spread(padding, self.ndim, "padding")
            x = pad(x, [(width, width) for width in widths], _PADDING_MODES[self.padding_mode])
            padding = 0
        return conv(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def extra_repr(self) -> str:
        return _describe(self.weight.shape[1] * self.groups, self.weight.shape[0], self)


class Conv1d(_Convolution):
    """``(N, in_channels, L)`` to ``(N, out_channels, L_out)``; see `zyx.conv`.

    Raises:
        ShapeError: `groups` does not divide the channels. When called: other channels, or less than a window.

    >>> zyx.nn.Conv1d(2, 4, 3)(zyx.ones(1, 2, 8)).shape
    (1, 4, 6)
    """

    ndim = 1


class Conv2d(_Convolution):
    """``(N, in_channels, H, W)`` to ``(N, out_channels, H_out, W_out)``; see `zyx.conv`.

    Raises:
        ShapeError: `groups` does not divide the channels. When called: other channels, or less than a window.

    >>> zyx.nn.Conv2d(3, 8, 3, padding=1)(zyx.ones(1, 3, 6, 6)).shape
    (1, 8, 6, 6)
    """

    ndim = 2


class Conv3d(_Convolution):
    """``(N, in_channels, D, H, W)`` to ``(N, out_channels, D_out, H_out, W_out)``; see `zyx.conv`.

    Raises:
        ShapeError: `groups` does not divide the channels. When called: other channels, or less than a window.

    >>> zyx.nn.Conv3d(1, 2, 3)(zyx.ones(1, 1, 4, 4, 4)).shape
    (1, 2, 2, 2, 2)
    """

    ndim = 3


class _TransposedConvolution(Module):
    """What transposed convolutions of all ranks share; sizes are for all axes, or each."""

    ndim: ClassVar[int]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        dtype: DTypeLike = float32,
        device: str | None = None,
    ) -> None:
        """Make the layer.

        Args:
            in_channels: A multiple of `groups`.
            out_channels: A multiple of `groups`.
            kernel_size: Extents of a filter.
            stride: Distance between windows of the output.
            padding: How much is cut off on both sides.
            output_padding: How much is added at the end.
            groups: Parts into which the channels fall.
            bias: Whether one number a channel is added.
            dilation: Distance between the elements of a window.
            dtype: Of weights and biases.
            device: Where they lie.

        Raises:
            ShapeError: Channels that are no multiple of `groups`.
        """
        in_channels, out_channels = as_index(in_channels, "in_channels"), as_index(out_channels, "out_channels")
        groups, window = as_index(groups, "groups"), spread(kernel_size, self.ndim, "kernel_size")
        _check_groups(in_channels, out_channels, groups)
        self.stride, self.padding = as_given(stride, "stride"), as_given(padding, "padding")
        self.output_padding = as_given(output_padding, "output_padding")
        self.dilation, self.groups = as_given(dilation, "dilation"), groups
        # PyTorch counts the axis of outputs here: that of the convolution which this is the transpose of.
        inputs = out_channels // groups * math.prod(window)
        shape = (in_channels, out_channels // groups, *window)
        self.weight = initial.for_inputs(inputs, shape, dtype, device)
        self.bias = initial.for_inputs(inputs, (out_channels,), dtype, device) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return conv_transpose(
            x, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups, self.dilation
        )

    def extra_repr(self) -> str:
        return _describe(self.weight.shape[0], self.weight.shape[1] * self.groups, self)


class ConvTranspose1d(_TransposedConvolution):
    """``(N, in_channels, L)`` to ``(N, out_channels, L_out)``; see `zyx.conv_transpose`.

    Raises:
        ShapeError: `groups` does not divide the channels. When called: the input has other channels.

    >>> zyx.nn.ConvTranspose1d(3, 2, 2, stride=2)(zyx.ones(1, 3, 4)).shape
    (1, 2, 8)
    """

    ndim = 1


class ConvTranspose2d(_TransposedConvolution):
    """``(N, in_channels, H, W)`` to ``(N, out_channels, H_out, W_out)``; see `zyx.conv_transpose`.

    Raises:
        ShapeError: `groups` does not divide the channels. When called: the input has other channels.

    >>> zyx.nn.ConvTranspose2d(3, 2, 2, stride=2)(zyx.ones(1, 3, 4, 4)).shape
    (1, 2, 8, 8)
    """

    ndim = 2


class ConvTranspose3d(_TransposedConvolution):
    """``(N, in_channels, D, H, W)`` to ``(N, out_channels, D_out, H_out, W_out)``; see `zyx.conv_transpose`.

    Raises:
        ShapeError: `groups` does not divide the channels. When called: the input has other channels.

    >>> zyx.nn.ConvTranspose3d(1, 2, 2, stride=2)(zyx.ones(1, 1, 2, 2, 2)).shape
    (1, 2, 4, 4, 4)
    """

    ndim = 3


def _check_groups(in_channels: int, out_channels: int, groups: int) -> None:
    if groups < 1 or in_channels % groups or out_channels % groups:
        raise ShapeError(f"{in_channels} and {out_channels} channels do not fall into {groups} groups")


def _describe(inputs: int, outputs: int, layer: _Convolution | _TransposedConvolution) -> str:
    """Return the text of PyTorch's layers: sizes for each axis, and what is not as by default."""

    def each(size: Padding) -> str:
        is_plain = isinstance(size, str) or (is_several(size) and any(is_several(width) for width in size))
        return str(size if is_plain else spread(size, layer.ndim, ""))  # type: ignore[arg-type]  # no pairs are left

    text = f"{inputs}, {outputs}, kernel_size={layer.weight.shape[2:]}, stride={each(layer.stride)}"
    for name, usual in (("padding", 0), ("dilation", 1), ("output_padding", 0)):
        shown = each(getattr(layer, name, usual))
        text += "" if shown == each(usual) else f", {name}={shown}"
    text += f", groups={layer.groups}" if layer.groups != 1 else ""
    text += "" if layer.bias is not None else ", bias=False"
    mode = getattr(layer, "padding_mode", "zeros")
    return text if mode == "zeros" else f"{text}, padding_mode={mode}"
