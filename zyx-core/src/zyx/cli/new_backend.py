"""``zyx new-backend NAME``: write a package for a backend of one's own, which works as it was written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zyx.backend import API_VERSION
from zyx.builtin.plugin import BUILT_IN
from zyx.errors import SettingsError
from zyx.plugins.choose import CPU
from zyx.plugins.discover import installed
from zyx.plugins.state import KNOWN
from zyx.version import __version__

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from rich.console import Console

#: The files, as text with ``@name@`` and the like in it. The suffix keeps them from being taken for source.
_FILES: Final = Path(__file__).parent / "new_backend_files"
_SUFFIX: Final = ".txt"
#: Files and folders whose names begin with a dot where they are written.
_HIDDEN: Final = ("gitignore", "github")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", metavar="NAME", help="of the backend, as in NAME:0: lower-case letters, digits and _")
    parser.add_argument(
        "--folder", type=Path, help="where to write it; by default zyx-backend-NAME, in the folder where you are"
    )


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Do it."""
    name: str = arguments.name
    check_name(name)
    folder: Path = arguments.folder or Path(f"zyx-backend-{distribution(name)}")
    paths = write_package(name, folder)
    console.print(f"wrote {len(paths)} files to {folder}; it works as it is:\n")
    console.print(f"    cd {folder}")
    console.print("    pip install -e '.[testing]'")
    console.print(f"    pytest --pyargs zyx.testing --zyx-device {name}\n")
    console.print("The tests take some minutes as long as Python runs the kernels. README.md says how to go on.")
    return 0


def check_name(name: str) -> None:
    """Check the name of a backend that is to be written.

    Raises:
        SettingsError: It is not a word, or there is a backend of that name.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise SettingsError(
            f"{name!r} is no name for a backend: it begins with a lower-case letter, and has lower-case letters, "
            "digits and underscores only"
        )
    taken = {**dict.fromkeys(BUILT_IN, "built in"), CPU: "what the fastest device on host memory is called"}
    taken |= {known: "one of the backends of zyx itself" for known in KNOWN}
    taken |= {found.name: f"that of the package {found.package}" for found in installed()[0] if found.name not in KNOWN}
    if name in taken:
        raise SettingsError(f"the name {name!r} is taken: it is {taken[name]}; choose another one")


def write_package(name: str, folder: Path) -> list[Path]:
    """Write the package of backend `name`, which was checked, to `folder`; return the files.

    Raises:
        SettingsError: There is something in `folder`, or it cannot be written.
    """
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            what = "is not empty" if folder.is_dir() else "is a file"
            raise SettingsError(f"{folder} {what}; name another folder with --folder, or move what is there away")
        paths = []
        for place, text in rendered(name):
            path = folder / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            paths.append(path)
    except OSError as error:
        raise SettingsError(f"{folder} cannot be written: {error}") from error
    return paths


def rendered(name: str) -> Iterator[tuple[Path, str]]:
    """Yield the place of each file in the package of backend `name`, and its text."""
    major, minor = (int(part) for part in __version__.split(".")[:2])
    values = {
        "name": name,
        "Name": "".join(part.capitalize() for part in name.split("_")),
        "NAME": name.upper(),
        "dist": distribution(name),
        "api": str(API_VERSION),
        "oldest": f"{major}.{minor}",
        "next": f"{major}.{minor + 1}",
    }
    for file in sorted(_FILES.rglob(f"*{_SUFFIX}")):
        place = file.relative_to(_FILES)
        place = place.with_name(place.name.removesuffix(_SUFFIX))
        if place.parts[0] == "package":
            place = Path("src", f"zyx_backend_{name}", *place.parts[1:])
        elif place.parts[0] in _HIDDEN:
            place = Path(f".{place}")
        text = file.read_text(encoding="utf-8")
        yield place, re.sub(r"@(\w+)@", lambda match: values[match[1]], text)


def distribution(name: str) -> str:
    """Return what a backend's package is called, behind ``zyx-backend-``."""
    return name.replace("_", "-")
