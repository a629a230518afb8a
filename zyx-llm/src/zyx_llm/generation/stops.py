r"""Texts at which an answer ends, found in what comes in parts.

stops ["\nUser:"], parts "Hi.", "\nUs", "er: x"   =>   "Hi.", "", "" and it is over
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Stops:
    """Holds back what may be the beginning of a stop, and drops what comes from one on.

    Args:
        stops: Texts, none of them empty.

    Raises:
        InvalidArgumentError: One is empty.

    Attributes:
        is_over: Whether one was found.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if isinstance(stops, str) or not all(isinstance(stop, str) and stop for stop in stops):
            raise InvalidArgumentError(f"stops are texts, none of them empty, not {stops!r:.80}")
        self._stops = tuple(stops)
        self._held = ""
        self.is_over = False

    def push(self, text: str) -> str:
        """Return what is certain to come before every stop."""
        if self.is_over:
            return ""
        whole = self._held + text
        if found := [(at + len(stop), at) for stop in self._stops if (at := whole.find(stop)) >= 0]:
            self.is_over, self._held = True, ""
            return whole[: min(found)[1]]  # of the one that ends first, so that it is the same whatever the parts are
        length = max((_overlap(whole, stop) for stop in self._stops), default=0)
        self._held = whole[len(whole) - length :]
        return whole[: len(whole) - length]

    def finish(self) -> str:
        """Return what was held back, when nothing more comes."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest end of a text that a stop begins with."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
