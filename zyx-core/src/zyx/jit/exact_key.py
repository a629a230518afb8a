"""Keys of values that are not tensors: equal if a traced function cannot tell the values apart.

What ``==`` and hashes say is not enough: 1, 1.0 and True are equal, and so are 0.0 and -0.0, but they trace
differently; NaN is not equal to itself; a list or an object is the same one after it was changed.

    number, text, bytes, enum              type and exact value
    NumPy scalar                           type and bits
    list, tuple, dict, set, deque, slice,  type, and the keys of all that is in it now
    bytearray, array, partial, dataclass
    tensor, array, function, class         identity
    `SupportsTraceKey`                     identity, and its key
    any other object                       identity (or ``==``, where its class says what is equal), and the keys of its
                                           attributes as they are now
    objects of zyx, and of modules whose   identity, or ``==``
    state changes by itself

Objects that are compared by identity are held weakly, if their class allows it: a key keeps none of them alive, and is
equal to no other once one of them is gone.
"""

from __future__ import annotations

import array
import enum
import functools
import numbers
import struct
import types
import weakref
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from zyx.dtype import DType
from zyx.errors import TraceError
from zyx.lazy_import import lazy_import
from zyx.runtime.handle import Handle

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from zyx.jit import snapshot
    from zyx.jit.snapshot import Snapshot
else:
    snapshot = lazy_import("zyx.jit.snapshot", globals())

Structure: TypeAlias = "Hashable"

#: Types of which equal values are the same.
EXACT: Final[frozenset[type]] = frozenset(
    {int, bool, str, bytes, type(None), types.EllipsisType, types.NotImplementedType, DType}
)
#: Most values that are looked at in the attributes of an argument, at every call.
MOST_VALUES: Final = 10_000

_COMPARED_BY_IDENTITY: Final = (Handle, np.ndarray, types.FunctionType, type, types.ModuleType)
#: The state of objects of these modules changes with time, and results do not depend on it.
_LEFT_ALONE: Final = frozenset(
    {"zyx", "logging", "threading", "_thread", "asyncio", "concurrent", "multiprocessing", "queue", "io", "_io"}
)
_CONTAINERS: Final = (
    dict, list, tuple, deque, set, frozenset, bytearray, memoryview, array.array, slice, functools.partial,
    types.MethodType,
)  # fmt: skip
_NO_DICT: Final[dict[str, object]] = {}


def float_key(value: float) -> Structure:
    """Return the key of a float: of its value, or of its bits where `==` does not tell them."""
    return (float, value) if value and value == value else (float, struct.pack("<d", value))  # noqa: PLR0124  # NaN


def exact_key(value: object) -> Structure:
    """Return the key of `value`.

    Raises:
        TraceError: More than `MOST_VALUES` values are in it.
    """
    kind: Any = type(value)
    if kind in EXACT:
        return (kind, value)
    if not about_class(kind).is_remembered:
        return _Keys(value).of(value)
    known = _known.get(value)
    if known is not None and known[0].shows(value):
        return known[1]
    shown = snapshot.snapshot_of(value, about_class)
    key = _Remembered(_Keys(value).of(value))
    if shown is not None and shown.shows(value):  # another thread may change it
        _known[value] = shown, key
    return key


class _Remembered:
    """A key that is long, and of which the hash is known."""

    __slots__ = ("_hash", "key")

    def __init__(self, key: Structure) -> None:
        self.key: Final = key
        self._hash: Final = hash(key)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Remembered) and self.key == other.key)

    def __hash__(self) -> int:
        return self._hash


#: Keys of objects that are compared by identity, with what they held when these were made.
_known: Final[weakref.WeakKeyDictionary[object, tuple[Snapshot, _Remembered]]] = weakref.WeakKeyDictionary()


def identity_key(value: object) -> Structure:
    """Return what is equal for `value` only, and for nothing once it is gone."""
    if type(value).__hash__ is object.__hash__:
        try:
            # There is one such reference to an object. So two keys are equal without a call, also of those objects,
            # such as tensors, whose `==` does something else; with the number in front, no others are ever compared.
            reference = weakref.ref(value)
        except TypeError:
            return _Identity(value)
        hash(reference)  # which it keeps; later, the object may be gone
        return (id(value), reference)
    return _Identity(value)


