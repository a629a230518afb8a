"""Print the vectors of texts, one a line, as JSON."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from zyx_llm.language_model import load_embedder
from zyx_llm.program.options import add_model, places_of

if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_model(parser)
    parser.add_argument("texts", nargs="*", metavar="text", help="what to read; lines of the input, if there is none")
    parser.add_argument(
        "--no-normalize", action="store_true", help="leave vectors as long as they are, not of length 1"
    )


def run(chosen: argparse.Namespace) -> int:
    """Run the command."""
    model = load_embedder(chosen.file, **places_of(chosen))
    texts = chosen.texts or [line.rstrip("\n") for line in sys.stdin]
    for row in model.embed(texts, normalize=not chosen.no_normalize):
        print(json.dumps([round(float(each), 7) for each in row]))
    return 0
