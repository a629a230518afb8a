r"""Read pickles of plain data, and run none of them.

A pickle is a program for a machine with a stack, which may call anything. Here its instructions are taken apart by the
standard library's ``pickletools`` and followed by a machine of our own, which knows those that make dicts, lists,
tuples, numbers and texts, and calls functions of a table that the caller gives. Everything else is refused by name.

    b"\x80\x02}X\x01\x00\x00\x00aK\x01s."       =>      {"a": 1}
    b"cos\nsystem\n(S'ls'\ntR."                 =>      FormatError: ... os.system ...
"""

from __future__ import annotations

import pickletools
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

#: Of keys of dicts: hashing tuples of tuples may take for ever.
_KEYS: Final = (str, int, float, bool, type(None))
_LEAVES: Final = (str, int, float, bool, type(None))
_CONSTANTS: Final[dict[str, object]] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_ARGUMENTS: Final = {
    "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
}  # fmt: skip
_TUPLES: Final = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_IGNORED: Final = {"PROTO", "FRAME", "STOP"}


@dataclass(frozen=True, slots=True)
class Name:
    """What a pickle calls by its module and name, such as ``torch.FloatStorage``; nothing is imported."""

    text: str


def read_pickle(
    data: bytes,
    what: str,
    functions: Mapping[str, Callable[[tuple[object, ...]], object]],
    names: Collection[str],
    persistent: Callable[[object], object],
    leaves: tuple[type, ...],
) -> object:
    """Return what a pickle says.

    Args:
        data: The pickle.
        what: It, in texts of errors.
        functions: What it may call, by full name; they take the tuple of arguments.
        names: What it may mention, but not call.
        persistent: Gives what an identifier stands for that is kept beside the pickle.
        leaves: The types, beside plain ones, that the result may hold.

    Raises:
        FormatError: The pickle is damaged, holds itself, or does anything else.
    """
    machine = _Machine(what, functions, names, persistent)
    try:
        for opcode, argument, _ in pickletools.genops(data):
            machine.step(opcode.name, argument)
    except FormatError:
        raise
    except (ValueError, IndexError, OverflowError, RecursionError) as error:
        raise FormatError(f"{what} is no pickle, or a damaged one: {str(error)[:200]}") from error
    if len(machine.stack) != 1 or machine.marks:
        raise FormatError(f"{what} leaves {len(machine.stack)} values, not one")
    (result,) = machine.stack
    _check_plain(result, what, (*_LEAVES, *leaves))
    return result


