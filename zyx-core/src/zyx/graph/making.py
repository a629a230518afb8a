"""What `zyx.graph.graph` makes nodes with that are in no table, and what makes nodes equal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx import ops
from zyx import shape as shapes
from zyx.errors import DeviceError, DTypeError, ShapeError
from zyx.graph import node as n
from zyx.shape import VaryingSize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DType
    from zyx.graph.graph import Graph
    from zyx.ops import BinaryOp, ReduceOp, UnaryOp

_new: Final = object.__new__
_UNARY_OPS: Final = {dtype.name: ops.unary_ops(dtype) for dtype in (*dtypes.ALL, *dtypes.COMPLEX)}
#: By the dtype of two operands, that of the result of each operation that is defined for it.
_BINARY_RESULTS: Final = {
    dtype.name: {op: dtypes.bool_ if op in ops.COMPARISONS else dtype for op in ops.binary_ops(dtype)}
    for dtype in (*dtypes.ALL, *dtypes.COMPLEX)
}


#: Traces under way, in all of the process, for sizes that vary: nodes are known by the keys of these meanwhile.
SIZED_TRACES: Final[set[object]] = set()
#: What a graph may merge with sources of the same kind.
_MERGED: Final = frozenset({n.Reshape, n.Expand, n.Permute, n.Shrink, n.Flip, n.Cast})


def is_merged(node: n.Node) -> bool:
    """Whether a graph that merges nodes may have another one for `node`, as far as its values are not there yet."""
    kind = type(node)
    if node.storage is not None or (kind not in _MERGED and kind is not n.Complex):
        return False
    below = node.sources[0]
    return below.storage is None and type(below) is (n.Component if kind is n.Complex else kind)


def computed_leaf(node: n.Node, storage: object) -> n.Leaf:
    """Return a new leaf with the values of `node`, which lie in `storage`; how they were computed is forgotten."""
    leaf: n.Leaf = _new(n.Leaf)  # as in `new_binary`
    leaf.shape = node.shape
    leaf.dtype = node.dtype
    leaf.device = node.device
    leaf.sources = ()
    leaf.depth = 0
    leaf.storage = storage
    leaf.reader = leaf.plans = leaf.history = None
    leaf.history_lost = True
    return leaf


def new_unary(op: UnaryOp, x: n.Node) -> n.Unary:
    """Return a new node, which is in no table."""
    if op not in _UNARY_OPS[x.dtype.name]:
        raise undefined(op, x.dtype)
    node: n.Unary = _new(n.Unary)  # as in `new_binary`
    node.shape = x.shape
    node.dtype = x.dtype
    node.device = x.device
    node.sources = (x,)
    node.op = op
    node.storage = node.reader = None
    node.depth = 1 if x.storage is not None else x.depth + 1
    return node


def new_binary(op: BinaryOp, x: n.Node, y: n.Node) -> n.Binary:
    """Return a new node, which is in no table."""
    shape, dtype, device = x.shape, x.dtype, x.device
    if shape != y.shape or dtype is not y.dtype or device != y.device:
        check_alike(op.value, x, y)
    result = _BINARY_RESULTS[dtype.name].get(op)
    if result is None:
        raise undefined(op, dtype)
    node: n.Binary = _new(n.Binary)  # as the constructor makes it, without its call, which would take as long again
    node.shape = shape
    node.dtype = result
    node.device = device
    node.sources = (x, y)
    node.op = op
    node.storage = node.reader = None
    first = 1 if x.storage is not None else x.depth + 1
    second = 1 if y.storage is not None else y.depth + 1
    node.depth = first if first > second else second  # max() takes three times as long
    return node


#: Operations by the names of the functions that ask for them, where these are others.
_FUNCTIONS: Final = {"lt": "less", "le": "less_equal", "mod": "remainder"}


def undefined(op: UnaryOp | BinaryOp | ReduceOp, dtype: DType) -> DTypeError:
    """Return the error that there is no `op` of `dtype`."""
    name = _FUNCTIONS.get(op.value, op.value)
    if dtype.is_complex:
        return DTypeError(
            f"{name} is not defined for {dtype}: complex numbers have no order and no bits; take x.real, x.imag or "
            "zyx.abs(x)"
        )
    return DTypeError(f"{name} is not defined for {dtype}")


def check_alike(what: str, x: n.Node, y: n.Node) -> None:
    """Raise an error unless two operands have one shape, dtype and device."""
    if x.shape != y.shape:
        raise ShapeError(f"{what}: shapes {x.shape} and {y.shape} differ")
    if x.dtype is not y.dtype:
        raise DTypeError(f"{what}: dtypes {x.dtype} and {y.dtype} differ")
    check_devices(what, x, y)


def key_of(node: n.Node) -> tuple[object, ...]:
    """Return what makes a node with sources or attributes equal to others; the graph says in which way."""
    kind = type(node)
    if kind is n.Unary or kind is n.Binary:  # which have all the rest from their sources
        return (node.op, *map(id, node.sources))  # type: ignore[attr-defined]  # both have it
    key = (kind, node.attributes, node.shape, node.dtype.name, node.device, *map(id, node.sources))
    return sized_key(key) if SIZED_TRACES else key


def sized_key(key: tuple[object, ...]) -> tuple[object, ...]:
    """Return the key of a node with the keys of sizes that vary in place of these."""
    return tuple(
        [
            part.key if isinstance(part, VaryingSize) else sized_key(part) if type(part) is tuple else part
            for part in key
        ]
    )


def depth_of(sources: tuple[n.Node, ...]) -> int:
    """Return the depth of a node with these sources."""
    depth = 0
    for source in sources:
        least = 1 if source.storage is not None else source.depth + 1
        if least > depth:  # noqa: PLR1730  # max() takes three times as long
            depth = least
    return depth


def alone(node: n.Node) -> n.Node:
    """Return a node that is never returned again."""
    node.depth = depth_of(node.sources)
    return node


def joined(graph: Graph, nodes: Sequence[n.Node], axis: int) -> n.Node:
    """Return nodes of one dtype, and of shapes that differ along `axis` only, one after the other.

    Each is padded to the full length; a choice by position picks the right one, so values go through unchanged.
    Halving the list keeps the choices log(n) deep.
    """
    if len(nodes) == 1:
        return nodes[0]
    middle = len(nodes) // 2
    left, right = joined(graph, nodes[:middle], axis), joined(graph, nodes[middle:], axis)
    before, after = left.shape[axis], right.shape[axis]
    if not after:
        return left
    if not before:
        return right
    widths = [(0, 0)] * len(left.shape)
    widths[axis] = (0, after)
    padded_left = graph.pad(left, widths)
    widths[axis] = (before, 0)
    padded_right = graph.pad(right, widths)
    shape, place = padded_left.shape, dtypes.int32 if before + after < 1 << 31 else dtypes.int64
    along = tuple([size if i == axis else 1 for i, size in enumerate(shape)])
    is_left = graph.binary(
        ops.BinaryOp.LT, graph.iota(along, axis, place, left.device), graph.const(before, place, left.device, along)
    )
    return graph.where(graph.expand(is_left, shape), padded_left, padded_right)


def check_devices(what: str, *nodes: n.Node) -> None:
    """Raise `DeviceError` unless all nodes are on one device."""
    for node in nodes:
        if node.device != nodes[0].device:
            raise DeviceError(
                f"{what}: operands are on different devices, {', '.join(node.device for node in nodes)}; "
                "move them with .to(...)"
            )


def check_random(state: n.Node, dtype: DType) -> None:
    """Raise `DTypeError` unless random words can be drawn from a state."""
    if state.shape != (4,) or state.dtype is not dtypes.uint32:
        raise DTypeError(f"the state of a generator is uint32[4], not {state}")
    if dtype not in (dtypes.uint32, dtypes.uint64):
        raise DTypeError(f"random words are uint32 or uint64, not {dtype}")


def check_bits(old: DType, new: DType) -> None:
    """Raise `DTypeError` unless bits can be read as those of another type."""
    if new.is_complex or old.is_complex:
        raise DTypeError(f"cannot read the bits of {old} as {new}; see zyx.view_as_real and zyx.view_as_complex")
    if new.bits != old.bits or new.is_bool or old.is_bool:
        raise DTypeError(f"cannot read the bits of {old} as {new}: the sizes must agree, and bool has none")


def check_slide(x: n.Node, axis: int, window: int, stride: int, dilation: int) -> None:
    """Raise `ShapeError` unless windows can slide along `axis`."""
    if axis == window or not (0 <= axis < x.ndim and 0 <= window < x.ndim):
        raise ShapeError(f"axes {axis} and {window} are not two axes of {x.shape}")
    if stride < 1 or dilation < 1:
        raise ShapeError(f"stride {stride} and dilation {dilation} must be at least 1")


def check_index(what: str, data: n.Node, index: n.Node, axis: int) -> int:
    """Return the axis that is indexed, once the shapes, devices and dtype of an index fit."""
    if not index.dtype.is_integer:
        raise DTypeError(f"{what}: an index is an integer, not {index.dtype}")
    if index.ndim != data.ndim:
        raise ShapeError(f"{what}: index {index.shape} and data {data.shape} have different ranks")
    axis = shapes.normalize_axis(axis, data.ndim)
    if any([i != axis and a != b for i, (a, b) in enumerate(zip(data.shape, index.shape, strict=True))]):
        raise ShapeError(f"{what}: index {index.shape} and data {data.shape} differ on an axis other than {axis}")
    check_devices(what, data, index)
    return axis
