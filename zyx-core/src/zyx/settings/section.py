"""The section of one backend: ``backends.<name>`` in the configuration, ``ZYX_<NAME>_<FIELD>`` in the environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from zyx.settings import variables
from zyx.settings.check import Checker, fields_of
from zyx.settings.load import CODE

if TYPE_CHECKING:
    from zyx.settings.record import Settings

T = TypeVar("T")

_ENABLED: Final = "enabled"


class _Switch(msgspec.Struct, frozen=True, kw_only=True):
    enabled: bool | None = None


class Nothing(msgspec.Struct, frozen=True):
    """The section of a backend that has nothing to configure."""


def is_enabled(settings: Settings, backend: str) -> bool | None:
    """Return what the configuration says about switching `backend` on or off; None if it says nothing.

    Raises:
        SettingsError: Neither true nor false.
    """
    given = settings.backends.get(backend, {})
    return _read(settings, backend, _Switch, {_ENABLED: given[_ENABLED]} if _ENABLED in given else {}).enabled


def backend_section(settings: Settings, backend: str, record: type[T]) -> T:
    """Return the section of `backend` as a `record`: its values over the record's defaults.

    Raises:
        SettingsError: A key that `record` lacks, or a value that it does not take.
        TypeError: `record` is no dataclass or `msgspec.Struct`, or has a field of core's, or one without default.
    """
    fields = fields_of(record)
    if _ENABLED in fields:
        raise TypeError(f"{record.__name__} has a field {_ENABLED!r}, which is core's to read")
    given = {key: value for key, value in settings.backends.get(backend, {}).items() if key != _ENABLED}
    return _read(settings, backend, record, given)


def _read(settings: Settings, backend: str, record: type[T], given: dict[str, Any]) -> T:
    prefix = f"backends.{backend}"
    sources = settings.sources
    checker = Checker(lambda path: sources.origins.get(path, CODE))
    values = checker.record(given, record, prefix)
    checker.finish()
    from_environment = {
        field: sources.variables[variable]
        for field in fields_of(record)
        if (variable := variables.of_section(backend, field)) in sources.variables
        and sources.origins.get(f"{prefix}.{field}") != CODE
    }
    checker = Checker(lambda path: variables.of_section(backend, path.rpartition(".")[2]), as_text=True)
    values |= checker.record(from_environment, record, prefix)
    checker.finish()
    try:
        return msgspec.convert(values, record)
    except msgspec.ValidationError as error:
        raise TypeError(f"{record.__name__}: {error}; every field needs a default") from error
