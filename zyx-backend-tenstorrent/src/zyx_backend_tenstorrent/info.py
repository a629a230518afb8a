"""What a device is and can do: what TT-Lang's compiler has, and the limits that the servant tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.backend import STORAGE_ONLY, Capability, DeviceInfo, TileUnit
from zyx.ops import COMPARISONS, BinaryOp, UnaryOp

if TYPE_CHECKING:
    from zyx_backend_tenstorrent.driver import Servant

#: Rows and columns of a tile: TT-Lang's specification, appendix E.
TILE: Final = (32, 32)
#: What the language has, or what `zyx.tiles.expressions` writes of that: appendix D, where the compiler has a version.
#: It has neither remainders nor powers; error functions and log1p are written in others.
_FLOAT: Final = Capability(
    frozenset({
        UnaryOp.NEG, UnaryOp.ABS, UnaryOp.FLOOR, UnaryOp.TRUNC, UnaryOp.SQRT, UnaryOp.RECIPROCAL, UnaryOp.EXP,
        UnaryOp.EXP2, UnaryOp.EXPM1, UnaryOp.LOG, UnaryOp.LOG1P, UnaryOp.LOG2, UnaryOp.SIN, UnaryOp.COS, UnaryOp.TANH,
        UnaryOp.ATAN, UnaryOp.ERF,
    }),
    frozenset({BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV, BinaryOp.MAX, BinaryOp.MIN}) | COMPARISONS,
)  # fmt: skip
#: Truths are 0.0 and 1.0 in tiles.
_BOOL: Final = Capability(
    frozenset({UnaryOp.NOT}),
    frozenset({BinaryOp.AND, BinaryOp.OR, BinaryOp.XOR, BinaryOp.MAX, BinaryOp.MIN}) | COMPARISONS,
)
#: Operations and bytes a second of the simulator: 21 us for a tile of a chain, 248 us for a product of two tiles.
_FLOPS_PER_S: Final = 2.6e8
_BYTES_PER_S: Final = 4e8


def device_info(servant: Servant, version: str) -> DeviceInfo:
    """Return the record of the device of a servant. All dtypes may be stored; what is not here goes to the host."""
    computed = {**dict.fromkeys(servant.computes, _FLOAT), dtypes.bool_: _BOOL}
    rows, columns = servant.grid
    return DeviceInfo(
        servant.model,
        f"zyx-backend-tenstorrent {version}, {servant.version}",
        {**dict.fromkeys(dtypes.ALL, STORAGE_ONLY), **computed},
        flops_per_s=_FLOPS_PER_S,
        bytes_per_s=_BYTES_PER_S,
        units=rows * columns,
        max_groups=(columns, rows),
        local_bytes=servant.local_bytes,
        max_buffer_bytes=servant.memory_bytes,
        has_fma=False,
        tiles=TileUnit(*TILE, servant.most_buffers),
    )
