"""What is done to the parameters of a model as a whole: gradients are bounded, and all are one vector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.errors import ShapeError
from zyx.functions.joining import concat
from zyx.tensor.clip import clip_grad_norm_, clip_grad_value_

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zyx.tensor.tensor import Tensor

__all__ = ["clip_grad_norm_", "clip_grad_value_", "parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return all parameters as one vector, ``(n,)``, each in row-major order. Gradients pass.

    Raises:
        ShapeError: No parameters.

    >>> zyx.nn.utils.parameters_to_vector(zyx.nn.Linear(3, 2).parameters()).shape
    (8,)
    """
    return concat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Assign the parts of a vector, ``(n,)``, to the parameters, as `parameters_to_vector` puts them together.

    Raises:
        ShapeError: `vec` has another shape than all parameters together. Then nothing has changed.

    >>> layer = zyx.nn.Linear(2, 1)
    >>> zyx.nn.utils.vector_to_parameters(zyx.Tensor([1.0, 2.0, 3.0]), layer.parameters())
    >>> (layer.weight.tolist(), layer.bias.tolist())
    ([[1.0, 2.0]], [3.0])
    """
    listed = list(parameters)
    count = sum(parameter.numel() for parameter in listed)
    if vec.shape != (count,):
        raise ShapeError(f"vector_to_parameters: vec has shape {vec.shape}, and the parameters {count} elements")
    start = 0
    for parameter in listed:
        end = start + parameter.numel()
        parameter.data = vec[start:end].reshape(parameter.shape)
        start = end
