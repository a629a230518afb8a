"""What is being compiled, and what was tried before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.autotune.store import Winner
    from zyx.backend import Device
    from zyx.nest.data import Nest

#: The device, and the digest of a kernel or of nests, or what a library is asked for.
Key: TypeAlias = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class Attempt:
    """Nests whose program is being compiled.

    Attributes:
        nests: They run side by side.
        name: Of the kernel.
        device: To run them.
        schedule: Number of the schedule that they have.
        is_kept: Whether their kernel was found rendered on disk.
        winner: What was found for them by measuring; None if nothing was, or it does not do.
        refused: Keys of the kernels that the device has refused, and what it said of the last one.
    """

    nests: Sequence[Nest]
    name: str
    device: Device
    schedule: int
    is_kept: bool = False
    winner: Winner | None = None
    refused: tuple[Key, ...] = ()
    error: Exception | None = None
