"""Install packages into an environment of tox, as pip does, but with what builds ours installed once for all.

    python tests/install.py FOLDER PIP_ARGUMENTS

pip makes an environment for the build of each package in a folder, also if it stays there (``-e``), which is most
of what it does here. So what they name in ``[build-system]`` lies in a folder below FOLDER, of which nothing but the
builds sees anything. What is not ours and has no wheel may need more: then it is all done as pip does it by itself.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]

#: Its children find what lies in the first argument.
_PIP = """
import os, runpy, sys
folder = sys.argv.pop(1)
if folder:
    os.environ["PYTHONPATH"] = folder
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


def main(folder: Path, arguments: list[str]) -> int:
    """Install; return the exit status of pip."""
    if "-e" in arguments or any(Path(argument.partition("[")[0]).is_dir() for argument in arguments):
        tools = build_tools(folder)
        if tools is not None and pip("--no-build-isolation", *arguments, tools=tools) == 0:
            return 0
        print("install: once more, each package in an environment of its own", flush=True)
    return pip(*arguments)


def build_requirements() -> list[str]:
    """Return what the packages of this repository are built with."""
    paths = [*ROOT.glob("zyx-*/pyproject.toml"), *ROOT.glob("examples/zyx-*/pyproject.toml")]
    texts = [path.read_text(encoding="utf-8") for path in paths]
    named = {name for text in texts for name in tomllib.loads(text)["build-system"]["requires"]}
    return sorted(named | {"editables"})  # which hatchling asks for where packages stay


def build_tools(folder: Path) -> Path | None:
    """Return where the tools for builds lie, which the first one to ask installs; None if they cannot be had."""
    wanted = build_requirements()
    key = hashlib.sha256("\0".join([sys.version, *wanted]).encode()).hexdigest()[:16]
    target = folder / key
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        ours = Path(tempfile.mkdtemp(dir=folder))
        if pip("--quiet", "--target", str(ours), *wanted):
            return None
        try:
            ours.rename(target)
        except OSError:  # another one was faster
            shutil.rmtree(ours)
    return target


def pip(*arguments: str, tools: Path | None = None) -> int:
    """Run ``pip install`` of this environment; return its exit status.

    What it starts finds `tools`, which it takes not to be installed itself.
    """
    command = [sys.executable, "-P", "-c", _PIP, "" if tools is None else str(tools), "install", *arguments]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
