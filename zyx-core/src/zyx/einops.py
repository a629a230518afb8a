"""What einops needs to take tensors: ``rearrange``, ``reduce``, ``repeat``, ``einsum``, ``pack`` and the rest.

    import einops                             import zyx
    import zyx          # einops knows it     import einops
                                              import zyx.einops

einops looks through the subclasses of its `AbstractBackend`, so ours can only be made once einops is imported: `import
zyx` imports this module if it is; otherwise it is imported by name. ``einops.layers`` has no layers for `zyx.nn`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from einops._backends import AbstractBackend

from zyx.functions.einsum import einsum
from zyx.functions.joining import concat, stack, tile
from zyx.functions.movement import broadcast_to, expand_dims
from zyx.tensor.creation import arange, asarray
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

__all__ = ["ZyxBackend"]


class ZyxBackend(AbstractBackend):  # type: ignore[misc, unused-ignore]  # einops may be absent where types are checked
    """The functions by which einops computes with tensors; those it has itself call methods of the same names."""

    framework_name = "zyx"

    def is_appropriate_type(self, tensor: object) -> bool:
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: npt.NDArray[Any]) -> Tensor:
        return asarray(x)

    def to_numpy(self, x: Tensor) -> np.ndarray[Any, Any]:
        return x.numpy()

    def arange(self, start: int, stop: int) -> Tensor:
        return arange(start, stop)

    def stack_on_zeroth_dimension(self, tensors: Sequence[Tensor]) -> Tensor:
        return stack(tensors)

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        return concat(tensors, axis)

    def add_axis(self, x: Tensor, new_position: int) -> Tensor:
        return expand_dims(x, new_position)

    def add_axes(self, x: Tensor, n_axes: int, pos2len: Mapping[int, int]) -> Tensor:
        added = expand_dims(x, tuple(pos2len))
        return broadcast_to(added, tuple(pos2len.get(axis, size) for axis, size in enumerate(added.shape)))

    def tile(self, x: Tensor, repeats: Sequence[int]) -> Tensor:
        return tile(x, repeats)

    def is_float_type(self, x: Tensor) -> bool:
        return x.dtype.is_float

    def einsum(self, pattern: str, *x: Tensor) -> Tensor:
        return einsum(pattern, *x)
