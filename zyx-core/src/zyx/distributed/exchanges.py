"""Operations of several processes that go from device to device, as nodes of the graph, with their gradients.

    %0: f32[3]       = leaf on cuda:0                                   x
    %1: u8[1]        = leaf on cuda:0                                   what the last operation left
    %2: f32[3]       = custom %0, %1, kernel=all_reduce (NCCL 2.28.9), output=0
    %3: u8[1]        = custom %0, %1, kernel=all_reduce (NCCL 2.28.9), output=1

A plan launches them like its kernels, so they wait for nobody on the host, and are part of what a device captures. Each
time, before a plan is queued, the processes tell each other which of them it has. Results are those of
`zyx.distributed.reductions`: what libraries cannot reduce as zyx does is given to them in another form, by kernels.

    bool                       as bytes
    int16, uint16              in int32, of which the lower half is kept
    sums of float16, bfloat16  in float32, rounded once at the end
    max, min of floats         of integers in the same order, in which NaN is beyond all others
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from zyx import dtype as dtypes
from zyx.backend.collectives import Exchange, ExchangeError, ExchangeKind
from zyx.distributed.order import STATE, ordered
from zyx.distributed.reductions import OPS
from zyx.errors import CollectiveError, GradientError
from zyx.graph.host_call import HostCall
from zyx.ops import BinaryOp, ReduceOp
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.backend import Device, Program
    from zyx.backend.collectives import Collectives
    from zyx.distributed.calls import CallPlace, Gradient
    from zyx.distributed.engine import Engine
    from zyx.distributed.group import Group
    from zyx.dtype import DType
    from zyx.graph import Graph
    from zyx.graph.node import Custom, Node
    from zyx.shape import Shape

#: The operation of `zyx.distributed.calls` that the gradient of another takes: the place, the slope, its arguments.
Adjoint: TypeAlias = "Callable[..., Node]"

_ORDERED: Final = (ReduceOp.MAX, ReduceOp.MIN)


@dataclass(frozen=True, slots=True)
class ExchangeLaunch:
    """An exchange as a plan launches it; see `zyx.graph.host_call.OnDevice`.

    Attributes:
        links: What does it.
        group: The processes.
        exchange: What it is.
        call: Its description, on which all processes agree; of sends and receives, which two take part in.
    """

    links: Collectives
    group: Group
    exchange: Exchange
    call: str

    def program(self, device: Device) -> Program | None:
        """Return the program that does it; None on other devices than that which is connected."""
        return self.links.prepare(self.exchange) if device is self.links.devices[0] else None

    def announce(self) -> None:
        """Meet the processes that take part.

        Raises:
            CollectiveError: They are at another call, or gone.
        """
        if self.links.failure:
            raise ExchangeError(f"{self.call}: the group cannot be used any more, since {self.links.failure}")
        engine, exchange = self.group.engine, self.exchange
        assert engine is not None  # a group of one exchanges nothing
        match exchange.kind:
            case ExchangeKind.SEND:
                engine.send(self._ticket(), exchange.peer)
                sent, expected = self._nbytes, self._told(engine)
            case ExchangeKind.RECEIVE:
                sent, expected = self._told(engine), self._nbytes
                engine.send(self._ticket(), exchange.peer)
            case _:
                engine.agree(self.call)
                return
        if sent != expected:
            raise CollectiveError(
                f"{self.call}: {expected} bytes are expected, and {sent} came; both sides must name the same shape and "
                "dtype"
            )

    def _told(self, engine: Engine) -> int:
        """Return the size that the other side names."""
        return int(engine.receive(self._ticket(), self.exchange.peer)[1])

    @property
    def _nbytes(self) -> int:
        return self.exchange.length * self.exchange.dtype.itemsize

    def _ticket(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return what goes by the host ahead of a tensor: something that no tensor there is taken for, and its size."""
        return np.array([-1, self._nbytes, -1], np.int64)


# ---- operations; see `zyx.distributed.calls`, which gives each its adjoint: what its gradient takes


def all_reduce(where: CallPlace, links: Collectives, x: Node, op: str, adjoint: Adjoint) -> Node:
    """Return the combination of all processes, of sums and means with a gradient."""
    kind = OPS[op]
    given = _wide(where.runtime.graph, x, kind)

    def gradient(place: CallPlace, slope: Node) -> Node:
        return adjoint(place, slope, "sum")

    exchange = _exchange(ExchangeKind.ALL_REDUCE, given.dtype, given.shape, kind)
    what = f"all_reduce {op} of {_words(x)}"
    slope = gradient if kind is ReduceOp.SUM else None
    (found,) = _exchanged(where, links, exchange, what, [given], _like(given), slope)
    made = _narrow(where.runtime.graph, found, kind, x.dtype, where.group.size if op == "mean" else 0)
    return _without_gradient(where.runtime.graph, made, x, kind, "all_reduce")


