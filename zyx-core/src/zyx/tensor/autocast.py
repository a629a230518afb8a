"""Compute products in a short float type, and what loses by it in float32, without changing a network.

    with zyx.autocast("bfloat16"):
        loss = zyx.cross_entropy(net(x), y)      # weights stay float32, and so do their gradients

`TABLE` says what happens to which function. Others take what they are given: `relu` of float16 is float16. Gradients
follow: that of a cast is a cast. It applies to float32 and shorter floats; float64 and complex numbers stay. Recurrent
networks stay in the type of their weights, as the cell of one step is that of the next.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Final, Self

from zyx import dtype as dtypes
from zyx.dtype import as_dtype
from zyx.errors import ArgumentError
from zyx.modes import Undo, low_precision, set_low_precision

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from zyx.dtype import DType, DTypeLike

__all__ = ["autocast"]

#: Functions of `zyx` and `zyx.nn.functional`: computed in the short type, with sums in float32, and giving it; or
#: computed in float32 and giving it, at least.
TABLE: Final[dict[str, tuple[str, ...]]] = {
    "low": (
        "matmul", "dot", "vecdot", "outer", "tensordot", "einsum", "linear", "bilinear", "conv", "conv1d", "conv2d",
        "conv3d", "conv_transpose", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
        "scaled_dot_product_attention",
    ),
    "float32": (
        "sum", "mean", "prod", "std", "var", "logsumexp", "norm", "cumsum", "cumprod",
        "softmax", "log_softmax", "softmin",
        "layer_norm", "rms_norm", "group_norm", "batch_norm", "instance_norm",
        "mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss", "cross_entropy", "nll_loss", "kl_div",
        "binary_cross_entropy", "binary_cross_entropy_with_logits", "triplet_margin_loss",
    ),
}  # fmt: skip


def is_autocast_enabled() -> bool:
    """Return whether products are computed in a short type here.

    >>> with zyx.autocast("bfloat16"):
    ...     print(zyx.amp.is_autocast_enabled())
    True
    """
    return low_precision() is not None


class autocast:  # PyTorch's name
    """Computes products in a short type in a ``with`` block, in this thread or task, or in a decorated function.

    Raises:
        DTypeError: There is no such dtype.

    >>> with zyx.autocast("bfloat16"):
    ...     y = zyx.ones(2, 3) @ zyx.ones(3, 2)
    >>> y.dtype.name
    'bfloat16'
    """

    def __init__(
        self,
        device_type: str | DTypeLike | None = None,
        dtype: DTypeLike | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        """Say which.

        Args:
            device_type: The type, as "bfloat16"; or PyTorch's name of a kind of device, which changes nothing.
            dtype: "float16" or "bfloat16"; None is "bfloat16".
            enabled: Whether to do so; if not, the block computes in the types of operands, also inside of another one.
            cache_enabled: PyTorch's, which changes nothing: a weight that is cast twice is one value.

        Raises:
            ArgumentError: Another type.
        """
        if dtype is None and device_type is not None and device_type not in ("cpu", "cuda", "xpu", "mps"):
            dtype = device_type
        given = dtypes.bfloat16 if dtype is None else as_dtype(dtype)
        if given not in (dtypes.float16, dtypes.bfloat16):
            raise ArgumentError(f'autocast: dtype is "float16" or "bfloat16", not {given}')
        self.dtype: DType = given
        self.enabled = enabled
        self._undo: list[Undo[DType | None]] = []

    def __enter__(self) -> Self:
        """Begin the block."""
        self._undo.append(set_low_precision(self.dtype if self.enabled else None))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.pop().__exit__(kind, error, trace)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return `function`, which runs in such a block."""

        @wraps(function)
        def call(*args: object, **keywords: object) -> object:
            with autocast(dtype=self.dtype, enabled=self.enabled):
                return function(*args, **keywords)

        return call
