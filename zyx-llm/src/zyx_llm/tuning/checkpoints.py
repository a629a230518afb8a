"""What was learned, and how far: a safetensors file, replaced as a whole, so that a full disk leaves the last one.

    blk.0.attn_q.lora_a, .lora_b        of each adapter; or the weights themselves, by the names of the model
    optimizer.step, ...                 what `zyx.optim.AdamW.state_dict` gives

Its metadata have `KEY`: JSON of what was chosen and of the losses so far. Who resumes has to choose the same.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zyx import io
from zyx.errors import FormatError, InvalidArgumentError
from zyx_llm.tuning.lora import Adapter

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    import zyx
    from zyx_llm.tuning.loop import Tuning

KEY: Final = "zyx_llm.tuning"
_OPTIMIZER: Final = "optimizer."


def save_checkpoint(path: str | os.PathLike[str], tuning: Tuning) -> None:
    """Write what was learned and how far.

    Raises:
        TransferError: The file cannot be written; what was there is as it was.
    """
    state = {f"{_OPTIMIZER}{name}": tensor for name, tensor in tuning.optimizer.state_dict().items()}
    said = {"choices": _chosen(tuning), "step": tuning.step, "losses": tuning.losses}
    io.save_safetensors(path, tuning.params | state, {KEY: json.dumps(said)})


def load_checkpoint(path: str | os.PathLike[str], tuning: Tuning) -> None:
    """Go on where a file was written.

    Raises:
        FormatError: The file is no such file.
        InvalidArgumentError: Something else was chosen then; the text says what.
        StateError: It is of another network.
        TransferError: It cannot be read.
    """
    said = _read(path)
    chosen, then = _chosen(tuning), said["choices"]
    for name in (*chosen, *then):
        if chosen.get(name) != then.get(name):
            what = "the same texts, and --learn, --length, --validation and --seed" if name == "data" else "the same"
            raise InvalidArgumentError(
                f"{path} was made with {name} {then.get(name)}, not {chosen.get(name)}: losses would not be those of a "
                f"run that was never stopped; choose {what}, or begin anew"
            )
    tensors = io.load_safetensors(path, device=tuning.network.device)
    state = {name: tensor for name, tensor in tensors.items() if name.startswith(_OPTIMIZER)}
    tuning.load(
        {name: tensor for name, tensor in tensors.items() if name not in state},
        {name.removeprefix(_OPTIMIZER): tensor for name, tensor in state.items()},
    )
    tuning.step, tuning.losses = said["step"], said["losses"]


def load_adapters(path: str | os.PathLike[str], device: str | None = None) -> dict[str, Adapter]:
    """Return the adapters in a file that `save_checkpoint` wrote, for `Transformer.adapted` and `save_merged`.

    Raises:
        FormatError: The file is no such file, or has no adapters.
        TransferError: It cannot be read.
    """
    chosen = _read(path)["choices"]
    tensors: Mapping[str, zyx.Tensor] = io.load_safetensors(path, device=device)
    names = [name.removesuffix(".lora_a") for name in tensors if name.endswith(".lora_a")]
    if not names or any(f"{name}.lora_b" not in tensors for name in names):
        raise FormatError(f"{path} has no adapters, which are pairs of lora_a and lora_b")
    scale = chosen["alpha"] / chosen["rank"]
    return {name: Adapter(tensors[f"{name}.lora_a"], tensors[f"{name}.lora_b"], scale) for name in names}


def _chosen(tuning: Tuning) -> dict[str, Any]:
    # As JSON has it, where tuples are lists.
    chosen: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(tuning.choices) | {"data": tuning.data_digest}))
    return chosen


def _read(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        said = json.loads(io.read_metadata(Path(path))[KEY])
        if not isinstance(said["choices"], dict) or not isinstance(said["step"], int):
            raise FormatError(f"{path} says {said!r:.80} of how it was made")
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"{path} is no file that zyx-llm tune wrote: {error!r:.120}") from error
    found: dict[str, Any] = said
    return found
