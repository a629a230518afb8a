"""What writing LLVM IR must know of a processor."""

from __future__ import annotations

from typing import Protocol


class Machine(Protocol):
    """A processor."""

    @property
    def has_fma(self) -> bool:
        """Whether a multiply-add rounds once."""

    @property
    def has_half_conversion(self) -> bool:
        """Whether instructions convert between float16 and float32; without them, integer arithmetic does."""

    @property
    def has_streaming(self) -> bool:
        """Whether stores can go past the caches."""
