"""What a kernel becomes: a function of the driver with its grid and a place for its arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from zyx.backend.device_program import DeviceProgram
from zyx_backend_cuda.argument_block import ArgumentBlock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.arguments import Parameter
    from zyx_backend_cuda.driver import Function, Module, Shape, Stream
    from zyx_backend_cuda.memory import CudaPool

#: What the driver is given for an argument: the address of a buffer, or the bytes of a number.
Native: TypeAlias = "int | bytes"


class CudaProgram(DeviceProgram):
    """What can be queued on a stream. Captured sequences that contain a program keep what they need of it."""

    __slots__ = ()

    pool: CudaPool

    def enqueue(self, natives: Sequence[Native], stream: Stream) -> None:
        """Queue one launch. The context must be current.

        Args:
            natives: What `native_arguments` returned.
            stream: Where.

        Raises:
            Fault: The driver refused.
        """
        raise NotImplementedError


class KernelProgram(CudaProgram):
    """A kernel, built."""

    __slots__ = ("_block", "_function", "_groups", "_module", "_threads")

    def __init__(
        self,
        name: str,
        source: str,
        what: str,
        pool: CudaPool,
        parameters: Sequence[Parameter],
        module: Module,
        function: Function,
        grid: tuple[Shape, Shape],
    ) -> None:
        super().__init__(name, source, what, pool, parameters)
        self._module = module  # goes with the last reference, or with the context
        self._function = function
        self._groups, self._threads = grid
        self._block = ArgumentBlock(self.parameters)

    def enqueue(self, natives: Sequence[Native], stream: Stream) -> None:
        self._block.fill(natives)
        self.pool.session.launch(self._function, self._groups, self._threads, self._block, stream)
