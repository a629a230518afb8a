"""What a network takes and gives: names, dtypes and shapes, as the file declares them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zyx.errors import DTypeError, ShapeError
from zyx.io.onnx.values import device_dtype, dtype_of, numpy_dtype

if TYPE_CHECKING:
    import numpy as np
    from onnx import TypeProto, ValueInfoProto

    from zyx.dtype import DType
    from zyx.io.onnx.values import Value


@dataclass(frozen=True, slots=True)
class ValueInfo:
    """An input or output of a network.

    Attributes:
        name: In the file.
        kind: "tensor", "sequence" or "optional".
        numpy_dtype: NumPy's type of the elements, objects for texts; None if the file does not say.
        shape: Sizes; a name stands for one that may differ between calls, None for one of which nothing is said.
            None altogether where not even the number of axes is known.
    """

    name: str
    kind: str
    numpy_dtype: np.dtype[Any] | None
    shape: tuple[int | str | None, ...] | None

    @property
    def dtype(self) -> DType | None:
        """Our type of the elements; None if no device has it, as for texts."""
        return None if self.numpy_dtype is None else device_dtype(self.numpy_dtype)

    def __str__(self) -> str:
        dtype = "?" if self.numpy_dtype is None else "text" if self.numpy_dtype.hasobject else self.numpy_dtype.name
        shape = "..." if self.shape is None else ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.name}: {'' if self.kind == 'tensor' else self.kind + ' of '}{dtype}[{shape}]"

    def check(self, value: Value, sizes: dict[str, int]) -> None:
        """Refuse a value of another kind, dtype or shape; note in `sizes` what names stand for.

        Raises:
            DTypeError: Another dtype, or a sequence where there is to be a tensor.
            ShapeError: Another shape, or a name that stands for two sizes.
        """
        if self.kind != "tensor":
            if self.kind == "sequence" and not isinstance(value, list):
                raise DTypeError(f"input {self.name!r} is a sequence: give a list of tensors")
            return
        if isinstance(value, list) or value is None:
            raise DTypeError(f"input {self.name!r} is a tensor, not {type(value).__name__}")
        if self.numpy_dtype is not None and dtype_of(value) != self.numpy_dtype:
            kind = "text" if self.numpy_dtype.hasobject else self.numpy_dtype.name
            raise DTypeError(f"input {self.name!r} is of {kind}, not {dtype_of(value)}: convert it with astype")
        if self.shape is None:
            return
        fits = len(self.shape) == len(value.shape)
        for expected, size in zip(self.shape, value.shape, strict=False):
            if isinstance(expected, int):
                fits = fits and expected == size
            elif expected is not None:
                fits = fits and sizes.setdefault(expected, size) == size
        if not fits:
            known = "".join(f", {name}={size}" for name, size in sizes.items())
            raise ShapeError(f"input {self} does not take {tuple(value.shape)}{known}")


def describe_value(value: ValueInfoProto) -> ValueInfo:
    """Return what a file says of an input or output.

    Raises:
        FormatError: An unknown element type.
    """
    kind, proto = _inner(value.type)
    if not proto.HasField("tensor_type"):
        return ValueInfo(value.name, kind, None, None)
    tensor = proto.tensor_type
    dtype = numpy_dtype(tensor.elem_type, f"input or output {value.name!r}") if tensor.elem_type else None
    if not tensor.HasField("shape"):
        return ValueInfo(value.name, kind, dtype, None)
    shape = tuple(
        int(dim.dim_value) if dim.HasField("dim_value") and dim.dim_value >= 0 else _name_of(dim.dim_param)
        for dim in tensor.shape.dim
    )
    return ValueInfo(value.name, kind, dtype, shape)


def _name_of(text: str) -> str | None:
    """Return the name of a size; some exporters write "?" or a negative number where they know none."""
    return text if text.strip("-?0123456789") else None


def _inner(proto: TypeProto) -> tuple[str, TypeProto]:
    if proto.HasField("optional_type"):
        return "optional", _inner(proto.optional_type.elem_type)[1]
    if proto.HasField("sequence_type"):
        return "sequence", proto.sequence_type.elem_type
    return "tensor", proto