class _Identity:
    """What `identity_key` is of objects that cannot be hashed, or that there are no weak references to."""

    __slots__ = ("_number", "_strong", "weak")

    def __init__(self, object_: object) -> None:
        self._number = id(object_)
        self.weak: weakref.ref[object] | None = None
        self._strong: object = None
        try:
            self.weak = weakref.ref(object_)
        except TypeError:
            self._strong = object_

    def _object(self) -> object:
        return self._strong if self.weak is None else self.weak()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Identity) or self._number != other._number:
            return False
        mine = self._object()
        return mine is not None and mine is other._object()

    def __hash__(self) -> int:
        return self._number


def identities_in(structure: Structure) -> Iterator[object]:
    """Yield the objects that a key, just made, holds weakly: once one of them is gone, no other key is equal to it."""
    if isinstance(structure, _Remembered):
        structure = structure.key
    reference = structure.weak if isinstance(structure, _Identity) else structure
    if isinstance(reference, tuple | frozenset):
        for part in reference:
            yield from identities_in(part)
    elif isinstance(reference, weakref.ref):
        object_ = reference()
        if object_ is not None:
            yield object_


def attributes_of(value: object) -> list[tuple[str, object]]:
    """Return names and values of the attributes that belong to `value` itself."""
    found = list(getattr(value, "__dict__", _NO_DICT).items())
    kind: Any = type(value)
    for name in about_class(kind).slots:
        if hasattr(value, name):
            found.append((name, getattr(value, name)))
    return found


class AboutClass(NamedTuple):
    """What there is to know about the objects of a class.

    Attributes:
        is_looked_into: Lists, tuples, dicts, deques and dataclasses, whose tensors are tensors of the whole.
        is_container: Those of Python's own classes that hold values.
        is_value: Numbers and the like, of which there is an exact text, or bits; and what is compared by identity.
        is_dataclass: Dataclasses that do not say themselves what a trace depends on.
        is_consumed: Iterators.
        has_trace_key: See `SupportsTraceKey`.
        is_left_alone: What its objects hold is of no interest.
        is_plain: They are compared by identity.
        is_remembered: Their keys are, with what they held then.
        slots: Their attributes that are slots.
    """

    is_looked_into: bool
    is_container: bool
    is_value: bool
    is_dataclass: bool
    is_consumed: bool
    has_trace_key: bool
    is_left_alone: bool
    is_plain: bool
    is_remembered: bool
    slots: tuple[str, ...]


@functools.lru_cache(1000)
def about_class(kind: type[Any]) -> AboutClass:
    """Return what there is to know about a class."""
    slots: list[str] = []
    for base in kind.__mro__:
        own = base.__dict__.get("__slots__", ())
        for name in (own,) if isinstance(own, str) else own:
            is_private = name.startswith("__") and not name.endswith("__")
            slots.append(f"_{base.__name__.lstrip('_')}{name}" if is_private else name)
    has_trace_key = hasattr(kind, "trace_key")
    is_dataclass = hasattr(kind, "__dataclass_fields__") and not has_trace_key and kind not in EXACT
    is_container = issubclass(kind, _CONTAINERS)
    is_value = issubclass(kind, (*_COMPARED_BY_IDENTITY, enum.Enum, np.generic, numbers.Number))
    is_left_alone = kind.__module__.partition(".")[0] in _LEFT_ALONE
    is_plain = not any({"__eq__", "__hash__"} & vars(base).keys() for base in kind.__mro__ if base is not object)
    own_slots = tuple(name for name in slots if name not in ("__dict__", "__weakref__"))
    is_another = is_container or is_value or is_left_alone or is_dataclass or has_trace_key
    return AboutClass(
        is_looked_into=is_dataclass or issubclass(kind, (list, tuple, dict, deque)),
        is_container=is_container,
        is_value=is_value,
        is_dataclass=is_dataclass,
        is_consumed=issubclass(kind, Iterator),
        has_trace_key=has_trace_key,
        is_left_alone=is_left_alone,
        is_plain=is_plain,
        is_remembered=is_plain and not (is_another or own_slots) and _has_attributes(kind),
        slots=own_slots,
    )


