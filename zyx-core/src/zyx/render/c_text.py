"""What the writers of the C family share: statements, names, types, and operations lane by lane."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from zyx.errors import UnsupportedError
from zyx.kernel import data as k
from zyx.kernel.bounds import Bounds
from zyx.kernel.registers import register_arrays
from zyx.render import scalar
from zyx.render.literals import literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.arithmetic.intervals import Range
    from zyx.dtype import DType, Scalar
    from zyx.kernel.data import Kernel, Type, ValueId
    from zyx.render.dialect import Dialect, Forms

#: The variables or literals that a value consists of, one a lane.
Parts: TypeAlias = "tuple[str, ...]"


class TextWriter:
    """The text of one kernel, while it is written.

    Attributes:
        lines: Statements so far; `depth` is how far they are indented.
        values: What each operation's result is called; for arrays, the name of the memory.
        variables: Register arrays that are variables, not memory.
    """

    #: Operations on one element as expressions. A language in which these are not those of C has its own.
    forms: ClassVar[Forms] = scalar

    def __init__(self, kernel: Kernel, dialect: Dialect) -> None:
        self.kernel = kernel
        self.ops = kernel.ops
        self.dialect = dialect
        self.lines: list[str] = []
        self.depth = 1
        self.values: list[Parts] = [()] * len(kernel.ops)
        self.variables = register_arrays(kernel)

    def line(self, text: str) -> None:
        """Append a statement."""
        self.lines.append("    " * self.depth + text)

    def let(self, name: str, type_: str, expression: str) -> None:
        """Append the definition of a variable."""
        self.line(self.dialect.definition.format(type=type_, name=name, value=expression))

    def type_of(self, value: ValueId) -> Type:
        """Return the type of a value."""
        op = self.ops[value]
        assert isinstance(op, k.Value)
        return op.type

    @cached_property
    def ranges(self) -> Sequence[Range | None]:
        """Where each operation's result is known to lie, if that is an integer."""
        return Bounds(self.ops).ranges

    def is_within(self, value: ValueId, end: int) -> bool:
        """Whether an integer is known to be from 0 to `end` - 1."""
        low, high = self.ranges[value] or (0, end)
        return low >= 0 and high < end

    def type_name(self, type_: Type) -> str:
        """Return the type of a variable that holds a part of a value."""
        return self.element_name(type_.dtype)

    def element_name(self, dtype: DType) -> str:
        """Return the type of one element as a value."""
        return self.dialect.type_name(dtype)

    def names(self, i: int, type_: Type) -> Parts:
        """Return the names of the variables that operation `i` defines."""
        return (f"v{i}",) if type_.lanes == 1 else tuple(f"v{i}_{lane}" for lane in range(type_.lanes))

    def array(self, array: ValueId) -> k.Define:
        """Return the definition of an array."""
        op = self.ops[array]
        assert isinstance(op, k.Define)
        return op

    def elementwise(self, i: int, type_: Type, template: str | None, what: str, *operands: ValueId) -> None:
        """Define a value by a template, part by part."""
        if template is None:
            raise UnsupportedError(f"{self.dialect.name} has no native form of {what}")
        names = self.values[i] = self.names(i, type_)
        type_name = self.type_name(type_)
        parts = [self.values[operand] for operand in operands]
        for lane, name in enumerate(names):
            at = [part[lane] if len(part) > 1 else part[0] for part in parts]
            self.let(name, type_name, template.format(**dict(zip("xyz", at, strict=False))))

    def literal(self, value: Scalar, dtype: DType) -> str:
        """Return a constant as an expression."""
        return literal(value, dtype, self.dialect)

    def converted(self, type_: str, value: str) -> str:
        """Return an integer as one of another type."""
        return f"({type_}){value}"
