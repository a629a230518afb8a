"""What a cycle of learning rates is made of: ways from one value to another, as numbers and as tensors.

    three values: where the cycle begins, its top, where it ends
    phases        begin -> top -> end, or begin -> top -> begin -> end

Smith and Topin, "Super-convergence: very fast training of neural networks using large learning rates", 2017.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from zyx.errors import ArgumentError, ShapeError
from zyx.functions.transcendental import cos
from zyx.integers import as_index

if TYPE_CHECKING:
    from zyx.tensor.tensor import Tensor

Part = TypeVar("Part", "float", "Tensor")


class Phase(NamedTuple):
    """A way from one of the values to another, which ends at a number of steps."""

    end: float
    start: int
    stop: int


def one_cycle(total_steps: int, pct_start: float, three_phase: bool) -> tuple[Phase, ...]:
    """Return the phases of a cycle; the values are where it begins, its top, and where it ends.

    Raises:
        ShapeError: `pct_start` is not 0 to 1.
    """
    if not 0.0 <= pct_start <= 1.0:
        raise ShapeError(f"pct_start is 0 to 1, not {pct_start}")
    top = pct_start * total_steps - 1.0
    if three_phase:
        return Phase(top, 0, 1), Phase(2.0 * top, 1, 0), Phase(total_steps - 1.0, 0, 2)
    return Phase(top, 0, 1), Phase(total_steps - 1.0, 1, 2)


def steps_of(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    """Return how many steps a cycle has: `total_steps`, or `epochs` of `steps_per_epoch`.

    Raises:
        ArgumentError: Neither is given.
        ShapeError: Less than one.
    """
    given = {"total_steps": total_steps, "epochs": epochs, "steps_per_epoch": steps_per_epoch}
    known = {name: check_steps(name, count) for name, count in given.items() if count is not None}
    if "total_steps" not in known and len(known) < 2:
        raise ArgumentError("OneCycleLR takes total_steps, or epochs and steps_per_epoch")
    return known["total_steps"] if "total_steps" in known else known["epochs"] * known["steps_per_epoch"]


def check_anneal(strategy: str) -> str:
    """Return the name of a way; raise `ArgumentError` unless it is one."""
    if strategy not in ("cos", "linear"):
        raise ArgumentError(f'anneal_strategy is "cos" or "linear", not {strategy!r}')
    return strategy


def check_steps(name: str, steps: int) -> int:
    """Return a number of steps; raise `ShapeError` unless it is at least 1."""
    steps = as_index(steps, name)
    if steps < 1:
        raise ShapeError(f"{name} is at least 1, not {steps}")
    return steps


def anneal(strategy: str, start: float, end: float, part: Part) -> Part:
    """Return a value on the way from `start` to `end`, `part` being 0 at the beginning and 1 at the end."""
    if strategy == "linear":
        return part * (end - start) + start
    return half_cosine(start, end, part)


def half_cosine(start: float, end: float, part: Part) -> Part:
    """Return a value on half a cosine from `start` to `end`, `part` being 0 at the beginning and 1 at the end."""
    wave = math.cos(part * math.pi) if isinstance(part, float) else cos(part * math.pi)
    return (wave + 1.0) * ((start - end) / 2.0) + end
