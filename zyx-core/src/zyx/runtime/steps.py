"""What a plan consists of: launches, copies, and calls of the host (`zyx.runtime.host_step`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from zyx.runtime.host_step import HostStep

if TYPE_CHECKING:
    from zyx.backend import Device, Program
    from zyx.graph.host_call import HostCall


@dataclass(frozen=True, slots=True)
class LaunchStep:
    """Launch `program` on the buffers `args`, of which it writes to those in `written`, and on numbers.

    Of these, the run has those in `given`; behind them come the `starts`, where the kernel reads. `lines` are those of
    the program that it computes, as far as they are noted. The `call` that it stands for, if there is one, is announced
    before a run.
    """

    device: Device
    program: Program
    args: tuple[int, ...]
    bytes_moved: int
    written: tuple[int, ...]
    given: tuple[int, ...] = ()
    starts: tuple[int, ...] = ()
    lines: tuple[str, ...] = ()
    call: HostCall | None = None


@dataclass(frozen=True, slots=True)
class CopyStep:
    """Copy buffer `source` to buffer `target`, which lies in another pool."""

    source: int
    target: int


Step: TypeAlias = LaunchStep | HostStep | CopyStep
