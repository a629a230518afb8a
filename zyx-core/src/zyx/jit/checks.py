"""What a traced function must not do, since a replay would not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import TYPE_CHECKING

from zyx.errors import TraceError
from zyx.jit.exact_key import attributes_of
from zyx.jit.structure import parts_of, values_in
from zyx.runtime.handle import Handle

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zyx.graph.node import Node
    from zyx.runtime.tracing import Tracing


def check_states(states: Iterable[tuple[Handle, Node]]) -> None:
    """Refuse an assignment that changes what a tensor from outside is."""
    for handle, node in states:
        old = handle._node
        if (old.shape, old.dtype, old.device) != (node.shape, node.dtype, node.device):
            raise TraceError(f"a traced function assigned {node!r} to a tensor that was {old!r}; they must agree")


def check_unchanged(given: Sequence[tuple[object, list[object]]]) -> None:
    """Refuse a change of a list, dict or dataclass that was an argument: it would be made at the first call only."""
    for container, before in given:
        now = parts_of(container) or []
        if len(now) != len(before) or any(part is not old for part, old in zip(now, before, strict=True)):
            raise TraceError(
                f"a traced function changed a {type(container).__name__} among its arguments, which a replay would not "
                "do; return what is new, or assign to the tensors in it: x.assign(...), x[...] = ..."
            )


def check_result(result: object, tracing: Tracing) -> None:
    """Refuse results that cannot be made anew at every call: they would be those of the trace."""
    for value in values_in(result):
        kind = type(value).__name__
        if isinstance(value, Iterator | Awaitable | AsyncIterator):
            raise TraceError(f"a traced function returned a {kind}, which runs when there is no trace; return a list")
        held = value if isinstance(value, set | frozenset) else [own for _, own in attributes_of(value)]
        if not isinstance(value, Handle) and any(isinstance(own, Handle) and own.tracing is tracing for own in held):
            raise TraceError(
                f"a traced function returned a {kind} with tensors in it that have no values; return them in lists, "
                "tuples, dicts or dataclasses"
            )
