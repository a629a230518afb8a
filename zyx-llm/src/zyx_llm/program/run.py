"""Go on from a text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx_llm.program.options import add_model, add_sampling, model_of, sampling_of
from zyx_llm.program.speed import show

if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_model(parser)
    parser.add_argument("prompt", help="what to go on from; a question, if the model talks")
    parser.add_argument("--raw", action="store_true", help="take the prompt as it is, though the model talks")
    parser.add_argument("--quiet", action="store_true", help="say nothing but the answer")
    add_sampling(parser, temperature=0.0)


def run(chosen: argparse.Namespace) -> int:
    """Run the command."""
    sampling = sampling_of(chosen)
    model = model_of(chosen)
    prompt = chosen.prompt
    if model.template is not None and not chosen.raw:
        prompt = model.talk([{"role": "user", "content": prompt}])
    session = model.session(sampling)
    show(
        model.answer(prompt, limit=chosen.limit, stops=chosen.stop, session=session, draft=chosen.draft),
        session,
        model,
        quiet=chosen.quiet,
    )
    return 0
