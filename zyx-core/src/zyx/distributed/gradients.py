"""Means of gradients over all processes, in few messages.

    grads of 4 tensors of float32         2 buckets               2 operations
    [a: 20 MB, b: 8 MB, c: 8 MB, d: 1]    [a b] [c d]             all_reduce, all_reduce

A message has a cost of its own, whatever its length: that of a hundred small tensors is mostly this. One message of
all gradients would need as much memory again as they take.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from zyx import tree
from zyx.distributed.group import Group, init
from zyx.distributed.operations import all_reduce
from zyx.errors import InvalidArgumentError
from zyx.functions.joining import concat
from zyx.functions.operands import require
from zyx.integers import as_index

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zyx.tensor.tensor import Tensor

__all__ = ["average_gradients"]

_BUCKET_BYTES: Final = 32 << 20


def average_gradients(grads: Any, bucket_bytes: int = _BUCKET_BYTES, group: Group | None = None) -> Any:  # noqa: ANN401  # of any structure
    """Return the means of gradients over all processes, in the structure that they are given in.

    With a loss that is a mean over the samples of each process, of which all have as many, these are the gradients of
    the mean over the samples of all: processes that began with the same weights keep the same weights.

    Args:
        grads: Tensors of float or complex dtypes in lists, tuples and dicts (`zyx.tree`), in each process of the same
            structure, shapes and dtypes. None stays None.
        bucket_bytes: Gradients of one dtype and device are exchanged together up to so many bytes; a tensor that is
            larger, by itself.
        group: The processes; None is all.

    Returns:
        The means, as `all_reduce` gives them; in a group of one what it is given.

    Raises:
        InvalidArgumentError: `bucket_bytes` is less than 1.
        DTypeError: Something in `grads` is no tensor, or of another dtype.
        CollectiveError: Processes have different gradients, or one is gone; see `zyx.distributed.operations`.

    >>> zyx.distributed.average_gradients({"w": zyx.Tensor([1.0, 2.0]), "b": None})["w"].tolist()
    [1.0, 2.0]
    """
    most = as_index(bucket_bytes, "bucket_bytes")
    if most < 1:
        raise InvalidArgumentError(f"average_gradients: bucket_bytes is {most}; it is at least 1")
    leaves, structure = tree.flatten(grads)
    tensors = [require(leaf, "average_gradients") for leaf in leaves]
    chosen = init() if group is None else group
    means: dict[int, Tensor] = {}
    for bucket in _buckets(tensors, most):
        means |= zip(bucket, _means([tensors[place] for place in bucket], chosen), strict=True)
    return tree.unflatten(structure, [means[place] for place in range(len(tensors))])


def _buckets(tensors: Sequence[Tensor], most: int) -> Iterator[list[int]]:
    """Yield the places of tensors that are exchanged together: of one dtype and device, up to `most` bytes."""
    kinds: dict[tuple[str, str], list[int]] = {}
    for place, tensor in enumerate(tensors):
        kinds.setdefault((tensor.dtype.name, tensor.device), []).append(place)
    for places in kinds.values():
        bucket: list[int] = []
        held = 0
        for place in places:
            nbytes = tensors[place].nbytes
            if bucket and held + nbytes > most:
                yield bucket
                bucket, held = [], 0
            bucket.append(place)
            held += nbytes
        yield bucket


def _means(tensors: Sequence[Tensor], group: Group) -> list[Tensor]:
    if len(tensors) == 1 or group.size == 1:
        return [all_reduce(tensor, "mean", group) for tensor in tensors]
    flat = all_reduce(concat([tensor.reshape((-1,)) for tensor in tensors]), "mean", group)
    ends = [*accumulate(tensor.numel() for tensor in tensors)]
    starts = [0, *ends]
    return [flat[start:end].reshape(tensor.shape) for tensor, start, end in zip(tensors, starts, ends, strict=False)]
