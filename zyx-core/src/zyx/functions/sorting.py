"""Order: sorting, the greatest few, places in sorted lists, and different values.

Whatever the type of the elements, unsigned integers in the same order are made of them; `zyx.graph.node.Sort` puts
these in order, and the rest follows from the places that it gives. That needs no data on the host, works on every
device and inside traced functions.

What values there are (`unique_values` and its kin) decides the shape of the result, so these functions read how many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.errors import ShapeError
from zyx.functions import take_habits
from zyx.functions.complex_numbers import parts
from zyx.functions.operands import common_dtype, first_tensor, node_of, require, require_real, term_of, wrap
from zyx.functions.term import Term
from zyx.integers import as_integer
from zyx.ops import BinaryOp, ReduceOp
from zyx.shape import size_of

if TYPE_CHECKING:
    from zyx.functions import Tensor
    from zyx.functions.operands import Operand

__all__ = [
    "argsort", "isin", "median", "searchsorted", "sort", "topk", "unique_all", "unique_counts", "unique_inverse",
    "unique_values",
]  # fmt: skip


class ValuesIndices(NamedTuple):
    """Values, and the places along the axis where they are, int64."""

    values: Tensor
    indices: Tensor


def ordered_keys(term: Term, *, descending: bool) -> tuple[Term, int]:
    """Return unsigned integers in the order of the elements of `term`, and how many bits they have.

    NaNs are equal, and greater than everything else; zeros of both signs are equal. `descending` reverses the order.
    """
    dtype = term.dtype
    require_real(dtype, "sorting")
    if dtype.is_float:
        keys, bits = _keys_of_floats(term)
    elif dtype.bits <= 16:
        bits = 1 if dtype.is_bool else dtype.bits
        word = term.cast(dtypes.int32)
        keys = (word if dtype.is_bool or dtype.is_unsigned else word + (1 << (bits - 1))).bitcast(dtypes.uint32)
    else:
        bits = dtype.bits
        keys = term if dtype.is_unsigned else term.bitcast(dtypes.uint32 if bits == 32 else dtypes.uint64)
        keys = keys if dtype.is_unsigned else keys ^ (1 << (bits - 1))
    return (keys ^ ((1 << bits) - 1) if descending else keys), bits


def _keys_of_floats(term: Term) -> tuple[Term, int]:
    dtype = term.dtype
    word = dtypes.uint64 if dtype.bits == 64 else dtypes.uint32
    # Of the bits of a float32 that is a float16 or bfloat16, the last ones are 0.
    unused = {dtypes.float16: 13, dtypes.bfloat16: 16}.get(dtype, 0)
    infinity = 0x7FF << 52 if dtype.bits == 64 else 0xFF << 23
    sign = 1 << (word.bits - 1)
    found = (term if dtype.bits == 64 else term.cast(dtypes.float32)).bitcast(word)
    size = found & (sign - 1)
    is_negative = (found >= sign) & (size > 0)
    keys = is_negative.where(found ^ (2 * sign - 1), size | sign)
    keys = (size > infinity).where(keys.like(2 * sign - 1), keys)
    return keys.binary(BinaryOp.SHR, unused) if unused else keys, word.bits - unused


def sort_order(term: Term, axis: int, *, descending: bool, count: int | None = None) -> Term:
    """Return the first `count` places that sort `term` along `axis`, int32; all unless it is given.

    Equal elements keep their order, NaN is greatest.
    """
    keys, bits = ordered_keys(term, descending=descending)
    return Term(term.graph, term.graph.sort(keys.node, axis, bits, term.shape[axis] if count is None else count))


def _sortable(x: Tensor, axis: int, what: str) -> tuple[Term, int]:
    term = term_of(x, what)
    return term, shapes.normalize_axis(axis, len(term.shape))


def argsort(x: Tensor, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the places, int64, that sort `x` along `axis`. Equal elements keep their order, whatever `stable` says.

    NaN counts as greater than every number: it comes last, or first if `descending`.

    Raises:
        ShapeError: Rank 0.

    >>> zyx.argsort(zyx.Tensor([3, 1, 2])).tolist()
    [1, 2, 0]
    """
    term, place = _sortable(x, axis, "argsort")
    return wrap(sort_order(term, place, descending=descending).cast(dtypes.int64).node, x)


