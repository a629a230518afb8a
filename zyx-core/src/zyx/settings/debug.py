"""What ``ZYX_DEBUG`` shows."""

from __future__ import annotations

import difflib
import enum
from typing import Final


class Debug(enum.IntFlag):
    """One bit a subject; they add up."""

    DEVICES = 1  # the devices found, why others failed, and which one was chosen
    PLAN = 2  # the steps of every plan, and how long it took to make
    SCHEDULE = 4  # the nests before and after scheduling, and the moves
    IR = 8  # the linear kernels after the passes
    SOURCE = 16  # the generated source
    LAUNCHES = 32  # launches and copies, each of which is waited for, with its time, bytes and rate
    MEMORY = 64  # allocations and deallocations, and what is free after them
    COMPILE = 128  # every compilation, with its time
    AUTOTUNE = 256  # the times of every vendor's kernel that was measured, and of the generated one beside it
    LINES = 512  # in errors, plans, launches and profiles, the lines of the program that they are from
    STAGES = 1024  # the text of every kernel at each stage: graph, nests, scheduled, lowered, after the passes, source


NOTHING: Final = Debug(0)
EVERYTHING: Final = Debug(sum(Debug))
NAMES: Final = {flag.name.lower(): flag for flag in Debug if flag.name is not None}


def parse_debug(given: object) -> Debug:
    """Return the bits that `given` names: a number, names with commas between them, or a list of names; ``all`` is all.

    Raises:
        ValueError: A number out of range, or an unknown name; the text says what there is.
    """
    match given:
        case bool():
            raise ValueError(f"true and false say too little; it takes {_accepted()}")
        case int():
            return _from_number(given)
        case str():
            text = given.strip().lower()
            return _from_number(int(text)) if text.isdecimal() else _from_names(text.split(","))
        case list() | tuple():
            return _from_names([str(name).lower() for name in given])
        case _:
            raise ValueError(f"{given!r} is no set of subjects; it takes {_accepted()}")


def _from_number(number: int) -> Debug:
    if not 0 <= number <= EVERYTHING:
        raise ValueError(f"{number} is out of range; it takes {_accepted()}")
    return Debug(number)


def _from_names(names: list[str]) -> Debug:
    bits = NOTHING
    for name in filter(None, (name.strip() for name in names)):
        if name == "all":
            bits |= EVERYTHING
        elif name in NAMES:
            bits |= NAMES[name]
        else:
            close = difflib.get_close_matches(name, NAMES, 1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            raise ValueError(f"there is no subject {name!r}; {hint}it takes {_accepted()}")
    return bits


def _accepted() -> str:
    names = ", ".join(f"{name} ({flag.value})" for name, flag in NAMES.items())
    return f"a number from 0 to {EVERYTHING.value}, or some of: {names}, all"
