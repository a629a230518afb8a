"""``zyx explain SCRIPT --out FOLDER``: run a program, and write what each of its kernels is at every stage.

zyx explain --out stages train.py --epochs 1

    stages/index.txt                          the kernels, with the lines of the program that they compute
    stages/001-max_sum_8x200/1-graph.txt      what it computes, of what it reads
    stages/001-max_sum_8x200/2-nests.txt      the same as loop nests, as they were fused
    stages/001-max_sum_8x200/3-scheduled.txt  the moves of their schedule, and the nests after these
    stages/001-max_sum_8x200/4-lowered.txt    the kernel that was made of them
    stages/001-max_sum_8x200/5-passes.txt     the kernel after the passes, and which of them changed it
    stages/001-max_sum_8x200/6-source.txt     what the backend made of it

Kernels have numbers in the order in which they were planned, one that is launched several times has one. What is kept
on disk is made anew. What the program prints goes to where errors go. If it fails, what was planned until then is
written, and the status is its own. ``ZYX_DEBUG=stages`` prints the same while a program runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from zyx.cli.output import write_file
from zyx.cli.script import declare_script, followed_script, script_of
from zyx.errors import ArgumentError
from zyx.plugins.describe import columns
from zyx.runtime.stages import STAGES, Following

if TYPE_CHECKING:
    import argparse

    from rich.console import Console

    from zyx.runtime.stages import Making


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--out", metavar="FOLDER", required=True, help="a folder that is new, or empty")
    declare_script(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Run the program and write its kernels; return its exit status, 1 if it raised something."""
    script_of(arguments.script)
    folder = _new_folder(arguments.out)
    following = Following()
    status = followed_script(arguments, following)
    kernels = following.kernels()
    rows = write_stages(kernels, folder)
    index = "\n".join(columns([("KERNEL", "DEVICE", "LINES"), *rows])) if rows else "no kernel was launched"
    write_file(str(folder / "index.txt"), f"{index}\n")
    console.print(f"{len(rows)} kernels written to {folder}; {folder / 'index.txt'} lists them")
    return status


def write_stages(kernels: list[Making], folder: Path) -> list[tuple[str, str, str]]:
    """Write a folder for each kernel; return its name, the device and the lines of each.

    Raises:
        ArgumentError: A file cannot be written.
    """
    rows = []
    for number, making in enumerate(kernels, 1):
        name = f"{number:03}-{making.name}"
        own = _new_folder(str(folder / name))
        for stage in making.stages():
            file = own / f"{STAGES.index(stage.name) + 1}-{stage.name}.txt"
            write_file(str(file), f"{stage.text.rstrip()}\n")
        rows.append((name, making.device.name, ", ".join(making.launched.lines)))
    return rows


def _new_folder(name: str) -> Path:
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_empty = next(folder.iterdir(), None) is None
    except OSError as error:
        raise ArgumentError(f"{name} cannot be made: {error.strerror}") from error
    if not is_empty:
        raise ArgumentError(f"{name} is not empty: name a folder that is new, so that all in it is of one run")
    return folder
