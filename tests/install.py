"""Install packages into an environment of tox as pip does, but by uv, which takes a fifth of the time.

    python tests/install.py FOLDER PIP_ARGUMENTS

uv lies in a folder below FOLDER, where the first one to ask installs it, and so do its downloads: each package is
fetched and unpacked once for all environments, which link to its files. It is told where pip looks for packages; where
that is nowhere in particular, it takes the build of torch for processors, which is a tenth of the others. Where uv
cannot be had, where pip is configured in a way that uv is not told of, and where it fails, pip does it all.
"""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Final

UV: Final = "uv>=0.9"

#: What pip's configuration says that uv has to be told, by the names of uv's options.
_SOURCES: Final = {
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "find-links": "--find-links",
}
#: What may be configured of pip without a change of what it installs.
_HARMLESS: Final = {
    "cache-dir", "cert", "default-timeout", "disable-pip-version-check", "no-cache-dir", "no-color", "no-compile",
    "no-input", "progress-bar", "quiet", "require-virtualenv", "retries", "root-user-action", "timeout", "verbose",
}  # fmt: skip
#: Switches that change what pip installs where they are on. Tox switches the first off, which it is anyway.
_SWITCHES: Final = {"user", "pre", "no-deps", "require-hashes"}
_OFF: Final = {"0", "false", "no", "off"}


class Unknown(Exception):
    """Pip is configured by something that uv is not told of; the text names it."""


def main(folder: Path, arguments: list[str]) -> int:
    """Install; return the exit status."""
    try:
        settings = pip_settings()
        options = uv_options(settings)
    except Unknown as why:
        print(f"install: pip, since its configuration names {why}", flush=True)
        return pip(*arguments)
    if uv := find_uv(folder):
        cache = ("--cache-dir", str(folder / "cache"))
        environment = {**os.environ, **({"SSL_CERT_FILE": settings["cert"]} if "cert" in settings else {})}
        command = [str(uv), "pip", "install", "--python", sys.executable, *cache, *options, *arguments]
        if subprocess.run([*command, *anew(arguments)], env=environment, check=False).returncode == 0:
            return 0
        print("install: once more, by pip", flush=True)
    return pip(*arguments)


def anew(arguments: list[str]) -> list[str]:
    """Return what has uv build packages in folders again that it has built: it does not look at all of their files."""
    folders = [Path(argument.partition("[")[0]) for argument in arguments]
    projects = [tomllib.loads((path / "pyproject.toml").read_text("utf-8")) for path in folders if path.is_dir()]
    return [f"--reinstall-package={settings['project']['name']}" for settings in projects]


def pip_settings() -> dict[str, str]:
    """Return what pip is configured with, by files and variables: by these, where both name the same."""
    command = [sys.executable, "-I", "-m", "pip", "config", "list"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = sorted((line.partition("=") for line in told.splitlines()), key=lambda line: line[0].startswith(":env:"))
    found = {}
    for name, _, value in lines:
        section, _, option = name.rpartition(".")
        if section in {"global", "install", ":env:"}:
            found[option] = str(ast.literal_eval(value))
    return found


def uv_options(settings: dict[str, str]) -> list[str]:
    """Return what makes uv look for packages where pip does, and choose the newest of all these places.

    Raises:
        Unknown: There is no saying whether it would.
    """
    off = {name for name, value in settings.items() if name in _SWITCHES and value.lower() in _OFF}
    if unknown := settings.keys() - _SOURCES.keys() - _HARMLESS - off:
        raise Unknown(", ".join(sorted(unknown)))
    sources = [
        word
        for name, option in _SOURCES.items()
        for place in settings.get(name, "").split()
        for word in (option, place)
    ]
    torch = [] if sources else ["--torch-backend", "cpu"]
    return ["--no-config", "--no-sources", "--index-strategy", "unsafe-best-match", *sources, *torch]


def find_uv(folder: Path) -> Path | None:
    """Return the program, which the first one to ask installs; None if it cannot be had."""
    key = hashlib.sha256("\0".join([sys.version, UV]).encode()).hexdigest()[:16]
    target = folder / key
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        ours = Path(tempfile.mkdtemp(dir=folder))
        if pip("--quiet", "--only-binary", ":all:", "--target", str(ours), UV):
            return None
        try:
            ours.rename(target)
        except OSError:  # another one was faster
            shutil.rmtree(ours)
    return next((path for path in (target / "bin" / "uv", target / "bin" / "uv.exe") if path.exists()), None)


def pip(*arguments: str) -> int:
    """Run ``pip install`` of this environment; return its exit status."""
    command = [sys.executable, "-I", "-m", "pip", "install", *arguments]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
