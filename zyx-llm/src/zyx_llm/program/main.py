"""The command ``zyx-llm``: what it takes, and how it ends.

    zyx-llm run FILE PROMPT      goes on from a text
    zyx-llm chat FILE            answers what is typed; Ctrl-C ends an answer, the end of the input ends the talk
    zyx-llm bench FILE           says how fast tokens are read and written
    zyx-llm embed FILE TEXT...   prints vectors of texts
    zyx-llm serve FILE           answers clients of OpenAI's interface, and has a page to talk
    zyx-llm tune FILE DATA       learns from texts

A text goes to the standard output, and what is said about it to the standard error. The status is 0, 1 after an error
of a file, a device or a value, and 2 if the command is not understood.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from zyx.errors import ZyxError
from zyx_llm.program import bench, chat, embed, run, serve, tune
from zyx_llm.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {"run": run, "chat": chat, "bench": bench, "embed": embed, "serve": serve, "tune": tune}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit status."""
    parser = argparse.ArgumentParser("zyx-llm", description="Language models on every device that zyx runs on.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module in COMMANDS.items():
        summary = (module.__doc__ or "").partition("\n")[0]
        module.configure(commands.add_parser(name, help=summary, description=summary))
    chosen = parser.parse_args(arguments)
    try:
        status: int = COMMANDS[chosen.command].run(chosen)
        sys.stdout.flush()
    except ZyxError as error:
        print(f"zyx-llm: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130  # as shells say it of SIGINT
    except BrokenPipeError:
        # Whoever read the answer is gone. Python would complain once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status