def reduce_scatter(where: CallPlace, links: Collectives, x: Node, axis: int, op: str, adjoint: Adjoint) -> Node:
    """Return this process' part, along `axis`, of the combination."""
    graph, size, kind = where.runtime.graph, where.group.size, OPS[op]
    given = _stacked(graph, _wide(graph, x, kind), axis, size)
    part = given.shape[1:]

    def gradient(place: CallPlace, slope: Node) -> Node:
        return adjoint(place, graph.reshape(slope, (1, *part)), 0)

    exchange = _exchange(ExchangeKind.REDUCE_SCATTER, given.dtype, part, kind)
    what = f"reduce_scatter {op} along {axis} of {_words(x)}"
    slope = gradient if kind is ReduceOp.SUM else None
    (found,) = _exchanged(where, links, exchange, what, [given], ((part, given.dtype),), slope)
    made = _narrow(graph, found, kind, x.dtype, size if op == "mean" else 0)
    return _without_gradient(graph, made, x, kind, "reduce_scatter")


def reduce_to_root(where: CallPlace, links: Collectives, x: Node, root: int, adjoint: Adjoint) -> Node:
    """Return the sum over all processes at `root`, and zeros elsewhere."""
    graph = where.runtime.graph
    given = _wide(graph, x, ReduceOp.SUM)

    def gradient(place: CallPlace, slope: Node) -> Node:
        return adjoint(place, slope, root)

    exchange = _exchange(ExchangeKind.REDUCE, given.dtype, given.shape, ReduceOp.SUM, root)
    (found,) = _exchanged(where, links, exchange, f"reduce to {root} of {_words(x)}", [given], _like(given), gradient)
    if where.group.rank != root:  # what lies there is left open; 0 times that could be NaN
        is_root = graph.const(False, dtypes.bool_, x.device, given.shape)
        found = graph.where(is_root, found, graph.const(0, given.dtype, x.device, given.shape))
    return _narrow(graph, found, ReduceOp.SUM, x.dtype, 0)


def all_gather(where: CallPlace, links: Collectives, x: Node, axis: int, adjoint: Adjoint) -> Node:
    """Return the nodes of all processes, joined along `axis`."""
    graph, size = where.runtime.graph, where.group.size

    def gradient(place: CallPlace, slope: Node) -> Node:
        return graph.reshape(adjoint(place, slope, 0, "sum"), x.shape)

    exchange = _exchange(ExchangeKind.ALL_GATHER, x.dtype, x.shape)
    outputs = (((size, *x.shape), x.dtype),)
    (found,) = _exchanged(where, links, exchange, f"all_gather along {axis} of {_words(x)}", [x], outputs, gradient)
    return _joined(graph, found, axis)


def broadcast(where: CallPlace, links: Collectives, x: Node, root: int, adjoint: Adjoint) -> Node:
    """Return the node of process `root`."""

    def gradient(place: CallPlace, slope: Node) -> Node:
        return adjoint(place, slope, root)

    exchange = _exchange(ExchangeKind.BROADCAST, x.dtype, x.shape, peer=root)
    (found,) = _exchanged(where, links, exchange, f"broadcast from {root} of {_words(x)}", [x], _like(x), gradient)
    return found


def all_to_all(where: CallPlace, links: Collectives, x: Node, axis: int, adjoint: Adjoint) -> Node:
    """Return what each process has for this one, joined along `axis`."""
    graph = where.runtime.graph
    given = _stacked(graph, x, axis, where.group.size)

    def gradient(place: CallPlace, slope: Node) -> Node:
        return adjoint(place, slope, 0)

    exchange = _exchange(ExchangeKind.ALL_TO_ALL, x.dtype, given.shape[1:])
    what = f"all_to_all along {axis} of {_words(x)}"
    (found,) = _exchanged(where, links, exchange, what, [given], _like(given), gradient)
    return _joined(graph, found, axis)


def send(where: CallPlace, links: Collectives, x: Node, to: int) -> None:
    """Give a node to another process."""
    exchange = _exchange(ExchangeKind.SEND, x.dtype, x.shape, peer=to)
    _exchanged(where, links, exchange, f"send to rank {to}", [x], ())


def receive(where: CallPlace, links: Collectives, shape: Shape, dtype: DType, source: int) -> Node:
    """Return what another process sends."""
    exchange = _exchange(ExchangeKind.RECEIVE, dtype, shape, peer=source)
    return _exchanged(where, links, exchange, f"receive from rank {source}", [], ((shape, dtype),))[0]


def _exchanged(
    where: CallPlace,
    links: Collectives,
    exchange: Exchange,
    call: str,
    sources: Sequence[Node],
    outputs: tuple[tuple[Shape, DType], ...],
    gradient: Gradient | None = None,
) -> list[Node]:
    """Return the values of an exchange, see `ordered`."""

    def backward(graph: Graph, node: Custom, upstream: Node) -> list[Node | None]:
        assert gradient is not None and graph is where.runtime.graph
        return [gradient(where, upstream), None]

    launch = ExchangeLaunch(links, where.group, exchange, call)
    made = HostCall(
        exchange.kind.value,
        links.name,
        _elsewhere,
        (*outputs, STATE),
        (call,),
        gradient=None if gradient is None else backward,
        on_device=launch,
    )
    return ordered(where.runtime, where.group, made, sources, where.device)


