"""Run the Python of guides and of the README, and write down what it prints.

    python tests/write_guides.py           compare; exits with 1 if a page shows something else than what is printed
    python tests/write_guides.py --write   write it

A page is one program: its blocks of Python, one after the other. A block of ``text`` right below one of these is what
that one prints. It is run on the interpreter, so that pages are the same whatever the machine has.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
README: Final = ROOT / "README.md"
#: A block of Python, and what stands between it and the next one's output if that comes at once.
_PYTHON: Final = re.compile(r"^```python\n(.*?)^```\n(?:(\n```text\n)(.*?)(^```\n))?", re.DOTALL | re.MULTILINE)
#: Printed between two blocks: a character that no program here prints.
_MARK: Final = "\x1e"


def guides() -> list[Path]:
    """Return the pages, in order."""
    return sorted(DOCS.rglob("*.md"))


def python_of(path: Path) -> list[str]:
    """Return the blocks of Python of a page."""
    return [found[1] for found in _PYTHON.finditer(path.read_text(encoding="utf-8"))]


def printed(path: Path) -> list[str]:
    """Run the Python of a page, and return what each block prints.

    Raises:
        RuntimeError: It fails, or warns; the text is what it says.
    """
    blocks = python_of(path)
    if not blocks:
        return []
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "guide.py"
        script.write_text(f"\n\nprint({_MARK!r}, end='')\n\n".join(blocks), encoding="utf-8")
        environment = {**os.environ, "ZYX_DEVICE": "interpreter"}
        done = subprocess.run(
            [sys.executable, "-W", "error", script],
            cwd=folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{path.name}: {done.stderr}")
    return done.stdout.split(_MARK)


def with_output(path: Path) -> str:
    """Return the text of a page with what its blocks print, where it shows that."""
    outputs = iter(printed(path))

    def shown(found: re.Match[str]) -> str:
        output = next(outputs)
        if not found[2]:
            return found[0]
        return f"```python\n{found[1]}```\n{found[2]}{output}{found[4]}"

    return _PYTHON.sub(shown, path.read_text(encoding="utf-8"))


def main() -> int:
    """Compare or write the pages that show output."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the pages")
    given = parser.parse_args()
    status = 0
    for path in (README, *guides()):
        before = path.read_text(encoding="utf-8")
        if "\n```text\n" in before and (text := with_output(path)) != before:
            status = 1
            if given.write:
                path.write_text(text, encoding="utf-8")
            print(f"{path.relative_to(ROOT)} is another")
    return 0 if given.write else status


if __name__ == "__main__":
    sys.exit(main())
