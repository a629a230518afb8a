"""Low-rank adapters: few numbers beside the weights of a model, which stay as they are, packed ones packed.

    y = W x + alpha / rank * B A x          W: (out, in), of the file      A: (rank, in)      B: (out, rank)

B begins as 0, so the model begins as what it was. A begins as PyTorch's linear layers do, which is what their code and
PEFT have: evenly from -1 / sqrt(in) to that. Hu et al., "LoRA: Low-rank adaptation of large language models", 2021.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

import zyx
from zyx import io
from zyx.errors import FormatError, InvalidArgumentError
from zyx.quantize import QuantizedTensor

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from zyx_llm.model import Transformer

#: The matrices of a layer that get adapters, as GGUF calls them, of which a network has some.
TARGETS: Final = (
    "attn_q", "attn_k", "attn_v", "attn_qkv", "attn_output",
    "ffn_gate", "ffn_up", "ffn_down", "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp",
)  # fmt: skip
#: What GGUF says of a file whose matrices are float16, under `_FILE_TYPE`.
_MOSTLY_FLOAT16: Final = 1
_FILE_TYPE: Final = "general.file_type"


@dataclass(frozen=True, slots=True)
class Adapter:
    """What is added to the product with one matrix.

    Attributes:
        a: ``(rank, in)``, float32.
        b: ``(out, rank)``, float32.
        scale: alpha / rank.
    """

    a: zyx.Tensor
    b: zyx.Tensor
    scale: float

    def __call__(self, x: zyx.Tensor) -> zyx.Tensor:
        """Return ``(..., out)`` for ``(..., in)``."""
        return (x @ self.a.T.astype(x.dtype)) @ (self.b.T * self.scale).astype(x.dtype)

    @property
    def product(self) -> zyx.Tensor:
        """What the matrix would have to gain for the same effect, ``(out, in)``."""
        return (self.b * self.scale) @ self.a


def new_adapters(
    network: Transformer, rank: int, alpha: float | None = None, *, targets: Sequence[str] = TARGETS, seed: int = 0
) -> dict[str, Adapter]:
    """Return adapters for a network, for `Transformer.adapted`.

    Args:
        network: Whose matrices, and whose device.
        rank: At least 1; no more than either side of any of the matrices.
        alpha: How much they count, of which each gets alpha / rank; `rank` if None.
        targets: Which matrices of each layer, out of `TARGETS`.
        seed: Of the numbers that A begins with, which are the same on each device.

    Raises:
        InvalidArgumentError: Another rank, an alpha that is no positive number, an unknown target, or none that the
            network has.
    """
    for target in targets:
        if target not in TARGETS:
            raise InvalidArgumentError(f"there are no adapters for {target!r}; there are for {', '.join(TARGETS)}")
    shapes = {
        name.removesuffix(".weight"): matrix.shape
        for name, matrix in network.weights.items()
        if name.startswith("blk.") and name.split(".", 2)[2] in {f"{target}.weight" for target in targets}
    }
    if not shapes:
        raise InvalidArgumentError(f"the network has no {', '.join(targets) or 'matrices, if no targets are given'}")
    most = min(map(min, shapes.values()))
    if not 1 <= rank <= most:
        raise InvalidArgumentError(f"the rank of adapters for this network is 1 to {most}, not {rank}")
    alpha = float(rank) if alpha is None else alpha
    if not (math.isfinite(alpha) and alpha > 0.0):
        raise InvalidArgumentError(f"alpha is a positive number, not {alpha}")
    random = np.random.default_rng(seed)
    found = {}
    for name, (count, width) in shapes.items():
        limit = 1.0 / math.sqrt(width)
        a = zyx.Tensor(random.uniform(-limit, limit, (rank, width)).astype(np.float32), device=network.device)
        b = zyx.Tensor(np.zeros((count, rank), np.float32), device=network.device)
        found[name] = Adapter(a, b, alpha / rank)
    return found


def merged(weight: zyx.Tensor | QuantizedTensor, adapter: Adapter) -> zyx.Tensor:
    """Return a weight with what an adapter adds, ``(out, in)``, of the dtype of the weight; of a packed one float16."""
    if isinstance(weight, QuantizedTensor):
        return (weight.dequantize() + adapter.product).astype(zyx.float16)
    return (weight.astype(zyx.float32) + adapter.product).astype(weight.dtype)


def save_merged(path: str | os.PathLike[str], source: str | os.PathLike[str], adapters: Mapping[str, Adapter]) -> None:
    """Write a GGUF file with the weights of another one and what adapters add to them.

    Matrices that are packed in `source` and have an adapter are float16 in the new file: put into the same blocks
    again, they would lose most of what was learned. All else is as it was.

    Args:
        path: The file to write, which is replaced as a whole.
        source: The file that the network came from.
        adapters: By the names of matrices, as `new_adapters` gives them.

    Raises:
        FormatError: `source` has no such matrices, or of other shapes; or a sum is too large for float16.
        TransferError: A file cannot be read or written.
    """
    device = next(iter(adapters.values())).a.device if adapters else None
    tensors = io.load_gguf(source, device=device, packed=True)
    metadata = io.read_metadata(source)
    for name, adapter in adapters.items():
        weight = tensors.get(f"{name}.weight")
        shape = (adapter.b.shape[0], adapter.a.shape[1])
        if weight is None or weight.shape != shape:
            what = "is not there" if weight is None else f"is {weight.shape}"
            raise FormatError(f"{source}: {name}.weight {what}, and the adapter is for {shape}: they do not fit")
        if isinstance(weight, QuantizedTensor) and _FILE_TYPE in metadata:
            metadata[_FILE_TYPE] = _MOSTLY_FLOAT16
        found = merged(weight, adapter).realize()
        if not zyx.isfinite(found).all().item():
            raise FormatError(f"{name}.weight with what was learned has numbers that {found.dtype} lacks")
        tensors[f"{name}.weight"] = found
    io.save_gguf(path, tensors, metadata)
