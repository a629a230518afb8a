"""One batch of several samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zyx.errors import DTypeError, ShapeError
from zyx.functions.joining import stack
from zyx.functions.operands import is_tensor
from zyx.tensor.creation import asarray


def collate(samples: Sequence[Any]) -> Any:  # noqa: ANN401  # whatever samples are
    """Return samples as one batch.

    Tensors, arrays and numbers get a new first axis: floats of Python become float32, integers int64. Dicts, tuples,
    named tuples and lists are batched member by member, and stay what they are. Text and bytes become a list. Tensors
    are computed, unless they require gradients.

    Raises:
        ShapeError: Shapes, keys or lengths that differ from sample to sample; the text has where.
        DTypeError: Something else.

    >>> batch = zyx.data.collate([{"x": 1.0, "y": 0}, {"x": 2.0, "y": 1}])
    >>> batch["x"].tolist(), batch["y"].tolist()
    ([1.0, 2.0], [0, 1])
    """
    return _collated(list(samples), "sample")


def _collated(samples: list[Any], place: str) -> Any:  # noqa: ANN401
    if not samples:
        raise ShapeError("collate takes at least one sample")
    first = samples[0]
    kinds = {type(sample).__name__ for sample in samples}
    if is_tensor(first) and all(is_tensor(sample) for sample in samples):
        _check_shapes([sample.shape for sample in samples], place)
        if any(sample.requires_grad for sample in samples):
            return stack(samples)
        # By the host: a kernel for each combination of samples would be compiled, and one that computes with the batch
        # would make each of them anew.
        return asarray(np.stack([sample.numpy() for sample in samples]), device=first.device)
    if isinstance(first, np.ndarray | np.generic | bool | int | float):
        if all(isinstance(sample, np.ndarray | np.generic | bool | int | float) for sample in samples):
            _check_shapes([np.shape(sample) for sample in samples], place)
            plain = isinstance(first, float) and not isinstance(first, np.generic)
            return asarray(np.stack([np.asarray(sample) for sample in samples]), dtype="float32" if plain else None)
    elif isinstance(first, str | bytes):
        return samples
    elif isinstance(first, Mapping) and all(isinstance(sample, Mapping) for sample in samples):
        if any(sample.keys() != first.keys() for sample in samples):
            raise ShapeError(f"collate: {place} has keys {list(first)} in one, and others in another")
        return {key: _collated([sample[key] for sample in samples], f"{place}[{key!r}]") for key in first}
    elif isinstance(first, tuple | list) and all(isinstance(sample, tuple | list) for sample in samples):
        if any(len(sample) != len(first) for sample in samples):
            raise ShapeError(f"collate: {place} has {len(first)} members in one, and others in another")
        members = [_collated(list(each), f"{place}[{i}]") for i, each in enumerate(zip(*samples, strict=True))]
        if hasattr(first, "_fields"):
            return type(first)(*members)
        return type(first)(members)
    raise DTypeError(
        f"collate: {place} is {' and '.join(sorted(kinds))}; it takes tensors, arrays, numbers, text, and dicts, "
        "tuples and lists of these, each the same in all samples; give collate_fn for others"
    )


def _check_shapes(shapes: list[tuple[int, ...]], place: str) -> None:
    other = next((shape for shape in shapes if shape != shapes[0]), None)
    if other is not None:
        raise ShapeError(f"collate: {place} has shape {shapes[0]} in one sample, and {other} in another")
