"""What the backend asks of whoever serves it: the simulator (`driver_sim`), or a card (`driver_ttnn`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from zyx.dtype import DType

    Array = npt.NDArray[Any]

#: A matrix of whole tiles in memory of the device, as the servant has it.
Tensor: TypeAlias = Any
#: A program that was built, to be run on tensors.
Operation: TypeAlias = "Callable[..., None]"
#: What a tensor of a program will be: rows and columns of elements, which are whole tiles, and their dtype.
Like: TypeAlias = "tuple[tuple[int, int], DType]"


class Servant(Protocol):
    """One device, open. All methods return when the work is done, and raise `zyx.drivers.faults.Fault`.

    Attributes:
        model: What the device is, for people.
        version: Of the servant and what it uses.
        grid: Rows and columns of cores that a program may use.
        memory_bytes: Memory of the device.
        local_bytes: Local memory of a core that programs may use.
        most_buffers: Buffers in it that a program may have.
        computes: Dtypes that tiles may have.
    """

    model: str
    version: str
    grid: tuple[int, int]
    memory_bytes: int
    local_bytes: int
    most_buffers: int
    computes: frozenset[DType]

    def tensor(self, matrix: Array, dtype: DType) -> Tensor:
        """Return a tensor of the elements of a matrix of whole tiles."""

    def matrix(self, tensor: Tensor, dtype: DType) -> Array:
        """Return the elements of a tensor."""

    def build(self, text: str, name: str, likes: Sequence[Like]) -> Operation:
        """Return the operation `name` that a program in TT-Lang defines, for tensors like these, one a parameter."""

    def run(self, operation: Operation, tensors: Sequence[Tensor]) -> None:
        """Run an operation on tensors, in the order of its parameters."""

    def close(self) -> None:
        """Let go of the device."""
