"""Values out of the metadata of a file, of the kind that they have to be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zyx.errors import FormatError
from zyx_llm.config.record import MOST_LAYERS

if TYPE_CHECKING:
    from collections.abc import Mapping


class Reader:
    """Reads metadata, and says what they lack by the names that the file has.

    Args:
        values: What the file says.
        start: What all names begin with.
    """

    def __init__(self, values: Mapping[str, Any], start: str = "") -> None:
        self._values = values
        self._start = start

    def has(self, name: str) -> bool:
        """Whether the file says something about `name`."""
        return self._values.get(self._start + name) is not None

    def integer(self, name: str, default: int | None = None) -> int:
        """Return an integer; a list of one that is the same everywhere counts as one.

        Raises:
            FormatError: There is none and no default, or it is something else.
        """
        found = self._values.get(self._start + name)
        if isinstance(found, list) and found and all(each == found[0] for each in found):
            found = found[0]
        if found is None and default is not None:
            return default
        if not isinstance(found, int) or isinstance(found, bool):
            raise self.fault(name, found, "an integer")
        return found

    def claim(self, name: str, *, default: bool) -> bool:
        """Return whether something is so.

        Raises:
            FormatError: It is something else.
        """
        found = self._values.get(self._start + name)
        if found is not None and not isinstance(found, bool):
            raise self.fault(name, found, "a bool")
        return default if found is None else found

    def layers(self, name: str) -> int:
        """Return a number of layers.

        Raises:
            FormatError: There is none, it is something else, or too many.
        """
        found = self.integer(name)
        if not 1 <= found <= MOST_LAYERS:
            raise FormatError(f"the file has {found} layers, {self._start}{name}, and 1 to {MOST_LAYERS} are read")
        return found

    def number(self, name: str, default: float | None = None) -> float:
        """Return a number.

        Raises:
            FormatError: There is none and no default, or it is something else.
        """
        found = self._values.get(self._start + name)
        if found is None and default is not None:
            return default
        if not isinstance(found, int | float) or isinstance(found, bool):
            raise self.fault(name, found, "a number")
        return float(found)

    def numbers(self, name: str) -> tuple[float, ...]:
        """Return a list of numbers.

        Raises:
            FormatError: There is none, or it is something else.
        """
        found = self._values.get(self._start + name)
        if not isinstance(found, list) or not all(type(each) in {int, float} for each in found):
            raise self.fault(name, found, "a list of numbers")
        return tuple(map(float, found))

    def fault(self, name: str, found: object, kind: str) -> FormatError:
        """Return the error that says what should be there."""
        if found is None:
            return FormatError(f"the file does not say {self._start}{name}, which is {kind}")
        return FormatError(f"the file has {found!r:.80} for {self._start}{name}, which is {kind}")
