"""Batches of a data set, made ahead by threads.

1. An order is drawn for each pass, by the caller's thread: the same seed gives the same orders, pass after pass,
   whatever the number of workers.
2. With workers, threads fetch samples and put batches together, at most `prefetch_factor` batches ahead for each of
   them; batches come in order. NumPy, files and drivers run beside Python there. A pass that is given up (``break``)
   lets its threads finish what they are at, and no more.
3. An error in a data set or in putting a batch together comes up where its batch is due: a `DataError` with the number
   of the sample, whose cause is the error.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Sized
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from zyx.data.collate import collate
from zyx.data.dataset import SupportsBatches
from zyx.errors import ArgumentError, DataError, ShapeError
from zyx.functions import taking_habits
from zyx.integers import as_index
from zyx.runtime.runtime import current
from zyx.tensor.generator import Generator
from zyx.tensor.random import randperm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future


class DataLoader:
    """Batches of a data set; each ``for`` is a pass through all samples. See the module.

    Attributes:
        dataset: The data set.
        batch_size: Samples in a batch; None gives samples as they are.
        drop_last: Whether a last batch of fewer samples is left out.

    Raises:
        ShapeError: A `batch_size` below 1, or another number out of its range.
        ArgumentError: `shuffle` beside a `sampler`.

    >>> batches = zyx.data.DataLoader(zyx.data.TensorDataset(zyx.arange(5)), batch_size=2)
    >>> [x.shape for (x,) in batches]
    [(2,), (2,), (1,)]
    """

    def __init__(
        self,
        dataset: Any,  # noqa: ANN401  # anything with the two methods
        batch_size: int | None = 1,
        shuffle: bool = False,
        sampler: Iterable[int] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        drop_last: bool = False,
        *,
        seed: int | None = None,
        generator: Generator | None = None,
        prefetch_factor: int = 2,
        progress: bool | str = False,
    ) -> None:
        """Take the data set.

        Args:
            dataset: Has ``__len__`` and ``__getitem__``; a method ``batch`` of a list of numbers is used if it has one.
            batch_size: Samples in a batch; None gives samples as they are.
            shuffle: Whether each pass has an order of its own.
            sampler: Numbers of samples, in place of an order; asked anew for each pass.
            num_workers: How many threads make batches; none does it where they are needed.
            collate_fn: Makes a batch of a list of samples; None is `zyx.data.collate`.
            drop_last: Whether a last batch of fewer samples is left out.
            seed: Of the orders. Without seed and generator they come from the default generator.
            generator: Where orders come from.
            prefetch_factor: How many batches a worker is ahead.
            progress: Whether a pass is shown on a terminal, or under which name; elsewhere nothing is.

        Raises:
            ArgumentError: No data set, or arguments that exclude each other.
            ShapeError: Numbers below their least.
        """
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
            raise ArgumentError(f"DataLoader takes what has __len__ and __getitem__, not {type(dataset).__name__}")
        if sampler is not None and shuffle:
            raise ArgumentError("DataLoader: a sampler says the order, so shuffle cannot")
        if seed is not None and generator is not None:
            raise ArgumentError("DataLoader takes a seed or a generator, not both")
        self.batch_size = None if batch_size is None else as_index(batch_size, "batch_size")
        self.num_workers = as_index(num_workers, "num_workers")
        self.prefetch_factor = as_index(prefetch_factor, "prefetch_factor")
        if (self.batch_size or 1) < 1 or self.batch_size == 0 or self.num_workers < 0 or self.prefetch_factor < 1:
            raise ShapeError(
                f"DataLoader: batch_size {batch_size} is at least 1, num_workers {num_workers} at least 0, "
                f"prefetch_factor {prefetch_factor} at least 1"
            )
        self.dataset, self.shuffle, self.sampler = dataset, shuffle, sampler
        self.collate_fn, self.drop_last, self.progress = collate_fn, drop_last, progress
        self.generator = Generator(seed) if seed is not None else generator

    def __len__(self) -> int:
        """Return how many batches a pass has."""
        count = len(self.sampler) if isinstance(self.sampler, Sized) else len(self.dataset)
        if self.batch_size is None:
            return count
        return count // self.batch_size if self.drop_last else math.ceil(count / self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        """Begin a pass."""
        batches = self._made(self._parts(self._order()))
        if not self.progress:
            return batches
        return _shown(batches, len(self), self.progress if isinstance(self.progress, str) else "batches")

    def _order(self) -> list[int]:
        """Return the numbers of the samples of a pass."""
        if self.sampler is not None:
            return [as_index(place, "sampler") for place in self.sampler]
        if not self.shuffle:
            return list(range(len(self.dataset)))
        return [int(place) for place in randperm(len(self.dataset), generator=self.generator).numpy()]

    def _parts(self, order: list[int]) -> list[list[int]]:
        """Return the numbers of the samples of each batch."""
        size = self.batch_size or 1
        parts = [order[start : start + size] for start in range(0, len(order), size)]
        if self.batch_size is not None and self.drop_last and parts and len(parts[-1]) < size:
            parts.pop()
        return parts

    def _made(self, parts: list[list[int]]) -> Iterator[Any]:
        """Yield the batches, those of workers in order."""
        if not self.num_workers:
            for part in parts:
                yield self._batch(part)
            return
        waiting: deque[Future[Any]] = deque()
        rest = iter(parts)
        pool = ThreadPoolExecutor(self.num_workers, thread_name_prefix="zyx-data")
        try:
            for part in rest:
                # Each has a context of its own: the device and the switches of the thread that began the pass.
                waiting.append(pool.submit(copy_context().run, self._batch, part))
                if len(waiting) >= self.num_workers * self.prefetch_factor:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _batch(self, part: Sequence[int]) -> Any:  # noqa: ANN401  # whatever a batch is
        """Return one batch.

        Raises:
            DataError: The data set, or what makes a batch of samples, failed.
        """
        if self.batch_size is None:
            return self._sample(part[0])
        if self.collate_fn is None and isinstance(self.dataset, SupportsBatches):
            return _watched(lambda: self.dataset.batch(part), part, "the data set failed")
        samples = [self._sample(index) for index in part]
        make = collate if self.collate_fn is None else self.collate_fn
        return _watched(lambda: make(samples), part, "they make no batch")

    def _sample(self, index: int) -> Any:  # noqa: ANN401  # whatever samples are
        return _watched(lambda: self.dataset[index], (index,), "the data set failed")


# To assign to it is unsound of instances; of the class, it is what takes PyTorch's keywords, such as `pin_memory`.
setattr(DataLoader, "__init__", taking_habits(DataLoader.__init__))  # noqa: B010


def _watched(make: Callable[[], Any], indices: Sequence[int], what: str) -> Any:  # noqa: ANN401
    """Return what `make` does.

    Raises:
        DataError: It failed.
    """
    try:
        return make()
    except Exception as error:  # the border to the user's data set, of which nothing is known
        named = f"sample {indices[0]}" if len(indices) == 1 else f"samples {', '.join(map(str, indices))}"
        raise DataError(f"{named}: {what}: {type(error).__name__}: {error}", tuple(indices)) from error


def _shown(batches: Iterator[Any], total: int, name: str) -> Iterator[Any]:
    """Yield `batches`, and show on a terminal how many there were, and how many there are in a second."""
    with current().trace.bar(name, total, after_s=0.0) as bar:
        started = time.monotonic()
        for batch in batches:
            yield batch
            bar.advance(said=f"{(bar.done + 1) / max(time.monotonic() - started, 1e-9):.1f}/s")
