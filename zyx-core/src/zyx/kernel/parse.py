"""Read the text form of a kernel, whose grammar is in `zyx.kernel.text`.

``parse_kernel(print_kernel(kernel)) == kernel`` for every kernel whose operands lie before their use. Text written by
hand is freer: blank lines and indentation do not matter, ``#`` starts a comment, and values may have any names
(``%sum``), each given once.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.errors import ParseError
from zyx.kernel import data as k
from zyx.kernel.data import Kernel, Op, Type, ValueId
from zyx.kernel.text import AXIS_NAMES
from zyx.ops import BinaryOp, ReduceOp, UnaryOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.dtype import DType, Scalar


def parse_kernel(text: str) -> Kernel:
    """Return the kernel that `text` describes; it is not verified.

    Raises:
        ParseError: The text does not follow the grammar; the message has the line and its number.
    """
    name: str | None = None
    reader = _Reader()
    for number, line in enumerate(text.splitlines(), 1):
        content = line.partition("#")[0].strip()
        if not content:
            continue
        try:
            if name is None:
                name = _match(r"kernel\s+(\w+)", content, "a first line of the form: kernel NAME")[1]
            else:
                reader.read(content)
        except ParseError as error:
            raise ParseError(f"line {number}: {error}\n> {line.strip()}") from error.__cause__
    if name is None:
        raise ParseError("line 1: the text has no kernel")
    return Kernel(name, tuple(reader.ops))


class _Reader:
    """The operations read so far, and the names given to them."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.numbers: dict[str, ValueId] = {}

    def read(self, line: str) -> None:
        """Read one line."""
        assigned = re.fullmatch(r"%(\w+)\s*=\s*(.*)", line)
        content = assigned[2] if assigned else line
        word = content.split(maxsplit=1)[0] if content else ""
        if word in _STATEMENTS:
            if assigned:
                raise ParseError(f"{word!r} has no result")
            self.ops.append(_STATEMENTS[word](self, content))
        elif word in _VALUES:
            if not assigned:
                raise ParseError(f"the result of {word!r} has no name")
            if assigned[1] in self.numbers:
                raise ParseError(f"%{assigned[1]} is already defined")
            op = _VALUES[word](self, content)
            self.numbers[assigned[1]] = len(self.ops)
            self.ops.append(op)
        else:
            raise ParseError(f"no operation is called {word!r}")

    def value(self, name: str) -> ValueId:
        """Return the position of the value ``%name``."""
        if name not in self.numbers:
            raise ParseError(f"%{name} is not defined above")
        return self.numbers[name]

    def mask(self, name: str | None) -> ValueId | None:
        """Return the position of a mask, if there is one."""
        return None if name is None else self.value(name)

    def values(self, text: str) -> tuple[ValueId, ...]:
        """Return the positions in a list ``%a, %b``."""
        return tuple(self.value(_match(r"%(\w+)", item, "a list of values is: %A, %B")[1]) for item in _split(text))


def _match(pattern: str, text: str, form: str) -> re.Match[str]:
    found = re.fullmatch(pattern.replace(" ", r"\s*"), text)
    if found is None:
        raise ParseError(f"expected {form}")
    return found


