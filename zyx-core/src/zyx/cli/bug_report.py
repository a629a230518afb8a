"""What ``zyx doctor --report`` prints: one block for a report of a fault, without names of hosts or users."""

from __future__ import annotations

import os
import platform
import re
import socket
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from zyx.errors import SettingsError
from zyx.plugins.words import one_line
from zyx.settings.load import load_settings
from zyx.settings.paths import thread_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zyx.settings.record import Settings


def bug_report(findings: Iterable[str]) -> str:
    """Return what was found, the packages of zyx and the settings that are not at their defaults, as one block.

    Args:
        findings: Lines of ``zyx doctor``.
    """
    lines = [
        f"processor: {platform.machine()}, {os.cpu_count()} threads",
        *(f"package: {name} {version}" for name, version in packages()),
        *_settings_lines(),
        *findings,
    ]
    return "\n".join(["```text", *(without_names(one_line(line)) for line in lines), "```"])


def packages() -> list[tuple[str, str]]:
    """Return name and version of the distributions of zyx, and of those that bring a backend."""
    found = {}
    for distribution in metadata.distributions():
        try:
            name = distribution.name
            is_ours = name.startswith("zyx") or any(e.group == "zyx.backends" for e in distribution.entry_points)
        except (KeyError, ValueError, AttributeError, TypeError):  # metadata that cannot be read, which is a finding
            continue
        if is_ours:
            found[name] = distribution.version
    return sorted(found.items())


def _settings_lines() -> list[str]:
    try:
        settings = load_settings()
    except SettingsError as error:
        return [f"settings: {error}"]
    return [f"setting: {key} = {value!r} from {origin}" for key, value, origin in not_default(settings)] + [
        f"threads in use: {thread_count(settings)}"
    ]


def not_default(settings: Settings) -> list[tuple[str, Any, str]]:
    """Return key, value and origin of what is set, variables of backends among them; in order of the keys."""
    values = msgspec.to_builtins(settings)
    found = [(key, _at(values, key), origin) for key, origin in settings.sources.origins.items()]
    return sorted(found + [(name, value, "the environment") for name, value in settings.sources.variables.items()])


def _at(values: Mapping[str, Any], key: str) -> Any:  # noqa: ANN401  # whatever a setting takes
    for part in key.split("."):
        if not isinstance(values, dict) or part not in values:
            return None
        values = values[part]
    return values


def without_names(text: str) -> str:
    """Return a text with the home folder as ``~`` and the name of this host as ``HOST``."""
    homes = {os.environ.get("HOME", ""), os.environ.get("USERPROFILE", "")}
    with suppress(RuntimeError, OSError):  # an account without a home folder
        homes |= {str(Path.home()), str(Path.home().resolve())}
    for home in sorted(homes, key=len, reverse=True):
        if len(Path(home).parts) > 1:  # not the root of everything
            text = re.sub(rf"{re.escape(home.rstrip('/'))}(?![\w.-])", "~", text)
    full = socket.gethostname()
    for host in (full, full.partition(".")[0]):
        if host and host != "localhost":
            text = re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", "HOST", text)
    return text
