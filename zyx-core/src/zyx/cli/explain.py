"""``zyx explain SCRIPT``: run a program, and say of each kernel what it took, what was expected, and what bounds it.

zyx explain train.py --epochs 1           a table, most time first
zyx explain --json train.py > times.json  the same as data, with bytes by level of memory and instructions by kind

What the program prints goes to where errors go. Every kernel is launched by itself and waited for, so that its time is
its own; the program takes longer than without this. EXPECTED is estimated from the schedule and the device's rates
(``zyx calibrate`` measures these), RATIO is the median of the measured times over it.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from zyx.plugins.describe import columns
from zyx.runtime.runtime import current
from zyx.tune.profile import Profile, duration

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from rich.console import Console


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    import argparse

    parser.add_argument("--json", action="store_true", help="print data instead of a table")
    parser.add_argument("script", metavar="SCRIPT", help="the program, a file of Python")
    parser.add_argument("arguments", metavar="ARGUMENT", nargs=argparse.REMAINDER, help="what the program is given")


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Run the program and print what its kernels took; return its exit status, 1 if it raised something."""
    path = Path(arguments.script)
    if not path.is_file():
        console.print(f"zyx explain: there is no file {path}")
        return 1
    profile = Profile()
    with current().profiled(profile):
        status = run_script(path, arguments.arguments)
    if arguments.json:
        console.print(json.dumps(profile.as_json()))
    else:
        show(profile, console)
    return status


def run_script(path: Path, arguments: Sequence[str]) -> int:
    """Run a file as Python would, and return its exit status; what it raises is printed."""
    before = sys.argv, sys.path[:]
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, os.fspath(path.resolve().parent))
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        sys.stderr.write(f"{ended.code}\n")
        return 1
    except Exception:  # noqa: BLE001  # border: somebody's program
        traceback.print_exc()
        return 1
    finally:
        sys.argv, sys.path[:] = before
    return 0


def show(profile: Profile, console: Console) -> None:
    """Print the table: drawn on a terminal, in plain columns elsewhere."""
    rows = profile.table()
    if len(rows) == 1:
        console.print("no kernel was launched")
        return
    if console.is_terminal:
        from rich.table import Table

        table = Table(*rows[0])
        for row in rows[1:]:
            table.add_row(*row)
        console.print(table)
    else:
        for line in columns(rows):
            console.print(line)
    total = profile.as_json()["seconds"]
    console.print(f"\n{sum(row.launches for row in profile.kernels())} launches, {duration(total)} in all")
