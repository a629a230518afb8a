"""Schedules as data for JSON: a list of moves, each with its name and its fields.

    Split("r0", 4), Mark("r0.1", Kind.VECTOR)
    [{"move": "Split", "range": "r0", "factor": 4}, {"move": "Mark", "range": "r0.1", "kind": "vector"}]

What is read is checked against the fields of the moves. It need not apply to any nest: whoever applies it finds out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from zyx.errors import FormatError
from zyx.schedule.moves import MOVES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from zyx.schedule.moves import Move


def write_moves(moves: Iterable[Move]) -> list[dict[str, Any]]:
    """Return moves as data for JSON."""
    return [_written(move) for move in moves]


def _written(move: Any) -> dict[str, Any]:  # noqa: ANN401  # a move, of ours or of others
    if type(move).__name__ in MOVES:
        return {"move": type(move).__name__, **msgspec.to_builtins(move)}
    data: dict[str, Any] = move.written()
    return data


def read_moves(data: object, others: Mapping[str, Callable[[dict[str, Any]], Move]] | None = None) -> list[Move]:
    """Return the moves that `write_moves` gave as data.

    Args:
        data: What JSON had.
        others: What makes moves of other names, from their fields.

    Raises:
        FormatError: There is no such move, or a field is missing, unknown or of another type.
    """
    if not isinstance(data, list):
        raise FormatError(f"a schedule is a list of moves, not {data!r:.60}")
    return [_read(item, others or {}) for item in data]


def _read(item: object, others: Mapping[str, Callable[[dict[str, Any]], Move]]) -> Move:
    if not isinstance(item, dict) or not isinstance(item.get("move"), str):
        raise FormatError(f"a move has a name and fields; this is {item!r:.60}")
    name, fields = item["move"], {key: value for key, value in item.items() if key != "move"}
    if name in others:
        return others[name](fields)
    cls = MOVES.get(name)
    if cls is None:
        raise FormatError(f"there is no move {name!r:.60}; there are {', '.join(sorted(MOVES))}")
    unknown = fields.keys() - {field.name for field in msgspec.inspect.type_info(cls).fields}  # type: ignore[attr-defined]  # it is a dataclass
    if unknown:
        raise FormatError(f"the move {name} has no {', '.join(sorted(map(repr, unknown)))}")
    try:
        move: Move = msgspec.convert(fields, cls)
    except msgspec.ValidationError as error:
        raise FormatError(f"the move {name}: {error}") from error
    return move
