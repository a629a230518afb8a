"""What a kernel becomes: a function of the driver with its grid and a place for its arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from zyx.drivers.device_program import DeviceProgram
from zyx.drivers.faults import Fault
from zyx.errors import LaunchError
from zyx_backend_cuda.argument_block import ArgumentBlock
from zyx_backend_cuda.errors import failure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.drivers.arguments import Parameter
    from zyx_backend_cuda.driver import Function, GraphExec, Module, Shape, Stream
    from zyx_backend_cuda.memory import CudaPool

#: What the driver is given for an argument: the address of a buffer, or the bytes of a number.
Native: TypeAlias = "int | bytes"


class CudaProgram(DeviceProgram):
    """What can be queued on a stream.

    Attributes:
        sequences: How many captured sequences contain it. What the driver holds for it stays until the last one goes.
    """

    __slots__ = ("sequences",)

    pool: CudaPool

    def __init__(self, name: str, source: str, what: str, pool: CudaPool, parameters: Sequence[Parameter]) -> None:
        super().__init__(name, source, what, pool, parameters)
        self.sequences = 0

    def release(self) -> None:
        """Note that it was given back, and free it unless a captured sequence contains it."""
        super().release()
        self.free_unless_used()

    def free_unless_used(self) -> None:
        """Free it if it was given back and no captured sequence contains it."""
        if self.is_released and not self.sequences:
            self.free()

    def free(self) -> None:
        """Free what the driver holds for it, which nobody launches any more. Called once."""

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

    __slots__ = ("_block", "_groups", "_module", "_threads", "function")

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
        self._module: Module | None = module
        self.function: Function | None = function
        self._groups, self._threads = grid
        self._block = ArgumentBlock(self.parameters)

    def enqueue(self, natives: Sequence[Native], stream: Stream) -> None:
        self._block.fill(natives)
        self.pool.session.launch(self.function, self._groups, self._threads, self._block, stream)

    def change(self, graph: GraphExec, number: int, natives: Sequence[Native]) -> None:
        """Let launch `number` of a graph, which is of this kernel, be one with other arguments from now on."""
        self._block.fill(natives)
        self.pool.session.change(graph, number, self.function, self._groups, self._threads, self._block)

    def put_on(self, stream: Stream) -> Callable[[Sequence[Native]], None]:
        """Return `enqueue` for one stream, in fewer calls; the context need not be current."""
        return self.pool.session.launcher(self.function, self._groups, self._threads, self._block, stream)

    def free(self) -> None:
        """Unload the module, once all work is done."""
        lane = self.pool.compute
        try:
            with self.pool.session as session:
                lane.finish()
                module = self._module
                self._module = self.function = None
                session.unload(module)
        except Fault as error:
            raise failure(f"unloading {self.what}", error, LaunchError, lane.last) from error
