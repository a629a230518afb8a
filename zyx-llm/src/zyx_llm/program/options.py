"""Options that several commands have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import zyx
from zyx_llm.generation import Sampling
from zyx_llm.language_model import load

if TYPE_CHECKING:
    import argparse

    from zyx_llm.language_model import LanguageModel

_DTYPES = {"float32": zyx.float32, "float16": zyx.float16, "bfloat16": zyx.bfloat16}


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add what says which model runs where."""
    parser.add_argument("file", help="a GGUF file, or a folder with config.json, safetensors and tokenizer.json")
    parser.add_argument("--device", help="where it runs, such as c or cuda:1; the best one if left out")
    parser.add_argument(
        "--dtype",
        choices=("packed", *_DTYPES),
        default="packed",
        help="of matrices; packed keeps blocks as the file has them, and is float32 for others (default: %(default)s)",
    )
    parser.add_argument(
        "--cache-dtype", choices=_DTYPES, default="float32", help="of keys and values (default: %(default)s)"
    )
    parser.add_argument(
        "--activations",
        choices=("float", "int8"),
        default="float",
        help="what packed matrices are multiplied with; int8 rounds, and answers may change (default: %(default)s)",
    )
    parser.add_argument(
        "--context", type=int, help="the most tokens at a time; what the file says by default, to 32768"
    )


def model_of(chosen: argparse.Namespace) -> LanguageModel:
    """Load the model that was chosen."""
    activations = None if chosen.activations == "float" else chosen.activations
    return load(chosen.file, cache_dtype=_DTYPES[chosen.cache_dtype], activations=activations, **places_of(chosen))


def places_of(chosen: argparse.Namespace) -> dict[str, Any]:
    """Return what was chosen of device, dtype and context."""
    return {"device": chosen.device, "dtype": _DTYPES.get(chosen.dtype), "context": chosen.context}


def add_sampling(parser: argparse.ArgumentParser, *, temperature: float) -> None:
    """Add what says how tokens are chosen."""
    default = Sampling()
    parser.add_argument("--limit", type=int, default=512, help="the most tokens of an answer (default: %(default)s)")
    parser.add_argument("--stop", action="append", default=[], help="a text that ends an answer; may be given again")
    add_draft(parser)
    for name, kind, value, text in (
        ("temperature", float, temperature, "what logits are divided by; 0 takes the likeliest token always"),
        ("top-k", int, default.top_k, "how many tokens are looked at; 0 is all"),
        ("top-p", float, default.top_p, "which part of the probability is looked at"),
        ("min-p", float, default.min_p, "which part of the greatest probability a token needs"),
        ("repetition-penalty", float, default.repetition_penalty, "what logits of earlier tokens are divided by"),
        ("seed", int, default.seed, "of the numbers that tokens are drawn by"),
    ):
        parser.add_argument(f"--{name}", type=kind, default=value, help=f"{text} (default: %(default)s)")


def add_draft(parser: argparse.ArgumentParser) -> None:
    """Add how many tokens are proposed."""
    parser.add_argument(
        "--draft",
        type=int,
        default=0,
        help="tokens that are proposed at a time out of what was said before, and checked in one step; 7 suits texts "
        "that quote it, and --temperature is 0 (default: %(default)s)",
    )


def sampling_of(chosen: argparse.Namespace) -> Sampling:
    """Return how tokens are to be chosen."""
    return Sampling(
        temperature=chosen.temperature,
        top_k=chosen.top_k,
        top_p=chosen.top_p,
        min_p=chosen.min_p,
        repetition_penalty=chosen.repetition_penalty,
        seed=chosen.seed,
    )
