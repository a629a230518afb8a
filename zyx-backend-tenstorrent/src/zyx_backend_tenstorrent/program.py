"""What nests become: an operation of the servant, built once, with the constants that it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zyx.drivers.arguments import Parameter, check_arguments
from zyx.drivers.device_program import DeviceProgram
from zyx.errors import LaunchError
from zyx.tiles.data import Constant, LaunchArgument, Matrix
from zyx.tiles.places import tiles_moved
from zyx.tiles.staging import constant_tiles, to_tiles
from zyx_backend_tenstorrent.errors import Fault
from zyx_backend_tenstorrent.info import TILE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.nest.expr import Param
    from zyx.tiles.data import TileProgram
    from zyx_backend_tenstorrent.driver import Operation, Tensor
    from zyx_backend_tenstorrent.memory import TenstorrentPool
    from zyx_backend_tenstorrent.render import Text


class TenstorrentProgram(DeviceProgram):
    """A program of tiles, built.

    Attributes:
        tiles_moved: How many tiles one launch loads and stores.
    """

    __slots__ = ("_constants", "_likes", "_operation", "_program", "tiles_moved")

    pool: TenstorrentPool

    def __init__(
        self, device: str, pool: TenstorrentPool, program: TileProgram, text: Text, operation: Operation
    ) -> None:
        parameters = [_parameter_of(param) for param in program.params]
        super().__init__(program.name, text.source, f"kernel {program.name} on {device}", pool, parameters)
        self.tiles_moved = tiles_moved(program)
        self._program = program
        self._operation = operation
        self._constants: dict[int, Tensor] = {
            number: pool.servant.tensor(constant_tiles(access.source, access, TILE), access.view.tile_dtype)
            for number, access in enumerate(program.operands)
            if isinstance(access.source, Constant)
        }
        self._likes = [
            pool.servant.tensor(np.zeros((rows * TILE[0], columns * TILE[1]), dtype.numpy), dtype)
            for dtype, (rows, columns) in text.likes
        ]

    def run(self, args: Sequence[Any]) -> None:
        """Run it once.

        Raises:
            LaunchError: The arguments do not fit, or the servant refused.
        """
        check_arguments(args, self.parameters, self.pool, self.what)
        given = dict(zip(self._program.params, args, strict=True))
        tensors: list[Tensor] = []
        results: list[tuple[Any, Matrix, Tensor, bool]] = []
        try:
            for number, access in enumerate(self._program.operands):
                source, matrix = access.source, access.view
                if isinstance(source, Constant):
                    tensors.append(self._constants[number])
                elif source.param.by_value:
                    tensors.append(self._number(source, given[source.param], matrix))
                elif access.is_written:
                    tensor = self.pool.empty(matrix)
                    tensors.append(tensor)
                    results.append((given[source.param], matrix, tensor, _is_whole(matrix, source.param)))
                else:
                    argument = given[source.param]
                    tensors.append(self.pool.tiles_of(argument, matrix, access.pads))
            self.pool.servant.run(self._operation, [*tensors, *self._likes])
        except Fault as fault:
            raise self.pool.failed(self.what, fault, LaunchError) from fault
        for argument, matrix, tensor, is_whole in results:
            self.pool.written(argument, matrix, tensor, is_whole=is_whole and argument.nbytes == _nbytes(matrix))

    def _number(self, source: LaunchArgument, value: bool | float, matrix: Matrix) -> Tensor:
        number = np.full(1, value, source.param.dtype.numpy)
        return self.pool.servant.tensor(to_tiles(number, matrix, TILE), matrix.tile_dtype)

    def release(self) -> None:
        """Drop what the servant has of it."""
        super().release()
        self._constants.clear()
        self._likes.clear()


def _parameter_of(param: Param) -> Parameter:
    if param.by_value:
        return Parameter(0, param.dtype)
    return Parameter(param.length * param.dtype.itemsize)


def _nbytes(matrix: Matrix) -> int:
    elements = 1
    for size in matrix.shape:
        elements *= size
    return (matrix.count or elements) * matrix.dtype.itemsize


def _is_whole(matrix: Matrix, param: Param) -> bool:
    """Whether a matrix has every element of a buffer once, in one order or another."""
    return matrix.offset == 0 and _nbytes(matrix) == param.length * param.dtype.itemsize
