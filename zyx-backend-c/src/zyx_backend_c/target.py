"""What code generation must know of a processor."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """A processor, as LLVM names it.

    Attributes:
        triple: Architecture, vendor, system.
        cpu: Model, such as ``znver4``.
        features: Names of the instruction sets it has.
    """

    triple: str
    cpu: str
    features: frozenset[str]

    @property
    def is_x86(self) -> bool:
        """Whether this is a 64-bit x86."""
        return self.triple.startswith(("x86_64", "amd64"))

    @property
    def is_arm(self) -> bool:
        """Whether this is a 64-bit ARM, which has vectors of 16 bytes, fused multiply-add and conversions of halves."""
        return self.triple.startswith(("aarch64", "arm64"))

    @property
    def is_linux(self) -> bool:
        """Whether the system is Linux."""
        return "linux" in self.triple

    @property
    def vector_bytes(self) -> int:
        """Width of the widest vector registers that all arithmetic can use."""
        if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= self.features:
            return 64
        return 32 if "avx2" in self.features else 16

    @property
    def registers(self) -> int:
        """Number of vector registers."""
        return 32 if self.is_arm or self.vector_bytes == 64 else 16

    @property
    def has_fma(self) -> bool:
        """Whether a multiply-add rounds once."""
        return self.is_arm or "fma" in self.features

    @property
    def has_half_conversion(self) -> bool:
        """Whether instructions convert between float16 and float32; without them, integer arithmetic does."""
        return self.is_arm or "f16c" in self.features

    @property
    def has_rounding(self) -> bool:
        """Whether floor and trunc are instructions, not calls into the C library."""
        return self.is_arm or "sse4.1" in self.features

    @property
    def has_streaming(self) -> bool:
        """Whether stores can go past the caches."""
        return self.is_x86

    @property
    def has_byte_products(self) -> bool:
        """Whether products of bytes are multiplied and added in pairs by one instruction, in vectors of 32 bytes."""
        return self.is_x86 and "avx2" in self.features
