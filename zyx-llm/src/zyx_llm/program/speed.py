"""How fast an answer came, and what it took."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zyx_llm.generation import Session
    from zyx_llm.language_model import LanguageModel


def show(pieces: Iterator[str], session: Session, model: LanguageModel, *, quiet: bool) -> str:
    """Print an answer as it comes, and after it how fast it was; return it. Ctrl-C ends it.

    Args:
        pieces: Of `LanguageModel.answer`.
        session: What it was given.
        model: Whose answer it is.
        quiet: Whether nothing is said about it.
    """
    start, before, first = time.perf_counter(), session.length, None
    found: list[str] = []
    try:
        for piece in pieces:
            if first is None:
                first = time.perf_counter(), session.length
            print(piece, end="", flush=True)
            found.append(piece)
    except KeyboardInterrupt:
        print(" ...", end="")
    end = time.perf_counter()
    print(flush=True)
    if not quiet:
        said = [f"{session.network.device}"]
        if first is not None:
            read, written = first[1] - before, session.length - first[1]
            said.append(f"{read} tokens until the answer began: {read / (first[0] - start):.1f} tokens/s")
            if written and end > first[0]:
                said.append(f"{written} after that: {written / (end - first[0]):.1f} tokens/s")
        said.append(memory(model, session))
        if session.length >= session.network.length:
            said.append(f"the context of {session.network.length} tokens is full")
        print("; ".join(said), file=sys.stderr)
    return "".join(found)


def memory(model: LanguageModel, session: Session) -> str:
    """Return what the weights of a model take, and what was said."""
    weights, cache = model.network.weight_bytes / 1e6, session.cache_bytes / 1e6
    return f"{weights:.0f} MB of weights, {cache:.0f} MB of keys and values"