class _Machine:
    """The stack, what was put aside, and where lists of arguments begin."""

    def __init__(
        self,
        what: str,
        functions: Mapping[str, Callable[[tuple[object, ...]], object]],
        names: Collection[str],
        persistent: Callable[[object], object],
    ) -> None:
        self.what = what
        self.functions = functions
        self.names = names
        self.persistent = persistent
        self.stack: list[object] = []
        self.marks: list[int] = []
        self.memo: dict[int, object] = {}

    def step(self, name: str, argument: object) -> None:
        """Follow one instruction."""
        stack = self.stack
        if name in _ARGUMENTS:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _TUPLES:
            stack.append(self._pop_many(_TUPLES[name]))
        elif name not in _IGNORED:
            self._other(name, argument)

    def _other(self, name: str, argument: object) -> None:
        stack = self.stack
        match name:
            case "MARK":
                self.marks.append(len(stack))
            case "EMPTY_DICT":
                stack.append({})
            case "EMPTY_LIST":
                stack.append([])
            case "TUPLE":
                stack.append(self._pop_to_mark())
            case "APPEND":
                self._extend(self._pop_many(1))
            case "APPENDS":
                self._extend(self._pop_to_mark())
            case "SETITEM":
                self._set(self._pop_many(2))
            case "SETITEMS":
                self._set(self._pop_to_mark())
            case "BINPUT" | "LONG_BINPUT":
                assert isinstance(argument, int)
                self.memo[argument] = self._top()
            case "MEMOIZE":
                self.memo[len(self.memo)] = self._top()
            case "BINGET" | "LONG_BINGET":
                assert isinstance(argument, int)
                if argument not in self.memo:
                    raise self._fault(f"takes value {argument}, which was not put aside")
                stack.append(self.memo[argument])
            case "GLOBAL":
                assert isinstance(argument, str)
                self._mention(argument.replace(" ", ".", 1))
            case "STACK_GLOBAL":
                self._mention(".".join(map(str, self._pop_many(2))))
            case "REDUCE":
                self._call(*self._pop_many(2))
            case "BUILD":
                self._build(*self._pop_many(1))
            case "BINPERSID":
                stack.append(self.persistent(*self._pop_many(1)))
            case _:
                raise self._fault(f"has instruction {name}, and none but plain data is read")

    def _pop_many(self, count: int) -> tuple[object, ...]:
        stack = self.stack
        if len(stack) - (self.marks[-1] if self.marks else 0) < count:
            raise self._fault("takes more values than it has")
        taken = tuple(stack[-count:])
        del stack[-count:]
        return taken

    def _pop_to_mark(self) -> tuple[object, ...]:
        if not self.marks:
            raise self._fault("ends a list that it did not begin")
        start = self.marks.pop()
        taken = tuple(self.stack[start:])
        del self.stack[start:]
        return taken

    def _top(self) -> object:
        (top,) = self._pop_many(1)
        self.stack.append(top)
        return top

    def _extend(self, values: tuple[object, ...]) -> None:
        target = self._top()
        if type(target) is not list:
            raise self._fault(f"appends to a {type(target).__name__}")
        target.extend(values)

    def _set(self, values: tuple[object, ...]) -> None:
        target = self._top()
        if not isinstance(target, dict) or len(values) % 2:
            raise self._fault(f"sets items of a {type(target).__name__}")
        for key, value in zip(values[::2], values[1::2], strict=True):
            if not isinstance(key, _KEYS):
                raise self._fault(f"has a {type(key).__name__} for a key; keys are texts and numbers")
            if key in target:
                raise self._fault(f"has key {key!r:.200} twice")
            target[key] = value

    def _mention(self, text: str) -> None:
        if text not in self.functions and text not in self.names:
            raise self._fault(
                f"uses {text:.200}, which only unpickling gives; that may run any code. Tensors, dicts, lists, tuples, "
                "numbers and texts are read"
            )
        self.stack.append(Name(text))

    def _call(self, function: object, arguments: object) -> None:
        if not isinstance(function, Name) or function.text not in self.functions or not isinstance(arguments, tuple):
            raise self._fault(f"calls {getattr(function, 'text', type(function).__name__)} as a function")
        self.stack.append(self.functions[function.text](arguments))

    def _build(self, state: object) -> None:
        """Leave out what an OrderedDict has for attributes, such as the versions of a module's state."""
        target = self._top()
        if not isinstance(target, OrderedDict) or not isinstance(state, dict):
            raise self._fault(f"sets the state of a {type(target).__name__}")

    def _fault(self, text: str) -> FormatError:
        return FormatError(f"{self.what} {text}")


def _check_plain(result: object, what: str, leaves: tuple[type, ...]) -> None:
    """Look at each container once, however often it is held, and raise an error if one holds itself."""
    open_, done = set[int](), set[int]()
    stack: list[tuple[object, bool]] = [(result, False)]
    while stack:
        value, is_left = stack.pop()
        key = id(value)
        if is_left:
            open_.discard(key)
            done.add(key)
            continue
        if key in done or isinstance(value, leaves):
            continue
        if key in open_:
            raise FormatError(f"{what} has a {type(value).__name__} that holds itself")
        if not isinstance(value, dict | list | tuple):
            text = value.text if isinstance(value, Name) else type(value).__name__
            raise FormatError(f"{what} holds {text} itself, not a tensor of it")
        open_.add(key)
        stack.append((value, True))
        stack.extend((each, False) for each in (value.values() if isinstance(value, dict) else value))
