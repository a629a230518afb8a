"""Layers of transformers, and stacks of them. Vaswani et al., "Attention is all you need", 2017.

Shapes are ``(length, N, d_model)``, or with `batch_first` ``(N, length, d_model)``. Masks are those of
`MultiheadAttention`: bools tell what is *not* seen.
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from zyx.dtype import as_dtype, float32
from zyx.errors import ShapeError
from zyx.functions.activations import gelu, relu
from zyx.functions.operands import require
from zyx.integers import as_index
from zyx.nn.attention import MultiheadAttention
from zyx.nn.containers import ModuleList
from zyx.nn.dropout import Dropout
from zyx.nn.init import xavier_uniform_
from zyx.nn.linear import Linear
from zyx.nn.module import Module, call
from zyx.nn.normalization import LayerNorm
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.dtype import DTypeLike

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": relu, "gelu": gelu}


class PositionalEncoding(Module):
    """Add to each place sines and cosines of its number, then drop out.

    Element 2i of place p is ``sin(p / 10000 ** (2i / dim))``, element 2i + 1 the cosine. The table is not saved.

    Raises:
        ShapeError: When called: the input is longer than `max_len`.

    >>> zyx.nn.PositionalEncoding(16, 4)(zyx.zeros(2, 5, 4)).shape
    (2, 5, 4)
    """

    def __init__(
        self,
        max_len: int,
        dim: int,
        dropout: float = 0.0,
        batch_first: bool = True,
        dtype: DTypeLike = float32,
        device: str | None = None,
    ) -> None:
        max_len, dim = as_index(max_len, "max_len"), as_index(dim, "dim")
        self.batch_first = batch_first
        self.dropout = Dropout(dropout)
        angles = np.arange(max_len)[:, None] * np.exp(np.arange(0, dim, 2) * (-math.log(10000.0) / max(dim, 1)))
        table = np.zeros((max_len, dim))
        table[:, 0::2] = np.sin(angles)
        table[:, 1::2] = np.cos(angles)[:, : dim // 2]
        self._table = Tensor(table.astype(as_dtype(dtype).numpy), device=device)

    def forward(self, x: Tensor) -> Tensor:
        """Return `x`, ``(N, length, dim)`` or ``(length, dim)``, moved; without `batch_first` ``(length, N, dim)``.

        Raises:
            ShapeError: Longer than the table, or of another width.
        """
        shape = require(x, "PositionalEncoding").node.shape
        if len(shape) not in (2, 3) or shape[-1] != self._table.shape[1]:
            raise ShapeError(f"PositionalEncoding of width {self._table.shape[1]} does not fit {shape}")
        is_first = len(shape) == 2 or not self.batch_first
        length = shape[0] if is_first else shape[1]
        if length > self._table.shape[0]:
            raise ShapeError(f"PositionalEncoding has {self._table.shape[0]} places, fewer than {length}")
        rows = self._table[:length].astype(x.dtype)
        return call(self.dropout, x + (rows.expand_dims(1) if len(shape) == 3 and is_first else rows))

    def extra_repr(self) -> str:
        return f"{self._table.shape[0]}, {self._table.shape[1]}"


class _Layer(Module):
    """What both kinds of layers are made of: attentions, then two linear layers; a norm and a dropout behind each."""

    _attentions: ClassVar[tuple[str, ...]]
    self_attn: MultiheadAttention
    norm1: LayerNorm
    norm2: LayerNorm
    dropout1: Dropout
    dropout2: Dropout

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        dtype: DTypeLike = float32,
        device: str | None = None,
    ) -> None:
        """Make the layer.

        Args:
            d_model: Width, a multiple of `nhead`.
            nhead: Heads of the attention.
            dim_feedforward: Width between the linear layers.
            dropout: Probability with which elements are dropped in training.
            activation: Between the linear layers: "relu", "gelu" or a function.
            layer_norm_eps: Added to variances.
            batch_first: Whether shapes are ``(N, length, d_model)``.
            norm_first: Whether what goes into each part is normalised, and not what comes out.
            bias: Whether there are biases.
            dtype: Of the parameters.
            device: Where they lie.

        Raises:
            ShapeError: `d_model` is no multiple of `nhead`, or an unknown activation.
        """
        if isinstance(activation, str) and activation not in _ACTIVATIONS:
            raise ShapeError(f"activation is a function or one of {', '.join(_ACTIVATIONS)}, not {activation!r}")
        self.norm_first = norm_first
        for name in self._attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout, bias, batch_first=batch_first, dtype=dtype, device=device
            )
            setattr(self, name, attention)
        self.activation = _ACTIVATIONS[activation] if isinstance(activation, str) else activation
        self.linear1 = Linear(d_model, dim_feedforward, bias, dtype, device)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, dtype, device)
        numbers = range(1, len(self._attentions) + 2)
        for number in numbers:
            setattr(self, f"norm{number}", LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype, device=device))
        for number in numbers:
            setattr(self, f"dropout{number}", Dropout(dropout))

    def _feed_forward(self, x: Tensor) -> Tensor:
        return call(self.linear2, call(self.dropout, self.activation(call(self.linear1, x))))


class TransformerEncoderLayer(_Layer):
    """Attention of a sequence to itself, then two linear layers; each is added to what came in, and normalised.

    Raises:
        ShapeError: The width does not fall into as many heads.

    >>> zyx.nn.TransformerEncoderLayer(8, 2, 16)(zyx.ones(5, 1, 8)).shape
    (5, 1, 8)
    """

    _attentions = ("self_attn",)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Return the sequence, changed; masks and `is_causal` as for `MultiheadAttention`."""

        def attention(x: Tensor) -> Tensor:
            found, _ = self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal)
            return call(self.dropout1, found)

        def feed_forward(x: Tensor) -> Tensor:
            return call(self.dropout2, self._feed_forward(x))

        if self.norm_first:
            x = src + attention(call(self.norm1, src))
            return x + feed_forward(call(self.norm2, x))
        x = call(self.norm1, src + attention(src))
        return call(self.norm2, x + feed_forward(x))


