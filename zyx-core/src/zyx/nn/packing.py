"""`quantize`: the weights of a module, packed."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from zyx.errors import FormatError
from zyx.nn.embedding import Embedding
from zyx.nn.linear import Linear
from zyx.nn.module import Module
from zyx.quantize import QuantizedTensor
from zyx.quantize import quantize as packed

if TYPE_CHECKING:
    from collections.abc import Callable

_M = TypeVar("_M", bound=Module)


def quantize(module: _M, format: str, where: Callable[[str, Module], bool] | None = None) -> _M:
    """Let the weights of the `Linear` and `Embedding` layers in a module be packed; return this module.

    The shapes of inputs and results stay.

    They are constants from then on, no parameters: gradients pass through the layers, to what is trained around them.
    What two layers share is packed once. The state of the module has the bytes as "weight.data".

    Args:
        module: Any module.
        format: See `zyx.quantize.quantize`.
        where: Told the name and the layer, whether it is packed; all are by default.

    Raises:
        FormatError: Another format, or weights whose rows are no whole number of blocks; the text has the layer. Then
            nothing was changed.

    >>> layer = zyx.nn.quantize(zyx.nn.Linear(32, 4), "Q8_0")
    >>> layer(zyx.ones(2, 32)).shape
    (2, 4)
    """
    found: list[tuple[Linear | Embedding, QuantizedTensor]] = []
    made: dict[int, QuantizedTensor] = {}
    for name, layer in module.named_modules():
        if not isinstance(layer, Linear | Embedding) or isinstance(layer.weight, QuantizedTensor):
            continue
        if where is not None and not where(name, layer):
            continue
        if id(layer.weight) not in made:
            try:
                made[id(layer.weight)] = packed(layer.weight, format)
            except FormatError as error:
                raise FormatError(f"{name or type(layer).__name__}: {error}; `where` can leave it out") from error
        found.append((layer, made[id(layer.weight)]))
    for layer, weight in found:
        layer.weight = weight  # type: ignore[assignment]  # a parameter by construction, which layers do not rely on
    return module
