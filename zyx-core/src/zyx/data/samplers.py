"""Orders of samples, which a loader asks for anew in each pass: PyTorch's samplers.

sampler = zyx.data.WeightedRandomSampler(weights, len(weights))
loader = zyx.data.DataLoader(pictures, batch_size=64, sampler=sampler)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING

from zyx.dtype import float32
from zyx.errors import ShapeError
from zyx.integers import as_index
from zyx.tensor.creation import asarray
from zyx.tensor.random import multinomial, randint, randperm

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence, Sized

    from zyx.tensor.generator import Generator
    from zyx.tensor.tensor import Tensor


class Sampler(Iterable[int], ABC):
    """Numbers of samples in the order of a pass. A loader takes any iterable; to derive from this is a matter of taste.

    >>> isinstance(zyx.data.SequentialSampler(range(3)), zyx.data.Sampler)
    True
    """

    @abstractmethod
    def __iter__(self) -> Iterator[int]:
        """Begin a pass."""

    @abstractmethod
    def __len__(self) -> int:
        """Return how many samples a pass has."""


class SequentialSampler(Sampler):
    """All samples of a data set, in their order.

    >>> list(zyx.data.SequentialSampler(range(3)))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """Samples of a data set in random order, each pass in another.

    Raises:
        ShapeError: A number of samples below 0, or of an empty data set with replacement.

    >>> sorted(zyx.data.RandomSampler(range(3)))
    [0, 1, 2]
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        """Take the data set, and how many samples a pass has; without replacement, orders follow each other."""
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self.num_samples = len(data_source) if num_samples is None else as_index(num_samples, "num_samples")
        if self.num_samples < 0 or (self.num_samples and not len(data_source)):
            raise ShapeError(f"RandomSampler: {num_samples} samples of a data set of {len(data_source)}")

    def __iter__(self) -> Iterator[int]:
        total, left = len(self.data_source), self.num_samples
        if self.replacement:
            yield from randint(0, total, (left,), generator=self.generator).tolist() if left else ()
            return
        while left > 0:
            yield from randperm(total, generator=self.generator).tolist()[:left]
            left -= total

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """Given numbers of samples in random order, each pass in another.

    Raises:
        IntegerError: When it is read: a number that is no integer.

    >>> sorted(zyx.data.SubsetRandomSampler([4, 7]))
    [4, 7]
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        for place in randperm(len(self.indices), generator=self.generator).tolist():
            yield as_index(self.indices[place], "indices")

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """Samples that are drawn by weights: those of a rare class, for one, as often as the others.

    Raises:
        ShapeError: Weights that are no vector, or more samples than weights without replacement.

    >>> list(zyx.data.WeightedRandomSampler([0.0, 1.0], 3))
    [1, 1, 1]
    """

    def __init__(
        self,
        weights: Tensor | Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        """Take a weight >= 0 for each sample, whose sum need not be 1, and how many samples a pass has."""
        self.weights, self.replacement, self.generator = asarray(weights, float32), replacement, generator
        self.num_samples = as_index(num_samples, "num_samples")
        if self.weights.ndim != 1 or self.num_samples < 0:
            raise ShapeError(f"WeightedRandomSampler: {num_samples} samples, weights of shape {self.weights.shape}")
        if not replacement and self.num_samples > self.weights.numel():
            raise ShapeError(f"WeightedRandomSampler: {num_samples} of {self.weights.numel()} samples, none twice")

    def __iter__(self) -> Iterator[int]:
        drawn = multinomial(self.weights, self.num_samples, replacement=self.replacement, generator=self.generator)
        return iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples
