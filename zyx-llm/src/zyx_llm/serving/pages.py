"""Whose pages are whose: which are free, how many texts have each, and which hold the beginning of a prompt.

    text a: "You are a helpful assistant. Who"    pages 3 7 2
    text b: "You are a helpful assistant. When"   pages 3 7 5       3 and 7 have two references

Only whole pages of a prompt are shared: nobody writes to these any more. What is on a free page stays there until it is
given to somebody, so that a prompt finds the beginning that an earlier one has left.
"""

from __future__ import annotations

import hashlib
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from zyx_llm.model import PAGE

if TYPE_CHECKING:
    from collections.abc import Sequence


class Pages:
    """The pages of a pool.

    Args:
        count: How many there are besides page 0, which is nobody's.

    Attributes:
        count: Likewise.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._references = [0] * (count + 1)
        # In the order in which they became free: what is on the one that has been free longest is lost first.
        self._free = dict.fromkeys(range(1, count + 1))
        self._page_of: dict[bytes, int] = {}
        self._key_of: dict[int, bytes] = {}

    @property
    def free(self) -> int:
        """How many are nobody's."""
        return len(self._free)

    @property
    def used(self) -> int:
        """How many are somebody's."""
        return self.count - len(self._free)

    def take(self, count: int) -> list[int] | None:
        """Return pages that were free, each with one reference now; None, and none are taken, if there are too few."""
        if count > len(self._free):
            return None
        found = [*islice(self._free, count)]
        for page in found:
            del self._free[page]
            self._references[page] = 1
            if key := self._key_of.pop(page, None):
                del self._page_of[key]
        return found

    def release(self, pages: Sequence[int]) -> None:
        """Give up a reference to each page."""
        for page in reversed(pages):  # the end of a text is lost before its beginning
            self._references[page] -= 1
            if not self._references[page]:
                self._free[page] = None

    def shared(self, keys: Sequence[bytes]) -> list[int]:
        """Return the pages that hold the first of these parts of a text, each with one reference more."""
        found: list[int] = []
        for key in keys:
            page = self._page_of.get(key)
            if page is None:
                break
            self._free.pop(page, None)
            self._references[page] += 1
            found.append(page)
        return found

    def name(self, pages: Sequence[int], keys: Sequence[bytes]) -> None:
        """Note which parts of a text are on pages, so that others find them; those that others have too stay theirs."""
        for page, key in zip(pages, keys, strict=True):
            if key not in self._page_of and page not in self._key_of:
                self._page_of[key], self._key_of[page] = page, key


def keys_of(tokens: Sequence[int]) -> list[bytes]:
    """Return for each whole page of a text what names it: a digest of its tokens and of all before them."""
    found: list[bytes] = []
    digest = hashlib.blake2b(digest_size=16)
    for end in range(PAGE, len(tokens) + 1, PAGE):
        digest.update(np.array(tokens[end - PAGE : end], np.int32).tobytes())
        found.append(digest.digest())
    return found


def pages_for(places: int) -> int:
    """Return how many pages hold so many places."""
    return -(-places // PAGE)