class TransformerDecoderLayer(_Layer):
    """Attention of a sequence to itself, then to another, then two linear layers.

    With `batch_first` sequences are ``(N, length, d_model)``, else of shape ``(length, N, d_model)``.

    Raises:
        ShapeError: The width does not fall into as many heads.

    >>> layer = zyx.nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
    >>> layer(zyx.ones(2, 3, 8), zyx.ones(2, 5, 8)).shape
    (2, 3, 8)
    """

    _attentions = ("self_attn", "multihead_attn")
    multihead_attn: MultiheadAttention
    norm3: LayerNorm
    dropout3: Dropout

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return `tgt`, changed, having looked at itself and at `memory`; masks as for `MultiheadAttention`."""

        def to_itself(x: Tensor) -> Tensor:
            found, _ = self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)
            return call(self.dropout1, found)

        def to_memory(x: Tensor) -> Tensor:
            found, _ = self.multihead_attn(
                x, memory, memory, memory_key_padding_mask, False, memory_mask, is_causal=memory_is_causal
            )
            return call(self.dropout2, found)

        def feed_forward(x: Tensor) -> Tensor:
            return call(self.dropout3, self._feed_forward(x))

        if self.norm_first:
            x = tgt + to_itself(call(self.norm1, tgt))
            x = x + to_memory(call(self.norm2, x))
            return x + feed_forward(call(self.norm3, x))
        x = call(self.norm1, tgt + to_itself(tgt))
        x = call(self.norm2, x + to_memory(x))
        return call(self.norm3, x + feed_forward(x))


def _copies(layer: Module, num_layers: int) -> ModuleList:
    count = as_index(num_layers, "num_layers")
    if count < 0:
        raise ShapeError(f"num_layers is at least 0, not {count}")
    return ModuleList(copy.deepcopy(layer) for _ in range(count))


class TransformerEncoder(Module):
    """`num_layers` copies of a layer, one after the other, and a last normalisation; the copies begin alike.

    The result has the shape of the sequence that is encoded.

    Raises:
        ShapeError: `num_layers` is negative. When called: sizes that do not fit.
        DTypeError: The layer is no module.

    >>> layer = zyx.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> zyx.nn.TransformerEncoder(layer, 2)(zyx.ones(2, 5, 8)).shape
    (2, 5, 8)
    """

    def __init__(self, encoder_layer: TransformerEncoderLayer, num_layers: int, norm: Module | None = None) -> None:
        self.layers = _copies(encoder_layer, num_layers)
        self.norm = norm

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Return what the last layer does; the arguments are those of each layer."""
        for layer in self.layers:
            src = call(layer, src, mask, src_key_padding_mask, is_causal)
        return src if self.norm is None else call(self.norm, src)