def sort(x: Tensor, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """Return `x` in order along `axis`; see `argsort`.

    Raises:
        ShapeError: Rank 0.

    >>> zyx.sort(zyx.Tensor([3, 1, 2])).tolist()
    [1, 2, 3]
    """
    term, place = _sortable(x, axis, "sort")
    order = sort_order(term, place, descending=descending)
    return wrap(term.graph.gather(term.node, order.node, place), x)


def topk(x: Tensor, k: int, axis: int = -1, *, largest: bool = True) -> ValuesIndices:
    """Return the `k` greatest (or least) elements along `axis`, in order, and their places, int64.

    Raises:
        ShapeError: Fewer than `k` elements, or rank 0.

    >>> values, places = zyx.topk(zyx.Tensor([3, 1, 2]), 2)
    >>> values.tolist(), places.tolist()
    ([3, 2], [0, 2])
    """
    term, place = _sortable(x, axis, "topk")
    k = as_integer(k, "k")
    if not 0 <= k <= term.shape[place]:
        raise ShapeError(f"topk: {k} of the {term.shape[place]} elements along axis {place} of {term.shape}")
    order = sort_order(term, place, descending=largest, count=k)
    values = term.graph.gather(term.node, order.node, place)
    return ValuesIndices(wrap(values, x), wrap(order.cast(dtypes.int64).node, x))


def median(x: Tensor, axis: int = -1, *, keepdims: bool = False) -> Tensor:
    """Return the middle of the sorted elements along `axis`; of an even number, the lower of the two in the middle.

    Raises:
        ShapeError: Rank 0, or nothing along `axis`.

    >>> zyx.median(zyx.Tensor([3.0, 1.0, 2.0])).item()
    2.0
    """
    term, place = _sortable(x, axis, "median")
    size = term.shape[place]
    if not size:
        raise ShapeError(f"median of no elements: axis {place} of {term.shape} has size 0")
    order = sort_order(term, place, descending=False)
    ordered = Term(term.graph, term.graph.gather(term.node, order.node, place))
    middle = ordered.narrow(place, (size - 1) // 2, (size - 1) // 2 + 1)
    if term.dtype.is_float:
        last = ordered.narrow(place, size - 1, size)
        middle = last.is_nan().where(last, middle)
    if not keepdims:
        middle = middle.reshape((*term.shape[:place], *term.shape[place + 1 :]))
    return wrap(middle.node, x)


def searchsorted(x: Tensor, values: Operand, *, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """Return where `values` would be put into `x` to keep it in order, int64: how many elements come before.

    Args:
        x: ``(n,)``, ascending.
        values: Any shape.
        side: "left" puts a value before its equals, "right" behind them.
        sorter: Places that put `x` in order, if it is not.

    Raises:
        ShapeError: `x` has another rank, or `side` is neither.

    >>> zyx.searchsorted(zyx.Tensor([1, 3, 5]), zyx.Tensor([2, 5])).tolist()
    [1, 2]
    """
    if side not in ("left", "right"):
        raise ShapeError(f'searchsorted: side is "left" or "right", not {side!r}')
    dtype = common_dtype((x, values), "searchsorted")
    term = term_of(x, "searchsorted").cast(dtype)
    if len(term.shape) != 1:
        raise ShapeError(f"searchsorted takes a list of rank 1, not {term.shape}")
    if sorter is not None:
        term = Term(term.graph, term.graph.gather(term.node, term_of(sorter, "searchsorted").node, 0))
    wanted = Term(term.graph, node_of(values, dtype, x))
    found = places_in(term, wanted.reshape((size_of(wanted.shape),)), is_right=side == "right")
    return wrap(found.cast(dtypes.int64).reshape(wanted.shape).node, x)


def places_in(listed: Term, wanted: Term, *, is_right: bool) -> Term:
    """Return how many of `listed`, ``(.., n)`` and ascending, come before each of `wanted`, ``(.., m)``, int32.

    So do those that are equal to it if it `is_right`. Bit by bit, the greatest first: each takes one comparison.
    """
    graph, axis = listed.graph, len(listed.shape) - 1
    size = listed.shape[axis]
    place = Term(graph, graph.const(0, dtypes.int32, wanted.node.device, wanted.shape))
    for bit in reversed(range(size.bit_length())):
        candidate = place + (1 << bit)
        each = Term(graph, graph.gather(listed.node, (candidate - 1).node, axis))
        before = each <= wanted if is_right else each < wanted
        if listed.dtype.is_float:
            before = before | (wanted.is_nan() if is_right else wanted.is_nan() & ~each.is_nan())
        place = (before & (candidate <= size)).where(candidate, place)
    return place


def isin(x1: Operand, x2: Operand, /, *, invert: bool = False) -> Tensor:
    """Tell which elements of `x1` are equal to an element of `x2`; or, if `invert`, which are not. NaN equals none.

    Raises:
        DTypeError: Neither is a tensor, or they have no common dtype.

    >>> zyx.isin(zyx.Tensor([1, 2, 3]), zyx.Tensor([2])).tolist()
    [False, True, False]
    """
    like, dtype = first_tensor((x1, x2), "isin"), common_dtype((x1, x2), "isin")
    graph = like.runtime.graph
    wanted, listed = (Term(graph, node_of(x, dtype, like)) for x in (x1, x2))
    count, listed = size_of(wanted.shape), listed.reshape((size_of(listed.shape),))
    flat = wanted.reshape((count,))
    if dtype.is_complex:
        shape = (count, *listed.shape)
        equal = (flat.reshape((count, 1)).expand(shape) == listed.reshape((1, *listed.shape)).expand(shape)).cast(
            dtypes.int32
        )
        found = equal.sum((1,)).reshape((count,)) > 0
    else:
        ordered = Term(graph, graph.gather(listed.node, sort_order(listed, 0, descending=False).node, 0))
        ends = [places_in(ordered, flat, is_right=is_right) for is_right in (False, True)]
        found = ends[0] < ends[1]
        if dtype.is_float:
            found = found & ~flat.is_nan()
    found = found.reshape(wanted.shape)
    return wrap((~found if invert else found).node, like)


# ---- different values


class UniqueAll(NamedTuple):
    """Different values; where each is first; which of them each element is; how often each comes."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """Different values, and how often each comes."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """Different values, and which of them each element is."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor) -> UniqueAll:
    """Return the different values of `x` in ascending order, and all about them; each NaN differs from the others.

    Complex numbers are in the order of their real parts, and where these are equal of their imaginary ones.

    How many there are is read, since it is the shape of the results; all else stays on the device.

    Raises:
        DTypeError: `x` is no tensor.

    >>> result = zyx.unique_all(zyx.Tensor([3, 1, 3]))
    >>> result.values.tolist(), result.counts.tolist()
    ([1, 3], [1, 2])
    """
    tensor = require(x, "unique_all")
    term = Term(tensor.runtime.graph, tensor.node)
    size = size_of(term.shape)
    flat = term.reshape((size,))
    if not size:
        places = flat.iota(0, dtypes.int64)
        return UniqueAll(
            wrap(flat.node, x), wrap(places.node, x), wrap(places.reshape(term.shape).node, x), wrap(places.node, x)
        )
    order = _lexicographic(flat)
    ordered = Term(term.graph, term.graph.gather(flat.node, order.node, 0))
    is_new = (ordered.narrow(0, 1, size) != ordered.narrow(0, 0, size - 1)).cast(dtypes.int32)
    numbers = Term(term.graph, term.graph.scan(ReduceOp.SUM, is_new.pad([(1, 0)]).node, 0))
    each = Term(term.graph, term.graph.iota((size + 1,), 0, dtypes.int32, term.node.device))
    # As long as the argument, however few there are: what depends on their number is not compiled for each anew.
    kept = [wrap(found.node, x) for found in (order, numbers, places_in(numbers, each, is_right=False))]
    tensor.runtime.realize(kept)
    order, numbers, starts = (Term(term.graph, handle.node) for handle in kept)
    count = int(wrap(numbers.narrow(0, size - 1, size).node, x).item()) + 1
    firsts = Term(term.graph, term.graph.gather(order.node, starts.narrow(0, 0, count).node, 0))
    counts = starts.narrow(0, 1, count + 1) - starts.narrow(0, 0, count)
    bits = max(1, (size - 1).bit_length())
    rank = term.graph.sort(order.bitcast(dtypes.uint32).node, 0, bits, size)
    inverse = Term(term.graph, term.graph.gather(numbers.node, rank, 0)).reshape(term.shape)
    return UniqueAll(
        wrap(term.graph.gather(flat.node, firsts.node, 0), x),
        *(wrap(found.cast(dtypes.int64).node, x) for found in (firsts, inverse, counts)),
    )


def _lexicographic(flat: Term) -> Term:
    """Return the places that put numbers in order, complex ones by the real part and then by the imaginary one.

    Behind all others come those with NaN in the imaginary part, the real one, and both, in this order, as in NumPy.
    """
    graph = flat.graph
    if not flat.dtype.is_complex:
        return sort_order(flat, 0, descending=False)
    first, second = parts(flat)
    kinds = first.is_nan().cast(dtypes.uint8) * 2 + second.is_nan().cast(dtypes.uint8)
    order = sort_order(second, 0, descending=False)
    for key in (first, kinds):  # sorting keeps the order of equals
        found = sort_order(Term(graph, graph.gather(key.node, order.node, 0)), 0, descending=False)
        order = Term(graph, graph.gather(order.node, found.node, 0))
    return order


def unique_counts(x: Tensor) -> UniqueCounts:
    """Return the different values of `x`, ascending, and how often each comes; each NaN differs from the others.

    `x` has any shape; the two results are vectors of one length.

    Raises:
        DTypeError: `x` is no tensor.

    >>> values, counts = zyx.unique_counts(zyx.Tensor([3, 1, 3]))
    >>> values.tolist(), counts.tolist()
    ([1, 3], [1, 2])
    """
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Tensor) -> UniqueInverse:
    """Return the different values of `x` in ascending order, and which of them each element is.

    Raises:
        DTypeError: `x` is no tensor.

    >>> values, inverse = zyx.unique_inverse(zyx.Tensor([3, 1, 3]))
    >>> values.tolist(), inverse.tolist()
    ([1, 3], [1, 0, 1])
    """
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Tensor) -> Tensor:
    """Return the different values of `x` in ascending order; each NaN differs from the others.

    `x` has any shape; the result is a vector.

    Raises:
        DTypeError: `x` is no tensor.

    >>> zyx.unique_values(zyx.Tensor([3, 1, 3])).tolist()
    [1, 3]
    """
    return unique_all(x).values


take_habits(globals())
