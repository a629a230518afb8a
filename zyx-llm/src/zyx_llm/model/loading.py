"""Networks out of files: GGUF, or a folder with config.json and safetensors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import zyx
from zyx import io
from zyx.errors import FormatError, InvalidArgumentError, TransferError
from zyx.quantize import QuantizedTensor
from zyx_llm.config import config_of_json, config_of_metadata, encoder_of_json, encoder_of_metadata
from zyx_llm.files import read_json
from zyx_llm.model.encoder import Encoder, encoder_shapes, named_tensors
from zyx_llm.model.memory import explained, smaller_weights
from zyx_llm.model.transformer import Transformer
from zyx_llm.model.weights import canonical_name, check_tensors, expected_shapes, stacked, weight

if TYPE_CHECKING:
    import os

    from zyx_llm.config import Config
    from zyx_llm.model.weights import Weight

#: Places that a network has room for if nobody says how many; more are a matter of memory.
MOST_PLACES: Final = 1 << 15
#: What packed matrices may be multiplied with.
ACTIVATIONS: Final = (None, "int8")
#: Turns' divisors, which files of Llama 3 and Phi 3 have as tensors.
_DIVISORS: Final = ("rope_freqs", "rope_factors_short", "rope_factors_long")


def load_transformer(
    path: str | os.PathLike[str],
    *,
    device: str | None = None,
    dtype: zyx.DType | None = None,
    context: int | None = None,
    activations: str | None = None,
) -> Transformer:
    """Return the network in a file.

    Args:
        path: A GGUF file, or a folder with ``config.json`` and ``model.safetensors`` or its index.
        device: Where it is to run; the default device if None.
        dtype: Of matrices: float32, float16 or bfloat16. None leaves those of blocks packed, and is float32 for others.
            Norms and biases are float32.
        context: The most tokens at a time; what the file says if None, but at most 32,768.
        activations: None or "int8"; see `zyx_llm.load`.

    Raises:
        FormatError: The file is not well formed, of an unknown architecture, or lacks something; the text says what.
        TransferError: It cannot be read.
        InvalidArgumentError: A context of no tokens, or activations that are neither, or that no matrix is rounded for.
        AllocationError: The device has no room; the text says what would fit.
    """
    if activations not in ACTIVATIONS:
        raise InvalidArgumentError(
            f"activations are rounded to 'int8', or not at all with None, not to {activations!r}"
        )
    if context is not None and context < 1:
        raise InvalidArgumentError(f"context is at least 1, not {context}")
    path = Path(path)
    config, tensors = _of_folder(path, device) if path.is_dir() else _of_gguf(path, device)
    tensors = stacked(tensors)
    check_tensors(config.architecture, expected_shapes(config, tensors), tensors)
    weights = _weights(tensors, dtype, device, activations)
    if activations and not any(
        isinstance(each, QuantizedTensor) and each.layout.has_one_scale for each in weights.values()
    ):
        raise InvalidArgumentError(
            f"activations={activations!r} is for packed matrices with one scale for a block, such as those of Q4_0 and "
            f"Q8_0; with dtype={dtype}, none of {path} is kept so: leave activations out, or dtype, or take another"
        )
    length = min(config.context, MOST_PLACES) if context is None else context
    return Transformer(config, weights, length, activations=activations)


def load_encoder(path: str | os.PathLike[str], *, device: str | None = None, dtype: zyx.DType | None = None) -> Encoder:
    """Return the encoder in a file; arguments and errors are those of `load_transformer`."""
    path = Path(path)
    if path.is_dir():
        pooling = read_json(path / "1_Pooling" / "config.json", required=False)
        config = encoder_of_json(read_json(path / "config.json"), pooling)
        tensors = _of_safetensors(path, device)
    else:
        config = encoder_of_metadata(io.read_metadata(path))
        tensors = io.load_gguf(path, device=device, packed=True)
    tensors = named_tensors(tensors)
    check_tensors(config.architecture, encoder_shapes(config, tensors), tensors)
    return Encoder(config, _weights(tensors, dtype, device))


def _weights(
    tensors: dict[str, Any], dtype: zyx.DType | None, device: str | None, activations: str | None = None
) -> dict[str, Weight]:
    with explained(device or zyx.default_device(), lambda free: smaller_weights(tensors, dtype, free)):
        return {
            name: weight(tensor, dtype if len(tensor.shape) > 1 else zyx.float32, device, activations=activations)
            for name, tensor in tensors.items()
        }


def _of_gguf(path: Path, device: str | None) -> tuple[Config, dict[str, Any]]:
    metadata = io.read_metadata(path)
    if "general.architecture" not in metadata:
        raise FormatError(f"{path} is no language model: it does not say general.architecture")
    tensors = io.load_gguf(path, device=device, packed=True)
    divisors = {
        name: tuple(tensors.pop(f"{name}.weight").numpy().tolist()) for name in _DIVISORS if f"{name}.weight" in tensors
    }
    return config_of_metadata(metadata, divisors), tensors


def _of_folder(folder: Path, device: str | None) -> tuple[Config, dict[str, Any]]:
    config = config_of_json(read_json(folder / "config.json"))
    tensors = _of_safetensors(folder, device)
    named = {canonical_name(name, config): tensor for name, tensor in tensors.items()}
    if "output.weight" in named and read_json(folder / "config.json").get("tie_word_embeddings"):
        del named["output.weight"]
    return config, named


def _of_safetensors(folder: Path, device: str | None) -> dict[str, Any]:
    for name in ("model.safetensors.index.json", "model.safetensors"):
        if (folder / name).exists():
            found: dict[str, Any] = zyx.load(folder / name, device=device)
            return found
    raise TransferError(f"{folder} has no model.safetensors, and no index of several")
