"""Run ``zyx bisect`` on a program in a process whose source has a fault."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

#: Imported by Python before anything else: reads one module with another text in the place of one of its own.
_PLANT: Final = """
import importlib.machinery
import sys

NAME, OLD, NEW = {name!r}, {old!r}, {new!r}


class Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname):
        source = self.get_source(fullname)
        assert source.count(OLD) == 1, source.count(OLD)
        return compile(source.replace(OLD, NEW), self.path, "exec", dont_inherit=True)


class Finder:
    def find_spec(self, fullname, path, target=None):
        if fullname != NAME:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        spec.loader = Loader(fullname, spec.origin)
        return spec


sys.meta_path.insert(0, Finder())
"""


class Fault(NamedTuple):
    """A text of a module, and what stands there in its place."""

    module: str
    old: str
    new: str


def command(
    folder: Path, name: str, program: str, *arguments: str, fault: Fault | None = None, device: str = "interpreter"
) -> subprocess.CompletedProcess[str]:
    """Run a command of zyx on a program, which is written to a folder as ``program.py``, there."""
    (folder / "program.py").write_text(program, encoding="utf-8")
    planted = folder / "planted"
    planted.mkdir(exist_ok=True)
    text = "" if fault is None else _PLANT.format(name=fault.module, old=fault.old, new=fault.new)
    (planted / "sitecustomize.py").write_text(text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "zyx", name, *arguments, "program.py"],
        env={
            "PATH": "",
            "HOME": str(folder),
            "PYTHONPATH": str(planted),
            "PYTHONDONTWRITEBYTECODE": "1",  # what is planted is for this process alone
            "ZYX_BACKENDS": device,
            "ZYX_DEVICE": device,
        },
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
