"""Checks of what zyx computes of a language model, beside llama.cpp and the network in NumPy.

logits      of a prompt of 64 tokens: the norm of the difference from NumPy's beside theirs. llama.cpp rounds what
            matrices are multiplied by to 8 bits, and is that far from NumPy: zyx may be no farther from llama.cpp than
            NumPy is, or llama.cpp from itself where it reads the prompt token by token
greedy      the likeliest tokens, one after the other: those of NumPy, or, where they part, two whose logits are as good
            as equal. Beside llama.cpp, the two are as near as its logits are to NumPy's there
perplexity  of 1,000 tokens of the repository's licence: NumPy's to four digits, llama.cpp's to three
compiled    nothing after the second of 300 tokens, nor for prompts of 20 lengths after the first three

Each check that holds or does not is a line; what is known beside it is in brackets.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from language_models_llama import Llama
from language_models_numpy import Decode

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

LICENCE: Final = Path(__file__).parents[1] / "LICENSE"
#: The most that logits may be from NumPy's, as a part of their norm, where weights are the same.
LOGITS: Final = 1e-3
#: Logits that are nearer than this are as good as equal.
EQUAL: Final = 1e-3
#: Of how many standard deviations of the difference of logits two of them may have been exchanged.
WIDE: Final = 6.0
#: Parts that perplexities may differ by: from NumPy's, and from llama.cpp's.
PERPLEXITY: Final = (5e-4, 5e-3)
#: How many times farther from llama.cpp than NumPy zyx may be: where it rounds, it rounds elsewhere.
FARTHER: Final = 1.1
#: The least number of tokens that are read at a time where logits of all are asked for.
_PART: Final = 256
#: Prompts that need every size that parts of prompts have, and the least cache, and so do 17 others.
LENGTHS: Final = (10, 50, 200, 1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 64, 65, 100, 127, 128, 129, 250)


def check(options: argparse.Namespace, threads: int) -> list[dict[str, Any]]:
    """Print and return what holds and what does not, for each dtype of the options."""
    names = [name for name in options.only.split(",") if name] or list(CHECKS)
    if unknown := {*names} - {*CHECKS}:
        raise SystemExit(f"--only takes {', '.join(CHECKS)}, not {', '.join(sorted(unknown))}")
    numpy = Decode(Path(options.file))
    folder = options.llama and Path(options.llama)
    llama = Llama(folder, Path(options.file), options.context, threads) if folder else None
    found: list[dict[str, Any]] = []
    for dtype in options.dtype.split(","):
        sides = Sides(options, dtype, numpy, llama)
        for name in names:
            started = time.perf_counter()
            for what, value, limit, beside in CHECKS[name](sides):
                holds = bool(value <= limit)
                row = {"name": f"{dtype} {what}", "value": value, "limit": limit, "holds": holds, "beside": beside}
                found.append(row)
                print(
                    f"{'holds' if holds else 'FAILS'}  {sides.device} {dtype}: {what} {value:.3g}, at most {limit:.3g}"
                    f"{beside and f' ({beside})'}",
                    flush=True,
                )
            print(f"       {name} took {time.perf_counter() - started:.1f} s", flush=True)
    if llama is not None:
        llama.close()
    return found


class Sides:
    """A model with zyx, and what it is held against.

    Attributes:
        numpy: The network in NumPy.
        llama: llama.cpp, or None.
        text: Tokens of the licence.
    """

    def __init__(self, options: argparse.Namespace, dtype: str, numpy: Decode, llama: Llama | None) -> None:
        import zyx
        import zyx_llm

        chosen = None if dtype == "packed" else getattr(zyx, dtype)
        self.numpy, self.llama, self.greedy_count = numpy, llama, options.greedy
        self.model = zyx_llm.load(options.file, device=options.device, dtype=chosen, context=options.context)
        self.device = self.model.network.device
        self.text = self.model.tokenizer.encode(LICENCE.read_text(encoding="utf-8"))
        # A rounding of each matrix, at most; SmolLM2's logits were 1.8 and 3.2 times that away.
        self.rounding = 4 * {"float16": 2.0**-11, "bfloat16": 2.0**-8}.get(dtype, 0.0)

    def logits(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """Return zyx's logits of all tokens."""
        import zyx
        from zyx_llm.model import Cache

        network, size = self.model.network, -(-len(tokens) // _PART) * _PART
        cache = Cache(network.config, 1, size, zyx.float32, self.device)
        parts = []
        for first in range(0, len(tokens), _PART):
            given = zyx.Tensor(np.array([tokens[first : first + _PART]], np.int32), device=self.device)
            place = zyx.Tensor(np.int32(first), device=self.device)
            parts.append(network.logits(network.hidden(given, place, cache))[0].numpy())
        return np.concatenate(parts)

    def of_numpy(self, tokens: Sequence[int], *, rounded: bool = False) -> NDArray[np.float32]:
        """Return NumPy's logits of all tokens."""
        self.numpy.clear()
        self.numpy.rounded = rounded
        found = self.numpy.logits(tokens)
        self.numpy.rounded = False
        return found

    def of_llama(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """Return llama.cpp's logits of all tokens."""
        assert self.llama is not None
        self.llama.clear()
        return self.llama.logits(tokens)


#: What was checked, what was found, the most that it may be, and what else is known.
_Row = tuple[str, float, float, str]


def logits(sides: Sides) -> list[_Row]:
    """Compare the logits of a prompt."""
    tokens = sides.text[:64]
    mine, exact = sides.logits(tokens), sides.of_numpy(tokens)
    rows = [("logits, from NumPy's", apart(mine, exact), LOGITS + sides.rounding, "")]
    if sides.llama is not None:
        whole = sides.of_llama(tokens)
        sides.llama.clear()
        single = np.concatenate([sides.llama.logits([token]) for token in tokens])
        beside = {
            "NumPy": apart(exact, whole),
            "NumPy rounded likewise": apart(sides.of_numpy(tokens, rounded=True), whole),
            "llama.cpp token by token": apart(single, whole),
        }
        said = ", ".join(f"{name} {value:.3g}" for name, value in beside.items())
        rows.append(("logits, from llama.cpp's", apart(mine, whole), FARTHER * max(beside.values()), said))
    return rows


def greedy(sides: Sides) -> list[_Row]:
    """Compare the likeliest tokens, one after the other."""
    prompt, count = sides.model.tokenizer.encode("Once upon a time"), sides.greedy_count
    mine = list(sides.model.session().generate(prompt, count))
    sides.numpy.clear()
    place, gap, _ = parting(sides, prompt, mine, sides.numpy.greedy(prompt, count))
    rows = [("greedy, logits where it parts from NumPy", gap, EQUAL + 10 * sides.rounding, f"token {place} of {count}")]
    if sides.llama is not None:
        sides.llama.clear()
        place, gap, last = parting(sides, prompt, mine, sides.llama.greedy(prompt, count))
        spread = float((sides.of_llama([*prompt, *mine[:place]])[-1] - last).std())
        rows.append(("greedy, logits where it parts from llama.cpp", gap, WIDE * spread, f"token {place} of {count}"))
    return rows


def parting(
    sides: Sides, prompt: Sequence[int], mine: Sequence[int], other: Sequence[int]
) -> tuple[int, float, NDArray[np.float32]]:
    """Return how many tokens are the same, how far apart NumPy has the next two, and all its logits there."""
    same = next((at for at, pair in enumerate(zip(mine, other, strict=True)) if pair[0] != pair[1]), len(mine))
    last = sides.of_numpy([*prompt, *mine[:same]])[-1]
    return same, float(abs(last[mine[same]] - last[other[same]])) if same < len(mine) else 0.0, last


def perplexity(sides: Sides) -> list[_Row]:
    """Compare the perplexity of a text."""
    tokens = sides.text[:1000]
    mine, exact = (perplexity_of(of(tokens), tokens) for of in (sides.logits, sides.of_numpy))
    limits = [limit + sides.rounding for limit in PERPLEXITY]
    rows = [("perplexity, part from NumPy's", abs(mine / exact - 1), limits[0], f"{mine:.5f}, {exact:.5f}")]
    if sides.llama is not None:
        theirs = perplexity_of(sides.of_llama(tokens), tokens)
        rounded = perplexity_of(sides.of_numpy(tokens, rounded=True), tokens)
        said = f"{mine:.4f}, {theirs:.4f}; NumPy rounded likewise {rounded:.4f}"
        rows.append(("perplexity, part from llama.cpp's", abs(mine / theirs - 1), limits[1], said))
    return rows


def perplexity_of(logits: NDArray[np.float32], tokens: Sequence[int]) -> float:
    """Return the exponential of the mean negative logarithm of what each token but the first was given."""
    wide = logits[:-1] - logits[:-1].max(-1, keepdims=True)
    told = np.log(np.exp(wide).sum(-1, dtype=np.float64)) - wide[np.arange(len(wide)), np.asarray(tokens[1:])]
    return float(np.exp(told.mean()))


def compiled(sides: Sides) -> list[_Row]:
    """Count what is compiled where nothing should be."""
    from zyx.runtime.runtime import current

    compiler, model = current().compiler, sides.model
    session = model.session()
    counts = [
        (session.traces, compiler.compiled) for _ in session.generate(model.tokenizer.encode("Once upon a time"), 300)
    ]
    rows = [("compiled or traced after the second of 300 tokens", sum(counts[-1]) - sum(counts[1]), 0.0, "")]
    after = 0
    for number, length in enumerate(LENGTHS):
        session = model.session()
        for _ in session.generate(sides.text[:length], 2):
            pass
        if number == 2:
            after = session.traces + compiler.compiled
    said = f"{session.traces} traces in all"
    rows.append(
        ("compiled or traced for prompts of 17 more lengths", session.traces + compiler.compiled - after, 0.0, said)
    )
    return rows


def apart(found: NDArray[np.float32], expected: NDArray[np.float32]) -> float:
    """Return the norm of a difference beside that of what is expected."""
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


CHECKS: Final[dict[str, Callable[[Sides], list[_Row]]]] = {
    "logits": logits,
    "greedy": greedy,
    "perplexity": perplexity,
    "compiled": compiled,
}
