"""Write a part of a graph as a loop nest.

Every node of the part is written as an expression at each point it is needed at: movement changes the point, element by
element operations are applied, reductions become statements whose value the rest refers to, materialised nodes
become reads. A costly node that is needed in several loops over a row becomes a value too, and is computed once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from zyx import dtype as dtypes
from zyx.errors import ScheduleError
from zyx.fusion.cost import inline_cost
from zyx.fusion.movement import MOVEMENT
from zyx.fusion.offset_specialisation import clamped_start
from zyx.fusion.region import mask_needed, moved_view
from zyx.fusion.threefry import random_word
from zyx.graph import node as n
from zyx.graph.ends import Ends, ends_of
from zyx.graph.given import Box, Front, Number, Packed
from zyx.graph.places import is_distinct
from zyx.nest import expr as e
from zyx.nest.accesses import refers_to
from zyx.nest.data import Compute, Nest, Scan, Statement, Store
from zyx.nest.masks import conjunction, tests_of
from zyx.ops import BinaryOp
from zyx.shape import size_of, strides_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zyx.dtype import DType
    from zyx.fusion.partition import KernelPart
    from zyx.fusion.region import FusedRegion
    from zyx.graph.node import Node
    from zyx.nest.expr import Expr, Range
    from zyx.shape import Shape

Key: TypeAlias = "tuple[Node, tuple[Expr, ...], Expr | None]"
_KEEP_COST = 16


def build_nest(part: KernelPart, params: dict[Node, e.Param]) -> Nest:
    """Return the nest of `part`.

    `params` has the param of every node whose buffer the kernel takes so far; those that this part adds are added to
    it, what it stores first. A node that takes the place of another (`KernelPart.in_place`) has the other's param.
    """
    return _NestBuilder(part, params).build()


class _NestBuilder:
    def __init__(self, part: KernelPart, params: dict[Node, e.Param]) -> None:
        self._part = part
        self._region: FusedRegion = part.region
        self._pool = part.region.pool
        written = part.written
        boxes = [box for own in part.rows.values() for box in own]
        ends = (number for node in written for number in _ends(node))
        buffers = [*written, *_given([*boxes, *part.reads]), *_strides(written), *filter(None, ends)]
        for node in buffers:
            old = part.in_place.get(node, node)
            if old not in params:
                mutable = node in written
                by_value = isinstance(node, Number)
                length, is_front = size_of(node.shape), isinstance(node, Front | Packed)
                params[old] = e.Param(len(params), node.dtype, length, mutable, by_value, is_front)
            params.setdefault(node, params[old])
        self._params = {node: params[node] for node in buffers}
        self._count = 0
        self._statements: list[Statement] = []
        self._memo: dict[Key, Expr] = {}
        self._kept = self._values()

    def build(self) -> Nest:
        """Write the root and everything else that is stored."""
        root = self._part.root
        if isinstance(root, n.Scatter):
            self._scatter(root)
        else:
            stores = []
            for node in self._part.stored:
                (view,) = list(self._region.views[node])[:1]
                stores.append((node, view, self._at((node, view.point, view.mask))))
            # What takes the place of a buffer that is read here comes last.
            for node, view, value in sorted(stores, key=lambda item: item[0] in self._part.in_place):
                self._store(node, view.point, value, view.mask)
                if node not in self._part.in_place:
                    self._bring_forward()
        params = tuple(dict.fromkeys(self._params.values()))
        return Nest(params, tuple(self._statements), self._pool)

    def _store(self, node: Node, point: Sequence[Expr], value: Expr, mask: Expr | None) -> None:
        index = self._pool.flatten(point, node.shape)
        if isinstance(node, Packed):
            index = self._packed(node, tuple(point), self._params[node])
        mask = self._pool.both(mask, self._in_front(_ends(node), point))
        places = [] if node in self._part.only_rows else [(self._params[node], index)]
        for box in self._part.rows.get(node, ()):
            places.append((self._params[box.data], self._row_index(box, tuple(point), node.shape)))
        for param, place in places:
            free = index.free | place.free | (0 if mask is None else mask.free)
            self._statements.append(Store(param, place, value, mask, self._ranges(free)))

    def _bring_forward(self) -> None:
        """Let the last store and what it stores follow each other, if reductions come in between.

        They have loops of their own, or end them: the values would have to be kept over them. Reductions of these
        values stay behind the store; what does not need the values comes before both.
        """
        *statements, store = self._statements
        if not isinstance(store, Store) or not isinstance(store.expr, e.Ref):
            return
        for number, statement in enumerate(statements):
            if isinstance(statement, Compute) and statement.value is store.expr.value:
                later = statements[number + 1 :]
                is_plain = not statement.reduced and set(statement.order) == set(store.order)
                if is_plain and any(isinstance(other, Compute) and other.reduced for other in later):
                    if any(refers_to(other, statement.value) for other in later):
                        self._statements = [*statements[: number + 1], store, *later]
                    else:
                        self._statements = [*statements[:number], *later, statement, store]
                return

    def _ranges(self, free: int) -> tuple[Range, ...]:
        return tuple(range_ for range_ in self._region.all_ranges if range_.bit & free)

    def _values(self) -> set[Node]:
        """Return the nodes that are worth a value of their own.

        They are costly and several statements run over them, or they are stored and others in the kernel need them.
        """
        region = self._region
        kept = {node for node in self._part.stored if node is not self._part.root or node in self._part.rows}
        apart = {node for node in region.views if isinstance(node, n.Reduce | n.Scan)}.union(region.inputs)
        users: dict[Node, list[Node]] = {}
        once: set[Node] = set()  # what only such nodes need: it is computed where they are
        for node in region.order:
            if node in apart:
                pass
            elif node in users and all(user in kept or user in once for user in users[node]):
                once.add(node)
            elif len({view.reduced for view in region.views[node]}) > 1 and node not in kept:
                if inline_cost(node, apart | kept) >= _KEEP_COST:
                    kept.add(node)
            if node not in region.inputs:
                for source in node.sources:
                    users.setdefault(source, []).append(node)
        return kept

    # ---- expressions

    def _at(self, key: Key) -> Expr:
        """Return the value of a node at a point, under a mask. Works off a stack: graphs may be very deep."""
        stack = [key]
        while stack:
            current = stack[-1]
            if current in self._memo:
                stack.pop()
                continue
            result = self._try(current)
            if isinstance(result, list):
                stack.extend(result)
            else:
                self._memo[current] = result
                stack.pop()
        return self._memo[key]

    def _try(self, key: Key) -> Expr | list[Key]:
        """Return the expression, or the keys that must be known first."""
        node, point, mask = key
        pool = self._pool
        if isinstance(node, Number):
            if node.most is None:
                return pool.number(self._params[node])
            return pool.convert(self._number(node), node.dtype)
        if isinstance(node, Box):
            return self._of_box(node, point, mask)
        if node in self._region.inputs and not isinstance(node, n.Const | n.Iota):
            return pool.read(self._params[node], pool.flatten(point, node.shape), mask)
        match node:
            case n.Const(value=value):
                return pool.literal(value, node.dtype)
            case n.Iota(axis=axis):
                return pool.convert(point[axis], node.dtype)
            case n.Reduce():
                return self._reduce(node, point, mask)
            case n.Scan():
                return self._scan(node, point, mask)
            case n.Gather():
                return self._gather(node, point, mask)
            case n.RandomBits(offset=offset):
                (state,) = node.sources
                words: list[Key] = [(state, (pool.index(word),), mask) for word in range(4)]
                missing = [word for word in words if word not in self._memo]
                if missing:
                    return missing
                position = pool.shift(pool.flatten(point, node.shape), offset)
                return random_word(pool, [self._memo[word] for word in words], position, node.dtype)
            case _ if isinstance(node, MOVEMENT):
                return self._movement(node, point, mask)
            case _:
                return self._elementwise(node, point, mask)

    def _movement(self, node: n.Movement, point: tuple[Expr, ...], mask: Expr | None) -> Expr | list[Key]:
        pool = self._pool
        inner, needed, inside = moved_view(self._region, node, point, mask)
        key: Key = (node.sources[0], inner, pool.both(needed, inside))
        if key not in self._memo:
            return [key]
        value = self._memo[key]
        if inside is None:
            return value
        fill = node.value if isinstance(node, n.Pad) else node.dtype.to_scalar(0)
        read = value
        while isinstance(read, e.Convert):
            read = read.x
        if isinstance(read, e.Read) and fill == 0 and str(fill) != "-0.0":
            return value  # a masked read gives 0 already, and that is converted to 0
        return pool.select(inside, value, pool.literal(fill, node.dtype))

    def _elementwise(self, node: Node, point: tuple[Expr, ...], mask: Expr | None) -> Expr | list[Key]:
        keys: list[Key] = [(source, point, mask) for source in node.sources]
        missing = [key for key in keys if key not in self._memo]
        if missing:
            return missing
        values = [self._memo[key] for key in keys]
        pool = self._pool
        match node:
            case n.Unary(op=op1):
                result = pool.unary(op1, values[0])
            case n.Binary(op=op2):
                result = pool.binary(op2, values[0], values[1])
            case n.Where():
                result = self._where(values[0], values[1], values[2])
            case n.Cast():
                result = pool.convert(values[0], node.dtype)
            case n.Bitcast():
                result = pool.reinterpret(values[0], node.dtype)
            case _:  # Contiguous, Alias: the same values
                return values[0]
        return self._keep(result) if node in self._kept else result

    def _where(self, condition: Expr, x: Expr, y: Expr) -> Expr:
        """Return `x` where a condition holds, else `y`: `x` alone if it is `y` wherever the condition fails."""
        if isinstance(y, e.Literal) and not y.value:
            tests = tests_of(x, y.value)
            if tests and all(test in tests for test in conjunction(condition)):
                return x
        return self._pool.select(condition, x, y)

    def _value(self, dtype: DType, ranges: tuple[e.Range, ...]) -> e.Value:
        """Return a new value. Each nest counts its own, so that it is the same whenever it is built."""
        self._count += 1
        return e.Value(self._count - 1, dtype, ranges)

    def _keep(self, expr: Expr) -> Expr:
        """Return a reference to `expr` as a value of its own."""
        ranges = self._ranges(expr.free)
        value = self._value(expr.dtype, ranges)
        self._statements.append(Compute(value, expr, None, (), ranges))
        return self._pool.value_ref(value, tuple(self._pool.ref(range_) for range_ in ranges))

    def _reduce(self, node: n.Reduce, point: tuple[Expr, ...], mask: Expr | None) -> Expr | list[Key]:
        mask = mask_needed(node, point, mask)
        outer = 0 if mask is None else mask.free
        for index in point:
            outer |= index.free
        inner = 0
        below = list(point)
        reduced = self._region.bound_ranges(node.sources[0].shape, node.axes, outer)
        for axis, range_ in zip(node.axes, reduced, strict=True):
            inner |= range_.bit
            below[axis] = self._pool.ref(range_)
        key: Key = (node.sources[0], tuple(below), mask)
        if key not in self._memo:
            return [key]
        body = self._memo[key]
        ranges = self._ranges(outer | (body.free & ~inner))
        value = self._value(node.dtype, ranges)
        self._statements.append(Compute(value, body, node.op, tuple(reduced), (*ranges, *reduced)))
        return self._pool.value_ref(value, tuple(self._pool.ref(range_) for range_ in ranges), mask)

    def _scan(self, node: n.Scan, point: tuple[Expr, ...], mask: Expr | None) -> Expr | list[Key]:
        key: Key = (node.sources[0], point, mask)
        if key not in self._memo:
            return [key]
        body = self._memo[key]
        along = point[node.axis]
        assert isinstance(along, e.RangeRef)
        free = body.free
        for index in point:
            free |= index.free
        ranges = self._ranges(free)
        value = self._value(node.dtype, ranges)
        order = (*(range_ for range_ in ranges if range_ is not along.range), along.range)
        self._statements.append(Scan(value, body, node.op, (along.range,), order))
        return self._pool.value_ref(value, tuple(self._pool.ref(range_) for range_ in ranges))

    # ---- indexing

    def _of_box(self, box: Box, point: tuple[Expr, ...], mask: Expr | None) -> Expr:
        """Return an element of a box of a leaf. Wherever it begins, it lies within: kernels are checked for that."""
        pool = self._pool
        if box.ends:
            index = self._packed(box, point, self._params[box.data])
            return pool.read(self._params[box.data], index, pool.both(mask, self._in_front(box.ends, point)))
        if box.skipped is not None:
            row = pool.divide(pool.flatten(point, box.shape), box.shape[-1])
            first = clamped_start(pool, self._params[box.skipped], size_of(box.shape[:-1]))
            mask = pool.both(mask, pool.non_negative(pool.affine([(row, 1), (first, -1)])))
        if box.strides:
            return pool.read(self._params[box.data], self._row_index(box, point, box.shape), mask)
        strides = strides_of(box.data.shape)
        most = (
            size_of(box.data.shape) - 1 - sum((size - 1) * step for size, step in zip(box.shape, strides, strict=True))
        )
        first = self._start(box, most)
        index = pool.affine([(first, 1), *zip(point, strides, strict=True)])
        return pool.read(self._params[box.data], index, mask)

    def _row_index(self, box: Box, point: tuple[Expr, ...], shape: Shape) -> Expr:
        """Return where an element lies of what a step of a loop reads or writes, which has the elements of `shape`."""
        pool, param = self._pool, self._params[box.data]
        if not box.strides:
            first = self._start(box, param.length - size_of(shape))
            return pool.add(first, pool.flatten(point, shape))
        extra = len(shape) - len(box.shape)  # what is stored may have axes of one point in front
        if shape[max(extra, 0) :] != box.shape:
            raise ScheduleError(f"a row of {shape} has no place where {box.shape} lies apart")
        point, shape, count = point[extra:], box.shape, len(box.strides)
        inner = size_of(shape[count:])
        most = param.length - inner
        terms = [self._start(box, most)]
        for index, size, number in zip(point, shape, box.strides, strict=False):
            if size > 1:
                given = self._params[number]
                stride = clamped_start(pool, given, most // (size - 1), box.unit)
                factors = (pool.convert(factor, given.dtype) for factor in (index, stride))
                product = pool.convert(pool.binary(BinaryOp.MUL, *factors), e.INDEX)
                terms.append(pool.within(product, most + 1))
        terms.append(pool.flatten(point[count:], shape[count:]))
        return pool.within(pool.affine([(term, 1) for term in terms]), param.length)

    def _start(self, box: Box, most: int) -> Expr:
        assert box.start is not None
        return clamped_start(self._pool, self._params[box.start], most, box.unit)

    def _in_front(self, ends: Ends, point: Sequence[Expr]) -> Expr | None:
        """Return whether a point is in front of ends."""
        pool = self._pool
        inside: Expr | None = None
        for index, end in zip(point, ends, strict=bool(ends)):
            if end is not None:
                inside = pool.both(inside, pool.non_negative(pool.affine([(self._number(end), 1), (index, -1)], -1)))
        return inside

    def _packed(self, node: Box | Packed, point: tuple[Expr, ...], param: e.Param) -> Expr:
        """Return the offset of an element in a buffer whose strides are given at the launch."""
        pool, shape, count = self._pool, node.shape, len(node.strides)
        terms = [pool.flatten(point[count:], shape[count:])]
        for index, stride in zip(point, node.strides, strict=False):
            product = pool.binary(BinaryOp.MUL, *(pool.convert(x, stride.dtype) for x in (index, self._number(stride))))
            terms.append(pool.convert(product, e.INDEX))
        return pool.within(pool.affine([(term, 1) for term in terms]), param.length)

    def _number(self, number: Number) -> Expr:
        """Return a number as an index; it is a place among others, or how many there are."""
        assert number.most is not None
        return clamped_start(self._pool, self._params[number], number.most)

    def _position(self, index: Expr, size: int) -> tuple[Expr, Expr | None]:
        """Return (position, mask) of an index read from memory: negative ones count from the end."""
        pool = self._pool
        is_short = index.dtype.bits <= 32 and size <= dtypes.int32.max
        if index.dtype.is_unsigned:
            if is_short and index.dtype.bits == 32:  # what is beyond the end stays so, and fits a signed type
                index = pool.binary(BinaryOp.MIN, index, pool.literal(size, index.dtype))
        else:
            wide = pool.convert(index, dtypes.int32 if is_short else dtypes.int64)
            negative = pool.binary(BinaryOp.LT, wide, pool.literal(0, wide.dtype))
            index = pool.select(negative, pool.binary(BinaryOp.ADD, wide, pool.literal(size, wide.dtype)), wide)
        position = pool.convert(index, e.INDEX)
        mask = pool.both(pool.non_negative(position), pool.less(position, size))
        if mask is None:
            return position, None  # as where the index is a coordinate behind a place
        if is_short:
            # Also where the mask does not hold the position is within, so that what is computed from it is known to
            # fit 32 bits: there are devices that have no others. The greater of it and 0 comes first: of the other
            # order NVIDIA's compilers take some comparisons with the last position to be always true.
            signed = pool.convert(index, dtypes.int32)
            first = pool.binary(BinaryOp.MAX, signed, pool.literal(0, dtypes.int32))
            position = pool.convert(pool.binary(BinaryOp.MIN, first, pool.literal(size - 1, dtypes.int32)), e.INDEX)
        return pool.within(position, size), mask

    def _gather(self, node: n.Gather, point: tuple[Expr, ...], mask: Expr | None) -> Expr | list[Key]:
        data, index = node.sources
        index_key: Key = (index, point, mask)
        if index_key not in self._memo:
            return [index_key]
        position, inside = self._position(self._memo[index_key], data.shape[node.axis])
        at = (*point[: node.axis], position, *point[node.axis + 1 :])
        key: Key = (data, at, self._pool.both(mask, inside))
        if key not in self._memo:
            return [key]
        value = self._memo[key]
        if isinstance(value, e.Read) or inside is None:
            return value
        return self._pool.select(inside, value, self._pool.literal(node.dtype.to_scalar(0), node.dtype))

    def _scatter(self, node: n.Scatter) -> None:
        """Store the base, then the updates on top of it."""
        base, index, updates = node.sources
        (view,) = self._region.views[node]
        self._store(node, view.point, self._at((base, view.point, view.mask)), None)
        (below,) = (view for view in self._region.views[updates] if view in self._region.views[index])
        position, inside = self._position(self._at((index, below.point, None)), base.shape[node.axis])
        at = (*below.point[: node.axis], position, *below.point[node.axis + 1 :])
        value = self._at((updates, below.point, None))
        flat = self._pool.affine(list(zip(at, strides_of(node.shape), strict=True)))
        order = self._ranges(below.around)
        along = 0 if is_distinct(index, node.axis) else below.point[node.axis].free
        serial = tuple(range_ for range_ in order if range_.bit & along)
        others = tuple(range_ for range_ in order if range_ not in serial)
        param = self._params[node]
        self._statements.append(Store(param, flat, value, inside, (*others, *serial), node.op, serial))


def _given(reads: Iterable[Node]) -> Iterator[Node]:
    """Yield what a kernel is given for what it reads: buffers and numbers."""
    for node in reads:
        if isinstance(node, Box):
            yield from node.given
        elif not isinstance(node, n.Const | n.Iota):
            yield node


def _strides(written: Iterable[Node]) -> Iterator[Node]:
    for node in written:
        if isinstance(node, Packed):
            yield from node.strides


def _ends(node: Node) -> Ends:
    """Return up to where a node is to be stored."""
    return node.ends if isinstance(node, Packed) else ends_of(node)
