"""What dtypes can hold, how they convert, and what this namespace offers, by the Array API's inspection functions."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from zyx import dtype as dtypes
from zyx.dtype import DType, Kind, as_dtype, promote
from zyx.errors import DTypeError, SettingsError
from zyx.functions.movement import reshape
from zyx.functions.operands import is_operand, is_tensor, require, wrap
from zyx.lazy_import import lazy_import
from zyx.runtime.runtime import current

if TYPE_CHECKING:
    from types import ModuleType

    from zyx.dtype import DTypeLike
    from zyx.functions import Tensor, bits
    from zyx.functions.operands import Operand
else:
    bits = lazy_import("zyx.functions.bits", globals())

__all__ = ["astype", "can_cast", "finfo", "iinfo", "is_floating_point", "is_tensor", "isdtype", "result_type"]

#: Of the Array API.
API_VERSIONS: Final = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")


class FloatInfo(NamedTuple):
    """Limits of a floating-point type.

    Attributes:
        bits: Size of an element.
        eps: Distance from 1 to the next greater number.
        max: Greatest finite number.
        min: Least finite number, ``-max``.
        smallest_normal: Least positive number of full precision.
        dtype: The type.
    """

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class IntegerInfo(NamedTuple):
    """Limits of an integer type.

    Attributes:
        bits: Size of an element.
        max: Greatest number.
        min: Least number.
        dtype: The type.
    """

    bits: int
    max: int
    min: int
    dtype: DType


_DIGITS: Final = {
    dtypes.float16: (10, 15), dtypes.bfloat16: (7, 127), dtypes.float32: (23, 127), dtypes.float64: (52, 1023),
}  # fmt: skip
"""Digits stored of the fraction, and greatest exponent."""


def _dtype_of(given: DTypeLike | Tensor) -> DType:
    return given.dtype if is_tensor(given) else as_dtype(given)  # type: ignore[arg-type]  # as_dtype refuses the rest


def finfo(given: DTypeLike | Tensor) -> FloatInfo:
    """Return the limits of a floating-point type, or of a tensor's; of a complex type those of its parts.

    A tensor may have any shape.

    Raises:
        DTypeError: Not a floating-point type.

    >>> zyx.finfo("float16").max
    65504.0
    """
    dtype = _dtype_of(given).part
    if dtype not in _DIGITS:
        raise DTypeError(f"finfo is about floating-point types, not {dtype}; see iinfo")
    digits, exponent = _DIGITS[dtype]
    top = (2.0 - 2.0**-digits) * 2.0**exponent
    return FloatInfo(dtype.bits, 2.0**-digits, top, -top, 2.0 ** (1 - exponent), dtype)


def iinfo(given: DTypeLike | Tensor) -> IntegerInfo:
    """Return the limits of an integer type, or of a tensor's.

    A tensor may have any shape.

    Raises:
        DTypeError: Not an integer type.

    >>> zyx.iinfo("int8").max
    127
    """
    dtype = _dtype_of(given)
    if not dtype.is_integer:
        raise DTypeError(f"iinfo is about integer types, not {dtype}; see finfo")
    return IntegerInfo(dtype.bits, int(dtype.max), int(dtype.min), dtype)


_KINDS: Final = {
    "bool": (Kind.BOOL,),
    "signed integer": (Kind.INT,),
    "unsigned integer": (Kind.UINT,),
    "integral": (Kind.INT, Kind.UINT),
    "real floating": (Kind.FLOAT,),
    "complex floating": (Kind.COMPLEX,),
    "numeric": (Kind.INT, Kind.UINT, Kind.FLOAT, Kind.COMPLEX),
}


def isdtype(dtype: DTypeLike, kind: str | DTypeLike | tuple[str | DTypeLike, ...]) -> bool:
    """Tell whether `dtype` is `kind`: a type, a family by the Array API's name, or any of a tuple of them.

    Raises:
        DTypeError: An unknown family.

    >>> zyx.isdtype(zyx.float32, "real floating")
    True
    """
    own = as_dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(own, each) for each in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return own.kind in _KINDS[kind]
    if isinstance(kind, str) and kind not in dtypes.BY_NAME:
        raise DTypeError(f"no family of dtypes {kind!r}; there are {', '.join(_KINDS)}")
    return own is as_dtype(kind)


def result_type(*operands: Operand | DTypeLike) -> DType:
    """Return the dtype in which tensors, arrays, dtypes and Python numbers meet; at least one is not a number.

    Their shapes need not fit.

    Raises:
        DTypeError: They do not.

    >>> zyx.result_type("int32", "float16").name
    'float16'
    """
    known = [x if isinstance(x, DType) else as_dtype(x) for x in operands if not is_operand(x)]  # type: ignore[arg-type]
    tensors = [as_dtype(x.dtype) for x in operands if is_tensor(x) or isinstance(x, np.ndarray | np.generic)]
    numbers = [x for x in operands if isinstance(x, bool | int | float | complex)]
    if not known and not tensors:
        raise DTypeError("result_type takes at least one dtype, tensor or array beside Python numbers")
    result = dtypes.promote_all([*known, *tensors])
    for number in numbers:
        result = dtypes.promote_scalar(result, number)
    return result


def can_cast(source: DTypeLike | Tensor, target: DTypeLike) -> bool:
    """Tell whether promotion leads from `source` to `target`: no value is lost, but large integers may round.

    A tensor may have any shape.

    Raises:
        DTypeError: There is no such dtype.

    >>> zyx.can_cast("int32", "float64")
    True
    """
    before, after = _dtype_of(source), as_dtype(target)
    try:
        return promote(before, after) is after
    except DTypeError:
        return False


def bitcast(x: Tensor, dtype: DTypeLike) -> Tensor:
    """Return the bits of the elements read as another dtype; of another size, along the last axis.

    So n elements of float32 are 4 n of uint8, the lowest bits first, and 4 n of these are n of float32.

    Raises:
        DTypeError: One is bool, or complex.
        ShapeError: The last axis has no whole number of the larger elements.
    """
    target = as_dtype(dtype)
    if target.bits != x.node.dtype.bits and not (target.is_complex or x.node.dtype.is_complex):
        return bits.bits_as(x, target)
    return wrap(x.runtime.graph.bitcast(x.node, target), x)


def view(x: Tensor, *shape: Any, **keywords: Any) -> Tensor:  # noqa: ANN401  # those of `reshape`
    """Return `reshape`; given a dtype, `bitcast`."""
    given = keywords.pop("dtype", None) if not shape else shape[0]
    if isinstance(given, DType | str | type) and len(shape) < 2 and not keywords:
        return bitcast(x, given)
    return reshape(x, *shape, **keywords)


def is_floating_point(x: Tensor) -> bool:
    """Tell whether the dtype of `x`, which has any shape, is one of floats.

    Raises:
        DTypeError: `x` is no tensor.

    >>> zyx.is_floating_point(zyx.ones(2))
    True
    """
    return require(x, "is_floating_point").node.dtype.is_float


def astype(x: Tensor, dtype: DTypeLike, *, copy: bool = True, device: str | None = None) -> Tensor:
    """Return `x` converted to `dtype`, and moved to `device` if one is named.

    The result has the shape of `x`.

    Floats become integers by truncation, saturated, NaN as 0. Tensors never share what one of them can change, so
    `copy` makes no difference.

    Raises:
        DTypeError: Complex numbers to real ones, which would lose the imaginary part.

    >>> zyx.astype(zyx.Tensor([1.5]), "int32").tolist()
    [1]
    """
    tensor = require(x, "astype")
    graph = tensor.runtime.graph
    node = graph.cast(tensor.node, as_dtype(dtype))
    if device is not None:
        node = graph.to_device(node, tensor.runtime.device_name(device))
    return wrap(node, tensor)


class NamespaceInfo:
    """What ``zyx.__array_namespace_info__()`` returns: the Array API's questions about this library."""

    def capabilities(self) -> dict[str, bool | int | None]:
        """Return what the standard leaves open: indexing by masks and shapes that depend on data both work."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> str:
        """Return the name of the device on which tensors are made."""
        return current().default_device

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """Return the dtypes that Python numbers and indices get."""
        return {
            "real floating": dtypes.float32,
            "complex floating": dtypes.complex64,
            "integral": dtypes.int64,
            "indexing": dtypes.int64,
        }

    def devices(self) -> tuple[str, ...]:
        """Return the names of all devices."""
        return tuple([device.name for device in current().devices])

    def dtypes(self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None) -> dict[str, DType]:
        """Return the dtypes that tensors on a device can have, by name, those of `kind` if one is given.

        Arithmetic on those that the device only stores, such as float16 on many, is done in a wider one.

        Args:
            device: Its name; the default device if None. Of a group, what all its devices have.
            kind: As `isdtype` takes it; all if None.

        Raises:
            NoDeviceError: There is no such device.
        """
        runtime = current()
        infos = [runtime.device(name).info for name in runtime.device_name(device).split("|")]
        here = [t for t in (*dtypes.ALL, *dtypes.COMPLEX) if all(info.can_store(t.part) for info in infos)]
        return {t.name: t for t in here if kind is None or isdtype(t, kind)}


def array_namespace_info() -> NamespaceInfo:
    """Return what this namespace offers; it is ``zyx.__array_namespace_info__``."""
    return NamespaceInfo()


def array_namespace(x: Tensor, *, api_version: str | None = None) -> ModuleType:
    """Return `zyx`, which follows the Array API.

    Raises:
        SettingsError: An unknown version of it.
    """
    if api_version not in (None, *API_VERSIONS):
        raise SettingsError(f"version {api_version} of the Array API is not one of {', '.join(API_VERSIONS)}")
    return sys.modules["zyx"]
