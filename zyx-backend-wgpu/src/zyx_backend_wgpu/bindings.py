"""What kernels are launched with, as the renderer, the driver and programs all see it."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

#: Objects of the driver. They are freed with the last reference to them.
Pipeline: TypeAlias = Any
Group: TypeAlias = Any

#: How a kernel uses a buffer: the kinds of bindings in WGSL.
READ: Final = "read"
WRITE: Final = "read_write"
UNIFORM: Final = "uniform"

#: Memory is written, read and copied in words of so many bytes.
WORD: Final = 4


class Memory:
    """A buffer of the driver.

    Attributes:
        native: The driver's object.
        number: Tells it from all others that ever were.
        nbytes: Size, a multiple of `WORD`.
    """

    __slots__ = ("native", "nbytes", "number")

    def __init__(self, native: Any, number: int, nbytes: int) -> None:  # noqa: ANN401  # the driver's object
        self.native = native
        self.number = number
        self.nbytes = nbytes


class Dispatch(NamedTuple):
    """One kernel on some buffers.

    Attributes:
        pipeline: The kernel.
        group: The buffers.
        x, y, z: Number of groups along each axis.
    """

    pipeline: Pipeline
    group: Group
    x: int
    y: int
    z: int
