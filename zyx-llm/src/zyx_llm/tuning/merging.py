"""A GGUF file of a model whose weights have changed themselves; `zyx_llm.tuning.lora` has the one of adapters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import zyx
from zyx import io
from zyx.errors import FormatError
from zyx_llm.model.weights import stacked

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

#: What GGUF says of a file whose tensors are all float32, and under which name.
_ALL_FLOAT32: Final = 0
_FILE_TYPE: Final = "general.file_type"


def save_weights(
    path: str | os.PathLike[str], source: str | os.PathLike[str], weights: Mapping[str, zyx.Tensor]
) -> None:
    """Write a GGUF file with weights in place of those of another one, as they are: packed, they would be others.

    Args:
        path: The file to write, which is replaced as a whole.
        source: The file that the network came from; what has no other weight, and all else that it says, is kept.
        weights: By name, such as `Tuning.params` if all weights change.

    Raises:
        FormatError: `source` has no such weights, or of other shapes; or one has a number that is not finite.
        TransferError: A file cannot be read or written.
    """
    device = next(iter(weights.values())).device if weights else None
    tensors = stacked(io.load_gguf(source, device=device, packed=True))
    metadata = io.read_metadata(source)
    for name, weight in weights.items():
        if name not in tensors or tuple(tensors[name].shape) != weight.shape:
            what = f"is {tuple(tensors[name].shape)}" if name in tensors else "is not there"
            raise FormatError(f"{source}: {name} {what}, and {weight.shape} was learned: they do not fit")
        if not zyx.isfinite(weight).all().item():
            raise FormatError(f"{name} has numbers that are not finite: a lower rate may do")
        tensors[name] = weight
    if _FILE_TYPE in metadata:
        metadata[_FILE_TYPE] = _ALL_FLOAT32
    io.save_gguf(path, tensors, metadata)
