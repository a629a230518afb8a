"""Learn from texts, by adapters beside a model's weights or by changing all of them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import zyx
from zyx.errors import InvalidArgumentError
from zyx_llm.language_model import load
from zyx_llm.model.memory import explained, free_bytes, size_text
from zyx_llm.tuning import (
    LEARNED,
    TARGETS,
    Choices,
    Tuning,
    load_checkpoint,
    packed,
    read_tokens,
    save_checkpoint,
    save_merged,
    save_weights,
    split,
)

if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    default = Choices()
    parser.add_argument("file", help="a GGUF file, or a folder with config.json, safetensors and tokenizer.json")
    parser.add_argument(
        "data",
        help='a text, or JSON lines (.jsonl) with {"text": ...} or {"messages": [...]} in each',
    )
    parser.add_argument("--device", help="where it runs, such as c or cuda:1; the best one if left out")
    parser.add_argument("--full", action="store_true", help="change all weights, in float32; no adapters")
    for name, kind, value, text in (
        ("rank", int, default.rank, "of adapters"),
        ("steps", int, default.steps, "how many"),
        ("length", int, 256, "tokens of a sequence"),
        ("batch", int, default.batch, "sequences at a time"),
        ("accumulate", int, default.accumulate, "batches whose gradients a step adds up, as if they were one"),
        ("rate", float, default.rate, "the greatest learning rate"),
        ("warmup", int, default.warmup, "steps in which the rate rises, before it falls along half a cosine"),
        ("decay", float, default.decay, "weight decay of AdamW"),
        ("clip", float, default.clip, "the greatest norm of all gradients"),
        ("validation", float, 0.05, "the part of the sequences to validate with; 0 is none"),
        ("every", int, 50, "steps after which losses to validate with are computed, and all is saved"),
        ("seed", int, default.seed, "of first numbers and of the order of sequences"),
    ):
        parser.add_argument(f"--{name}", type=kind, default=value, help=f"{text} (default: %(default)s)")
    parser.add_argument("--alpha", type=float, help="adapters count alpha / rank times; rank if left out")
    parser.add_argument(
        "--target", action="append", choices=TARGETS, help="a matrix of each layer with adapters; all if left out"
    )
    parser.add_argument(
        "--learn",
        choices=LEARNED,
        default=LEARNED[0],
        help="of messages: what the assistant says, or what all say; texts are learned whole (default: %(default)s)",
    )
    parser.add_argument("--out", default="adapter.safetensors", help="where adapters go (default: %(default)s)")
    parser.add_argument("--resume", action="store_true", help="go on where --out was written; choose the same again")
    parser.add_argument("--merge", metavar="OUT.gguf", help="write the model with what was learned, from a GGUF file")


def run(chosen: argparse.Namespace) -> int:
    """Run the command."""
    tuning = _prepared(chosen)
    if not chosen.resume:
        save_checkpoint(chosen.out, tuning)  # what cannot be written is known before hours are spent
    with explained(
        tuning.network.device, lambda free: f"{size_text(free)} were free; try a smaller --length or --batch"
    ):
        _learn(tuning, chosen.every, chosen.out)
    print(f"saved {chosen.out}")
    if chosen.merge:
        if chosen.full:
            save_weights(chosen.merge, chosen.file, tuning.params)
        else:
            save_merged(chosen.merge, chosen.file, tuning.adapters)
        print(f"saved {chosen.merge}")
    return 0


def _prepared(chosen: argparse.Namespace) -> Tuning:
    """Read model and texts, and say what a step takes."""
    if chosen.every < 1:
        raise InvalidArgumentError(f"--every is at least 1, not {chosen.every}")
    if chosen.merge and Path(chosen.file).is_dir():
        raise InvalidArgumentError(f"--merge writes what a GGUF file becomes, and {chosen.file} is a folder")
    if not chosen.resume and Path(chosen.out).exists():
        raise InvalidArgumentError(f"{chosen.out} is there already: go on with --resume, or choose another --out")
    choices = Choices(
        steps=chosen.steps,
        batch=chosen.batch,
        accumulate=chosen.accumulate,
        rank=None if chosen.full else chosen.rank,
        alpha=None if chosen.full else chosen.alpha,
        targets=tuple(chosen.target or TARGETS),
        rate=chosen.rate,
        warmup=chosen.warmup,
        decay=chosen.decay,
        clip=chosen.clip,
        seed=chosen.seed,
    )
    model = load(chosen.file, device=chosen.device, dtype=zyx.float32 if chosen.full else None)
    texts = read_tokens(chosen.data, model, chosen.learn)
    train, validation = split(packed(texts, chosen.length), chosen.validation, chosen.seed)
    tuning = Tuning(model.network, train, validation, choices)
    if chosen.resume:
        load_checkpoint(chosen.out, tuning)
    changed = sum(tensor.size for tensor in tuning.params.values())
    print(
        f"{tuning.network.device}: {len(texts)} texts, {len(train)} sequences of {chosen.length} tokens to learn from "
        f"and {len(validation)} to validate with; {changed} numbers change"
    )
    count, counted = sum(len(text.tokens) for text in texts), sum(text.counted for text in texts)
    if counted < count:
        print(f"{counted} of {count} tokens are learned, the answers; --learn all learns what all say")
    memory = {what: nbytes for what, nbytes in tuning.memory_bytes().items() if nbytes}
    free = free_bytes(tuning.network.device)
    parts = ", ".join(f"{size_text(nbytes)} of {what}" for what, nbytes in memory.items())
    room = "" if free is None else f"; {size_text(free)} are free beside what is loaded"
    print(f"a step takes {size_text(sum(memory.values()))}: {parts}{room}", flush=True)
    return tuning


def _learn(tuning: Tuning, every: int, out: str) -> None:
    steps = tuning.choices.steps
    if tuning.step == 0:
        _say_validation(tuning)
    start, tokens = time.perf_counter(), 0
    size = tuning.choices.batch * tuning.choices.accumulate * tuning.length
    for loss in tuning.run():
        tokens += size
        speed = tokens / (time.perf_counter() - start)
        print(f"step {tuning.step} of {steps}: loss {loss:.4f}, {speed:.0f} tokens/s", flush=True)
        if tuning.step % every == 0 or tuning.step == steps:
            _say_validation(tuning)
            save_checkpoint(out, tuning)


def _say_validation(tuning: Tuning) -> None:
    if (loss := tuning.validate()) is not None:
        print(f"after {tuning.step} steps: validation loss {loss:.4f}", flush=True)
