"""Operations of several processes as nodes of the graph, with their gradients; and what the host does for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from zyx.distributed import exchanges
from zyx.distributed.links import links_of
from zyx.distributed.order import STATE, ordered
from zyx.distributed.reductions import OPS, combined
from zyx.graph.host_call import HostCall
from zyx.ops import BinaryOp, ReduceOp

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    import numpy.typing as npt

    from zyx.backend.collectives import Collectives
    from zyx.distributed.engine import Engine
    from zyx.distributed.group import Group
    from zyx.dtype import DType
    from zyx.graph import Graph
    from zyx.graph.node import Custom, Node
    from zyx.runtime.runtime import Runtime
    from zyx.shape import Shape

Array: TypeAlias = "npt.NDArray[Any]"
#: From the gradient at the result to that at the argument.
Gradient: TypeAlias = "Callable[[CallPlace, Node], Node]"


# ---- nodes, and gradients of them


@dataclass(frozen=True, slots=True)
class CallPlace:
    """Where an operation belongs.

    Attributes:
        runtime: Of its nodes.
        group: The processes.
        device: Where the values lie.
    """

    runtime: Runtime
    group: Group
    device: str


def all_reduce(where: CallPlace, x: Node, op: str) -> Node:
    """Return the combination of all processes, of sums and means with a gradient."""
    if (links := _links(where, f"all_reduce {op}", x.shape, x.dtype, op)) is not None:
        return exchanges.all_reduce(where, links, x, op, all_reduce)
    gradient = (lambda place, slope: all_reduce(place, slope, op)) if op in ("sum", "mean") else None
    return _call(where, "all_reduce", _all_reduce_array, [x], (_like(x),), op, gradient=gradient)[0]


def all_gather(where: CallPlace, x: Node, axis: int) -> Node:
    """Return the nodes of all processes, joined along `axis`."""
    if (links := _links(where, f"all_gather along {axis}", x.shape, x.dtype)) is not None:
        return exchanges.all_gather(where, links, x, axis, reduce_scatter)
    shape = _scaled(x.shape, axis, where.group.size)

    def gradient(place: CallPlace, slope: Node) -> Node:
        return reduce_scatter(place, slope, axis, "sum")

    return _call(where, "all_gather", _all_gather_array, [x], ((shape, x.dtype),), axis, gradient=gradient)[0]


def reduce_scatter(where: CallPlace, x: Node, axis: int, op: str) -> Node:
    """Return this process' part, along `axis`, of the combination."""
    if (links := _links(where, f"reduce_scatter {op} along {axis}", x.shape, x.dtype, op)) is not None:
        return exchanges.reduce_scatter(where, links, x, axis, op, all_gather)
    size = where.group.size
    shape = (*x.shape[:axis], x.shape[axis] // size, *x.shape[axis + 1 :])

    def gradient(place: CallPlace, slope: Node) -> Node:
        graph = place.runtime.graph
        found = all_gather(place, slope, axis)
        if op == "mean":
            factor = graph.const(1 / size, found.dtype, found.device, found.shape)
            return graph.binary(BinaryOp.MUL, found, factor)
        return found

    outputs = ((shape, x.dtype),)
    is_linear = op in ("sum", "mean")
    slope = gradient if is_linear else None
    return _call(where, "reduce_scatter", _reduce_scatter_array, [x], outputs, axis, op, gradient=slope)[0]


def broadcast(where: CallPlace, x: Node, root: int) -> Node:
    """Return the node of process `root`."""
    if (links := _links(where, f"broadcast from {root}", x.shape, x.dtype)) is not None:
        return exchanges.broadcast(where, links, x, root, reduce_to_root)

    def gradient(place: CallPlace, slope: Node) -> Node:
        return reduce_to_root(place, slope, root)

    return _call(where, "broadcast", _broadcast_array, [x], (_like(x),), root, gradient=gradient)[0]


def reduce_to_root(where: CallPlace, x: Node, root: int) -> Node:
    """Return the sum over all processes at `root`, and zeros elsewhere."""
    if (links := _links(where, f"reduce to {root}", x.shape, x.dtype, "sum")) is not None:
        return exchanges.reduce_to_root(where, links, x, root, broadcast)

    def gradient(place: CallPlace, slope: Node) -> Node:
        return broadcast(place, slope, root)

    return _call(where, "reduce", _reduce_array, [x], (_like(x),), root, gradient=gradient)[0]


def all_to_all(where: CallPlace, x: Node, axis: int) -> Node:
    """Return what each process has for this one, joined along `axis`."""
    if (links := _links(where, f"all_to_all along {axis}", x.shape, x.dtype)) is not None:
        return exchanges.all_to_all(where, links, x, axis, all_to_all)

    def gradient(place: CallPlace, slope: Node) -> Node:
        return all_to_all(place, slope, axis)

    return _call(where, "all_to_all", _all_to_all_array, [x], (_like(x),), axis, gradient=gradient)[0]


def send(where: CallPlace, x: Node, to: int) -> None:
    """Give a node to another process."""
    if (links := _links(where, "", x.shape, x.dtype)) is not None:
        exchanges.send(where, links, x, to)
        return
    _call(where, "send", _send_array, [x], (), to)


def receive(where: CallPlace, shape: Shape, dtype: DType, source: int) -> Node:
    """Return what another process sends."""
    if (links := _links(where, "", shape, dtype)) is not None:
        return exchanges.receive(where, links, shape, dtype, source)
    return _call(where, "recv", _receive_array, [], ((shape, dtype),), source, shape, dtype)[0]


def barrier(where: CallPlace) -> None:
    """Wait for all processes."""
    _call(where, "barrier", _meet, [], ())


def _links(where: CallPlace, call: str, shape: Shape, dtype: DType, op: str = "") -> Collectives | None:
    """Return what exchanges tensors from device to device; None if the host does.

    It is the same in all processes: what is asked about a tensor is agreed on, and about devices they tell each other.

    Args:
        where: The place.
        call: What all processes of the group call; "" if only two do.
        shape: Of the tensor.
        dtype: Of the tensor.
        op: By what it is reduced, if it is.
    """
    if 0 in shape or (op == "prod" and dtype.is_complex):
        return None
    return links_of(where.runtime, where.group, where.device, call and f"{call} of {dtype} {list(shape)}")


def _call(
    where: CallPlace,
    name: str,
    function: Callable[..., Sequence[Array]],
    sources: Sequence[Node],
    outputs: tuple[tuple[Shape, DType], ...],
    *parameters: Hashable,
    gradient: Gradient | None = None,
) -> list[Node]:
    """Return the values of an operation, see `ordered`; the functions of the host are below."""

    def backward(graph: Graph, node: Custom, upstream: Node) -> list[Node | None]:
        assert gradient is not None and graph is where.runtime.graph
        return [gradient(where, upstream), None]

    made = HostCall(
        name,
        "MPI" if where.group.engine is None else where.group.engine.name,
        function,
        (*outputs, STATE),
        (where.group, *parameters),
        gradient=None if gradient is None else backward,
    )
    return ordered(where.runtime, where.group, made, sources, where.device)


# ---- what the host does: it is given arrays, the state, which it passes on, the group, and parameters


def _all_reduce_array(x: Array, state: Array, group: Group, op: str) -> list[Array]:
    engine = _agreed(group, f"all_reduce {op}", x)
    kind, count = OPS[op], group.size if op == "mean" else 0
    return [combined(lambda array: engine.all_reduce(kind, array), kind, x, count), state]


def _reduce_array(x: Array, state: Array, group: Group, root: int) -> list[Array]:
    engine = _agreed(group, f"reduce to {root}", x)
    return [combined(lambda array: engine.reduce(ReduceOp.SUM, array, root), ReduceOp.SUM, x), state]


def _reduce_scatter_array(x: Array, state: Array, group: Group, axis: int, op: str) -> list[Array]:
    engine = _agreed(group, f"reduce_scatter {op} along {axis}", x)
    kind, count = OPS[op], group.size if op == "mean" else 0
    parts = _parts(x, axis, group.size)
    return [combined(lambda array: engine.reduce_scatter(kind, array), kind, parts, count), state]


def _all_gather_array(x: Array, state: Array, group: Group, axis: int) -> list[Array]:
    engine = _agreed(group, f"all_gather along {axis}", x)
    return [np.concatenate(list(engine.all_gather(np.asarray(x, order="C"))), axis), state]


def _broadcast_array(x: Array, state: Array, group: Group, root: int) -> list[Array]:
    return [_agreed(group, f"broadcast from {root}", x).broadcast(root, x), state]


def _all_to_all_array(x: Array, state: Array, group: Group, axis: int) -> list[Array]:
    engine = _agreed(group, f"all_to_all along {axis}", x)
    return [np.concatenate(list(engine.all_to_all(_parts(x, axis, group.size))), axis), state]


def _send_array(x: Array, state: Array, group: Group, to: int) -> list[Array]:
    _engine(group).send(np.asarray(x, order="C"), to)
    return [state]


def _receive_array(state: Array, group: Group, source: int, shape: Shape, dtype: DType) -> list[Array]:
    return [_engine(group).receive(np.empty(shape, dtype.numpy), source), state]


def _meet(state: Array, group: Group) -> list[Array]:
    _agreed(group, "barrier")
    return [state]


def _agreed(group: Group, what: str, x: Array | None = None) -> Engine:
    """Return the engine of a group, once all processes have come to the same operation."""
    engine = _engine(group)
    engine.agree(what if x is None else f"{what} of {x.dtype} {list(x.shape)}")
    return engine


def _engine(group: Group) -> Engine:
    assert group.engine is not None  # a group of one calls nothing
    return group.engine


def _parts(x: Array, axis: int, count: int) -> Array:
    """Return equal parts along `axis`, ``(count, *shape)``, contiguous."""
    return np.asarray(np.stack(np.split(x, count, axis)), order="C")


def _like(x: Node) -> tuple[Shape, DType]:
    return (x.shape, x.dtype)


def _scaled(shape: Shape, axis: int, factor: int) -> Shape:
    return (*shape[:axis], shape[axis] * factor, *shape[axis + 1 :])
