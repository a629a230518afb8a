"""Make expressions, simplified, equal ones once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.ir import expr as e
from zyx.ir.expr import INDEX, UNBOUNDED, Expr
from zyx.ops import COMPARISONS, BinaryOp, ReduceOp, UnaryOp
from zyx.scalar import fold_binary, fold_cast, fold_unary

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zyx.dtype import DType, Scalar


class Pool:
    """The expressions of one nest. All methods return the one expression that is equal to what they are asked for."""

    def __init__(self) -> None:
        self._table: dict[object, Expr] = {}
        self._ranges = 0
        self._values = 0
        self.true = self.literal(True, dtypes.bool_)
        self.false = self.literal(False, dtypes.bool_)

    def _intern(self, key: object, new: Expr, low: int = 0, high: int = 0) -> Expr:
        new.low, new.high, new.serial = low, high, len(self._table)
        self._table[key] = new
        return new

    # ---- names

    def range(self, size: int, label: str | None = None) -> e.Range:
        """Return a new range, labelled by its number unless said otherwise."""
        self._ranges += 1
        number = self._ranges - 1
        return e.Range(number, size, f"r{number}" if label is None else label)

    def value(self, dtype: DType, ranges: tuple[e.Range, ...]) -> e.Value:
        """Return a new value, to be defined by a statement."""
        self._values += 1
        return e.Value(self._values - 1, dtype, ranges)

    # ---- index arithmetic

    def literal(self, value: Scalar, dtype: DType) -> Expr:
        """Return a constant of a data type."""
        key = (e.Literal, value.hex() if isinstance(value, float) else value, dtype)
        return self._table.get(key) or self._intern(key, e.Literal(dtype, 0, value))

    def index(self, value: int) -> Expr:
        """Return a constant index."""
        key = (e.Literal, value, INDEX)
        return self._table.get(key) or self._intern(key, e.Literal(INDEX, 0, value), value, value)

    def ref(self, range_: e.Range) -> Expr:
        """Return the value of a range; a range of size 1 is always 0."""
        if range_.size == 1:
            return self.index(0)
        key = (e.RangeRef, range_)
        return self._table.get(key) or self._intern(key, e.RangeRef(INDEX, range_.bit, range_), 0, range_.size - 1)

    def affine(self, terms: Iterable[tuple[Expr, int]], constant: int = 0) -> Expr:
        """Return ``constant + sum of factor * term`` for any index terms."""
        factors: dict[Expr, int] = {}
        for term, factor in terms:
            if isinstance(term, e.Affine):
                constant += term.constant * factor
                for inner, inner_factor in term.terms:
                    factors[inner] = factors.get(inner, 0) + inner_factor * factor
            elif isinstance(term, e.Literal):
                constant += int(term.value) * factor
            else:
                factors[term] = factors.get(term, 0) + factor
        constant += self._recombine(factors)
        items = sorted(((term, factor) for term, factor in factors.items() if factor), key=lambda item: item[0].serial)
        if not items:
            return self.index(constant)
        if len(items) == 1 and items[0][1] == 1 and constant == 0:
            return items[0][0]
        key = (e.Affine, tuple(items), constant)
        found = self._table.get(key)
        if found is not None:
            return found
        low = high = constant
        free = 0
        for term, factor in items:
            free |= term.free
            low += factor * (term.low if factor > 0 else term.high)
            high += factor * (term.high if factor > 0 else term.low)
        return self._intern(key, e.Affine(INDEX, free, tuple(items), constant), low, high)

    def _recombine(self, factors: dict[Expr, int]) -> int:
        """Undo divisions in place and return the constant that this brings to light.

        ``c*k*(x // c) + k*(x % c)`` is ``k*x``, and ``a*k*((x // a) % b) + k*(x % a)`` is ``k*(x % (a*b))``.
        """
        constant = 0
        pending = [term for term, factor in factors.items() if factor and isinstance(term, e.Remainder)]
        while pending:
            low = pending.pop()
            factor = factors.get(low, 0)
            if not factor or not isinstance(low, e.Remainder):
                continue
            quotient = self.divide(low.x, low.divisor)
            scale = factor * low.divisor
            whole: Expr | None = None
            if factors.get(quotient, 0) == scale:
                del factors[quotient]
                whole = low.x
            else:
                for high, high_factor in factors.items():
                    if high_factor == scale and isinstance(high, e.Remainder) and high.x is quotient:
                        del factors[high]
                        whole = self.modulo(low.x, low.divisor * high.divisor)
                        break
            if whole is None:
                continue
            del factors[low]
            if isinstance(whole, e.Affine):
                constant += whole.constant * factor
            for term, inner in whole.terms if isinstance(whole, e.Affine) else ((whole, 1),):
                factors[term] = factors.get(term, 0) + inner * factor
                if isinstance(term, e.Remainder):
                    pending.append(term)
        return constant

    def add(self, x: Expr, y: Expr) -> Expr:
        """Return the sum of two indices."""
        return self.affine(((x, 1), (y, 1)))

    def scale(self, x: Expr, factor: int) -> Expr:
        """Return ``x * factor``."""
        return self.affine(((x, factor),))

    def shift(self, x: Expr, constant: int) -> Expr:
        """Return ``x + constant``."""
        return self.affine(((x, 1),), constant)

    def divide(self, x: Expr, divisor: int) -> Expr:
        """Return ``x // divisor``, rounded down."""
        if divisor == 1:
            return x
        if x.low // divisor == x.high // divisor:
            return self.index(x.low // divisor)
        whole, rest = self._separate(x, divisor)
        if whole:
            return self.affine([*whole, (self.divide(rest, divisor), 1)])
        coarse = self._coarsen(rest, divisor)
        if coarse is not None:
            return self.divide(coarse[1], divisor // coarse[0])
        if isinstance(rest, e.Quotient):
            return self.divide(rest.x, rest.divisor * divisor)
        if isinstance(rest, e.Remainder) and rest.divisor % divisor == 0:
            return self.modulo(self.divide(rest.x, divisor), rest.divisor // divisor)
        key = (e.Quotient, rest, divisor)
        return self._table.get(key) or self._intern(
            key, e.Quotient(INDEX, rest.free, rest, divisor), rest.low // divisor, rest.high // divisor
        )

    def modulo(self, x: Expr, divisor: int) -> Expr:
        """Return ``x % divisor``, not negative."""
        if divisor == 1:
            return self.index(0)
        if x.low // divisor == x.high // divisor:
            return self.shift(x, -(x.low // divisor) * divisor)
        _, rest = self._separate(x, divisor)
        if rest is not x:
            return self.modulo(rest, divisor)
        coarse = self._coarsen(rest, divisor)
        if coarse is not None:
            unit, inner, small = coarse
            return self.affine(((self.modulo(inner, divisor // unit), unit), (small, 1)))
        if isinstance(rest, e.Remainder) and rest.divisor % divisor == 0:
            return self.modulo(rest.x, divisor)
        key = (e.Remainder, rest, divisor)
        return self._table.get(key) or self._intern(key, e.Remainder(INDEX, rest.free, rest, divisor), 0, divisor - 1)

    def within(self, x: Expr, size: int) -> Expr:
        """Return `x` as an index of which 0 <= x < `size` is known wherever it is used, masked as such uses are."""
        if x.low >= 0 and x.high < size:
            return x
        key = (e.Within, x, size)
        return self._table.get(key) or self._intern(key, e.Within(INDEX, x.free, x), 0, size - 1)

    def _coarsen(self, x: Expr, divisor: int) -> tuple[int, Expr, Expr] | None:
        """Return (unit, inner, small): ``x == unit * inner + small``, 0 <= small < unit, unit > 1 divides `divisor`."""
        if not isinstance(x, e.Affine):
            return None
        for unit in sorted({math.gcd(divisor, factor) for _, factor in x.terms} - {1}, reverse=True):
            small = self.affine([(term, factor) for term, factor in x.terms if factor % unit], x.constant % unit)
            if small.low >= 0 and small.high < unit:
                return (
                    unit,
                    self.affine(
                        [(term, factor // unit) for term, factor in x.terms if factor % unit == 0], x.constant // unit
                    ),
                    small,
                )
        return None

    def _separate(self, x: Expr, divisor: int) -> tuple[list[tuple[Expr, int]], Expr]:
        """Return (terms of the multiple of `divisor` in x, divided by it; the rest, with the least constant that does).

        The rest is not negative: devices round quotients toward zero, not down.
        """
        if not isinstance(x, e.Affine):
            return [], x
        whole = [(term, factor // divisor) for term, factor in x.terms if factor % divisor == 0]
        carry = x.constant // divisor
        rest = self.affine([(term, factor) for term, factor in x.terms if factor % divisor], x.constant % divisor)
        if rest.low < 0:
            lift = -(rest.low // divisor)
            rest = self.shift(rest, lift * divisor)
            carry -= lift
        if not whole and not carry:
            return [], x
        if carry:
            whole.append((self.index(carry), 1))
        return whole, rest

    def flatten(self, indices: Sequence[Expr], shape: Sequence[int]) -> Expr:
        """Return the row-major position of the point `indices` in `shape`."""
        terms = []
        step = 1
        for index, size in zip(reversed(indices), reversed(shape), strict=True):
            terms.append((index, step))
            step *= size
        return self.affine(terms)

    def unflatten(self, position: Expr, shape: Sequence[int]) -> tuple[Expr, ...]:
        """Return the point of `shape` at a row-major position."""
        result = []
        for size in reversed(shape[1:]):
            result.append(self.modulo(position, size))
            position = self.divide(position, size)
        if shape:
            result.append(position)
        return tuple(reversed(result))

    # ---- tests

    def non_negative(self, x: Expr) -> Expr:
        """Return whether the index `x` is >= 0."""
        if x.low >= 0:
            return self.true
        if x.high < 0:
            return self.false
        if isinstance(x, e.Affine):  # in units of the factors' common divisor
            common = math.gcd(*(factor for _, factor in x.terms))
            if common > 1:
                return self.non_negative(
                    self.affine([(term, factor // common) for term, factor in x.terms], x.constant // common)
                )
        key = (e.NonNegative, x)
        return self._table.get(key) or self._intern(key, e.NonNegative(dtypes.bool_, x.free, x))

    def is_zero(self, x: Expr) -> Expr:
        """Return whether the index `x` is 0."""
        if x.low > 0 or x.high < 0:
            return self.false
        if x.low == x.high == 0:
            return self.true
        key = (e.IsZero, x)
        return self._table.get(key) or self._intern(key, e.IsZero(dtypes.bool_, x.free, x))

    def less(self, x: Expr, limit: int) -> Expr:
        """Return whether the index `x` is below a constant."""
        return self.non_negative(self.affine(((x, -1),), limit - 1))

    def both(self, x: Expr | None, y: Expr | None) -> Expr | None:
        """Return the conjunction of two masks, None meaning always."""
        if x is None or x is self.true:
            return None if y is self.true else y
        if y is None or y is self.true or x is y:
            return x
        return self.binary(BinaryOp.AND, x, y)

    def opaque(self, free: int, size: int) -> Expr:
        """Return an index of which nothing is known but the ranges it depends on, and that it is below `size`.

        It stands for an index read from memory while a kernel is planned; it cannot be computed.
        """
        key = (e.Opaque, free, size, len(self._table))
        return self._intern(key, e.Opaque(INDEX, free), 0, size - 1)

    # ---- data

    def read(self, param: e.Param, index: Expr, mask: Expr | None = None) -> Expr:
        """Return element `index` of a buffer, 0 where the mask is false."""
        if mask is self.true:
            mask = None
        if mask is self.false:
            return self.literal(param.dtype.to_scalar(0), param.dtype)
        key = (e.Read, param, index, mask)
        free = index.free | (mask.free if mask is not None else 0)
        return self._table.get(key) or self._intern(key, e.Read(param.dtype, free, param, index, mask))

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
        return self._intern(key, e.Ref(value.dtype, free, value, indices, mask))

    def reduction(self, op: ReduceOp, body: Expr, ranges: tuple[e.Range, ...]) -> Expr:
        """Return `body` combined over `ranges`."""
        bound = 0
        for range_ in ranges:
            bound |= range_.bit
        key = (e.Reduction, op, body, ranges)
        return self._table.get(key) or self._intern(key, e.Reduction(body.dtype, body.free & ~bound, op, body, ranges))

    def unary(self, op: UnaryOp, x: Expr) -> Expr:
        """Return `op` of `x`."""
        if isinstance(x, e.Literal):
            folded = fold_unary(op, x.value, x.dtype)
            if folded is not None:
                return self.literal(folded, x.dtype)
        key = (e.Apply1, op, x)
        return self._table.get(key) or self._intern(key, e.Apply1(x.dtype, x.free, op, x))

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
        return self._table.get(key) or self._intern(key, e.Apply2(dtype, x.free | y.free, op, x, y))

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

    def select(self, condition: Expr, x: Expr, y: Expr) -> Expr:
        """Return `x` where `condition` holds, else `y`."""
        if isinstance(condition, e.Literal):
            return x if condition.value else y
        if x is y:
            return x
        key = (e.Select, condition, x, y)
        return self._table.get(key) or self._intern(
            key, e.Select(x.dtype, condition.free | x.free | y.free, condition, x, y)
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
        key = (e.Convert, x, dtype)
        found = self._table.get(key)
        if found is not None:
            return found
        low, high = UNBOUNDED if dtype is INDEX else (0, 0)
        if dtype is INDEX and x.dtype.is_integer and x.dtype.bits < 64:
            low, high = int(x.dtype.min), int(x.dtype.max)
        return self._intern(key, e.Convert(dtype, x.free, x), low, high)

    def reinterpret(self, x: Expr, dtype: DType) -> Expr:
        """Return the bits of `x` read as `dtype`."""
        if dtype is x.dtype:
            return x
        key = (e.Reinterpret, x, dtype)
        return self._table.get(key) or self._intern(key, e.Reinterpret(dtype, x.free, x))

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
            missing = [child for child in e.children(current) if child.free & bits and child not in memo]
            if missing:
                stack.extend(missing)
                continue
            memo[current] = self.with_children(current, [memo.get(child, child) for child in e.children(current)])
            stack.pop()
        return memo[root]

    def with_children(self, expr: Expr, new: Sequence[Expr]) -> Expr:
        """Return `expr` over other children, which come in the order of `zyx.ir.expr.children`."""
        match expr:
            case e.Literal() | e.RangeRef() | e.Opaque():
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