def _split(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")]


def _type(text: str) -> Type:
    found = re.fullmatch(r"(\w+?)(?:x(\d+))?", text)
    dtype = dtypes.BY_SHORT.get(found[1]) if found else None
    if found is None or dtype is None:
        names = ", ".join(dtypes.BY_SHORT)
        raise ParseError(f"{text!r} is no type; types are {names}, and vectors of them such as f32x4")
    return Type(dtype, int(found[2] or 1))


def _scalar(text: str, dtype: DType) -> Scalar:
    try:
        if dtype.is_bool:
            return {"true": True, "false": False}[text]
        return dtype.to_scalar(float(text)) if dtype.is_float else int(text)
    except (KeyError, ValueError) as error:
        raise ParseError(f"{text!r} is no {dtype.short}") from error


_ARRAY: Final = r"(\w+)\s+(\w+) \[ (\d+) \]"


def _define(reader: _Reader, text: str) -> Op:
    found = _match(
        rf"{_ARRAY}(?:\s+(readonly))?(?:\s+(front))?", text, "MEMORY TYPE[LENGTH], and maybe readonly, front"
    )
    type_ = _type(found[2])
    return k.Define(k.Memory(found[1]), type_.dtype, int(found[3]), found[4] is None, type_.lanes, found[5] is not None)


def _variable(reader: _Reader, text: str) -> Op:
    found = _match(r"variable\s+(\w+)\s+(\w+)", text, "variable TYPE NAME")
    return k.Variable(_type(found[1]), found[2])


def _const(reader: _Reader, text: str) -> Op:
    found = _match(r"const\s+(\S+) : (\w+)", text, "const VALUE : TYPE")
    type_ = _type(found[2])
    return k.Const(_scalar(found[1], type_.dtype), type_)


def _index(reader: _Reader, text: str) -> Op:
    found = _match(r"(\w+)\s+(\d+) < (\d+) : (\w+)", text, "group AXIS < SIZE : TYPE, or thread in place of group")
    return k.Index(_AXES[found[1]], int(found[2]), int(found[3]), _type(found[4]))


def _loop(reader: _Reader, text: str) -> Op:
    pattern = r"loop < (\d+)(?: , %(\w+))? : (\w+)"
    found = _match(pattern, text, "loop < SIZE : TYPE, maybe with , %END before the colon")
    return k.Loop(int(found[1]), _type(found[3]), None if found[2] is None else reader.value(found[2]))


def _load(reader: _Reader, text: str) -> Op:
    pattern = r"load %(\w+) \[ %(\w+) \](?: if %(\w+))? : (\w+)"
    found = _match(pattern, text, "load %ARRAY[%INDEX] : TYPE, maybe with if %MASK before the colon")
    return k.Load(reader.value(found[1]), reader.value(found[2]), _type(found[4]), reader.mask(found[3]))


def _store(reader: _Reader, text: str) -> Op:
    pattern = r"store %(\w+) \[ %(\w+) \] = %(\w+)(?: if %(\w+))?(?:\s+(streaming))?"
    found = _match(pattern, text, "store %ARRAY[%INDEX] = %VALUE, and maybe if %MASK, and maybe streaming")
    target, index, value = (reader.value(found[n]) for n in (1, 2, 3))
    return k.Store(target, index, value, reader.mask(found[4]), found[5] is not None)


def _atomic(reader: _Reader, text: str) -> Op:
    pattern = r"atomic\s+(\w+) %(\w+) \[ %(\w+) \] = %(\w+)(?: if %(\w+))?"
    found = _match(pattern, text, "atomic REDUCTION %ARRAY[%INDEX] = %VALUE, and maybe if %MASK")
    if found[1] not in _REDUCTIONS:
        raise ParseError(f"no reduction is called {found[1]!r}; there are {', '.join(_REDUCTIONS)}")
    target, index, value = (reader.value(found[n]) for n in (2, 3, 4))
    return k.Atomic(_REDUCTIONS[found[1]], target, index, value, reader.mask(found[5]))


def _if(reader: _Reader, text: str) -> Op:
    return k.If(reader.value(_match(r"if %(\w+)", text, "if %CONDITION")[1]))


def _operation(reader: _Reader, text: str, count: int) -> tuple[tuple[ValueId, ...], Type]:
    """Read ``WORD %A, %B : TYPE`` with `count` operands."""
    form = f"{text.split(maxsplit=1)[0]} {', '.join(('%A', '%B', '%C')[:count])} : TYPE"
    operands = " , ".join([r"%(\w+)"] * count)
    found = _match(rf"\w+ {operands} : (\w+)", text, form)
    return tuple(reader.value(found[n]) for n in range(1, count + 1)), _type(found[count + 1])


def _unary(reader: _Reader, text: str) -> Op:
    (x,), type_ = _operation(reader, text, 1)
    return k.Unary(UnaryOp(text.split(maxsplit=1)[0]), x, type_)


def _binary(reader: _Reader, text: str) -> Op:
    (x, y), type_ = _operation(reader, text, 2)
    return k.Binary(BinaryOp(text.split(maxsplit=1)[0]), x, y, type_)


def _cast(reader: _Reader, text: str) -> Op:
    (x,), type_ = _operation(reader, text, 1)
    return k.Cast(x, type_)


def _bitcast(reader: _Reader, text: str) -> Op:
    (x,), type_ = _operation(reader, text, 1)
    return k.Bitcast(x, type_)


def _where(reader: _Reader, text: str) -> Op:
    (condition, x, y), type_ = _operation(reader, text, 3)
    return k.Where(condition, x, y, type_)


def _mad(reader: _Reader, text: str) -> Op:
    (x, y, z), type_ = _operation(reader, text, 3)
    return k.Mad(x, y, z, type_)


def _vectorize(reader: _Reader, text: str) -> Op:
    found = _match(r"vectorize (%.*?) : (\w+)", text, "vectorize %A, %B, ... : TYPE")
    return k.Vectorize(reader.values(found[1]), _type(found[2]))


def _devectorize(reader: _Reader, text: str) -> Op:
    found = _match(r"devectorize %(\w+) \[ (\d+) \] : (\w+)", text, "devectorize %A[LANE] : TYPE")
    return k.Devectorize(reader.value(found[1]), int(found[2]), _type(found[3]))


def _shuffle(reader: _Reader, text: str) -> Op:
    pattern = r"shuffle %(\w+) , %(\w+) \[ (\d+(?: , \d+)*) \] : (\w+)"
    found = _match(pattern, text, "shuffle %A, %B[LANE, ...] : TYPE")
    lanes = tuple(map(int, _split(found[3])))
    return k.Shuffle(reader.value(found[1]), reader.value(found[2]), lanes, _type(found[4]))


def _swap(reader: _Reader, text: str) -> Op:
    found = _match(r"swap %(\w+) , (\d+) : (\w+)", text, "swap %VALUE, DISTANCE : TYPE")
    return k.Swap(reader.value(found[1]), int(found[2]), _type(found[3]))


def _wmma(reader: _Reader, text: str) -> Op:
    pattern = r"wmma\s+(\d+)x(\d+)x(\d+) %(\w+) , %(\w+) , %(\w+) : (\w+)"
    found = _match(pattern, text, "wmma MxNxK %A, %B, %C : TYPE")
    a, b, c = (reader.value(found[n]) for n in (4, 5, 6))
    return k.Wmma((int(found[1]), int(found[2]), int(found[3])), a, b, c, _type(found[7]))


_AXES: Final = {name: axis for axis, name in AXIS_NAMES.items()}
_REDUCTIONS: Final = {op.value: op for op in ReduceOp}
_STATEMENTS: Final[dict[str, Callable[[_Reader, str], Op]]] = {
    "store": _store,
    "atomic": _atomic,
    "if": _if,
    "endif": lambda reader, text: k.EndIf(),
    "endloop": lambda reader, text: k.EndLoop(),
    "barrier": lambda reader, text: k.Barrier(),
}
_VALUES: Final[dict[str, Callable[[_Reader, str], Op]]] = {
    **{memory.value: _define for memory in k.Memory},
    **dict.fromkeys(_AXES, _index),
    "variable": _variable,
    "const": _const,
    "loop": _loop,
    "load": _load,
    "where": _where,
    "cast": _cast,
    "bitcast": _bitcast,
    "mad": _mad,
    "vectorize": _vectorize,
    "devectorize": _devectorize,
    "shuffle": _shuffle,
    "swap": _swap,
    "wmma": _wmma,
    **{op.value: _unary for op in UnaryOp},
    **{op.value: _binary for op in BinaryOp},
}
