"""Memory planning: what a plan does, in order, and which values in between share memory, never needed at one time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.backend import Device, Program
    from zyx.graph.host_call import HostCall
    from zyx.graph.node import Node
    from zyx.runtime.plan import Slice


@dataclass(frozen=True, slots=True)
class Launched:
    """A kernel to launch.

    Attributes:
        device: Where.
        program: What it is compiled to.
        buffers: The nodes whose buffers it takes.
        stored: Those that it writes to.
        numbers: The nodes whose values it is given, behind the buffers.
        starts: Numbers that it is given behind these: where it reads.
        lines: Of the program, what it computes.
        call: What the program does in place of the host, if that would do it elsewhere.
    """

    device: Device
    program: Program
    buffers: tuple[Node, ...]
    stored: tuple[Node, ...]
    numbers: tuple[Node, ...]
    starts: tuple[int, ...]
    lines: tuple[str, ...] = ()
    call: HostCall | None = None


@dataclass(frozen=True, slots=True)
class Hosted:
    """A call of a function of the host.

    Attributes:
        call: The function.
        device: Where its inputs and outputs lie.
        buffers: The nodes of its outputs, then of its inputs.
        lines: Of the program.
    """

    call: HostCall
    device: Device
    buffers: tuple[Node, ...]
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of `source`'s buffer to that of `target`."""

    source: Node
    target: Node


Action: TypeAlias = Launched | Hosted | Copy


def plan_memory(
    numbers: dict[Node, int], base: int, actions: Sequence[Action], slice_of: Callable[[Node], Slice]
) -> list[Slice]:
    """Number the remaining nodes, from `base` on; a node takes over the memory of one that is not needed any more."""
    last_use: dict[Node, int] = {}
    for time, action in enumerate(actions):
        for node in _touched(action):
            if node not in numbers:
                last_use[node] = time
    slices: list[Slice] = []
    free: list[int] = []
    copied = {action.source for action in actions if isinstance(action, Copy)}
    exact: set[int] = set()  # places that are copied as a whole, and so must not be larger than what they hold
    for time, action in enumerate(actions):
        for node in _touched(action):
            if node in last_use and node not in numbers:
                numbers[node] = base + find_place(slice_of(node), slices, free, exact, node in copied)
        for node in dict.fromkeys(_touched(action)):
            if last_use.get(node) == time:
                free.append(numbers[node] - base)
    return slices


def find_place(wanted: Slice, slices: list[Slice], free: list[int], exact: set[int], is_copied: bool) -> int:
    """Return the free place that fits best; growing one is better than adding one.

    For what is copied the size has to be the same; such a place is noted in `exact`, and is not grown any more.
    """
    fitting = [place for place in free if slices[place].pool is wanted.pool]
    if is_copied:
        fitting = [place for place in fitting if slices[place].nbytes == wanted.nbytes]
    else:
        fitting = [place for place in fitting if place not in exact or slices[place].nbytes >= wanted.nbytes]
    if fitting:
        best = min(fitting, key=lambda place: _misfit(slices[place].nbytes, wanted.nbytes))
        free.remove(best)
        slices[best] = max(slices[best], wanted, key=lambda place: place.nbytes)
    else:
        best = len(slices)
        slices.append(wanted)
    if is_copied:
        exact.add(best)
    return best


def _misfit(have: int, wanted: int) -> tuple[bool, int]:
    return (have < wanted, abs(have - wanted))


def _touched(action: Action) -> tuple[Node, ...]:
    return (action.source, action.target) if isinstance(action, Copy) else action.buffers
