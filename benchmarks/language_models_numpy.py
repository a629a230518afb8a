"""A language model written down in NumPy, float32 throughout: what `language_models.py --check` holds others against.

It knows one architecture, `llama` in GGUF, and takes its weights by the package `gguf` rather than by zyx. Where it is
`rounded`, it does what llama.cpp does on processors: what a matrix of blocks is multiplied by is rounded to 8 bits, in
blocks of 32 of one float16 scale (Q8_0 and Q8_1 of ggml-quants.c), and keys and values are kept as float16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import gguf
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

#: Numbers of a block of what matrices are multiplied by.
_BLOCK: Final = 32


def in_eight_bits(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return what 8 bits and a float16 scale for each 32 numbers keep of ``(..., 32 * n)``."""
    blocks = x.reshape(*x.shape[:-1], -1, _BLOCK)
    scales = np.abs(blocks).max(-1, keepdims=True) / np.float32(127)
    whole = np.rint(np.divide(blocks, scales, out=np.zeros_like(blocks), where=scales > 0))
    return (whole * scales.astype(np.float16).astype(np.float32)).reshape(x.shape)


class Decode:
    """A text that the network in a file reads, token by token or many at a time.

    Args:
        path: A GGUF file.

    Raises:
        ValueError: The architecture is another one.

    Attributes:
        rounded: Whether it rounds as llama.cpp does; false at first.
    """

    def __init__(self, path: Path) -> None:
        reader = gguf.GGUFReader(path)
        self._said: dict[str, Any] = {name: field.contents() for name, field in reader.fields.items()}
        if (architecture := self._said["general.architecture"]) != "llama":
            raise ValueError(f"{path} is of architecture {architecture}; the network in NumPy is a llama's")
        self._weights = {
            tensor.name: gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
            for tensor in reader.tensors
        }
        self._packed = {tensor.name for tensor in reader.tensors if gguf.GGML_QUANT_SIZES[tensor.tensor_type][0] > 1}
        self.rounded = False
        self._head = "output.weight" if "output.weight" in self._weights else "token_embd.weight"
        self._key_heads = self._number("attention.head_count_kv")
        self._width = self._number("embedding_length") // self._number("attention.head_count")
        self.clear()

    def _number(self, name: str) -> Any:
        return self._said[f"llama.{name}"]

    def clear(self) -> None:
        """Forget all tokens."""
        none = np.zeros((0, self._key_heads, self._width), np.float32)
        self._cache = [(none, none)] * self._number("block_count")

    def logits(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """Append tokens, and return the logits ``(n, vocabulary)`` of each."""
        w, width, before = self._weights, self._width, len(self._cache[0][0])
        n, heads = len(tokens), self._number("attention.head_count")
        inverse = float(self._number("rope.freq_base")) ** (-np.arange(0, width, 2) / width)
        turns = np.exp(1j * np.arange(before, before + n)[:, None] * inverse).astype(np.complex64)[:, None]
        behind = np.triu(np.full((n, before + n), -np.inf, np.float32), before + 1)
        x = w["token_embd.weight"][np.asarray(tokens)]
        for layer in range(len(self._cache)):
            at = f"blk.{layer}"
            h = self._norm(x, f"{at}.attn_norm.weight")
            q, k, v = (self._product(h, f"{at}.attn_{name}.weight").reshape(n, -1, width) for name in "qkv")
            q, k = ((np.ascontiguousarray(y).view(np.complex64) * turns).view(np.float32) for y in (q, k))
            if self.rounded:
                k, v = (y.astype(np.float16).astype(np.float32) for y in (k, v))
            k, v = (np.concatenate(pair) for pair in zip(self._cache[layer], (k, v), strict=True))
            self._cache[layer] = k, v
            grouped = q.reshape(n, self._key_heads, heads // self._key_heads, width)
            scores = np.einsum("ihgd,jhd->hgij", grouped, k) / np.float32(np.sqrt(width)) + behind
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            shares /= shares.sum(-1, keepdims=True)
            summed = np.einsum("hgij,jhd->ihgd", shares, v).reshape(n, -1)
            x = x + self._product(summed, f"{at}.attn_output.weight")
            h = self._norm(x, f"{at}.ffn_norm.weight")
            gate = self._product(h, f"{at}.ffn_gate.weight")
            active = gate / (1 + np.exp(-gate)) * self._product(h, f"{at}.ffn_up.weight")
            x = x + self._product(active, f"{at}.ffn_down.weight")
        return self._product(self._norm(x, "output_norm.weight"), self._head)

    def greedy(self, tokens: Sequence[int], count: int) -> list[int]:
        """Append tokens, and return the `count` likeliest ones that follow; the last is not appended."""
        found = [int(self.logits(tokens)[-1].argmax())]
        while len(found) < count:
            found.append(int(self.logits(found[-1:])[-1].argmax()))
        return found

    def _product(self, x: NDArray[np.float32], name: str) -> NDArray[np.float32]:
        product: NDArray[np.float32] = (
            in_eight_bits(x) if self.rounded and name in self._packed else x
        ) @ self._weights[name].T
        return product

    def _norm(self, x: NDArray[np.float32], name: str) -> NDArray[np.float32]:
        epsilon = np.float32(self._number("attention.layer_norm_rms_epsilon"))
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * self._weights[name]


def nbytes_of(reader: gguf.GGUFReader) -> int:
    """Return the bytes of weights that are read for a token: all but a table that is for embeddings alone."""
    names = {tensor.name for tensor in reader.tensors}
    return sum(
        int(tensor.n_bytes)
        for tensor in reader.tensors
        if tensor.name != "token_embd.weight" or "output.weight" not in names
    )
