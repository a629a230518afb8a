"""Data sets: samples by number."""

from __future__ import annotations

import bisect
from abc import ABC, abstractmethod
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from zyx.errors import ArgumentError, IndexRangeError, ShapeError
from zyx.functions.operands import is_tensor
from zyx.functions.selection import take
from zyx.integers import as_index
from zyx.tensor.creation import asarray
from zyx.tensor.random import randperm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.tensor.generator import Generator
    from zyx.tensor.tensor import Tensor


class Dataset(ABC):
    """Samples by number. To derive from it is a matter of taste: what a loader needs are these two methods.

    >>> class Squares(zyx.data.Dataset):
    ...     def __len__(self):
    ...         return 4
    ...     def __getitem__(self, index):
    ...         return index * index
    >>> [x.tolist() for x in zyx.data.DataLoader(Squares(), batch_size=2)]
    [[0, 1], [4, 9]]
    """

    @abstractmethod
    def __len__(self) -> int:
        """Return how many samples there are."""

    @abstractmethod
    def __getitem__(self, index: int) -> Any:  # noqa: ANN401  # whatever samples are
        """Return a sample, 0 to ``len(self) - 1``."""


@runtime_checkable
class SupportsBatches(Protocol):
    """What makes a batch faster than of single samples."""

    def batch(self, indices: Sequence[int]) -> Any:  # noqa: ANN401  # a batch of whatever samples are
        """Return what `zyx.data.collate` makes of these samples."""


class TensorDataset(Dataset):
    """Rows of tensors or arrays with first axes of the same size: sample i is the tuple of the rows i.

    Raises:
        ArgumentError: No tensors.
        ShapeError: First axes of different sizes.

    >>> pairs = zyx.data.TensorDataset(zyx.arange(4), zyx.arange(4) * 10)
    >>> len(pairs)
    4
    """

    def __init__(self, *tensors: Any) -> None:  # noqa: ANN401  # tensors or arrays
        """Take the tensors.

        Raises:
            ArgumentError: None are given.
            ShapeError: Rank 0, or first axes of different sizes.
        """
        if not tensors:
            raise ArgumentError("TensorDataset takes at least one tensor")
        self.tensors: tuple[Tensor, ...] = tuple(each if is_tensor(each) else asarray(each) for each in tensors)
        shapes = [tensor.shape for tensor in self.tensors]
        if not all(shapes) or len({shape[0] for shape in shapes}) > 1:
            raise ShapeError(f"TensorDataset: first axes are of one size, not of shapes {', '.join(map(str, shapes))}")

    def __len__(self) -> int:
        return self.tensors[0].shape[0]

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        index = as_index(index, "index")
        if not -len(self) <= index < len(self):
            raise IndexRangeError(f"TensorDataset has {len(self)} samples, and no sample {index}")
        return tuple(tensor[index] for tensor in self.tensors)

    def batch(self, indices: Sequence[int]) -> tuple[Tensor, ...]:
        """Return the rows of these numbers, ``(len(indices), ...)`` of each tensor."""
        rows = np.asarray(indices, np.int64)
        return tuple(take(tensor, rows, 0) for tensor in self.tensors)


class Subset(Dataset):
    """Samples `indices` of another data set.

    Raises:
        IntegerError: Indices that are no integers.
        IndexRangeError: When a sample is taken: there is none of that number.

    >>> len(zyx.data.Subset(zyx.data.TensorDataset(zyx.arange(10)), [1, 2]))
    2
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:  # noqa: ANN401  # anything with the two methods
        self.dataset, self.indices = dataset, [as_index(index, "indices") for index in indices]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401  # whatever samples are
        return self.dataset[self.indices[as_index(index, "index")]]


class ConcatDataset(Dataset):
    """Data sets one after the other.

    Raises:
        ArgumentError: No data sets.

    >>> pairs = zyx.data.TensorDataset(zyx.arange(3))
    >>> len(zyx.data.ConcatDataset([pairs, pairs]))
    6
    """

    def __init__(self, datasets: Sequence[Any]) -> None:
        """Take the data sets.

        Raises:
            ArgumentError: None are given.
        """
        if not datasets:
            raise ArgumentError("ConcatDataset takes at least one data set")
        self.datasets = list(datasets)
        self._ends = list(accumulate(len(each) for each in self.datasets))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401  # whatever samples are
        index = as_index(index, "index")
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexRangeError(f"ConcatDataset has {len(self)} samples, and no sample {index}")
        which = bisect.bisect_right(self._ends, place)
        return self.datasets[which][place - (self._ends[which - 1] if which else 0)]


def random_split(dataset: Any, lengths: Sequence[float], generator: Generator | None = None) -> list[Subset]:  # noqa: ANN401
    """Return parts of a data set, of samples that are drawn at random, each in one part.

    Args:
        dataset: Anything with ``__len__`` and ``__getitem__``.
        lengths: How many samples parts have; or their shares, which sum up to 1: rounded down, what is left over goes
            to the first parts, one each.
        generator: Where random numbers come from.

    Raises:
        ShapeError: Lengths that do not sum up.

    >>> a, b = zyx.data.random_split(zyx.data.TensorDataset(zyx.arange(10)), [8, 2])
    >>> len(a), len(b)
    (8, 2)
    """
    count = len(dataset)
    sizes = list(lengths)
    if sizes and all(isinstance(size, float) for size in sizes) and abs(sum(sizes) - 1.0) < 1e-6:
        sizes = [int(count * size) for size in sizes]
        for place in range(count - int(sum(sizes))):
            sizes[place % len(sizes)] += 1
    whole = [as_index(size, "lengths") for size in sizes]
    if sum(whole) != count or any(size < 0 for size in whole):
        raise ShapeError(f"random_split: lengths {list(lengths)} do not sum up to the {count} samples, or to 1")
    order = [int(place) for place in randperm(count, generator=generator).numpy()]
    ends = [0, *accumulate(whole)]
    return [Subset(dataset, order[a:b]) for a, b in pairwise(ends)]
