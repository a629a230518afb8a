"""``zyx bisect SCRIPT``: run a program, and name the stage that makes a number of it wrong.

zyx bisect train.py --epochs 1              each kernel is compared with the graph that it computes, in float64
zyx bisect --launches 100 train.py          the first 100 launches of each kernel of a plan; else the first one
zyx bisect --points 10000000 train.py       kernels of up to so many points, which take longer
zyx bisect --tolerance 1e-6 train.py        floats may be off by that part of their size; else by what their type allows

Where the device's result is not what the graph says, what the kernel was at each stage is run by interpreters, on the
same inputs: the nests as they were fused and after each move of their schedule, the kernel as it was lowered and after
each pass. The first that differs is named, with the line of the program, the largest difference, and the texts before
and after. If all agree, it is the backend: what it renders, the compiler, or the device.

The status is 1 if something differs, or the program fails, and 0 if all that was compared agrees. Kernels that were not
looked at are listed with the reason. What the program prints goes to where errors go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.cli.output import write_file
from zyx.cli.script import declare_script, followed_script
from zyx.errors import ArgumentError
from zyx.runtime.bisecting import LAUNCHES, MOST_POINTS, Bisection

if TYPE_CHECKING:
    import argparse

    from rich.console import Console


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--points", type=int, default=MOST_POINTS, metavar="N", help="look at kernels of at most N points (%(default)s)"
    )
    parser.add_argument(
        "--launches", type=int, default=LAUNCHES, metavar="N", help="look at N launches of a kernel (%(default)s)"
    )
    parser.add_argument(
        "--tolerance", type=float, metavar="X", help="how far floats may be off, as a part of their size"
    )
    parser.add_argument(
        "--every-stage", action="store_true", help="run the stages of kernels whose results are right, too"
    )
    parser.add_argument("--out", metavar="FILE", help="write what differs to a file, with all texts")
    declare_script(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Run the program and say what differs; return 1 if something does, or else the program's exit status."""
    for name, least in (("points", 1), ("launches", 1)):
        if getattr(arguments, name) < least:
            raise ArgumentError(f"--{name} {getattr(arguments, name)}: it is at least {least}")
    if arguments.tolerance is not None and not 0 <= arguments.tolerance < 1:
        raise ArgumentError(f"--tolerance {arguments.tolerance}: it is a part, from 0 to below 1")
    if arguments.out is not None:
        write_file(arguments.out, "")  # refused before the program takes its time
    bisection = Bisection(
        tolerance=arguments.tolerance,
        most_points=arguments.points,
        launches=arguments.launches,
        every_stage=arguments.every_stage,
    )
    status = followed_script(arguments, bisection)
    text = "\n\n".join(map(str, bisection.findings))
    if text and arguments.out is not None:
        write_file(arguments.out, f"{text}\n")
    for line in text.splitlines():
        console.print(line)
    if text:
        console.print("")
    show(bisection, console)
    if status:
        console.print(f"the program ended with status {status}: what it launched until then was compared")
    return 1 if bisection.findings else status


def show(bisection: Bisection, console: Console) -> None:
    """Print how much was compared, what differs, and what was not looked at."""
    differing = len(bisection.findings)
    differ = "1 of them differs" if differing == 1 else f"{differing or 'none'} of them differ"
    launches = f"{bisection.compared} launch{'es' * (bisection.compared != 1)}"
    console.print(f"{launches} compared, {differ}")
    if bisection.repeated:
        console.print(f"not looked at: {bisection.repeated} more launches of the same kernels (--launches)")
    for (kernel, why), count in bisection.passed_over.items():
        console.print(f"not looked at: {kernel}{f', {count} times' * (count > 1)}: {why}")