class TransformerDecoder(Module):
    """`num_layers` copies of a layer, one after the other, and a last normalisation; the copies begin alike.

    The result has the shape of the sequence that is decoded.

    Raises:
        ShapeError: `num_layers` is negative. When called: sizes that do not fit.
        DTypeError: The layer is no module.

    >>> layer = zyx.nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
    >>> zyx.nn.TransformerDecoder(layer, 2)(zyx.ones(2, 3, 8), zyx.ones(2, 5, 8)).shape
    (2, 3, 8)
    """

    def __init__(self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None) -> None:
        self.layers = _copies(decoder_layer, num_layers)
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return what the last layer does; the arguments are those of each layer."""
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        for layer in self.layers:
            tgt = call(layer, tgt, memory, *masks, tgt_is_causal, memory_is_causal)
        return tgt if self.norm is None else call(self.norm, tgt)


class Transformer(Module):
    """An encoder of one sequence, and a decoder of another that looks at what it gives.

    Parameters with at least two axes begin by Glorot's uniform formula.

    Raises:
        ShapeError: The width does not fall into as many heads.

    >>> network = zyx.nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
    >>> network(zyx.ones(2, 5, 8), zyx.ones(2, 3, 8)).shape
    (2, 3, 8)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        dtype: DTypeLike = float32,
        device: str | None = None,
    ) -> None:
        """Make the network.

        Args:
            d_model: See `TransformerEncoderLayer`, as all that is not below.
            nhead: See `d_model`.
            num_encoder_layers: How many layers the encoder has.
            num_decoder_layers: How many layers the decoder has.
            dim_feedforward: See `d_model`.
            dropout: See `d_model`.
            activation: See `d_model`.
            custom_encoder: In place of the encoder.
            custom_decoder: In place of the decoder.
            layer_norm_eps: See `d_model`.
            batch_first: See `d_model`.
            norm_first: See `d_model`.
            bias: See `d_model`.
            dtype: Of the parameters.
            device: Where they lie.

        Raises:
            ShapeError: `d_model` is no multiple of `nhead`, or an unknown activation.
        """
        self.d_model, self.nhead, self.batch_first = as_index(d_model, "d_model"), as_index(nhead, "nhead"), batch_first

        def layer(kind: Callable[..., Any]) -> Any:  # noqa: ANN401  # a layer
            return kind(
                d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias,
                dtype, device,
            )  # fmt: skip

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype, device=device)

        self.encoder = (
            TransformerEncoder(layer(TransformerEncoderLayer), num_encoder_layers, norm())
            if custom_encoder is None
            else custom_encoder
        )
        self.decoder = (
            TransformerDecoder(layer(TransformerDecoderLayer), num_decoder_layers, norm())
            if custom_decoder is None
            else custom_decoder
        )
        for parameter in self.parameters():
            if parameter.ndim > 1:
                xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool = False,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the decoded `tgt`, ``(length, N, d_model)``; masks as for `MultiheadAttention`.

        Raises:
            ShapeError: Batches or widths that do not fit.
        """
        shapes = [require(x, "Transformer").node.shape for x in (src, tgt)]
        place = 0 if self.batch_first else 1
        if any(shape[-1] != self.d_model for shape in shapes) or (
            len(shapes[0]) == 3 and shapes[0][place] != shapes[1][place]
        ):
            raise ShapeError(f"Transformer of width {self.d_model}: src {shapes[0]} and tgt {shapes[1]} do not fit")
        memory = call(self.encoder, src, src_mask, src_key_padding_mask, src_is_causal)
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return call(self.decoder, tgt, memory, *masks, tgt_is_causal, memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: str | None = None, dtype: DTypeLike = float32) -> Tensor:
        """Return the mask ``(sz, sz)`` that hides what is behind each place: minus infinity there, else 0."""
        hidden = np.triu(np.full((sz, sz), -math.inf, as_dtype(dtype).numpy), 1)
        return Tensor(hidden, device=device)
