"""Check values against the types of a record, key by key, and say what is wrong with all of them at once."""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_type_hints

import msgspec

from zyx.errors import SettingsError
from zyx.settings.debug import Debug, parse_debug

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FieldType: TypeAlias = Any  # what an annotation evaluates to: a class, a union, `Annotated`

_WORDS: Final = {"on": "true", "yes": "true", "off": "false", "no": "false"}


class Checker:
    """Checks the values of one source.

    Args:
        place: Says where a key stands, for people: ``/home/ada/.config/zyx/config.json`` or ``ZYX_DEVICE``.
        as_text: Whether values are text to be parsed, as those of environment variables: ``3``, ``on``, ``c,opencl``.
    """

    def __init__(self, place: Callable[[str], str], *, as_text: bool = False) -> None:
        self._place = place
        self._as_text = as_text
        self._problems: list[str] = []

    def record(self, values: object, record: type, path: str = "") -> dict[str, Any]:
        """Return the good ones of `values` by key, nested as `record` is; `finish` raises the bad ones."""
        fields = fields_of(record)
        if not isinstance(values, Mapping):
            self._problem(path, f"{values!r} is not an object; it takes one with the keys {', '.join(fields)}")
            return {}
        good: dict[str, Any] = {}
        for key, value in values.items():
            inner = f"{path}.{key}" if path else str(key)
            if key not in fields:
                self._problem(inner, f"there is no such key; {did_you_mean(str(key), fields)}")
            elif is_record(fields[key]):
                good[key] = self.record(value, fields[key], inner)
            else:
                self._leaf(good, key, value, fields[key], inner)
        return good

    def finish(self) -> None:
        """Raise `SettingsError` if anything was wrong."""
        if self._problems:
            raise SettingsError("\n".join(self._problems))

    def _leaf(self, good: dict[str, Any], key: str, value: object, wanted: FieldType, path: str) -> None:
        if wanted is Debug:
            try:
                good[key] = int(parse_debug(value))
            except ValueError as error:
                self._problem(path, str(error))
            return
        parsed = _parse(value, wanted) if self._as_text and isinstance(value, str) else value
        try:
            good[key] = msgspec.convert(parsed, wanted, strict=not self._as_text)
        except msgspec.ValidationError:  # its text names neither the value nor the key
            self._problem(path, f"{value!r} is not accepted; it takes {accepted(wanted)}")

    def _problem(self, path: str, text: str) -> None:
        self._problems.append(f"{self._place(path)}: {f'key {path}: ' if path else ''}{text}")


def fields_of(record: type) -> Mapping[str, FieldType]:
    """Return the type of each configurable field of a dataclass or `msgspec.Struct`."""
    return _fields_of(record)


@functools.lru_cache(maxsize=64)  # evaluating annotations takes a millisecond, and each runtime asks again
def _fields_of(record: type) -> Mapping[str, FieldType]:
    hints = get_type_hints(record, include_extras=True)
    if dataclasses.is_dataclass(record):
        names: Iterable[str] = [field.name for field in dataclasses.fields(record)]
    elif isinstance(record, type) and issubclass(record, msgspec.Struct):
        names = record.__struct_fields__
    else:
        raise TypeError(f"{record!r} is neither a dataclass nor a msgspec.Struct")
    return {name: hints[name] for name in names if name != "sources"}


def is_record(wanted: object) -> bool:
    """Whether a field of this type has keys of its own."""
    return isinstance(wanted, type) and (dataclasses.is_dataclass(wanted) or issubclass(wanted, msgspec.Struct))


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return a hint to the closest of `known`, and all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(given, names, 1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}there {'are' if len(names) > 1 else 'is'} {', '.join(names) or 'none'}"


def accepted(wanted: FieldType) -> str:
    """Say in words what a field of this type takes."""
    return _words(msgspec.inspect.type_info(wanted))


def _words(info: msgspec.inspect.Type) -> str:
    match info:
        case msgspec.inspect.UnionType(types=types):
            return " or ".join(_words(part) for part in types)
        case msgspec.inspect.NoneType():
            return "null"
        case msgspec.inspect.BoolType():
            return "true or false"
        case msgspec.inspect.IntType(ge=low, le=high):
            return f"a whole number{_range(low, high)}"
        case msgspec.inspect.FloatType(ge=low, le=high):
            return f"a number{_range(low, high)}"
        case msgspec.inspect.StrType():
            return "text"
        case msgspec.inspect.LiteralType(values=values):
            return "one of " + ", ".join(repr(value) for value in sorted(values, key=str))
        case msgspec.inspect.ListType(item_type=item) | msgspec.inspect.VarTupleType(item_type=item):
            return f"a list of ({_words(item)})"
        case msgspec.inspect.DictType(value_type=msgspec.inspect.DictType()):
            return "an object of (an object)"
        case msgspec.inspect.DictType():
            return "an object"
        case _:
            return type(info).__name__.removesuffix("Type").lower()


def _range(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f" (from {low} to {high})"
    if low is not None:
        return f" (at least {low})"
    return "" if high is None else f" (at most {high})"


def _parse(text: str, wanted: FieldType) -> object:
    info = msgspec.inspect.type_info(wanted)
    parts = info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)
    if any(isinstance(part, msgspec.inspect.ListType | msgspec.inspect.VarTupleType) for part in parts):
        if text.strip().lower() == "null" and any(isinstance(part, msgspec.inspect.NoneType) for part in parts):
            return None
        return [item.strip() for item in text.split(",") if item.strip()]
    if any(isinstance(part, msgspec.inspect.BoolType) for part in parts):
        return _WORDS.get(text.strip().lower(), text.strip().lower())
    return text.strip()
