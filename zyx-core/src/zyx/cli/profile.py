"""``zyx profile SCRIPT``: run a program, and say of each kernel what it took, what was expected, and what bounds it.

zyx profile train.py --epochs 1              a table, most time first; times and memory of the whole below it
zyx profile --top 5 train.py                 the five kernels that took most
zyx profile --json times.json train.py       the same as data, with bytes by level of memory and instructions by kind
zyx profile --trace trace.json train.py      what happened when, for https://ui.perfetto.dev and other viewers

What the program prints goes to where errors go. Every kernel is launched by itself and waited for, so that its time is
its own; the program takes longer than without this. EXPECTED is estimated from the schedule and the device's rates
(``zyx calibrate`` measures these), RATIO is the median of the measured times over it. OF LIMIT is the part that the
kernel reaches of the rate at which the device moves bytes, or computes float32, whichever is more.

A program that fails or is interrupted is profiled as far as it came; the status is its own.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from zyx.cli.output import write_file
from zyx.cli.script import declare_script, profiled_script
from zyx.errors import ArgumentError
from zyx.plugins.describe import columns

if TYPE_CHECKING:
    import argparse

    from rich.console import Console

    from zyx.runtime.profile import Profile


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--json", metavar="FILE", help="write data; to the output in place of the table if it is -")
    parser.add_argument("--trace", metavar="FILE", help="write what happened when, for Perfetto and other viewers")
    parser.add_argument("--top", type=int, metavar="N", help="list the N kernels that took most")
    declare_script(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Run the program and print what it took; return its exit status, 1 if it raised something."""
    if arguments.top is not None and arguments.top < 1:
        raise ArgumentError(f"--top {arguments.top}: the number of kernels to list is at least 1")
    profile, status = profiled_script(arguments, arguments.json, arguments.trace)
    if arguments.trace is not None:
        write_file(arguments.trace, json.dumps(profile.as_trace()))
        sys.stderr.write(f"written to {arguments.trace}, which Perfetto opens\n")
    if arguments.json is not None:
        text = json.dumps(profile.as_json())
        if arguments.json == "-":
            console.print(text)
            return status
        write_file(arguments.json, text)
    show(profile, console, arguments.top)
    return status


def show(profile: Profile, console: Console, top: int | None = None) -> None:
    """Print the table, all of it or its first rows: drawn on a terminal, in plain columns elsewhere."""
    heading, *rows = profile.table()
    shown = rows[:top]
    if not rows:
        console.print("no kernel was launched")
    elif console.is_terminal:
        from rich.table import Table

        table = Table(*heading)
        for row in shown:
            table.add_row(*row)
        console.print(table)
    else:
        for line in columns([heading, *shown]):
            console.print(line)
    if len(shown) < len(rows):
        kernels = profile.kernels()
        share = sum(row.seconds for row in kernels[len(shown) :]) / (sum(row.seconds for row in kernels) or 1.0)
        console.print(f"and {len(rows) - len(shown)} more, which took {100 * share:.2g} % of the time")
    console.print("")
    for line in profile.summary():
        console.print(line)
