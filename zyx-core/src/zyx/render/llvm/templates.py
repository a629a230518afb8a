"""The templates of operations, made once and kept in the form that `str.format` fills in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.errors import UnsupportedError
from zyx.kernel import data as k
from zyx.ops import BinaryOp
from zyx.render.llvm import casts, math

if TYPE_CHECKING:
    from zyx.dtype import DType, Scalar
    from zyx.kernel.data import Type, ValueId
    from zyx.render.llvm.machine import Machine

#: Operations whose template depends on whether the second operand is a constant.
_GUARDED: Final = frozenset(op.value for op in (BinaryOp.DIV, BinaryOp.MOD, BinaryOp.SHL, BinaryOp.SHR))


class Templates:
    """Templates for one processor. Keys hold names of operations, since hashing an enum's member takes longer."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._unary: dict[tuple[str, Type], str] = {}
        self._binary: dict[tuple[object, ...], str] = {}
        self._mad: dict[Type, str] = {}
        self._casts: dict[tuple[Type, DType, bool], str] = {}
        self._masks: dict[tuple[int, ...], str] = {}

    def unary(self, op: k.Unary) -> str:
        """Return the template of a unary operation."""
        key = (op.op._value_, op.type)
        found = self._unary.get(key)
        if found is None:
            found = self._unary[key] = compiled(math.unary(op.op, op.type), f"{op.op.value} of {op.type}")
        return found

    def binary(self, op: k.Binary, type_: Type, ops: tuple[k.Op, ...]) -> str:
        """Return the template of a binary operation on operands of `type_`."""
        key: tuple[object, ...] = (op.op._value_, type_)
        found = self._binary.get(key)
        if found is not None:
            return found
        constant = None
        if op.op._value_ in _GUARDED and not type_.dtype.is_float:
            constant = constant_value(op.y, ops)
            key = (*key, constant)
            found = self._binary.get(key)
        if found is None:
            template = math.binary(op.op, type_, constant)
            found = self._binary[key] = compiled(template, f"{op.op.value} of {type_}")
        return found

    def mad(self, type_: Type) -> str:
        """Return the template of a multiply-add."""
        found = self._mad.get(type_)
        if found is None:
            found = self._mad[type_] = compiled(math.multiply_add(type_, self.machine), f"mad of {type_}")
        return found

    def cast(self, source: Type, target: DType) -> str:
        """Return the template of a conversion."""
        found = self._casts.get((source, target, False))
        if found is None:
            found = compiled(casts.cast(source, target, self.machine), "cast")
            self._casts[source, target, False] = found
        return found

    def bitcast(self, source: Type, target: DType) -> str:
        """Return the template of a reading of bits as another dtype."""
        found = self._casts.get((source, target, True))
        if found is None:
            found = self._casts[source, target, True] = compiled(casts.bitcast(source, target), "bitcast")
        return found

    def shuffle_mask(self, lanes: tuple[int, ...]) -> str:
        """Return the constant that picks `lanes`."""
        found = self._masks.get(lanes)
        if found is None:
            found = f"<{len(lanes)} x i32> <{', '.join(f'i32 {lane}' for lane in lanes)}>"
            self._masks[lanes] = found
        return found


def compiled(template: str | None, what: str) -> str:
    """Return a template in the form that `str.format` fills in: result, x, y, z.

    Raises:
        UnsupportedError: There is none.
    """
    if template is None:
        raise UnsupportedError(f"there is no native form of {what}")
    for number, name in enumerate(("$n", "$x", "$y", "$z")):
        template = template.replace(name, f"{{{number}}}")
    return "  " + template.replace("\n", "\n  ")


def constant_value(value: ValueId, ops: tuple[k.Op, ...]) -> Scalar | None:
    """Return the constant that `value` is in all lanes, None if it is none."""
    op = ops[value]
    if isinstance(op, k.Vectorize) and len(set(op.items)) == 1:
        op = ops[op.items[0]]
    return op.value if isinstance(op, k.Const) else None
