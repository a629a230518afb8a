"""Say how fast tokens are read and written."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from zyx.errors import InvalidArgumentError
from zyx_llm.generation import CHUNKS
from zyx_llm.program.options import add_draft, add_model, model_of
from zyx_llm.program.speed import memory

if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_model(parser)
    add_draft(parser)
    parser.add_argument("--prompt", type=int, default=512, help="tokens that are read (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=128, help="tokens that are written (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="of which the median counts (default: %(default)s)")


def run(chosen: argparse.Namespace) -> int:
    """Run the command."""
    for name in ("prompt", "tokens", "repeats"):
        if getattr(chosen, name) < 1:
            raise InvalidArgumentError(f"--{name} is at least 1, not {getattr(chosen, name)}")
    start = time.perf_counter()
    model = model_of(chosen)
    print(f"{model.network.device}: loaded in {time.perf_counter() - start:.1f} s")
    session = model.session()
    prompt = [(number * 37) % len(model.tokenizer) for number in range(chosen.prompt)]
    read: list[float] = []
    written: list[float] = []
    for repeat in range(chosen.repeats + 1):  # the first one compiles
        session.clear()
        start = time.perf_counter()
        token = session.feed(prompt, CHUNKS[-1]).item()
        middle = time.perf_counter()
        session.clear()
        before = session.steps
        count = sum(1 for _ in session.generate([int(token)], chosen.tokens, draft=chosen.draft))
        steps = session.steps - before
        end = time.perf_counter()
        if repeat:
            read.append(chosen.prompt / (middle - start))
            written.append(count / (end - middle))
        else:
            print(f"compiled and run once in {end - start:.1f} s")
    for what, speeds in ((f"read {chosen.prompt} tokens", read), (f"write {chosen.tokens} tokens", written)):
        print(f"{what}: {statistics.median(speeds):.1f} tokens/s ({min(speeds):.1f} to {max(speeds):.1f})")
    if chosen.draft:
        print(f"{count / max(steps, 1):.2f} tokens a step, of at most {chosen.draft + 1}")
    print(memory(model, session))
    return 0
