"""Layers that learn the width of their input from the first one they are given.

They have no parameters until then: make optimisers, load saved values and trace functions after the first call, with
which they become the layers that they stand for. Arguments are those of that layer, without the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from zyx.dtype import float32
from zyx.errors import ShapeError, StateError
from zyx.functions.operands import require
from zyx.nn import batch_norm, convolution
from zyx.nn.families import derived
from zyx.nn.linear import Linear
from zyx.nn.module import Module

if TYPE_CHECKING:
    from zyx.dtype import DTypeLike
    from zyx.tensor.loading import LoadReport


class _Lazy(Module):
    """What becomes a layer; see the module."""

    becomes: ClassVar[type[Module]]
    place: ClassVar[int] = 1
    """The axis whose size the layer learns."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  # those of the layer
        self._given = (args, kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # as of the layer
        """Become the layer, and return what it does."""
        shape = require(args[0] if args else None, type(self).__name__).node.shape
        place = self.place if self.place < 0 else self._channels(len(shape))
        if not shape or not -len(shape) <= place < len(shape):
            raise ShapeError(f"{type(self).__name__} finds no width in {shape}")
        given, named = self._given
        mode = self._training
        del self._given
        self.__class__ = self.becomes  # type: ignore[assignment]  # a module whose parameters are not there yet
        self.__init__(shape[place], *given, **named)  # type: ignore[misc]  # of the layer, by then
        self.__dict__["_training"] = mode
        self._changed()
        return self(*args, **kwargs)

    def _channels(self, ndim: int) -> int:
        """Return the axis of channels; the layers of pictures take them without a batch, too."""
        axes = getattr(self.becomes, "ndim", None)
        return 0 if axes is not None and ndim == axes + 1 else 1

    def load_state_dict(self, state: Any, strict: bool = True) -> LoadReport:  # noqa: ANN401  # of the layer
        """Refuse.

        Raises:
            StateError: Always.
        """
        raise StateError(f"{type(self).__name__} has no parameters yet; call it once before values are loaded")

    def extra_repr(self) -> str:
        args, kwargs = self._given
        return ", ".join(["?", *map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())])


class _LazyInstanceNorm(_Lazy):
    """Unlike the layers that they become, these have weights and running values by default, as in PyTorch."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        dtype: DTypeLike = float32,
        device: str | None = None,
    ) -> None:
        super().__init__(eps, momentum, affine, track_running_stats, dtype, device)


def _lazy(
    becomes: type[Module],
    shape: tuple[int, ...],
    given: str = "",
    base: type[_Lazy] = _Lazy,
    what: str = "channels",
    place: int = 1,
) -> type[_Lazy]:
    """Return the lazy class. Its example makes a layer of what is `given`, of 4 outputs, for ones of `shape`."""
    name = becomes.__name__
    doc = (
        f"`{name}` of as many {what} as its first input has; shapes are those of `{name}`.\n\n"
        "Raises:\n    ShapeError: When called: the first input has no such axis.\n\n"
        f">>> zyx.nn.Lazy{name}({given})(zyx.ones{shape}).shape\n{(shape[0], 4, *shape[2:]) if given else shape}\n"
    )
    return derived(base, f"Lazy{name}", doc, becomes=becomes, place=place)


LazyLinear = _lazy(Linear, (2, 3), "4", what="features", place=-1)
LazyConv1d = _lazy(convolution.Conv1d, (2, 3, 5), "4, 1")
LazyConv2d = _lazy(convolution.Conv2d, (2, 3, 5, 5), "4, 1")
LazyConv3d = _lazy(convolution.Conv3d, (2, 3, 5, 5, 5), "4, 1")
LazyConvTranspose1d = _lazy(convolution.ConvTranspose1d, (2, 3, 5), "4, 1")
LazyConvTranspose2d = _lazy(convolution.ConvTranspose2d, (2, 3, 5, 5), "4, 1")
LazyConvTranspose3d = _lazy(convolution.ConvTranspose3d, (2, 3, 5, 5, 5), "4, 1")
LazyBatchNorm1d = _lazy(batch_norm.BatchNorm1d, (2, 3, 5))
LazyBatchNorm2d = _lazy(batch_norm.BatchNorm2d, (2, 3, 5, 5))
LazyBatchNorm3d = _lazy(batch_norm.BatchNorm3d, (2, 3, 5, 5, 5))
LazyInstanceNorm1d = _lazy(batch_norm.InstanceNorm1d, (2, 3, 5), base=_LazyInstanceNorm)
LazyInstanceNorm2d = _lazy(batch_norm.InstanceNorm2d, (2, 3, 5, 5), base=_LazyInstanceNorm)
LazyInstanceNorm3d = _lazy(batch_norm.InstanceNorm3d, (2, 3, 5, 5, 5), base=_LazyInstanceNorm)
