"""Rules 6 to 11 of `zyx.kernel.verify`: shapes of arrays, types of values, of accesses and of conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel.breach import Breach
from zyx.kernel.wmma import DIMENSIONS, fragment_lanes
from zyx.ops import COMPARISONS, binary_ops, reduce_ops, unary_ops

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zyx.kernel.data import Kernel, Op, Type, ValueId

#: Sizes of what threads swap.
SWAPPED_BITS: Final = (32, 64)

#: Broken rules of one operation, and what is wrong.
Findings: TypeAlias = "Iterator[tuple[int, str]]"


def check_types(kernel: Kernel) -> Iterator[Breach]:
    """Yield what breaks rules 6 to 11, given that rules 1 to 3 hold."""
    for number, op in enumerate(kernel.ops):
        if isinstance(op, k.Value) and not op.type.lanes >= 1:
            yield Breach(9, number, f"{op.type.lanes} lanes")
        check = _CHECKS.get(type(op))
        if check is not None:
            for rule, text in check(op, kernel.ops):
                yield Breach(rule, number, text)


def _type(ops: Sequence[Op], value: ValueId) -> Type:
    op = ops[value]
    assert isinstance(op, k.Value)
    return op.type


def _define(op: k.Define, ops: Sequence[Op]) -> Findings:
    if op.length < (0 if op.memory is k.Memory.GLOBAL else 1):
        yield 6, f"an array of {op.length} elements"
    if not op.mutable and op.memory is not k.Memory.GLOBAL:
        yield 6, f"{op.memory.value} memory that is read-only has undefined values"
    if op.is_front and op.memory is not k.Memory.GLOBAL:
        yield 6, f"{op.memory.value} memory, which no launch gives, of which only the front may be there"
    if op.lanes < 1 or (op.lanes > 1 and op.memory is not k.Memory.REGISTER):
        yield 6, f"elements of {op.lanes} lanes in {op.memory.value} memory"


def _variable(op: k.Variable, ops: Sequence[Op]) -> Findings:
    if op.type.lanes != 1:
        yield 7, "a variable is a scalar"


def _index(op: k.Index, ops: Sequence[Op]) -> Findings:
    if not 0 <= op.number <= 2:
        yield 7, f"there is no axis {op.number}, only 0 to 2"
    yield from _counter(op.type, op.size, 1)


def _loop(op: k.Loop, ops: Sequence[Op]) -> Findings:
    yield from _counter(op.type, op.size, 0)
    if op.end is not None and _type(ops, op.end) != op.type:
        yield 7, f"the end of a loop is a {op.type} as its values are, not a {_type(ops, op.end)}"


def _counter(type_: Type, size: int, least: int) -> Findings:
    if not type_.dtype.is_integer or type_.lanes != 1:
        yield 7, f"a position is an integer scalar, not {type_}"
    elif size < least or size - 1 > type_.dtype.max:
        yield 7, f"size {size} is not from {least} to what {type_} holds"


def _const(op: k.Const, ops: Sequence[Op]) -> Findings:
    dtype, value = op.type.dtype, op.value
    wanted = bool if dtype.is_bool else float if dtype.is_float else int
    if type(value) is not wanted:
        yield 8, f"a constant of {dtype} is a Python {wanted.__name__}, not {value!r}"
    elif k.Const(dtype.to_scalar(value), op.type) != op:
        yield 8, f"{dtype} does not hold {value!r}"


def _unary(op: k.Unary, ops: Sequence[Op]) -> Findings:
    if _type(ops, op.x) != op.type:
        yield 9, f"the operand is {_type(ops, op.x)}, the result {op.type}"
    if op.op not in unary_ops(op.type.dtype):
        yield 9, f"{op.op.value} is not defined for {op.type.dtype}"


def _binary(op: k.Binary, ops: Sequence[Op]) -> Findings:
    x, y = _type(ops, op.x), _type(ops, op.y)
    if x != y:
        yield 9, f"the operands are {x} and {y}"
    result = k.Type(dtypes.bool_, x.lanes) if op.op in COMPARISONS else x
    if op.type != result:
        yield 9, f"the result of {x} is {result}, not {op.type}"
    if op.op not in binary_ops(x.dtype):
        yield 9, f"{op.op.value} is not defined for {x.dtype}"


def _where(op: k.Where, ops: Sequence[Op]) -> Findings:
    condition, x, y = (_type(ops, operand) for operand in (op.condition, op.x, op.y))
    if not x == y == op.type:
        yield 9, f"the choices are {x} and {y}, the result {op.type}"
    if not condition.dtype.is_bool or condition.lanes not in (1, op.type.lanes):
        yield 9, f"the condition is {condition}, not bool of 1 or {op.type.lanes} lanes"


def _cast(op: k.Cast, ops: Sequence[Op]) -> Findings:
    if _type(ops, op.x).lanes != op.type.lanes:
        yield 9, f"{_type(ops, op.x)} and {op.type} differ in lanes"


def _bitcast(op: k.Bitcast, ops: Sequence[Op]) -> Findings:
    source, target = _type(ops, op.x), op.type
    if source.lanes != target.lanes or source.dtype.bits != target.dtype.bits:
        yield 9, f"{source} and {target} differ in lanes or size"
    if source.dtype.is_bool or target.dtype.is_bool:
        yield 9, "bool has no bits to read"


def _mad(op: k.Mad, ops: Sequence[Op]) -> Findings:
    types = [_type(ops, operand) for operand in (op.x, op.y, op.z)]
    if any(type_ != op.type for type_ in types):
        yield 9, f"the operands are {', '.join(map(str, types))}, the result {op.type}"
    if op.type.dtype.is_bool:
        yield 9, "mad is not defined for bool"


def _vectorize(op: k.Vectorize, ops: Sequence[Op]) -> Findings:
    if len(op.items) != op.type.lanes or len(op.items) < 2:
        yield 9, f"{len(op.items)} items make no {op.type}"
    for item in op.items:
        if _type(ops, item) != k.Type(op.type.dtype):
            yield 9, f"%{item} is {_type(ops, item)}, not a lane of {op.type}"


def _devectorize(op: k.Devectorize, ops: Sequence[Op]) -> Findings:
    source = _type(ops, op.x)
    if op.type != k.Type(source.dtype):
        yield 9, f"a lane of {source} is no {op.type}"
    if not 0 <= op.lane < source.lanes:
        yield 9, f"{source} has no lane {op.lane}"


def _shuffle(op: k.Shuffle, ops: Sequence[Op]) -> Findings:
    x, y = _type(ops, op.x), _type(ops, op.y)
    if x != y:
        yield 9, f"the operands are {x} and {y}"
    if op.type != k.Type(x.dtype, len(op.lanes)) or len(op.lanes) < 2:
        yield 9, f"{len(op.lanes)} lanes of {x} make no {op.type}"
    if any(not 0 <= lane < 2 * x.lanes for lane in op.lanes):
        yield 9, f"the operands have lanes 0 to {2 * x.lanes - 1}, not all of {op.lanes}"


def _swap(op: k.Swap, ops: Sequence[Op]) -> Findings:
    if _type(ops, op.x) != op.type:
        yield 9, f"the operand is {_type(ops, op.x)}, the result {op.type}"
    if op.type.dtype.bits not in SWAPPED_BITS:
        yield 9, f"threads swap values of 32 or 64 bits, not {op.type}"
    if op.distance < 1:
        yield 9, f"a distance of {op.distance} is not to another thread"


def _wmma(op: k.Wmma, ops: Sequence[Op]) -> Findings:
    a, b, c = (_type(ops, operand) for operand in (op.a, op.b, op.c))
    if a.dtype not in (dtypes.float16, dtypes.bfloat16, dtypes.float32):
        yield 9, f"the factors are float16, bfloat16 or float32, not {a.dtype}"
        return
    if op.dims not in DIMENSIONS[a.dtype.bits]:
        yield 9, f"no dimensions {op.dims} for {a.dtype}; there are {', '.join(map(str, DIMENSIONS[a.dtype.bits]))}"
        return
    lanes = fragment_lanes(op.dims)
    if (a, b) != (k.Type(a.dtype, lanes[0]), k.Type(a.dtype, lanes[1])):
        yield 9, f"the factors are {a} and {b}, not of {lanes[0]} and {lanes[1]} lanes of one dtype"
    if not c == op.type == k.Type(dtypes.float32, lanes[2]):
        yield 9, f"the addend is {c} and the result {op.type}, not float32 of {lanes[2]} lanes"


def _array(ops: Sequence[Op], value: ValueId) -> k.Define:
    array = ops[value]
    assert isinstance(array, k.Define)
    return array


def _position(op: k.Load | k.Store | k.Atomic, ops: Sequence[Op], lanes: int) -> Findings:
    index = _type(ops, op.index)
    if not index.dtype.is_integer or index.lanes != 1:
        yield 10, f"the index is {index}, not an integer scalar"
    if op.mask is not None and _type(ops, op.mask) != k.Type(dtypes.bool_, lanes):
        yield 10, f"the mask is {_type(ops, op.mask)}, not bool of {lanes} lanes"


def _element(array: k.Define, type_: Type) -> Findings:
    if type_.dtype is not array.dtype:
        yield 10, f"the value is {type_}, the array of {array.dtype}"
    if array.memory is k.Memory.REGISTER and type_.lanes != array.lanes:
        yield 10, f"the value has {type_.lanes} lanes, the elements of the register array {array.lanes}"


def _load(op: k.Load, ops: Sequence[Op]) -> Findings:
    yield from _element(_array(ops, op.source), op.type)
    yield from _position(op, ops, op.type.lanes)


def _store(op: k.Store, ops: Sequence[Op]) -> Findings:
    array, value = _array(ops, op.target), _type(ops, op.value)
    yield from _element(array, value)
    yield from _position(op, ops, value.lanes)
    if not array.mutable:
        yield 10, f"%{op.target} is read-only"
    if op.streaming and array.memory is not k.Memory.GLOBAL:
        yield 10, f"a streaming store to {array.memory.value} memory"


def _atomic(op: k.Atomic, ops: Sequence[Op]) -> Findings:
    array, value = _array(ops, op.target), _type(ops, op.value)
    yield from _element(array, value)
    yield from _position(op, ops, 1)
    if not array.mutable or array.memory is k.Memory.REGISTER:
        yield 10, f"%{op.target} is read-only, or register memory"
    if value.lanes != 1:
        yield 10, f"the value is {value}, not a scalar"
    if op.op not in reduce_ops(array.dtype):
        yield 10, f"{op.op.value} is not defined for {array.dtype}"


def _if(op: k.If, ops: Sequence[Op]) -> Findings:
    if _type(ops, op.condition) != k.Type(dtypes.bool_):
        yield 11, f"the condition is {_type(ops, op.condition)}, not a scalar bool"


_CHECKS: Final[dict[type[Op], Callable[[Any, Sequence[Op]], Findings]]] = {
    k.Define: _define,
    k.Variable: _variable,
    k.Const: _const,
    k.Index: _index,
    k.Loop: _loop,
    k.If: _if,
    k.Load: _load,
    k.Store: _store,
    k.Atomic: _atomic,
    k.Unary: _unary,
    k.Binary: _binary,
    k.Where: _where,
    k.Cast: _cast,
    k.Bitcast: _bitcast,
    k.Mad: _mad,
    k.Vectorize: _vectorize,
    k.Devectorize: _devectorize,
    k.Shuffle: _shuffle,
    k.Swap: _swap,
    k.Wmma: _wmma,
}
