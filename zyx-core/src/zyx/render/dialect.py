"""What differs between the languages of the C family, as data.

Templates are `str.format` texts. In expressions ``{x}``, ``{y}`` and ``{z}`` are operands, which are names or literals.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from zyx.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx.dtype import DType
    from zyx.ops import BinaryOp, ReduceOp, UnaryOp


@dataclass(frozen=True, slots=True)
class VectorAccess:
    """How several neighbouring elements are loaded or stored at once.

    Attributes:
        type: Type of such a vector, with ``{element}`` and ``{lanes}``.
        load: Expression for one at ``{pointer}``, which is ``{position}`` of ``{array}``; has ``{type}``, ``{lanes}``,
            ``{element}``, and ``{space}``: ``global`` or ``local``, where the memory lies.
        store: Statement that writes ``{value}`` to ``{pointer}``; has the same names.
        make: Expression for one of ``{items}``, separated by commas.
        components: Suffix of each lane.
        max_bytes: Largest vector.
        needs_alignment: Whether addresses must be multiples of the vector's size.
    """

    type: str
    load: str
    store: str
    make: str
    components: tuple[str, ...]
    max_bytes: int = 16
    needs_alignment: bool = True


@dataclass(frozen=True, slots=True)
class Dialect:
    """A language.

    Attributes:
        name: For error texts.
        types: Type of a value of each dtype; a dtype that is not here is refused. float16 and bfloat16 may have the
            type of uint16: then they are moved as bits, and only casts look inside.
        memory_types: Type of an element in memory, where it differs from that of a value.
        suffixes: Suffix of literals.
        infinity, nan: Expressions for the constants, by dtype.
        preamble: Text before the kernel: helper functions and types.
        kernel: The kernel's declaration, up to the opening brace; has ``{name}``, ``{params}``, ``{threads}``, the
            number of threads of a group, and ``{shape}``, that number along each of three axes.
        pointer: A parameter that is a buffer; has ``{const}``, ``{element}`` and ``{name}``.
        constant: What stands for ``{const}`` if the buffer is only read.
        local_array: Declaration of memory shared by a group; has ``{element}``, ``{name}`` and ``{length}``.
        register_array: Declaration of memory of a thread.
        group_index: Position of the group on each axis.
        local_index: Position of the thread in its group on each axis.
        barrier: Statement; empty if a group is one thread.
        local_barrier: The same where threads pass nothing on in global memory; empty if that is no cheaper.
        meets_behind_branches: Whether a branch with barriers in it needs another one behind it.
        unary: Expressions for operations where the generic ones do not serve.
        binary: The same. For comparisons the dtype is that of the operands.
        casts: Expressions for conversions, by source and target.
        bitcasts: Expressions for reading bits as another dtype, by source and target; between integers a cast serves.
        fma: Expressions for multiply-adds that round once.
        atomics: Statements that combine ``{value}`` into memory at ``{pointer}``.
        exchange: Expression that puts ``{new}`` in place of ``{old}`` at ``{pointer}`` if it is still there, and gives
            what was there; by number of bits. Atomics without a statement of their own are made of it.
        swaps: Expressions for what the thread at ``{distance}``, by exclusive or, has as ``{x}``, by dtype.
        vector: Loads and stores of several elements; None if there are none.
        wmma: Statements for matrix products of a warp, by dimensions and dtype; ``{d}``, ``{a}``, ``{b}`` and ``{c}``
            are the lanes, separated by commas.
        signed_wraps: Whether overflow of signed integers is defined to wrap.
        choice: Expression for ``{y}`` where ``{x}`` holds, else ``{z}``.
        conditional: A statement that runs where a condition holds; has ``{condition}`` and ``{statement}``.
        definition: Definition of a variable that keeps its ``{value}``; has ``{type}`` and ``{name}``.
        variable: Declaration of a variable that can be written; has ``{type}`` and ``{name}``.
    """

    name: str
    types: Mapping[DType, str]
    infinity: Mapping[DType, str]
    nan: Mapping[DType, str]
    kernel: str
    pointer: str
    group_index: tuple[str, ...] = ()
    local_index: tuple[str, ...] = ()
    memory_types: Mapping[DType, str] = field(default_factory=dict)
    suffixes: Mapping[DType, str] = field(default_factory=dict)
    preamble: str = ""
    constant: str = "const "
    local_array: str = "{element} {name}[{length}];"
    register_array: str = "{element} {name}[{length}];"
    barrier: str = ""
    local_barrier: str = ""
    meets_behind_branches: bool = False
    unary: Mapping[tuple[UnaryOp, DType], str] = field(default_factory=dict)
    binary: Mapping[tuple[BinaryOp, DType], str] = field(default_factory=dict)
    casts: Mapping[tuple[DType, DType], str] = field(default_factory=dict)
    bitcasts: Mapping[tuple[DType, DType], str] = field(default_factory=dict)
    fma: Mapping[DType, str] = field(default_factory=dict)
    atomics: Mapping[tuple[ReduceOp, DType], str] = field(default_factory=dict)
    exchange: Mapping[int, str] = field(default_factory=dict)
    swaps: Mapping[DType, str] = field(default_factory=dict)
    vector: VectorAccess | None = None
    wmma: Mapping[tuple[tuple[int, int, int], DType], str] = field(default_factory=dict)
    signed_wraps: bool = False
    choice: str = "{x} ? {y} : {z}"
    conditional: str = "if ({condition}) {statement}"
    definition: str = "const {type} {name} = {value};"
    variable: str = "{type} {name};"

    def type_name(self, dtype: DType) -> str:
        """Return the type of a value.

        Raises:
            UnsupportedError: There is none.
        """
        name = self.types.get(dtype)
        if name is None:
            raise UnsupportedError(f"{self.name} has no {dtype}")
        return name

    def memory_type(self, dtype: DType) -> str:
        """Return the type of an element in memory; raise `UnsupportedError` if there is none."""
        return self.memory_types.get(dtype) or self.type_name(dtype)


class Forms(Protocol):
    """Operations on one element as templates of expressions, of which `zyx.render.scalar` has those of C.

    A template is None where there is none.
    """

    def unary(self, op: UnaryOp, dtype: DType, dialect: Dialect) -> str | None:
        """Return the template of `op`."""

    def binary(self, op: BinaryOp, dtype: DType, dialect: Dialect) -> str | None:
        """Return the template of `op` on two operands of `dtype`."""

    def multiply_add(self, dtype: DType, dialect: Dialect) -> str | None:
        """Return the template of ``x * y + z``."""

    def cast(self, source: DType, target: DType, dialect: Dialect) -> str | None:
        """Return the template of a conversion."""

    def bitcast(self, source: DType, target: DType, dialect: Dialect) -> str | None:
        """Return the template that reads the bits of a `source` as a `target`."""
