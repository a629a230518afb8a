"""What calls are given, looked at before anything is done: each error names the call, the argument and the value."""

from __future__ import annotations

import math
import reprlib
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NoReturn, TypeVar

import numpy as np

from zyx.dtype import as_dtype
from zyx.errors import DTypeError, InvalidArgumentError, UnsupportedError
from zyx.integers import as_index, is_several

if TYPE_CHECKING:
    from zyx.backend import DeviceInfo
    from zyx.dtype import DType

E = TypeVar("E", bound=Enum)


@dataclass(frozen=True, slots=True)
class CheckedCall:
    """A call whose arguments are looked at.

    Attributes:
        name: Of the method.
    """

    name: str

    def refuse(self, argument: str, value: object, wanted: str) -> NoReturn:
        """Raise the error for an argument.

        Raises:
            InvalidArgumentError: Always.
        """
        raise self.error(argument, value, wanted)

    def error(self, argument: str, value: object, wanted: str) -> InvalidArgumentError:
        """Return the error for an argument."""
        if hasattr(value, "shape"):
            shown = f"a {type(value).__name__} of shape {value.shape}"
        else:
            shown = f"{type(value).__name__}.{value.name}" if isinstance(value, Enum) else reprlib.repr(value)
        return InvalidArgumentError(f"ComputeBackend.{self.name}: {argument} is {shown}; expected {wanted}")

    def integer(self, argument: str, value: object, least: int, wanted: str) -> int:
        """Return an integer that is at least so great.

        Raises:
            InvalidArgumentError: No integer, or less.
        """
        try:
            found = as_index(value, argument)
        except TypeError as error:
            raise InvalidArgumentError(
                f"ComputeBackend.{self.name}: {argument} is {value!r} ({type(value).__name__}); expected {wanted}"
            ) from error
        if found < least:
            self.refuse(argument, found, wanted)
        return found

    def size(self, argument: str, value: object) -> int:
        """Return a number of rows, elements, bytes and such."""
        return self.integer(argument, value, 0, "an integer >= 0")

    def shape(self, argument: str, value: object, axes: int | None, least: int = 0) -> tuple[int, ...]:
        """Return sizes, of which there are so many."""
        wanted = f"{'a sequence of' if axes is None else axes} integers >= {least}"
        if not is_several(value):
            self.refuse(argument, value, wanted)
        found = tuple([self.integer(f"{argument}[{i}]", each, least, wanted) for i, each in enumerate(value)])
        if axes is not None and len(found) != axes:
            self.refuse(argument, found, wanted)
        return found

    def leading(self, argument: str, value: object, row: int) -> int:
        """Return a leading dimension of a matrix that is stored in rows of `row` elements."""
        least = max(row, 1)
        return self.integer(argument, value, least, f"an integer >= {least}, the length of a row as it is stored")

    def member(self, argument: str, value: object, kind: type[E]) -> E:
        """Return a member of an enumeration, which may be given by its value."""
        if isinstance(value, kind):
            return value
        try:
            return kind(value.lower() if isinstance(value, str) else value)
        except ValueError:
            names = ", ".join(f"{kind.__name__}.{each.name}" for each in kind)
            self.refuse(argument, value, f"one of {names}")

    def dtype(self, value: object, device: str, info: DeviceInfo) -> DType:
        """Return an element type that a device has.

        Raises:
            DTypeError: There is no such type, or it is bool, of which not every pattern of bits is a value.
            UnsupportedError: The device does not store it.
        """
        try:
            found = as_dtype(value)  # type: ignore[arg-type]  # the error is what we are after
        except TypeError as error:  # ours, or NumPy's
            raise DTypeError(f"ComputeBackend.{self.name}: dtype is {value!r}: {error}") from error
        if value is None:  # NumPy's float64
            raise DTypeError(f"ComputeBackend.{self.name}: dtype is None; expected a dtype, such as zyx.float32")
        if found.is_bool:
            raise DTypeError(f"ComputeBackend.{self.name}: dtype is bool; expected one of numbers")
        if not info.can_store(found.part if found.is_complex else found):
            names = ", ".join(sorted(each.name for each in info.capabilities))
            raise UnsupportedError(f"ComputeBackend.{self.name}: {device} does not store {found}; it has {names}")
        return found

    def scalar(self, argument: str, value: object, dtype: DType) -> int | float | complex:
        """Return a factor of elements of `dtype`."""
        if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
            value = value.item()
        wanted = f"a {'complex' if dtype.is_complex else 'real'} number"
        if isinstance(value, bool) or not isinstance(value, int | float | complex):
            self.refuse(argument, value, wanted)
        if not dtype.is_integer:
            try:
                return complex(value) if dtype.is_complex else float(value)  # type: ignore[arg-type]  # refused below
            except (OverflowError, TypeError):
                self.refuse(argument, value, f"{wanted} of float64")
        if isinstance(value, complex):
            self.refuse(argument, value, wanted)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or not dtype.min <= value <= dtype.max:
            self.refuse(argument, value, f"an integer that {dtype} holds")
        return value

    def scale(self, argument: str, value: object) -> float:
        """Return a factor that is positive and finite."""
        number = value.item() if isinstance(value, np.generic) else value
        wanted = "a finite number > 0, or None for 1 / sqrt(head_dim)"
        if not isinstance(number, int | float) or isinstance(number, bool):
            self.refuse(argument, value, wanted)
        if not (0 < number < math.inf):
            self.refuse(argument, value, wanted)
        return float(number)
