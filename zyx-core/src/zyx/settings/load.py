"""Read all sources of settings and put them together."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from zyx.errors import SettingsError
from zyx.settings import variables
from zyx.settings.check import Checker
from zyx.settings.paths import config_file
from zyx.settings.record import Settings, Sources

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Origin of what a program says about itself.
CODE: Final = "code"


def load_settings(
    given: Settings | Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Settings:
    """Return the settings of all sources: `given` over the environment over the configuration file over defaults.

    Args:
        given: What a program says, with the keys of the configuration file; `Settings` are complete, so nothing else is
            read then.
        environ: Environment; by default that of the process.
        file: Configuration file, which need not exist; by default the user's.

    Raises:
        SettingsError: A value, key or file is wrong; the text lists every fault of that source.
    """
    if isinstance(given, Settings):
        _check_code(msgspec.to_builtins(given))
        return given
    environ = os.environ if environ is None else environ
    file = config_file(environ) if file is None else file
    merged: dict[str, Any] = {}
    origins: dict[str, str] = {}
    if file is not None:
        checker = Checker(lambda _: str(file))
        values = checker.record(read_file(file), Settings)
        checker.finish()
        _merge(merged, values, origins, "", lambda _: str(file))
    from_environment = _from_environment(environ)
    _merge(merged, from_environment, origins, "", variables.VARIABLE_OF.__getitem__)
    if given is not None:
        _merge(merged, _check_code(given), origins, "", lambda _: CODE)
    settings = msgspec.convert(merged, Settings)
    others = {
        name: value
        for name, value in environ.items()
        if name.startswith(variables.PREFIX)
        and value
        and name not in variables.KEY_OF
        and name not in variables.FOREIGN
    }
    sources = Sources(file=None if file is None else str(file), origins=origins, variables=others)
    return msgspec.structs.replace(settings, sources=sources)


def with_changes(settings: Settings, given: Mapping[str, Any]) -> Settings:
    """Return `settings` with what a program says over them; the environment and the file are not read again.

    Args:
        settings: Those in force.
        given: With the keys of the configuration file.

    Raises:
        SettingsError: There is no such key, or it does not take the value.
    """
    values = _check_code(given)
    merged = {key: value for key, value in msgspec.to_builtins(settings).items() if key != "sources"}
    origins = dict(settings.sources.origins)
    _merge(merged, values, origins, "", lambda _: CODE)
    sources = msgspec.structs.replace(settings.sources, origins=origins)
    return msgspec.structs.replace(msgspec.convert(merged, Settings), sources=sources)


def nested(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return `given` with keys such as ``cache.enabled`` as sections: ``{"cache": {"enabled": ...}}``.

    Raises:
        SettingsError: Something is given both as a section and as a value.
    """
    result: dict[str, Any] = {}
    for key, value in given.items():
        *sections, leaf = str(key).split(".")
        inner = result
        for section in sections:
            inner = inner.setdefault(section, {})
            if not isinstance(inner, dict):
                raise SettingsError(f"{CODE}: key {key}: {section} is given the value {inner!r}, too")
        if isinstance(value, Mapping) and isinstance(inner.get(leaf), dict):
            inner[leaf].update(value)
        else:
            inner[leaf] = dict(value) if isinstance(value, Mapping) else value
    return result


def read_file(file: Path) -> dict[str, Any]:
    """Return the object in a configuration file, unchecked; an empty one if the file is not there.

    Raises:
        SettingsError: The file cannot be read, is not JSON, has a key twice, or holds something else than an object.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file}: cannot be read: {error}") from error
    try:
        values = json.loads(text, object_pairs_hook=_without_doubles, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise SettingsError(f"{file}: line {error.lineno}, column {error.colno}: not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{file}: not JSON: {error}") from error
    if not isinstance(values, dict):
        raise SettingsError(f'{file}: holds {values!r}; it takes an object such as {{"threads": 4}}')
    return values


def _check_code(given: Mapping[str, Any]) -> dict[str, Any]:
    checker = Checker(lambda _: CODE)
    values = checker.record({key: value for key, value in given.items() if key != "sources"}, Settings)
    checker.finish()
    return values


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, key in variables.KEY_OF.items():
        if environ.get(name):
            *sections, leaf = key.split(".")
            inner = given
            for section in sections:
                inner = inner.setdefault(section, {})
            inner[leaf] = environ[name]
    checker = Checker(variables.VARIABLE_OF.__getitem__, as_text=True)
    values = checker.record(given, Settings)
    checker.finish()
    return values


def _merge(
    target: dict[str, Any],
    values: Mapping[str, Any],
    origins: dict[str, str],
    prefix: str,
    origin: Callable[[str], str],
) -> None:
    for key, value in values.items():
        path = prefix + key
        if isinstance(value, Mapping):
            _merge(target.setdefault(key, {}), value, origins, f"{path}.", origin)
        else:
            target[key] = value
            origins[path] = origin(path)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {next(key for key in keys if keys.count(key) > 1)!r} stands there twice")
    return values


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no number of JSON")
