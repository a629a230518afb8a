"""Keys and values of the tokens before, which the next token's queries look at."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import zyx
from zyx.errors import AllocationError
from zyx_llm.model.memory import explained, smaller_cache

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx_llm.config import Config


#: Places that caches of generation have besides those of the context: a last part reaches over its end.
SPARE: Final = 256
#: Places of a page.
PAGE: Final = 16


class Cache:
    """Keys and values of all layers, for one size that grows by doubling.

    A function that was traced for a size is traced anew for the next one.

    Args:
        config: Of the transformer.
        rows: Texts at a time.
        size: Places.
        dtype: Of keys and values.
        device: Where they lie.

    Raises:
        AllocationError: There is no room; the text says what would fit.

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
        with explained(device, self._advice(size, 2 * config.layers * math.prod(shape) // size, dtype)):
            self.keys, self.values = (
                [zyx.zeros(shape, dtype=dtype, device=device).realize() for _ in range(config.layers)] for _ in range(2)
            )

    @staticmethod
    def _advice(size: int, numbers: int, dtype: zyx.DType, held: int = 0) -> Callable[[int], str]:
        """Return what says which cache would fit, where a smaller one holds some bytes already."""
        return lambda free: smaller_cache(size, numbers, dtype, SPARE, free + held)

    @classmethod
    def of(cls, keys: list[zyx.Tensor], values: list[zyx.Tensor]) -> Cache:
        """Return a cache of keys and values that are there, as a traced function is given them."""
        made = cls.__new__(cls)
        made.keys, made.values, made.size, made.length = keys, values, keys[0].shape[2], 0
        return made

    def put(self, layer: int, first: zyx.Tensor, keys: zyx.Tensor, values: zyx.Tensor) -> tuple[zyx.Tensor, zyx.Tensor]:
        """Keep what a layer made of tokens, from place `first` on, and return all of the layer, ``(..., size, width)``.

        Args:
            layer: Which.
            first: One integer, such that there is room.
            keys: ``(rows, key_heads, n, head_width)``.
            values: Likewise.
        """
        for held, new in ((self.keys[layer], keys), (self.values[layer], values)):
            held[:, :, first : first + new.shape[2]] = new.astype(held.dtype)
        return self.keys[layer], self.values[layer]

    def grow(self, size: int) -> None:
        """Make room for `size` places, with what is there.

        Raises:
            AllocationError: There is none; the text says what would fit, and all is as before.
        """
        if size <= self.size:
            return
        held = sum(tensor.nbytes for tensor in (*self.keys, *self.values))
        (*front, before, width), dtype, device = self.keys[0].shape, self.keys[0].dtype, self.keys[0].device
        rest = zyx.zeros((*front, size - before, width), dtype=dtype, device=device)
        numbers = 2 * len(self.keys) * math.prod(front) * width
        with explained(device, self._advice(size, numbers, dtype, held)):
            try:
                for row in (self.keys, self.values):
                    for layer in range(len(row)):  # no old layer is held while the next one grows
                        row[layer] = zyx.concat([row[layer], rest], axis=2).realize()
            except AllocationError:
                # There is room to go back: the last layer that grew has left that of its old size.
                for row in (self.keys, self.values):
                    for layer in range(len(row)):
                        if row[layer].shape[2] != before:
                            row[layer] = row[layer][:, :, :before].contiguous().realize()
                raise
        self.size = size


class PagedCache:
    """Keys and values of all layers in pages, which many texts share out; a table says which pages are whose.

    pool    page 0  page 1  page 2  page 3  page 4            places 0 to PAGE - 1 of the first text are on page 3,
            -       b       a       a       b                 those after that on page 2
    table   [[3, 2], [1, 4]]

    Page 0 is nobody's: what fills up a batch is written there, and what fills up a table points there.

    Args:
        keys: For each layer ``(pages * key_heads * PAGE, head_width)``, as `pool` makes them.
        values: Likewise.
        table: ``(rows, width)``, integers: the pages of each text, in the order of its places.
        counts: ``(rows,)``, integers: how many of the tokens that are put are a text's; the others go to page 0.

    Attributes:
        keys: What was given.
        values: Likewise.
        size: Places of a text.
    """

    def __init__(self, keys: list[zyx.Tensor], values: list[zyx.Tensor], table: zyx.Tensor, counts: zyx.Tensor) -> None:
        self.keys, self.values = keys, values
        self.size = table.shape[1] * PAGE
        self._table = table
        self._counts = counts

    @staticmethod
    def pool(config: Config, pages: int, dtype: zyx.DType, device: str) -> tuple[list[zyx.Tensor], list[zyx.Tensor]]:
        """Return keys and values of all layers, zeros.

        Args:
            config: Of the transformer.
            pages: How many, page 0 among them.
            dtype: Of keys and values.
            device: Where they lie.

        Raises:
            AllocationError: There is no room; the text says what would fit.
        """
        shape = (pages * config.key_heads * PAGE, config.head_width)
        numbers = 2 * config.layers * math.prod(shape) // (pages * PAGE)
        with explained(device, lambda free: smaller_cache(pages * PAGE, numbers, dtype, PAGE, free)):
            keys, values = (
                [zyx.zeros(shape, dtype=dtype, device=device).realize() for _ in range(config.layers)] for _ in range(2)
            )
        return keys, values

    def put(self, layer: int, first: zyx.Tensor, keys: zyx.Tensor, values: zyx.Tensor) -> tuple[zyx.Tensor, zyx.Tensor]:
        """Keep what a layer made of tokens; return all of the layer in the order of places, ``(..., size, width)``.

        Args:
            layer: Which.
            first: The place of each row's first token, ``(rows,)``.
            keys: ``(rows, key_heads, n, head_width)``.
            values: Likewise.
        """
        rows, heads, n, width = keys.shape
        number = zyx.arange(n, dtype=zyx.int32, device=keys.device)
        places = first[:, None] + number
        page = zyx.take_along_axis(self._table, (places // PAGE).clip(0, self._table.shape[1] - 1), 1)
        page = zyx.where(number < self._counts[:, None], page, 0)
        head = zyx.arange(heads, dtype=zyx.int32, device=keys.device)[:, None]
        # A page of a head is one block, so that a text's are read in whole blocks, and a token is a row of the pool.
        slots = ((page[:, None] * heads + head) * PAGE + places[:, None] % PAGE).reshape((-1,))
        blocks = self._table[:, None] * heads + head
        found = []
        for held, new in ((self.keys[layer], keys), (self.values[layer], values)):
            held[slots] = new.astype(held.dtype).reshape((-1, width))
            found.append(held.reshape((-1, PAGE * width))[blocks].reshape((rows, heads, self.size, width)))
        return found[0], found[1]


class NoCache:
    """What stands for a `Cache` where all tokens are read at once: there are none before, and nothing is kept.

    Args:
        size: How many tokens.

    Attributes:
        size: How many tokens.
    """

    def __init__(self, size: int) -> None:
        self.size = size

    def put(self, layer: int, first: zyx.Tensor, keys: zyx.Tensor, values: zyx.Tensor) -> tuple[zyx.Tensor, zyx.Tensor]:
        """Return what is given; see `Cache.put`."""
        del layer, first
        return keys, values
