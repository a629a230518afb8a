"""Keys and values of the tokens before, which the next token's queries look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import zyx

if TYPE_CHECKING:
    from zyx_llm.config import Config


class Cache:
    """Keys and values of all layers, for one size that grows by doubling.

    A function that was traced for a size is traced anew for the next one.

    Args:
        config: Of the transformer.
        rows: Texts at a time.
        size: Places.
        dtype: Of keys and values.
        device: Where they lie.

    Attributes:
        keys: For each layer ``(rows, key_heads, size, head_width)``.
        values: Likewise.
        size: Places.
        length: How many of them are taken.
    """

    def __init__(self, config: Config, rows: int, size: int, dtype: zyx.DType, device: str) -> None:
        shape = (rows, config.key_heads, size, config.head_width)
        self.size = size
        self.length = 0
        self.keys, self.values = (
            [zyx.zeros(shape, dtype=dtype, device=device).realize() for _ in range(config.layers)] for _ in range(2)
        )

    @classmethod
    def of(cls, keys: list[zyx.Tensor], values: list[zyx.Tensor]) -> Cache:
        """Return a cache of keys and values that are there, as a traced function is given them."""
        made = cls.__new__(cls)
        made.keys, made.values, made.size, made.length = keys, values, keys[0].shape[2], 0
        return made

    def grow(self, size: int) -> None:
        """Make room for `size` places, with what is there."""
        if size <= self.size:
            return
        more = size - self.size
        for row in (self.keys, self.values):
            for layer, old in enumerate(row):
                rest = zyx.zeros((*old.shape[:2], more, old.shape[3]), dtype=old.dtype, device=old.device)
                row[layer] = zyx.concat([old, rest], axis=2).realize()
        self.size = size
