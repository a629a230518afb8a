"""Places told by rotations: pairs of numbers of a head turn with the place, each pair at its own speed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import zyx

if TYPE_CHECKING:
    from zyx_llm.config import Rope


def tables(rope: Rope, length: int, device: str) -> tuple[zyx.Tensor, zyx.Tensor]:
    """Return cosines and sines ``(length, rope.width / 2)`` of each pair's angle at each place, float32."""
    speeds = rope.base ** (-np.arange(0, rope.width, 2, dtype=np.float64) / rope.width)
    if divisors := rope.divisors_for(length):
        speeds /= np.asarray(divisors, np.float64)
    angles = np.arange(length, dtype=np.float64)[:, None] * speeds
    found = [(function(angles) * rope.factor).astype(np.float32) for function in (np.cos, np.sin)]
    cosines, sines = (zyx.Tensor(table, device=device).realize() for table in found)
    return cosines, sines


def turned(x: zyx.Tensor, cosines: zyx.Tensor, sines: zyx.Tensor, rope: Rope) -> zyx.Tensor:
    """Return ``(..., n, head_width)`` with its first numbers turned by ``(n, rope.width / 2)`` angles."""
    *front, n, width = x.shape
    moving = x[..., : rope.width]
    half = rope.width // 2
    if rope.is_interleaved:
        pairs = moving.reshape((*front, n, half, 2))
        a, b = pairs[..., 0], pairs[..., 1]
        moved = zyx.stack([a * cosines - b * sines, b * cosines + a * sines], axis=-1)
        moved = moved.reshape((*front, n, rope.width))
    else:
        a, b = moving[..., :half], moving[..., half:]
        moved = zyx.concat([a * cosines - b * sines, b * cosines + a * sines], axis=-1)
    return moved if rope.width == width else zyx.concat([moved, x[..., rope.width :]], axis=-1)
