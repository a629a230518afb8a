"""What nests become: an operation of the servant, built once, with the constants that it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zyx.drivers.arguments import Parameter, check_arguments
from zyx.drivers.device_program import DeviceProgram
from zyx.drivers.faults import Fault
from zyx.errors import LaunchError
from zyx.tiles.data import LaunchArgument, Matrix
from zyx.tiles.places import blocks_in_order, tiles_moved
from zyx.tiles.run import run_program
from zyx.tiles.staging import constant_tiles, shape_in_tiles, to_tiles
from zyx_backend_tenstorrent.info import TILE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.dtype import DType
    from zyx.nest.expr import Param
    from zyx.tiles.data import TileProgram
    from zyx_backend_tenstorrent.driver import Like, Operation, Tensor
    from zyx_backend_tenstorrent.memory import TenstorrentPool
    from zyx_backend_tenstorrent.render import Text


class TenstorrentProgram(DeviceProgram):
    """A program of tiles, built.

    Attributes:
        tiles_moved: How many tiles one launch loads and stores.
        repeated: How many launches the host has repeated, since they were to choose and found NaN.
    """

    __slots__ = ("_constants", "_doubts", "_likes", "_operation", "_program", "repeated", "tiles_moved")

    pool: TenstorrentPool

    def __init__(
        self, device: str, pool: TenstorrentPool, program: TileProgram, text: Text, operation: Operation
    ) -> None:
        parameters = [_parameter_of(param) for param in program.params]
        super().__init__(program.name, text.source, f"kernel {program.name} on {device}", pool, parameters)
        self.tiles_moved = tiles_moved(program)
        self.repeated = 0
        self._program = program
        self._operation = operation
        self._constants: dict[int, Tensor] = {
            number: pool.servant.tensor(constant_tiles(access, TILE), access.view.tile_dtype)
            for number, access in enumerate(program.operands)
            if not isinstance(access.source, LaunchArgument)
        }
        self._likes = [self._zeros(dtype, blocks) for dtype, blocks in text.likes]
        self._doubts = {dtype: self._zeros(dtype, blocks_in_order(program)) for dtype in program.doubted}

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
                if not isinstance(source, LaunchArgument):
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
            self.pool.servant.run(self._operation, [*tensors, *self._likes, *self._doubts.values()])
            holds = not any(self.pool.servant.matrix(doubt, dtype).any() for dtype, doubt in self._doubts.items())
        except Fault as fault:
            raise self.pool.work.failed(self.what, fault, LaunchError) from fault
        if not holds:
            self._run_on_host(given)
            return
        for argument, matrix, tensor, is_whole in results:
            self.pool.written(argument, matrix, tensor, is_whole=is_whole and argument.nbytes == _nbytes(matrix))

    def _run_on_host(self, given: Mapping[Param, Any]) -> None:
        """Run it on memory of the host: it was to choose between values of which one was NaN."""
        self.repeated += 1
        written = {
            access.source.param
            for access in self._program.operands
            if access.is_written and isinstance(access.source, LaunchArgument)
        }
        arrays = [
            np.full(1, given[param], param.dtype.numpy)
            if param.by_value
            else self.pool.elements(given[param], param.dtype, is_written=param in written)
            for param in self._program.params
        ]
        run_program(self._program, arrays)

    def _zeros(self, dtype: DType, tiles: tuple[int, int]) -> Tensor:
        return self.pool.servant.tensor(np.zeros((tiles[0] * TILE[0], tiles[1] * TILE[1]), dtype.numpy), dtype)

    def _number(self, source: LaunchArgument, value: bool | float, matrix: Matrix) -> Tensor:
        number = np.full(1, value, source.param.dtype.numpy)
        return self.pool.servant.tensor(to_tiles(number, matrix, TILE), matrix.tile_dtype)

    def release(self) -> None:
        """Drop what the servant has of it."""
        super().release()
        self._constants.clear()
        self._likes.clear()
        self._doubts.clear()


def likes_of(program: TileProgram, text: Text) -> list[Like]:
    """Return what the tensors of a program will be, in the order of the parameters of its text."""
    operands = [(shape_in_tiles(access.view, TILE), access.view.tile_dtype) for access in program.operands]
    casts = [(shape, dtype) for dtype, shape in text.likes]
    doubts = [(blocks_in_order(program), dtype) for dtype in program.doubted]
    return [((rows * TILE[0], columns * TILE[1]), dtype) for (rows, columns), dtype in (*operands, *casts, *doubts)]


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
