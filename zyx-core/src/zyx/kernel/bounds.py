"""What is known of each integer value of a kernel: a range, and how it is made of others.

Operations are added one at a time, in order, as a pass or a check walks over them; since values never change and
regions nest, one walk is enough. Two descriptions are kept:

* ranges (`range_of`), computed for every integer and bool value at once, by `zyx.arithmetic.intervals`;
* forms (`form`), computed when somebody asks: a sum of multiples of atoms, lane by lane. Atoms are values that are no
  such sum: grid positions, loop variables, loaded values, quotients, remainders. A form equals its value modulo
  2**bits; where the form's own bounds fit the dtype, they are equal.

Inside `If`, what the condition says holds: it gives facts, by which `zyx.arithmetic.inequalities` bounds forms.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from zyx.arithmetic import affine
from zyx.arithmetic.inequalities import Inequalities
from zyx.arithmetic.intervals import UNKNOWN_BOOL, Range, binary_range, cast_range, full_range, unary_range, union
from zyx.kernel import data as k
from zyx.ops import COMPARISONS, BinaryOp, UnaryOp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from zyx.arithmetic.affine import Form
    from zyx.kernel.data import Op, ValueId

#: A comparison of a lane of two integers.
Comparison: TypeAlias = "tuple[BinaryOp, ValueId, ValueId, int]"

#: Operations that a form is traced through, one below the other: more are rare, and would fill Python's stack.
MAX_DEPTH: Final = 100


@dataclass(slots=True)
class _Assumption:
    """What is known only since some condition was assumed.

    Attributes:
        start: Number of operations there were.
        forms: Forms computed since, which may be wrong without the condition.
        ranges: Ranges of older values, as the condition narrows them.
    """

    start: int
    forms: dict[tuple[ValueId, int], tuple[Form, bool]] = field(default_factory=dict)
    ranges: dict[ValueId, Range] = field(default_factory=dict)


class Bounds:
    """The ranges and forms of the values of a growing list of operations.

    Attributes:
        ops: The operations added so far.
        ranges: For each, where its value lies, whatever the lane; None if it is no integer and no bool.
    """

    def __init__(self, ops: Iterable[Op] = ()) -> None:
        self.ops: list[Op] = []
        self.ranges: list[Range | None] = []
        self._forms: dict[tuple[ValueId, int], tuple[Form, bool]] = {}
        self.inequalities = Inequalities()
        self._regions: list[bool] = []
        self._assumptions: list[_Assumption] = []
        for op in ops:
            self.add(op)

    def add(self, op: Op) -> None:
        """Take in the next operation."""
        handler = _RANGES.get(type(op))
        range_ = None if handler is None else handler(self, op)
        self.ops.append(op)
        self.ranges.append(range_)

    def predict(self, op: k.Pure) -> Range | None:
        """Return the range that a pure operation would have here; None if it is no integer and no bool."""
        return _RANGES[type(op)](self, op)

    def type_of(self, value: ValueId) -> k.Type:
        """Return the type of a value."""
        op = self.ops[value]
        assert isinstance(op, k.Value), f"%{value} is no value: {op}"
        return op.type

    # ---- ranges

    def range_of(self, value: ValueId) -> Range:
        """Return where an integer or bool lies in all lanes, given what open `If`s and assumptions say about it."""
        known = self._range(value)
        assert known is not None, f"%{value} is no integer"
        return known

    def _range(self, value: ValueId) -> Range | None:
        known = self.ranges[value]
        if not self._assumptions or known is None or known[0] == known[1] or value >= self._assumptions[-1].start:
            return known
        for assumption in self._assumptions:
            known = assumption.ranges.get(value, known)
        newest = self._assumptions[-1].ranges
        if value not in newest:
            type_ = self.type_of(value)
            if type_.lanes == 1 and type_.dtype.is_integer:
                form, _ = self.exact_form(value)
                low = max(known[0], self.inequalities.minimum(form))
                high = min(known[1], self.inequalities.maximum(form))
                known = (low, high) if low <= high else known  # a contradiction: nothing runs here
            newest[value] = known
        return known

    def decide(self, op: BinaryOp, x: ValueId, y: ValueId, lane: int = 0) -> bool | None:
        """Return whether the comparison of two integers holds, None if it is not known."""
        difference = affine.add(self.exact_form(x, lane)[0], self.exact_form(y, lane)[0], -1)
        low, high = self.inequalities.minimum(difference), self.inequalities.maximum(difference)
        match op:
            case BinaryOp.LT:
                return True if high < 0 else False if low >= 0 else None
            case BinaryOp.LE:
                return True if high <= 0 else False if low > 0 else None
            case BinaryOp.EQ | BinaryOp.NE:
                if low > 0 or high < 0:
                    return op is BinaryOp.NE
                return op is BinaryOp.EQ if low == high == 0 else None
            case _:
                raise AssertionError(f"{op} is no comparison")

    # ---- facts

    @contextmanager
    def assuming(self, condition: ValueId, lane: int = 0) -> Iterator[None]:
        """Within the context, take `lane` of the bool `condition` to be true."""
        self._assume(condition, lane, holds=True)
        try:
            yield
        finally:
            self._forget()

    @property
    def is_contradictory(self) -> bool:
        """Whether what is assumed cannot be, so that the current point is never reached."""
        return self.inequalities.is_contradictory

    def _assume(self, condition: ValueId, lane: int, *, holds: bool) -> None:
        self._assumptions.append(_Assumption(len(self.ops)))
        mark = self.inequalities.mark()
        comparisons: list[Comparison] = []
        mark.is_contradictory = not self._collect(condition, lane, holds, comparisons, 0)
        # Some comparisons say more once others are known, for their operands then are known not to wrap.
        for _ in range(2):
            for comparison in comparisons:
                self.inequalities.learn(self._facts_of(*comparison))
            self.inequalities.narrow_extremes()
        self.inequalities.narrow_quotients()
        self.inequalities.narrow_products()

    def _forget(self) -> None:
        self._assumptions.pop()
        self.inequalities.release()

    def _collect(self, condition: ValueId, lane: int, holds: bool, found: list[Comparison], depth: int) -> bool:
        """Find integer comparisons that hold if `condition` is as `holds` says; return False if it cannot be."""
        known = self.ranges[condition]
        if known is not None and known[0] == known[1]:
            return bool(known[0]) is holds
        type_ = self.type_of(condition)
        if type_.lanes == 1:
            self._assumptions[-1].ranges[condition] = (int(holds), int(holds))
        parts: list[tuple[ValueId, int, bool]] = []
        match self.ops[condition]:
            case k.Binary(op=op, x=x, y=y) if self.type_of(x).dtype.is_bool:
                if op in ((BinaryOp.AND, BinaryOp.MIN) if holds else (BinaryOp.OR, BinaryOp.MAX)):
                    parts = [(x, lane, holds), (y, lane, holds)]
            case k.Binary(op=op, x=x, y=y) if op in COMPARISONS and self.type_of(x).dtype.is_integer:
                found.append((op, x, y, lane) if holds else _negated(op, x, y, lane))
            case k.Unary(op=UnaryOp.NOT, x=x):
                parts = [(x, lane, not holds)]
            case k.Where(condition=first, x=x, y=y) if holds and self.ranges[y] == (0, 0):
                parts = [(first, lane if self.type_of(first).lanes == type_.lanes else 0, True), (x, lane, True)]
            case k.Vectorize(items=items):
                parts = [(items[lane], 0, holds)]
            case k.Devectorize(x=x, lane=picked):
                parts = [(x, picked, holds)]
            case k.Shuffle():
                parts = [(*self._shuffled(condition, lane), holds)]
            case _:
                pass
        return depth > MAX_DEPTH or all([self._collect(*part, found, depth + 1) for part in parts])

    def _facts_of(self, op: BinaryOp, x: ValueId, y: ValueId, lane: int) -> list[Form]:
        """Return forms that are at most 0 if the comparison holds."""
        difference = affine.add(self.exact_form(x, lane)[0], self.exact_form(y, lane)[0], -1)
        match op:
            case BinaryOp.LT:
                return [affine.shift(difference, 1)]
            case BinaryOp.LE:
                return [difference]
            case BinaryOp.EQ:
                return [difference, affine.scale(difference, -1)]
            case _:  # NE bounds something only at the end of its range
                low, high = self.inequalities.box(difference)
                if low == 0:
                    return [affine.shift(affine.scale(difference, -1), 1)]
                return [affine.shift(difference, 1)] if high == 0 else []

    # ---- forms

    def exact_form(self, value: ValueId, lane: int = 0, depth: int = 0) -> tuple[Form, bool]:
        """Return a form equal to a lane of an integer value, and whether assumptions may lead to a better one."""
        form, is_weak = self.form(value, lane, depth)
        low, high = self.inequalities.box(form)
        dtype = self.type_of(value).dtype
        if not (dtype.min <= low and high <= dtype.max) and self._assumptions:
            low, high = self.inequalities.minimum(form), self.inequalities.maximum(form)
        if dtype.min <= low and high <= dtype.max:
            return form, is_weak
        return self._itself(value, lane), True

    def form(self, value: ValueId, lane: int = 0, depth: int = 0) -> tuple[Form, bool]:
        """Return a form congruent to a lane of an integer value modulo 2**bits, and whether it may get better.

        What follows from assumptions made after the value was defined is forgotten with them.
        """
        key = value, lane
        found = self._forms.get(key)
        later = [assumption.forms for assumption in self._assumptions if assumption.start > value]
        for forms in later:
            found = forms.get(key, found) if found is None or found[1] else found
        if found is not None and (not found[1] or not later or key in later[-1]):
            return found
        made = (self._itself(value, lane), True) if depth > MAX_DEPTH else self._make_form(value, lane, depth + 1)
        (later[-1] if later else self._forms)[key] = made
        return made

    def _make_form(self, value: ValueId, lane: int, depth: int) -> tuple[Form, bool]:
        match self.ops[value]:
            case k.Const(value=constant):
                return affine.literal(int(constant)), False
            case k.Unary(op=UnaryOp.NEG | UnaryOp.NOT as op, x=x, type=type_) if type_.dtype.is_integer:
                form, is_weak = self.form(x, lane, depth)
                form = affine.scale(form, -1)
                return (form if op is UnaryOp.NEG else affine.shift(form, -1)), is_weak
            case k.Binary(op=op, x=x, y=y) if op not in COMPARISONS:
                return self._binary_form(op, x, y, value, lane, depth)
            case k.Mad(x=x, y=y, z=z):
                product, is_weak = self._product(x, y, lane, depth)
                added, added_is_weak = self.form(z, lane, depth)
                return affine.add(product, added), is_weak or added_is_weak
            case k.Cast(x=x, type=type_) | k.Bitcast(x=x, type=type_) if type_.dtype.is_integer:
                source = self.type_of(x).dtype
                if source.is_integer:
                    if type_.dtype.bits > source.bits:
                        return self.exact_form(x, lane, depth)
                    form, is_weak = self.form(x, lane, depth)
                    low, high = self.inequalities.box(form)
                    # What may wrap is a value of its own: comparisons of the result say nothing of the source.
                    fits = type_.dtype.min <= low and high <= type_.dtype.max
                    return (form, is_weak) if fits else (self._itself(value, lane), True)
            case k.Where(condition=condition, x=x, y=y):
                known = self._range(condition)
                if known is not None and known[0] == known[1]:
                    form, _ = self.form(x if known[0] else y, lane, depth)
                    return form, True
            case k.Vectorize(items=items):
                return self.form(items[lane], 0, depth)
            case k.Devectorize(x=x, lane=picked):
                return self.form(x, picked, depth)
            case k.Shuffle():
                return self.form(*self._shuffled(value, lane), depth)
            case _:
                return self._itself(value, lane), False
        return self._itself(value, lane), True

    def _binary_form(
        self, op: BinaryOp, x: ValueId, y: ValueId, value: ValueId, lane: int, depth: int
    ) -> tuple[Form, bool]:
        match op:
            case BinaryOp.ADD | BinaryOp.SUB:
                (left, left_is_weak), (right, right_is_weak) = self.form(x, lane, depth), self.form(y, lane, depth)
                return affine.add(left, right, 1 if op is BinaryOp.ADD else -1), left_is_weak or right_is_weak
            case BinaryOp.MUL:
                return self._product(x, y, lane, depth)
            case BinaryOp.SHL:
                distance, _ = self.form(y, lane, depth)
                if not distance.terms and 0 <= distance.constant < self.type_of(x).dtype.bits:
                    left, is_weak = self.form(x, lane, depth)
                    return affine.scale(left, 1 << distance.constant), is_weak
            case BinaryOp.DIV | BinaryOp.MOD | BinaryOp.SHR | BinaryOp.AND:
                divisor = self._divisor(op, x, y, lane, depth)
                if divisor is not None:
                    dividend, is_weak = self.exact_form(x, lane, depth)
                    if op in (BinaryOp.SHR, BinaryOp.AND) or self.inequalities.minimum(dividend) >= 0:
                        results = self.inequalities.quotient_and_remainder(dividend, divisor)
                        form = results[0] if op in (BinaryOp.DIV, BinaryOp.SHR) else results[1]
                        return form, is_weak or bool(form.terms)
            case BinaryOp.MAX | BinaryOp.MIN:
                (left, _), (right, _) = self.exact_form(x, lane, depth), self.exact_form(y, lane, depth)
                return self.inequalities.extreme(left, right, greatest=op is BinaryOp.MAX), True
            case _:
                pass
        return self._itself(value, lane), True

    def _product(self, x: ValueId, y: ValueId, lane: int, depth: int) -> tuple[Form, bool]:
        (left, left_is_weak), (right, right_is_weak) = self.form(x, lane, depth), self.form(y, lane, depth)
        if not right.terms:
            return affine.scale(left, right.constant), left_is_weak
        if not left.terms:
            return affine.scale(right, left.constant), right_is_weak
        return self.inequalities.product(self.exact_form(x, lane, depth)[0], self.exact_form(y, lane, depth)[0]), True

    def _divisor(self, op: BinaryOp, x: ValueId, y: ValueId, lane: int, depth: int) -> int | None:
        """Return the positive constant that `op` divides by, rounding down, or None."""
        form, _ = self.form(y, lane, depth)
        constant = form.constant
        if form.terms:
            return None
        if op is BinaryOp.SHR:
            return 1 << constant if 0 <= constant < self.type_of(x).dtype.bits else None
        if op is BinaryOp.AND:
            return constant + 1 if constant > 0 and constant & (constant + 1) == 0 else None
        return constant if constant > 0 else None

    def _itself(self, value: ValueId, lane: int) -> Form:
        """Return the atom of a value of which nothing else is known; a lane that was put there is what was put."""
        op = self.ops[value]
        while isinstance(op, k.Vectorize | k.Devectorize | k.Shuffle):
            match op:
                case k.Vectorize(items=items):
                    value, lane = items[lane], 0
                case k.Devectorize(x=x, lane=picked):
                    value, lane = x, picked
                case k.Shuffle():
                    value, lane = self._shuffled(value, lane)
            op = self.ops[value]
        range_ = self.ranges[value]
        assert range_ is not None, f"%{value} is no integer"
        return self.inequalities.atom((value, lane), range_)

    def _shuffled(self, value: ValueId, lane: int) -> tuple[ValueId, int]:
        """Return which lane of which operand a `Shuffle` takes."""
        op = self.ops[value]
        assert isinstance(op, k.Shuffle)
        lanes = self.type_of(op.x).lanes
        picked = op.lanes[lane]
        return (op.x, picked) if picked < lanes else (op.y, picked - lanes)

    # ---- ranges of operations

    def _open_loop(self, op: k.Loop) -> Range:
        self._regions.append(False)
        return 0, max(op.size - 1, 0)

    def _open_if(self, op: k.If) -> None:
        self._regions.append(True)
        self._assume(op.condition, 0, holds=True)

    def _close(self, op: k.EndLoop | k.EndIf) -> None:
        if self._regions.pop():
            self._forget()

    def _any_range(self, op: k.Variable | k.Load | k.Swap) -> Range | None:
        dtype = op.type.dtype
        return None if dtype.is_float else full_range(dtype)

    def _const_range(self, op: k.Const) -> Range | None:
        return None if isinstance(op.value, float) else (int(op.value), int(op.value))

    def _unary_range(self, op: k.Unary) -> Range | None:
        x = self._range(op.x)
        return None if x is None else unary_range(op.op, x, op.type.dtype)

    def _binary_range(self, op: k.Binary) -> Range | None:
        x, y = self._range(op.x), self._range(op.y)
        if x is None or y is None:
            return UNKNOWN_BOOL if op.type.dtype.is_bool else None
        return binary_range(op.op, x, y, self.type_of(op.x).dtype)

    def _where_range(self, op: k.Where) -> Range | None:
        x, y = self._range(op.x), self._range(op.y)
        if x is None or y is None:
            return None
        condition = self._range(op.condition)
        if condition is not None and condition[0] == condition[1]:
            return x if condition[0] else y
        return union(x, y)

    def _cast_range(self, op: k.Cast | k.Bitcast) -> Range | None:
        dtype = op.type.dtype
        if dtype.is_float:
            return None
        x = self._range(op.x)
        return full_range(dtype) if x is None else cast_range(x, dtype)

    def _mad_range(self, op: k.Mad) -> Range | None:
        x, y, z = self._range(op.x), self._range(op.y), self._range(op.z)
        if x is None or y is None or z is None:
            return None
        dtype = op.type.dtype
        return binary_range(BinaryOp.ADD, binary_range(BinaryOp.MUL, x, y, dtype), z, dtype)

    def _vector_range(self, op: k.Vectorize | k.Devectorize | k.Shuffle) -> Range | None:
        if op.type.dtype.is_float:
            return None
        ranges = [self.range_of(operand) for operand in dict.fromkeys(k.operands(op))]
        return min(low for low, _ in ranges), max(high for _, high in ranges)


def _negated(op: BinaryOp, x: ValueId, y: ValueId, lane: int) -> Comparison:
    """Return the comparison of integers that holds where this one does not."""
    match op:
        case BinaryOp.LT:
            return BinaryOp.LE, y, x, lane
        case BinaryOp.LE:
            return BinaryOp.LT, y, x, lane
        case _:
            return BinaryOp.NE if op is BinaryOp.EQ else BinaryOp.EQ, x, y, lane


def _index_range(bounds: Bounds, op: k.Index) -> Range:
    return 0, op.size - 1


_RANGES: Final[dict[type[Op], Callable[[Bounds, Any], Range | None]]] = {
    k.Variable: Bounds._any_range,
    k.Const: Bounds._const_range,
    k.Index: _index_range,
    k.Loop: Bounds._open_loop,
    k.EndLoop: Bounds._close,
    k.If: Bounds._open_if,
    k.EndIf: Bounds._close,
    k.Load: Bounds._any_range,
    k.Swap: Bounds._any_range,
    k.Unary: Bounds._unary_range,
    k.Binary: Bounds._binary_range,
    k.Where: Bounds._where_range,
    k.Cast: Bounds._cast_range,
    k.Bitcast: Bounds._cast_range,
    k.Mad: Bounds._mad_range,
    k.Vectorize: Bounds._vector_range,
    k.Devectorize: Bounds._vector_range,
    k.Shuffle: Bounds._vector_range,
}
