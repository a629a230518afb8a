r"""Whether texts match a pattern, in bounded time. Patterns are those of RE2: no references back, no looking around.

The package `google-re2`, where it is installed, takes time linear in a text for every pattern. Python's own engine goes
back and tries again, `(a*)*b` 2^n times for n letters, so without that package it gets only what is cheap for sure:

    no group is repeated            (ab)+ is refused, [ab]+ and (a|b) are not
    n letters, q repeats, b bars    2^b * (n + 1)^q is at most 10^8: the ways to try
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from zyx.errors import FormatError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

#: A longer pattern is refused.
_MOST_PATTERN: Final = 10_000
#: Ways to match a text that are tried at most.
_MOST_WAYS: Final = 10**8
#: What is one in a pattern: an escape, a class of letters, a count of repeats, the beginning of a group, a letter.
_PIECE: Final = re.compile(
    r"\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]|\{\d+(?:,\d*)?\}|\(\?(?:P<\w+>|P=|<?[=!]|[a-zA-Z-]*[:)])?|.",
    re.DOTALL,
)
_LACKING: Final = ("(?=", "(?!", "(?<=", "(?<!", "(?P=", *(f"\\{digit}" for digit in range(1, 10)))
_INSTALL: Final = "; the package google-re2 matches it in linear time: pip install google-re2"


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return whether a text as a whole matches a pattern.

    Raises:
        FormatError: It is no pattern of RE2, or has more than 10,000 letters.
        UnsupportedError: It may take long, and `google-re2` is not installed; also by what is returned, for long texts.
    """
    if len(pattern) > _MOST_PATTERN:
        raise FormatError(f"a pattern of {len(pattern)} letters, more than {_MOST_PATTERN}")
    pieces = _PIECE.findall(pattern)
    lacking = next((piece for piece in pieces if piece in _LACKING), None)
    if lacking is not None:
        raise FormatError(f"{pattern!r} is no pattern of RE2: it has no {lacking!r}")
    try:
        import re2
    except ModuleNotFoundError:
        return _bounded(pattern, pieces)
    options = re2.Options()
    options.log_errors = False
    return _compiled(pattern, lambda: re2.compile(pattern, options), re2.error)


def _compiled(pattern: str, compiled: Callable[[], Any], error: type[Exception]) -> Callable[[str], bool]:
    try:
        found = compiled()
    except (error, OverflowError, RecursionError) as reason:
        raise FormatError(f"{pattern!r} is no pattern: {reason}") from reason
    return lambda text: found.fullmatch(text) is not None


def _bounded(pattern: str, pieces: list[str]) -> Callable[[str], bool]:
    """Return the same by Python's engine, for patterns and texts that are cheap for sure."""
    repeats = bars = 0
    before = ""
    for piece in pieces:
        if piece in ("*", "+", "?") or (piece.startswith("{") and len(piece) > 1):
            if before == ")":
                raise UnsupportedError(f"{pattern!r} repeats a group, which may take for ever{_INSTALL}")
            repeats += before not in ("*", "+", "?") and not before.startswith("{")  # else it says which way first
        bars += piece == "|"
        before = piece
    matches = _compiled(pattern, lambda: re.compile(pattern, re.ASCII), re.error)

    def bounded(text: str) -> bool:
        if 2**bars * (len(text) + 1) ** repeats > _MOST_WAYS:
            raise UnsupportedError(
                f"{pattern!r} has {repeats} repeats and {bars} bars, a text has {len(text)} letters: over 10^8 ways "
                f"to match it{_INSTALL}"
            )
        return matches(text)

    return bounded
