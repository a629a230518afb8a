"""``zyx COMMAND``: find the command's module and run it."""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import TYPE_CHECKING, Final, Protocol, TextIO, cast

from rich.console import Console

from zyx.cli.output import own_output
from zyx.errors import ZyxError
from zyx.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

#: What each command is for; it lives in the module ``zyx.cli.<name>`` (an underscore for a hyphen), imported when it is
#: run or asked for help.
COMMANDS: Final = {
    "bench": "time ten programs, beside other libraries that are installed",
    "bisect": "run a program, and name the stage or pass that makes a number of it wrong",
    "cache": "list or clear what is kept on disk",
    "calibrate": "measure how fast devices are, for estimates of what schedules take",
    "demo": "train a small network on handwritten digits",
    "devices": "list the devices, and why other backends have none",
    "doctor": "check the installation, and say what to do next",
    "explain": "run a program, and write each of its kernels at every stage from the graph to the source",
    "inspect": "list the tensors in a file and what is said about them, without reading values",
    "launch": "run a program in several processes, which compute together",
    "new-backend": "write a package for a backend of your own, which works as it was written",
    "profile": "run a program, and say what each of its kernels took and what bounds it; or write that as a trace",
    "tune": "run a program, search faster schedules for its kernels, and keep what is found",
    "view": "run a program, and show its kernels, plans, time and memory on a page for a browser",
    "run": "compute a network of an ONNX file, or say how long it takes",
}


class Command(Protocol):
    """What the module of a command has."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""

    def run(self, arguments: argparse.Namespace, console: Console) -> int:
        """Do it; return the exit status."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0, or 1 if something is wrong, or 2 for wrong arguments."""
    given = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        prog="zyx",
        description="Tensors that run on every device.",
        epilog=_summary(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"zyx {__version__}")
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", nargs="?")
    name = parser.parse_args(given[:1]).command
    if name is None:
        parser.error(f"say which command: {', '.join(COMMANDS)}")
    command = cast("Command", importlib.import_module(f"zyx.cli.{name.replace('-', '_')}"))
    own = argparse.ArgumentParser(prog=f"zyx {name}", description=f"{COMMANDS[name].capitalize()}.")
    command.configure(own)
    arguments = own.parse_args(given[1:])
    try:
        with own_output() as (output, errors):
            try:
                return command.run(arguments, _console(output))
            except ZyxError as error:
                _console(errors).print(f"zyx {name}: {error}")
                return 1
    except BrokenPipeError:  # whoever read our output, such as head, has seen enough
        return 1


def _console(file: TextIO) -> Console:
    return Console(file=file, highlight=False, markup=False, soft_wrap=True)


def _summary() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {summary}" for name, summary in COMMANDS.items()]
    return "\n".join(["commands:", *lines, "", "zyx COMMAND --help says more about each."])
