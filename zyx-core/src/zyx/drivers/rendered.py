"""Kernels as text, with all that it takes to build and launch them: what is kept on disk in place of the kernel.

A device whose compiler takes text compiles in two steps, `SupportsRendering`: the first needs no driver and is slow in
Python, as is all that leads to its kernel, so core keeps what it returns, and a later process begins with the second.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from zyx.drivers.arguments import Parameter, parameters_of
from zyx.dtype import DType

if TYPE_CHECKING:
    from typing import Self

    from zyx.backend.device import Program
    from zyx.kernel.data import Kernel

RenderedT = TypeVar("RenderedT")


@runtime_checkable
class SupportsRendering(Protocol[RenderedT]):
    """A device whose `compile` is `build` of what `render` returns: a record of plain values.

    It is kept as MessagePack: fields are bools, ints of 64 bits, floats, strings, bytes, `DType`, None, enums, tuples
    and lists of these, dicts, and such records.
    """

    @property
    def rendered_type(self) -> type[RenderedT]:
        """The class of what `render` returns: a dataclass or `msgspec.Struct`.

        Its annotations are looked up where it is defined, so what they name is imported there at run time, too.
        """

    @property
    def dialect(self) -> object:
        """All that `render` depends on beside the kernel, `info` and the code of the backend; see `identity`."""

    def render(self, kernel: Kernel) -> RenderedT:
        """Return what `build` needs; raises what `compile` raises, for what can be seen without the driver."""

    def build(self, rendered: RenderedT) -> Program:
        """Return the program of a kernel that was rendered by this device, or one like it in another process.

        Raises what `compile` raises.
        """


@dataclass(frozen=True, slots=True)
class Rendered:
    """A kernel in the language of a driver.

    Attributes:
        name: The kernel's name.
        text: The source.
        parameters: The launch arguments.
        groups: Number of groups along three axes.
        threads: Number of threads of a group along three axes.
    """

    name: str
    text: str
    parameters: tuple[Parameter, ...]
    groups: tuple[int, int, int]
    threads: tuple[int, int, int]

    @classmethod
    def of(cls, kernel: Kernel, text: str, *more: object) -> Self:
        """Return the record of a kernel whose source is `text`; `more` are fields of a class derived from this one."""
        groups, threads = kernel.grid
        return cls(kernel.name, text, parameters_of(kernel), _three(groups), _three(threads), *more)


def _three(sizes: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = (*sizes, 1, 1, 1)[:3]
    return x, y, z


def identity(*parts: object) -> str:
    """Return a digest of values by their contents, the same in every process; for dataclasses, mappings and sets."""
    return hashlib.sha256("\0".join(map(_contents, parts)).encode()).hexdigest()


def _contents(value: object) -> str:
    if isinstance(value, DType | Enum):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        inside = ", ".join(_contents(getattr(value, field.name)) for field in fields(value))
        return f"{type(value).__qualname__}({inside})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(sorted(f'{_contents(key)}: {_contents(item)}' for key, item in value.items()))}}}"
    if isinstance(value, Set):
        return f"{{{', '.join(sorted(map(_contents, value)))}}}"
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return f"({', '.join(map(_contents, value))})"
    return repr(value)
