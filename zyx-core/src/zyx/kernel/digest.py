"""Digests of kernels: equal ones, equal digests, and nothing is held of what they were made of."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from zyx.kernel.text import print_ops

if TYPE_CHECKING:
    from zyx.kernel.data import Kernel


def digest_of_kernel(kernel: Kernel) -> bytes:
    """Return the digest of a kernel, whatever its name: a cryptographic one of its text."""
    return hashlib.sha256("\n".join(print_ops(kernel.ops)).encode()).digest()