def _elsewhere(*given: Any) -> list[np.ndarray[Any, Any]]:  # noqa: ANN401  # arrays, then the description
    raise CollectiveError(f"{given[-1]}: the device that was connected is not open any more; start the program again")


@dataclass(slots=True)
class _NoGradient:
    """Refuses gradients, which bits of floats would stop without a word; see `zyx.graph.base.AliasRule`."""

    inputs: tuple[Node, ...]
    name: str

    def pull(self, graph: Graph, node: Node, upstream: Node) -> Sequence[Node | None]:
        raise GradientError(f"{self.name} has no gradient, and lies between the target and a source; detach it")


def _without_gradient(graph: Graph, found: Node, x: Node, op: ReduceOp, name: str) -> Node:
    """Return what was reduced, with a gradient at `x` if it is a sum."""
    if op is ReduceOp.SUM or not x.dtype.is_inexact:
        return found
    return graph.alias(found, _NoGradient((x,), name))


# ---- forms that libraries know


def _exchange(kind: ExchangeKind, dtype: DType, shape: Shape, op: ReduceOp | None = None, peer: int = 0) -> Exchange:
    """Return the exchange of tensors of a shape: for each process, its own part."""
    length = size_of(shape)
    if dtype.is_complex:
        dtype, length = dtype.part, 2 * length
    if dtype.is_bool:
        dtype = dtypes.uint8  # of 0 and 1
    elif op in (ReduceOp.SUM, ReduceOp.PROD) and not dtype.is_inexact:
        dtype = dtypes.as_dtype(f"uint{dtype.bits}")  # what overflows wraps
    return Exchange(kind, dtype, length, op, peer)


def _wide(graph: Graph, x: Node, op: ReduceOp) -> Node:
    """Return what is reduced in place of `x`."""
    dtype = x.dtype
    if dtype.is_bool or dtype.is_complex:
        return x
    if not dtype.is_inexact:
        return graph.cast(x, dtypes.int32) if dtype.bits == 16 else x
    wide = graph.cast(x, dtypes.float32) if dtype.bits == 16 else x
    if op not in _ORDERED:
        return wide
    word = dtypes.as_dtype(f"int{wide.dtype.bits}")
    keys = _turned(graph, graph.bitcast(wide, word))
    most = (1 << (word.bits - 1)) - 1
    beyond = graph.const(most if op is ReduceOp.MAX else -most - 1, word, x.device, x.shape)
    return graph.where(graph.binary(BinaryOp.NE, wide, wide), beyond, keys)


def _narrow(graph: Graph, found: Node, op: ReduceOp, dtype: DType, count: int) -> Node:
    """Return what was reduced, in the dtype that it had; with a number of processes, the mean, rounded once."""
    if dtype.is_inexact and not dtype.is_complex and op in _ORDERED:
        found = graph.bitcast(_turned(graph, found), dtypes.as_dtype(f"float{found.dtype.bits}"))
    if count and dtype.is_complex:
        found = graph.binary(BinaryOp.MUL, found, graph.const(1 / count, found.dtype, found.device, found.shape))
    elif count:
        found = graph.binary(BinaryOp.DIV, found, graph.const(count, found.dtype, found.device, found.shape))
    return found if found.dtype is dtype else graph.cast(found, dtype)


def _turned(graph: Graph, bits: Node) -> Node:
    """Return integers in the order of the floats that `bits` are of, or the bits of such integers."""
    word = bits.dtype

    def const(value: int) -> Node:
        return graph.const(value, word, bits.device, bits.shape)

    turned = graph.binary(BinaryOp.XOR, bits, const((1 << (word.bits - 1)) - 1))
    return graph.where(graph.binary(BinaryOp.LT, bits, const(0)), turned, bits)


def _stacked(graph: Graph, x: Node, axis: int, count: int) -> Node:
    """Return equal parts along `axis`, ``(count, *part)``."""
    shape = (*x.shape[:axis], count, x.shape[axis] // count, *x.shape[axis + 1 :])
    order = (axis, *range(axis), *range(axis + 1, len(shape)))
    return graph.permute(graph.reshape(x, shape), order)


def _joined(graph: Graph, parts: Node, axis: int) -> Node:
    """Return ``(count, *part)``, joined along `axis`."""
    count, *part = parts.shape
    order = (*range(1, axis + 1), 0, *range(axis + 1, len(parts.shape)))
    return graph.reshape(graph.permute(parts, order), (*part[:axis], count * part[axis], *part[axis + 1 :]))


def _like(x: Node) -> tuple[tuple[Shape, DType], ...]:
    return ((x.shape, x.dtype),)


def _words(x: Node) -> str:
    return f"{x.dtype} {list(x.shape)}"
