"""Networks out of files: GGUF, or a folder with config.json and safetensors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import zyx
from zyx import io
from zyx.errors import FormatError, InvalidArgumentError, TransferError
from zyx_llm.config import config_of_json, config_of_metadata
from zyx_llm.files import read_json
from zyx_llm.model.transformer import Transformer
from zyx_llm.model.weights import canonical_name, check_tensors, weight

if TYPE_CHECKING:
    import os

    from zyx_llm.config import Config

#: Places that a network has room for if nobody says how many; more are a matter of memory.
MOST_PLACES: Final = 1 << 15
#: Turns' divisors, which files of Llama 3 and Phi 3 have as tensors.
_DIVISORS: Final = ("rope_freqs", "rope_factors_short", "rope_factors_long")


def load_transformer(
    path: str | os.PathLike[str],
    *,
    device: str | None = None,
    dtype: zyx.DType = zyx.float32,
    context: int | None = None,
) -> Transformer:
    """Return the network in a file.

    Args:
        path: A GGUF file, or a folder with ``config.json`` and ``model.safetensors`` or its index.
        device: Where it is to run; the default device if None.
        dtype: Of matrices: float32, float16 or bfloat16. Norms and biases are float32.
        context: The most tokens at a time; what the file says if None, but at most 32,768.

    Raises:
        FormatError: The file is not well formed, of an unknown architecture, or lacks something; the text says what.
        TransferError: It cannot be read.
        InvalidArgumentError: A context of no tokens.
    """
    if context is not None and context < 1:
        raise InvalidArgumentError(f"context is at least 1, not {context}")
    path = Path(path)
    config, tensors = _of_folder(path, device) if path.is_dir() else _of_gguf(path, device)
    check_tensors(config, tensors)
    weights = {
        name: weight(tensor, dtype if len(tensor.shape) > 1 else zyx.float32, device)
        for name, tensor in tensors.items()
    }
    return Transformer(config, weights, min(config.context, MOST_PLACES) if context is None else context)


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
    for name in ("model.safetensors.index.json", "model.safetensors"):
        if (folder / name).exists():
            tensors = zyx.load(folder / name, device=device)
            break
    else:
        raise TransferError(f"{folder} has no model.safetensors, and no index of several")
    named = {canonical_name(name, config): tensor for name, tensor in tensors.items()}
    if "output.weight" in named and read_json(folder / "config.json").get("tie_word_embeddings"):
        del named["output.weight"]
    return config, named
