"""Make expressions, simplified, equal ones once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.nest import expr as e
from zyx.nest.expr import INDEX, UNBOUNDED, Expr
from zyx.nest.indices import Indices
from zyx.ops import COMPARISONS, BinaryOp, ReduceOp, UnaryOp
from zyx.scalar import fold_binary, fold_cast, fold_unary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.dtype import DType


class Pool(Indices):
    """The expressions of one nest. All methods return the one expression that is equal to what they are asked for."""

    # ---- data

    def number(self, param: e.Param) -> Expr:
        """Return the value of a param that is given by value."""
        key = (e.Number, param)
        return self._table.get(key) or self._intern(key, e.Number(param.dtype, 0, param))

    def read(self, param: e.Param, index: Expr, mask: Expr | None = None) -> Expr:
        """Return element `index` of a buffer, 0 where the mask is false."""
        if mask is self.true:
            mask = None
        if mask is self.false:
            return self.literal(param.dtype.to_scalar(0), param.dtype)
        key = (e.Read, param, index, mask)
        found = self._table.get(key)
        if found is not None:
            return found
        children = (index,) if mask is None else (index, mask)
        free = index.free | (mask.free if mask is not None else 0)
        return self._intern(key, e.Read(param.dtype, free, param, index, mask), children)

    def value_ref(self, value: e.Value, indices: tuple[Expr, ...], mask: Expr | None = None) -> Expr:
        """Return the value that a statement defined for the point `indices`."""
        if mask is self.true:
            mask = None
        key = (e.Ref, value, indices, mask)
        found = self._table.get(key)
        if found is not None:
            return found
        free = mask.free if mask is not None else 0
        for index in indices:
            free |= index.free
        children = indices if mask is None else (*indices, mask)
        return self._intern(key, e.Ref(value.dtype, free, value, indices, mask), children)

    def reduction(self, op: ReduceOp, body: Expr, ranges: tuple[e.Range, ...]) -> Expr:
        """Return `body` combined over `ranges`."""
        bound = 0
        for range_ in ranges:
            bound |= range_.bit
        key = (e.Reduction, op, body, ranges)
        return self._table.get(key) or self._intern(
            key, e.Reduction(body.dtype, body.free & ~bound, op, body, ranges), (body,)
        )

    def unary(self, op: UnaryOp, x: Expr) -> Expr:
        """Return `op` of `x`."""
        if isinstance(x, e.Literal):
            folded = fold_unary(op, x.value, x.dtype)
            if folded is not None:
                return self.literal(folded, x.dtype)
        key = (e.Apply1, op, x)
        return self._table.get(key) or self._intern(key, e.Apply1(x.dtype, x.free, op, x), (x,))

    def binary(self, op: BinaryOp, x: Expr, y: Expr) -> Expr:
        """Return `op` of `x` and `y`."""
        if isinstance(x, e.Literal) and isinstance(y, e.Literal):
            folded = fold_binary(op, x.value, y.value, x.dtype)
            if folded is not None:
                return self.literal(folded, dtypes.bool_ if op in COMPARISONS else x.dtype)
        else:
            simpler = self._neutral(op, x, y) or self._of_indices(op, x, y)
            if simpler is not None:
                return simpler
        key = (e.Apply2, op, x, y)
        dtype = dtypes.bool_ if op in COMPARISONS else x.dtype
        return self._table.get(key) or self._intern(key, e.Apply2(dtype, x.free | y.free, op, x, y), (x, y))

    def _neutral(self, op: BinaryOp, x: Expr, y: Expr) -> Expr | None:
        """Return the result if one operand decides it exactly, for NaN, infinities and signed zeros too."""
        if isinstance(x, e.Literal) and op in (BinaryOp.MUL, BinaryOp.ADD, BinaryOp.AND, BinaryOp.OR):
            x, y = y, x
        if not isinstance(y, e.Literal):
            return None
        number = y.value
        is_float = y.dtype.is_float
        match op:
            case BinaryOp.MUL | BinaryOp.DIV if number == 1:
                return x
            case BinaryOp.MUL if number == 0 and not is_float:
                return y
            case BinaryOp.ADD if number == 0 and (not is_float or str(number) == "-0.0"):
                return x
            case BinaryOp.SUB if number == 0 and (not is_float or str(number) == "0.0"):
                return x
            case BinaryOp.SHL | BinaryOp.SHR if number == 0:
                return x
            case BinaryOp.AND if y.dtype.is_bool:
                return x if number else y
            case BinaryOp.OR if y.dtype.is_bool:
                return y if number else x
        return None

    def _of_indices(self, op: BinaryOp, x: Expr, y: Expr) -> Expr | None:
        """Return arithmetic on, or comparison of, converted indices as one of indices, where it cannot wrap."""
        a, b = _index_of(x), _index_of(y)
        if a is None and b is None:
            return None
        first = a if a is not None else self._literal_index(x)
        second = b if b is not None else self._literal_index(y)
        if first is None or second is None or not x.dtype.is_integer:
            return None
        match op:
            case BinaryOp.LE:
                return self.non_negative(self.affine(((second, 1), (first, -1))))
            case BinaryOp.LT:
                return self.non_negative(self.affine(((second, 1), (first, -1)), -1))
            case BinaryOp.EQ:
                return self.is_zero(self.affine(((second, 1), (first, -1))))
            case BinaryOp.NE:
                return self.unary(UnaryOp.NOT, self.is_zero(self.affine(((second, 1), (first, -1)))))
            case BinaryOp.ADD:
                result = self.add(first, second)
            case BinaryOp.SUB:
                result = self.affine(((first, 1), (second, -1)))
            case BinaryOp.MUL if first.low == first.high or second.low == second.high:
                factor, other = (first, second) if first.low == first.high else (second, first)
                result = self.scale(other, factor.low)
            case _:
                return None
        return self.convert(result, x.dtype) if x.dtype.min <= result.low and result.high <= x.dtype.max else None

    def _literal_index(self, x: Expr) -> Expr | None:
        return self.index(int(x.value)) if isinstance(x, e.Literal) and not isinstance(x.value, float) else None

    def both(self, x: Expr | None, y: Expr | None) -> Expr | None:
        """Return the conjunction of two masks, None meaning always."""
        if x is None or x is self.true:
            return None if y is self.true else y
        if y is None or y is self.true or x is y:
            return x
        return self.binary(BinaryOp.AND, x, y)

    def select(self, condition: Expr, x: Expr, y: Expr) -> Expr:
        """Return `x` where `condition` holds, else `y`."""
        if isinstance(condition, e.Literal):
            return x if condition.value else y
        if x is y:
            return x
        key = (e.Select, condition, x, y)
        return self._table.get(key) or self._intern(
            key, e.Select(x.dtype, condition.free | x.free | y.free, condition, x, y), (condition, x, y)
        )

    def convert(self, x: Expr, dtype: DType) -> Expr:
        """Return `x` converted to `dtype`; `INDEX` converts as int64 does."""
        if dtype is x.dtype:
            return x
        index = _index_of(x)
        if index is not None and (dtype is INDEX or (dtype.is_integer and _fits(index, dtype))):
            return self.convert(index, dtype)
        if isinstance(x, e.Literal):
            if dtype is INDEX:
                return self.index(int(x.value))
            return self.literal(fold_cast(x.value, dtypes.int64 if x.dtype is INDEX else x.dtype, dtype), dtype)
        key = (e.Convert, x, dtype.name)
        found = self._table.get(key)
        if found is not None:
            return found
        low, high = UNBOUNDED if dtype is INDEX else (0, 0)
        if dtype is INDEX and x.dtype.is_integer and x.dtype.bits < 64:
            low, high = int(x.dtype.min), int(x.dtype.max)
        return self._intern(key, e.Convert(dtype, x.free, x), (x,), low, high)

    def reinterpret(self, x: Expr, dtype: DType) -> Expr:
        """Return the bits of `x` read as `dtype`."""
        if dtype is x.dtype:
            return x
        key = (e.Reinterpret, x, dtype.name)
        return self._table.get(key) or self._intern(key, e.Reinterpret(dtype, x.free, x), (x,))

    # ---- rebuilding

    def substitute(
        self, roots: Sequence[Expr], replacements: Mapping[e.Range, Expr], memo: dict[Expr, Expr] | None = None
    ) -> list[Expr]:
        """Return `roots` with ranges replaced by index expressions, simplified anew; calls may share a `memo`."""
        bits = 0
        for range_ in replacements:
            bits |= range_.bit
        memo = {} if memo is None else memo
        return [self._rebuild(root, bits, replacements, memo) for root in roots]

    def _rebuild(self, root: Expr, bits: int, replacements: Mapping[e.Range, Expr], memo: dict[Expr, Expr]) -> Expr:
        if not root.free & bits:
            return root
        stack = [root]
        while stack:
            current = stack[-1]
            if current in memo:
                stack.pop()
                continue
            if isinstance(current, e.RangeRef):
                memo[current] = replacements.get(current.range, current)
                stack.pop()
                continue
            below = current.children
            count = len(stack)
            for child in below:
                if child.free & bits and child not in memo:
                    stack.append(child)
            if len(stack) > count:
                continue
            memo[current] = self.with_children(current, tuple(map(memo.get, below, below)))
            stack.pop()
        return memo[root]

    def with_children(self, expr: Expr, new: Sequence[Expr]) -> Expr:
        """Return `expr` over other children, which come in the order of its own."""
        match expr:
            case e.Literal() | e.Number() | e.RangeRef() | e.Opaque():
                return expr
            case e.Affine(terms=terms, constant=constant):
                return self.affine([(child, factor) for child, (_, factor) in zip(new, terms, strict=True)], constant)
            case e.Quotient(divisor=divisor):
                return self.divide(new[0], divisor)
            case e.Remainder(divisor=divisor):
                return self.modulo(new[0], divisor)
            case e.Within(high=high):
                return self.within(new[0], high + 1)
            case e.NonNegative():
                return self.non_negative(new[0])
            case e.IsZero():
                return self.is_zero(new[0])
            case e.Read(param=param, mask=mask):
                return self.read(param, new[0], None if mask is None else new[1])
            case e.Ref(value=value, mask=mask):
                return self.value_ref(
                    value, tuple(new if mask is None else new[:-1]), None if mask is None else new[-1]
                )
            case e.Reduction(op=op, ranges=ranges):
                return self.reduction(op, new[0], ranges)
            case e.Apply1(op=op1):
                return self.unary(op1, new[0])
            case e.Apply2(op=op2):
                return self.binary(op2, new[0], new[1])
            case e.Select():
                return self.select(new[0], new[1], new[2])
            case e.Convert(dtype=dtype):
                return self.convert(new[0], dtype)
            case e.Reinterpret(dtype=dtype):
                return self.reinterpret(new[0], dtype)
            case _:
                raise TypeError(f"not an expression: {type(expr).__name__}")


def _fits(index: Expr, dtype: DType) -> bool:
    return dtype.min <= index.low and index.high <= dtype.max


def _index_of(x: Expr) -> Expr | None:
    """Return the index that `x` is the exact value of, if it is one in an integer dtype."""
    if isinstance(x, e.Convert) and x.x.dtype is INDEX and x.dtype is not INDEX and x.dtype.is_integer:
        return x.x if _fits(x.x, x.dtype) else None
    return None
