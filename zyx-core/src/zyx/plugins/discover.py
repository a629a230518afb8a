"""Find the installed packages that declare a backend."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

GROUP: Final = "zyx.backends"


@dataclass(frozen=True, slots=True)
class Found:
    """An entry point of a package.

    Attributes:
        name: The backend's name.
        value: Where the plugin lies, such as ``zyx_backend_c.plugin``.
        package: Name of the distribution.
        version: Of the distribution.
        load: Imports the plugin and returns it.
    """

    name: str
    value: str
    package: str
    version: str
    load: Callable[[], object]


def installed() -> tuple[list[Found], list[str]]:
    """Return what is installed, sorted by name and package, and the packages whose metadata cannot be read.

    Each distribution is read by itself: `importlib.metadata.entry_points` gives up at the first one that is damaged.
    Of two copies of a distribution, of the same version or not, the one that comes first on `sys.path` counts, as for
    imports.
    """
    found: dict[tuple[str, str, str], Found] = {}
    copies: dict[str, metadata.Distribution] = {}
    damaged: list[str] = []
    for distribution in metadata.distributions():
        try:
            if GROUP not in (distribution.read_text("entry_points.txt") or ""):
                continue  # as in most packages: taking the text apart takes as long as reading it
            for point in distribution.entry_points:
                if point.group == GROUP:
                    package, version = _name_and_version(distribution)
                    if copies.setdefault(normal(package), distribution) is distribution:
                        entry = Found(point.name, point.value, package, version, point.load)
                        found[point.name, normal(package), point.value] = entry
        except Exception as error:  # noqa: BLE001  # boundary: metadata that other packages have written
            damaged.append(f"a package in {distribution.locate_file('')}: {type(error).__name__}: {error}")
    # The file system's order differs from run to run; sorting makes runs repeatable.
    return [found[key] for key in sorted(found)], damaged


def _name_and_version(distribution: metadata.Distribution) -> tuple[str, str]:
    fields = distribution.metadata
    return fields["Name"] or "a package without a name", fields["Version"] or "unknown"


def normal(package: str) -> str:
    """Return the name of a distribution as installers compare it."""
    return re.sub(r"[-_.]+", "-", package).lower()
