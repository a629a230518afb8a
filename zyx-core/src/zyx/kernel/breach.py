"""A broken rule of the kernel IR."""

from __future__ import annotations

from typing import NamedTuple


class Breach(NamedTuple):
    """Where a kernel breaks which rule.

    Attributes:
        rule: Number of the rule in `zyx.kernel.verify`.
        position: Of the operation.
        text: What is wrong, for people.
    """

    rule: int
    position: int
    text: str