def _has_attributes(kind: type[Any]) -> bool:
    """Whether objects of a class have attributes, and there are weak references to them."""
    return bool(kind.__dictoffset__ and kind.__weakrefoffset__)


class _Keys:
    """Makes the keys of an argument and of what is in it."""

    def __init__(self, argument: object) -> None:
        self._argument = argument
        self._seen: dict[int, int] = {}
        self._left = MOST_VALUES

    def of(self, value: object) -> Structure:
        """Return the key of one value."""
        kind: Any = type(value)
        if kind in EXACT:
            return (kind, value)
        if kind is float:
            return (kind, value) if value and value == value else float_key(value)  # type: ignore[arg-type]  # noqa: PLR0124
        about = about_class(kind)
        if about.is_value:
            return _key_of_value(value, kind)
        if id(value) in self._seen:
            return ("seen", self._seen[id(value)])
        self._seen[id(value)] = len(self._seen)
        return (kind, *self._of_container(value)) if about.is_container else self._of_object(value, kind, about)

    def _of_container(self, value: object) -> tuple[Structure, ...]:
        """Return the keys of what is in `value`, which is one of `_CONTAINERS`."""
        if isinstance(value, dict):
            return (*self._all(value), *self._all(value.values()), *self._own(value, dict))
        if isinstance(value, list | tuple):
            return (*self._all(value), *self._own(value, list, tuple))
        if isinstance(value, deque):
            return (value.maxlen, *self._all(value), *self._own(value, deque))
        if isinstance(value, set | frozenset):
            return (frozenset(self._all(value)), *self._own(value, set, frozenset))
        if isinstance(value, bytearray | memoryview):
            return (bytes(value),)
        if isinstance(value, array.array):
            return (value.typecode, value.tobytes())
        if isinstance(value, slice):
            return self._all((value.start, value.stop, value.step))
        if isinstance(value, functools.partial):
            return self._all((value.func, value.args, value.keywords))
        assert isinstance(value, types.MethodType)
        return self._all((value.__func__, value.__self__))

    def _own(self, value: object, *plain: type) -> tuple[Structure, ...]:
        """Return the keys of what an object of a class derived from those of `plain` has besides."""
        if type(value) in plain:
            return ()
        factory = getattr(value, "default_factory", None)
        return (self.of(factory), *((name, self.of(own)) for name, own in attributes_of(value)))

    def _all(self, values: Iterable[object]) -> tuple[Structure, ...]:
        found = [*values]
        self._left -= len(found)
        if self._left < 0:
            raise TraceError(
                f"an argument of a jitted function, a {type(self._argument).__name__}, holds more than {MOST_VALUES} "
                "values, and the trace may depend on each: pass what is needed as tensors, or let its class implement "
                "zyx.runtime.tracing.SupportsTraceKey"
            )
        of = self.of
        return tuple([(kind, value) if (kind := type(value)) in EXACT else of(value) for value in found])

    def _of_object(self, value: object, kind: type, about: AboutClass) -> Structure:
        if about.has_trace_key:
            return (kind, identity_key(value), value.trace_key)  # type: ignore[attr-defined]
        state: tuple[Structure, ...] = ()
        if not about.is_left_alone:
            attributes = dict(attributes_of(value)) if about.slots else getattr(value, "__dict__", _NO_DICT)
            state = (*attributes, *self._all(attributes.values()))
            if about.is_dataclass:
                return (kind, state)
        is_known = not about.is_plain and _is_hashable(value)  # its class says what is equal to it
        return (kind, value if is_known else identity_key(value), state)


def _key_of_value(value: object, kind: type) -> Structure:
    if isinstance(value, _COMPARED_BY_IDENTITY):
        return (kind, identity_key(value))
    if isinstance(value, enum.Enum):
        return (kind, value)
    if isinstance(value, np.generic):
        return (kind, value.dtype.str, value.tobytes())
    return (kind, repr(value), value if value == value else None)  # noqa: PLR0124  # NaN


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
