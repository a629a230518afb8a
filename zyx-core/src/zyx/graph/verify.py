"""Check that a graph keeps the rules of its representation.

Every node:

1. Its shape is a tuple of integers >= 0, and it has as many sources as its kind reads.
2. Its sources are on its device, except that of `ToDevice`.
3. No path leads from it to itself.

By kind; "the source" is the first one:

4.  `Const`: the value is one that the dtype holds.
5.  `Iota`: an integer dtype, and an axis of the shape.
6.  Movement keeps the dtype of the source.
7.  `Reshape`: as many elements as the source.
8.  `Expand`: sizes of the source, except where that is 1.
9.  `Permute`: each axis of the source once.
10. `Pad`, `Shrink`, `Flip`: one entry an axis, inside the source, and the shape that follows.
11. `Slide`, `Unslide`: two different axes, stride and dilation >= 1, and all windows inside.
12. `Unary`, `Binary`, `Where`: one shape and dtype for operands and result (bool for comparisons and the condition),
    and an operation that exists for the dtype.
13. `Cast`: the shape of the source. `Bitcast` also keeps the size of an element, and has no bool on either side.
14. `Reduce`, `Scan`: an operation that exists for the dtype, axes of the source; reduced ones have size 1.
15. `Gather`, `Scatter`: an integer index of the source's rank, equal to it except along the axis.
16. `RandomBits`: of a state uint32[4], words uint32 or uint64.
17. `Contiguous`, `ToDevice`, `Alias`: shape and dtype of the source.
18. `Sort`: int32 of uint32 or uint64 with no more bits than these have, and at most as many places as the axis has.
19. `Custom`: if the host computes it, or it is a loop, shape and dtype of that output of it.
20. `Complex`: two sources of its shape and of the type of its parts. `Component`: the other way round.
21. `Fourier`: complex numbers, or float32 or float64 pairs, of a length that is a product of small primes, or real
    numbers of twice such a length, on one side or both, as its kind says; with a table of its size and of the type of
    the parts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx import ops
from zyx.errors import DTypeError, ShapeError, VerifyError
from zyx.graph import node as n
from zyx.graph.fourier import checked
from zyx.graph.given import Box, Front, Number
from zyx.graph.host_call import HostCall
from zyx.graph.loop import Loop
from zyx.graph.printer import format_node
from zyx.graph.walk import topological
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SOURCES = {
    n.Const: 0, n.Iota: 0, n.Leaf: 0, Number: 0, Front: 0, Box: 0, n.Binary: 2, n.Where: 3, n.Gather: 2, n.Scatter: 3,
    n.Complex: 2,
    n.Fourier: 2,
}  # fmt: skip
"""How many sources each kind reads; 1 where not named, any number for `Custom`."""


def verify(outputs: Sequence[n.Node]) -> None:
    """Check all nodes that `outputs` need, those behind stored ones too.

    Raises:
        VerifyError: The text has the number of the rule, the node, and its sources.
    """
    _check_acyclic(outputs)
    order = topological(outputs, through_storage=True)
    names = {node: f"%{number}" for number, node in enumerate(order)}
    for node in order:
        for rule, holds, said in _checks(node):
            if not holds:
                around = "\n".join(f"  {format_node(source, names)}" for source in node.sources)
                raise VerifyError(f"rule {rule}: {said}\n{around}\n> {format_node(node, names)}")


def _check_acyclic(outputs: Sequence[n.Node]) -> None:
    """Rule 3. Colours: absent is not seen, False is on the path, True is done."""
    done: dict[n.Node, bool] = {}
    stack: list[tuple[n.Node, bool]] = [(node, False) for node in outputs]
    while stack:
        node, leaving = stack.pop()
        if leaving:
            done[node] = True
        elif node not in done:
            done[node] = False
            stack.append((node, True))
            stack.extend((source, False) for source in node.sources if not done.get(source, False))
        elif not done[node] and not leaving:
            raise VerifyError(f"rule 3: {node} depends on itself")


def _checks(node: n.Node) -> Iterable[tuple[int, bool, str]]:
    """Yield number, outcome and wording of each rule that concerns `node`; later ones rely on earlier ones."""
    yield 1, all(type(size) is int and size >= 0 for size in node.shape), f"{node.shape} is no shape"
    if not isinstance(node, n.Custom):
        wanted = _SOURCES.get(type(node), 1)
        yield 1, len(node.sources) == wanted, f"{len(node.sources)} sources, not {wanted}"
    if not isinstance(node, n.ToDevice):
        yield 2, all(x.device == node.device for x in node.sources), "a source is on another device"
    match node:
        case n.Const():
            held = node.dtype.to_scalar(node.value)
            yield 4, held == node.value or math.isnan(held), f"{node.dtype} does not hold {node.value}"
        case n.Iota():
            yield 5, node.dtype.is_integer and 0 <= node.axis < node.ndim, "coordinates are integers along an axis"
        case n.Reshape() | n.Expand() | n.Permute() | n.Pad() | n.Shrink() | n.Flip() | n.Slide() | n.Unslide():
            yield from _movement_checks(node, node.sources[0])
        case n.Unary() | n.Binary() | n.Where() | n.Cast() | n.Bitcast():
            yield from _elementwise_checks(node)
        case n.Complex() | n.Component():
            yield from _complex_checks(node)
        case n.Reduce() | n.Scan():
            yield from _combining_checks(node, node.sources[0])
        case n.Gather() | n.Scatter():
            yield from _indexing_checks(node)
        case n.RandomBits():
            state = node.sources[0]
            yield 16, state.shape == (4,) and state.dtype is dtypes.uint32, "a state is uint32[4]"
            yield 16, node.dtype in (dtypes.uint32, dtypes.uint64), "words are uint32 or uint64"
        case n.Contiguous() | n.ToDevice() | n.Alias():
            source = node.sources[0]
            yield 17, node.shape == source.shape and node.dtype is source.dtype, "shape and dtype of the source"
        case n.Custom(kernel=HostCall() | Loop() as kernel):
            yield 1, bool(node.sources) or isinstance(kernel, Loop), "a call of the host reads something"
            fits = 0 <= node.output < len(kernel.outputs) and kernel.outputs[node.output] == (node.shape, node.dtype)
            yield 19, fits, f"output {node.output} of {kernel!r} is another one"
        case n.Sort():
            yield from _sort_checks(node, node.sources[0])
        case n.Fourier():
            yield from _fourier_checks(node, *node.sources)
        case _:  # leaves hold anything; what a hand-written kernel does is its own business
            return


def _movement_checks(node: n.Movement, x: n.Node) -> Iterable[tuple[int, bool, str]]:
    yield 6, node.dtype is x.dtype, f"movement keeps {x.dtype}"
    match node:
        case n.Reshape():
            yield (
                7,
                size_of(node.shape) == size_of(x.shape),
                f"{size_of(x.shape)} elements become {size_of(node.shape)}",
            )
        case n.Expand():
            fits = node.ndim == x.ndim and all(old in (1, new) for old, new in zip(x.shape, node.shape, strict=True))
            yield 8, fits, "an axis of another size than 1 grows"
        case n.Permute():
            yield 9, sorted(node.order) == list(range(x.ndim)), f"{node.order} is no order of {x.ndim} axes"
            yield 9, node.shape == tuple(x.shape[axis] for axis in node.order), "the shape does not follow the order"
        case n.Pad():
            fits = len(node.widths) == x.ndim and all(before >= 0 and after >= 0 for before, after in node.widths)
            yield 10, fits, "one pair of widths >= 0 an axis"
            padded = tuple(size + sum(widths) for size, widths in zip(x.shape, node.widths, strict=True))
            yield 10, node.shape == padded, f"the shape is {padded}"
        case n.Shrink():
            fits = len(node.bounds) == x.ndim and all(
                0 <= start <= stop <= size for (start, stop), size in zip(node.bounds, x.shape, strict=True)
            )
            yield 10, fits, "one box inside the source"
            yield 10, node.shape == tuple(stop - start for start, stop in node.bounds), "the shape is that of the box"
        case n.Flip():
            yield 10, node.shape == x.shape and all(0 <= axis < x.ndim for axis in node.axes), "axes of the source"
        case n.Slide() | n.Unslide():
            fits = node.axis != node.window and all(0 <= axis < x.ndim for axis in (node.axis, node.window))
            yield 11, fits, "two different axes of the source"
            yield 11, node.stride >= 1 and node.dilation >= 1, "stride and dilation are at least 1"
            others = [i for i in range(x.ndim) if i != node.axis]
            yield 11, node.ndim == x.ndim and all(node.shape[i] == x.shape[i] for i in others), "other axes stay"
            positions, windows = (x, node) if isinstance(node, n.Slide) else (node, x)
            count, width = windows.shape[node.axis], windows.shape[node.window]
            reach = (count - 1) * node.stride + (width - 1) * node.dilation
            inside = not count or not width or reach < positions.shape[node.axis]
            yield 11, inside, f"windows reach position {reach}"


def _elementwise_checks(node: n.Elementwise) -> Iterable[tuple[int, bool, str]]:
    x = node.sources[0]
    match node:
        case n.Unary():
            yield 12, node.shape == x.shape and node.dtype is x.dtype, "operand and result are alike"
            yield 12, node.op in ops.unary_ops(x.dtype), f"{node.op.value} does not exist for {x.dtype}"
        case n.Binary():
            y = node.sources[1]
            yield 12, x.shape == y.shape == node.shape and x.dtype is y.dtype, "operands are alike"
            result = dtypes.bool_ if node.op in ops.COMPARISONS else x.dtype
            yield 12, node.dtype is result, f"the result is {result}"
            yield 12, node.op in ops.binary_ops(x.dtype), f"{node.op.value} does not exist for {x.dtype}"
        case n.Where():
            _, chosen, other = node.sources
            yield 12, x.dtype.is_bool and x.shape == node.shape, "a condition is bool, of the shape of the result"
            alike = chosen.shape == other.shape == node.shape and chosen.dtype is other.dtype is node.dtype
            yield 12, alike, "operands and result are alike"
        case n.Cast():
            yield 13, node.shape == x.shape, "the shape stays"
        case n.Bitcast():
            yield 13, node.shape == x.shape and node.dtype.bits == x.dtype.bits, "shape and size of an element stay"
            yield 13, not node.dtype.is_bool and not x.dtype.is_bool, "bool has no bits"


def _complex_checks(node: n.Complex | n.Component) -> Iterable[tuple[int, bool, str]]:
    x = node.sources[0]
    if isinstance(node, n.Complex):
        fits = all(x.shape == node.shape and x.dtype is node.dtype.part for x in node.sources)
        yield 20, node.dtype.is_complex and fits, "two parts of one shape make a complex number"
    else:
        fits = x.dtype.is_complex and x.shape == node.shape and x.dtype.part is node.dtype
        yield 20, fits, "a part of a complex number has its shape"


def _combining_checks(node: n.Reduce | n.Scan, x: n.Node) -> Iterable[tuple[int, bool, str]]:
    yield 14, node.dtype is x.dtype, f"the dtype stays {x.dtype}"
    yield 14, node.op in ops.reduce_ops(x.dtype), f"{node.op.value} does not exist for {x.dtype}"
    if isinstance(node, n.Scan):
        yield 14, node.shape == x.shape and 0 <= node.axis < x.ndim, "the shape stays, the axis is one of it"
        return
    yield 14, all(0 <= axis < x.ndim for axis in node.axes), f"{node.axes} are not axes of the source"
    reduced = tuple(1 if axis in node.axes else size for axis, size in enumerate(x.shape))
    yield 14, node.shape == reduced, f"the shape is {reduced}"


def _indexing_checks(node: n.Gather | n.Scatter) -> Iterable[tuple[int, bool, str]]:
    base, index, *updates = node.sources
    yield from _index_checks(base, index, node.axis)
    if isinstance(node, n.Gather):
        fits = node.shape == index.shape and node.dtype is base.dtype
        yield 15, fits, "the shape of the index, the dtype of data"
        return
    yield 15, node.shape == base.shape and node.dtype is base.dtype, "shape and dtype of the base"
    alike = updates[0].shape == index.shape and updates[0].dtype is base.dtype
    yield 15, alike, "updates have the shape of the index and the dtype of the base"
    exists = node.op is None or node.op in ops.reduce_ops(base.dtype)
    yield 15, exists, f"{node.op} does not exist for {base.dtype}"


def _index_checks(data: n.Node, index: n.Node, axis: int) -> Iterable[tuple[int, bool, str]]:
    yield 15, index.dtype.is_integer, f"an index is an integer, not {index.dtype}"
    yield 15, index.ndim == data.ndim and 0 <= axis < data.ndim, "index and data have one rank, the axis is one of it"
    others = [i for i in range(data.ndim) if i != axis]
    yield 15, all(index.shape[i] == data.shape[i] for i in others), f"sizes differ on an axis other than {axis}"


def _sort_checks(node: n.Sort, x: n.Node) -> Iterable[tuple[int, bool, str]]:
    fits = x.dtype in (dtypes.uint32, dtypes.uint64) and 1 <= node.bits <= x.dtype.bits
    yield 18, fits and node.dtype is dtypes.int32, f"int32 places of {node.bits} bits of uint32 or uint64"
    yield 18, node.ndim == x.ndim and 0 <= node.axis < node.ndim, "the axis is one of the source"
    fits = all(
        size == old or (axis == node.axis and size < old)
        for axis, (size, old) in enumerate(zip(node.shape, x.shape, strict=True))
    )
    yield 18, fits, "the shape is the source's, with as many places along the axis or fewer"


def _fourier_checks(node: n.Fourier, x: n.Node, table: n.Node) -> Iterable[tuple[int, bool, str]]:
    is_axis = 0 <= node.axis < x.ndim
    yield 21, is_axis, "the axis is one of the source"
    try:
        like = checked(x, table, node.axis if is_axis else 0, node.kind, as_pairs=not node.dtype.is_complex)
    except (DTypeError, ShapeError) as error:
        yield 21, False, str(error)
    else:
        yield 21, like == (node.shape, node.dtype), f"the result is {like[1]}{list(like[0])}"
