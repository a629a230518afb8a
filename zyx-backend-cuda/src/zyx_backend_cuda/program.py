"""What a kernel becomes: a function of the driver with its grid and a place for its arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

from zyx.backend import Program
from zyx.backend.arguments import check_arguments, scalar_bytes
from zyx_backend_cuda.argument_block import ArgumentBlock
from zyx_backend_cuda.memory import CudaBuffer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Argument
    from zyx.backend.arguments import Parameter
    from zyx_backend_cuda.driver import Function, Module, Shape, Stream
    from zyx_backend_cuda.memory import CudaPool

#: What the driver is given for an argument: the address of a buffer, or the bytes of a number.
Native: TypeAlias = "int | bytes"


class Queueable(Protocol):
    """A program that can be part of a captured sequence: a kernel, or a call of a library."""

    name: str
    what: str
    parameters: tuple[Parameter, ...]

    def enqueue(self, natives: Sequence[Native], stream: Stream) -> None:
        """Queue one launch. Raises `Fault`."""


def native_arguments(
    args: Sequence[Argument], parameters: Sequence[Parameter], pool: CudaPool, what: str
) -> list[Native]:
    """Return what the driver is given for `args`. Raises `LaunchError` if they are too few or many, or one is wrong."""
    addresses: list[Native] = []
    if len(args) == len(parameters):
        for arg, parameter in zip(args, parameters, strict=True):  # as nearly all are: nothing but buffers that fit
            if (
                not isinstance(arg, CudaBuffer)
                or arg.pool is not pool
                or arg.freed
                or arg.nbytes < parameter.nbytes
                or parameter.scalar is not None
            ):
                break
            addresses.append(arg.address)
        else:
            return addresses
    check_arguments(args, parameters, pool, what)
    return [
        arg.address if isinstance(arg, CudaBuffer) else scalar_bytes(arg, parameter.scalar, what)  # type: ignore[arg-type]
        for arg, parameter in zip(args, parameters, strict=True)
    ]


class CudaProgram(Program):
    """A kernel, built.

    Attributes:
        what: The kernel and its device, for error texts.
        pool: Memory of the device that it was built for.
        parameters: The launch arguments.
        is_released: Whether it was given back.
    """

    __slots__ = ("_block", "_function", "_groups", "_module", "_threads", "is_released", "parameters", "pool", "what")

    def __init__(
        self,
        name: str,
        source: str,
        device: str,
        pool: CudaPool,
        module: Module,
        function: Function,
        grid: tuple[Shape, Shape],
        parameters: Sequence[Parameter],
    ) -> None:
        super().__init__(name, source)
        self.what = f"kernel {name} on {device}"
        self.pool = pool
        self.parameters = tuple(parameters)
        self.is_released = False
        self._module = module  # goes with the last reference, or with the context
        self._function = function
        self._groups, self._threads = grid
        self._block = ArgumentBlock(parameters)

    def enqueue(self, natives: Sequence[Native], stream: Stream) -> None:
        """Queue one launch. Raises `Fault`."""
        self._block.fill(natives)
        self.pool.session.launch(self._function, self._groups, self._threads, self._block, stream)

    def release(self) -> None:
        """Note that it must not be launched; captured sequences keep what they need."""
        self.is_released = True
