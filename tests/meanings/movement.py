"""Functions that move elements, each beside NumPy's; what depends on sizes in several ways, `fuzz.rows_shape` draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meanings.row import AXES, AXIS, DIAGONAL, SHIFT, Argument, Bits, Of, Row, one_of

if TYPE_CHECKING:
    from fuzz.drawing import Draw

    from zyx.shape import Shape
    from zyx.testing.values import Array

#: Rows and columns at most of a matrix that is made of its diagonal.
_LONGEST_DIAGONAL: Final = 300


def _moved(name: str, meaning: Any, *arguments: Any, **given: Any) -> Row:  # those of a row
    """Return the row of a function whose elements are those of its operands, of any dtype."""
    return Row(name, meaning, arguments, of=Of.VALUES, bits=Bits.CERTAIN, **given)


def _axis_of_one(d: Draw, x: int) -> int:
    ones = [axis for axis, size in enumerate(d.shape(x)) if size == 1]
    d.require(bool(ones))
    return d.choices.pick(ones)


def _new_axis(d: Draw, x: int) -> int:
    rank = len(d.shape(x))
    return d.choices.integer(-rank - 1, rank)


def _order(d: Draw, x: int) -> tuple[int, ...]:
    rest, order = list(range(len(d.shape(x)))), []
    while rest:
        order.append(rest.pop(d.choices.integer(0, len(rest) - 1)))
    return tuple(order)


def _counts(d: Draw, x: int) -> tuple[int, ...]:
    return tuple(d.choices.integer(0, 3) for _ in range(d.choices.integer(1, len(d.shape(x)) + 1)))


def _wider(d: Draw, x: int) -> Shape:
    wide = tuple(d.choices.pick((2, 3, 5)) if size == 1 else size for size in d.shape(x))
    return (d.choices.pick((1, 2, 3)), *wide) if d.choices.chance(50) else wide


def _is_short(d: Draw, x: int, _: int) -> bool:
    return d.shape(x)[0] <= _LONGEST_DIAGONAL


def _same(x: Array, *_: Any) -> Array:  # whatever says that nothing changes
    return x


_MATRICES: Final[dict[str, Any]] = {"ranks": (2, 5)}
_LINES: Final[dict[str, Any]] = {"ranks": (1, 5)}
_FIRST_TO_WIDEN: Final[dict[str, Any]] = {"ranks": (0, 4)}
_PAIR: Final[dict[str, Any]] = {"operands": 2, "are_alike": True, **_LINES}

DIMS: Final = (
    _moved("squeeze", np.squeeze, Argument(_axis_of_one)),
    _moved("expand_dims", np.expand_dims, Argument(_new_axis), **_FIRST_TO_WIDEN),
)
ORDERS: Final = (
    _moved("swapaxes", np.swapaxes, AXIS, AXIS, **_LINES),
    _moved("moveaxis", np.moveaxis, AXIS, AXIS, **_LINES),
    _moved("matrix_transpose", lambda x: np.swapaxes(x, -1, -2), **_MATRICES),
    _moved("matrix_transpose", lambda x: np.swapaxes(x, -1, -2), text="{0}.mT", **_MATRICES),
    _moved("matrix_transpose", np.transpose, text="{0}.T", ranks=(2, 2)),
    _moved("permute_dims", np.transpose, Argument(_order), **_LINES),
    _moved("transpose", np.transpose, Argument(_order), **_MATRICES),
)
FLIPS: Final = (
    _moved("flip", np.flip, AXES),
    _moved("fliplr", np.fliplr, **_MATRICES),
    _moved("flipud", np.flipud, **_LINES),
    _moved("rot90", np.rot90, one_of(-1, 0, 1, 2, 3), **_MATRICES),
)
ROLLS: Final = (
    _moved("roll", np.roll, SHIFT),
    _moved("roll", np.roll, SHIFT, AXIS, **_LINES),
)
REPETITIONS: Final = (
    _moved("tile", np.tile, Argument(_counts), **_FIRST_TO_WIDEN),
    _moved("repeat", np.repeat, one_of(0, 1, 2, 3), AXIS, **_LINES),
    _moved("repeat", np.repeat, one_of(0, 1, 3)),
    _moved("broadcast_to", np.broadcast_to, Argument(_wider), **_FIRST_TO_WIDEN),
)
JOINED: Final = (
    _moved(
        "stack", lambda x, y, axis: np.stack([x, y], axis), Argument(_new_axis), text="zyx.stack([{0}, {1}], %s)",
        **_PAIR,
    ),
    _moved(
        "concat", lambda x, y, axis: np.concatenate([x, y, x], axis), AXIS, text="zyx.concat([{0}, {1}, {0}], %s)",
        **_PAIR,
    ),
    _moved(
        "concat", lambda x, y: np.concatenate([x, y], None), text="zyx.concat([{0}, {1}], None)", operands=2,
    ),
)  # fmt: skip
STACKED: Final = tuple(
    _moved(
        name, lambda x, y, name=name: getattr(np, name)([x, y]), text=f"zyx.{name}([{{0}}, {{1}}])", operands=2,
        are_alike=True, ranks=(1, 4),
    )
    for name in ("hstack", "vstack", "dstack")
)  # fmt: skip
TRIANGLES: Final = (
    _moved("triu", np.triu, DIAGONAL, **_MATRICES),
    _moved("tril", np.tril, DIAGONAL, **_MATRICES),
    _moved("diag", np.diagonal, DIAGONAL, ranks=(2, 2)),
    _moved("diagonal", lambda x, k: np.diagonal(x, k, -2, -1), DIAGONAL, **_MATRICES),
    _moved("diagonal", np.diagonal, DIAGONAL, -1, 0, ranks=(2, 2)),
)
DIAGONAL_MATRICES: Final = (_moved("diag", np.diag, DIAGONAL, ranks=(1, 1), not_empty=True, fits=_is_short),)
GRIDS: Final = tuple(
    _moved(
        "meshgrid", lambda x, y, kind=kind, which=which: np.meshgrid(x, y, indexing=kind)[which],
        text=f"zyx.meshgrid({{0}}, {{1}}, indexing='{kind}')[{which}]", operands=2, are_alike=True, ranks=(1, 1),
    )
    for kind in ("xy", "ij")
    for which in (0, 1)
)  # fmt: skip
FILLED: Final = (
    Row("full_like", np.full_like, (3,), of=Of.NUMBERS, bits=Bits.CERTAIN),
    _moved("zeros_like", np.zeros_like),
    _moved("ones_like", np.ones_like),
    *(
        _moved(
            "broadcast_arrays", lambda x, y, which=which: np.broadcast_arrays(x, y)[which], operands=2,
            text=f"zyx.broadcast_arrays({{0}}, {{1}})[{which}]",
        )
        for which in (0, 1)
    ),
)  # fmt: skip
COPIES: Final = tuple(
    _moved(name, _same, text=text)
    for name, text in (
        ("contiguous", "{0}.contiguous()"), ("clone", "{0}.clone()"), ("expand", "{0}.expand({0}.shape)"),
        ("getitem", "{0}[...]"),
    )
)  # fmt: skip
