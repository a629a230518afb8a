"""Answer what is typed, until the input ends; Ctrl-C ends an answer."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from zyx.errors import FormatError
from zyx_llm.program.options import add_model, add_sampling, model_of, sampling_of
from zyx_llm.program.speed import show

if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_model(parser)
    parser.add_argument("--system", help="what the model is told before the talk")
    parser.add_argument("--quiet", action="store_true", help="say nothing but the answers")
    add_sampling(parser, temperature=0.7)


def run(chosen: argparse.Namespace) -> int:
    """Run the command."""
    sampling = sampling_of(chosen)
    model = model_of(chosen)
    if model.template is None:
        raise FormatError(
            f"{chosen.file} has no chat template: it was not made to talk; zyx-llm run goes on from texts"
        )
    session = model.session(sampling)
    messages = [{"role": "system", "content": chosen.system}] if chosen.system else []
    while True:
        try:
            question = input("> " if sys.stdin.isatty() else "")
        except EOFError:
            return 0
        except KeyboardInterrupt:
            print("\nthe end of the input (Ctrl-D) ends the talk", file=sys.stderr)
            continue
        if not question.strip():
            continue
        messages.append({"role": "user", "content": question})
        pieces = model.answer(
            model.talk(messages), limit=chosen.limit, stops=chosen.stop, session=session, draft=chosen.draft
        )
        messages.append({"role": "assistant", "content": show(pieces, session, model, quiet=chosen.quiet)})
