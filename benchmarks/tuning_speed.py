"""Time steps of LoRA on a Llama in a GGUF file with zyx and with PyTorch, or check that both have the same losses.

    python benchmarks/tuning_speed.py SmolLM2-135M-Instruct.Q4_1.gguf --length 128 --batch 1 --threads 1,2

The step is that of `zyx-llm tune`: cross entropy of every next token, gradients of adapters of all matrices of all
layers beside weights that stay as they are, the norm of them bounded, AdamW. PyTorch has the network written out in
plain torch, with scaled_dot_product_attention and the fused AdamW, eagerly and, with `--compile`, by torch.compile too,
which takes a compiler of C++. All are given the same weights, in
float32, the same adapters, rates and batches: the losses of the first steps have to agree, or the exit status is 1.

Each library has a process of its own, with as many threads; they take turns, a step at a time, and the table has
medians. The first steps, which compile and are compared, do not count.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

#: Steps whose losses are compared, and by how many nats these may differ.
CHECKED: Final = 3
TOLERANCE: Final = 1e-3
#: Seconds that one step may take, compiling included.
LIMIT_S: Final = 600.0


def rows_of(given: dict[str, Any], model: Any) -> Any:
    """Return the sequences to learn from, tokens of a text over and over."""
    from zyx_llm.tuning import Text, packed

    tokens = model.tokenizer.encode(Path(given["text"]).read_text(encoding="utf-8"), parse_special=False)
    least = given["length"] * given["batch"] * 4 + 1
    return packed([Text(tokens * math.ceil(least / len(tokens)))], given["length"])


def choices_of(given: dict[str, Any]) -> Any:
    """Return what decides what is learned."""
    from zyx_llm.tuning import Choices

    steps = CHECKED + given["rounds"]
    return Choices(steps=steps, batch=given["batch"], rank=given["rank"], rate=1e-3, warmup=CHECKED)


def zyx_steps(given: dict[str, Any]) -> Iterator[float]:
    """Give the loss of each step with zyx."""
    import zyx
    import zyx_llm
    from zyx_llm.tuning import Tuning

    dtype = None if given["dtype"] == "packed" else getattr(zyx, given["dtype"])
    model = zyx_llm.load(given["file"], device=given["device"], dtype=dtype)
    rows = rows_of(given, model)
    return Tuning(model.network, rows, rows[:0], choices_of(given)).run()


def torch_steps(given: dict[str, Any]) -> Iterator[float]:
    """Give the loss of each step with PyTorch."""
    import torch

    import zyx
    import zyx_llm
    from zyx_llm.tuning import batch_of, new_adapters

    torch.set_num_threads(given["threads"])
    model = zyx_llm.load(given["file"], device=given["device"], dtype=zyx.float32)
    rows, choices, config = rows_of(given, model), choices_of(given), model.network.config
    weights = {name: torch.tensor(weight.numpy()) for name, weight in model.network.weights.items()}
    adapters = {
        name: tuple(torch.tensor(part.numpy(), requires_grad=True) for part in (each.a, each.b))
        for name, each in new_adapters(model.network, choices.rank, choices.alpha, seed=choices.seed).items()
    }
    del model
    params = [part for pair in adapters.values() for part in pair]
    optimizer = torch.optim.AdamW(params, choices.rate, weight_decay=choices.decay, fused=True)
    rates = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: share_of_rate(step, choices))
    is_compiled, scale = given["is_compiled"], choices.alpha / choices.rank
    network = Llama(weights, adapters, scale, config, given["length"], has_complex=not is_compiled)
    logits_of = torch.compile(network.logits) if is_compiled else network.logits
    for step in range(choices.steps):
        tokens = torch.tensor(batch_of(rows, step, choices.batch, choices.seed)["token"].copy()).long()
        logits = logits_of(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, choices.clip)
        optimizer.step()
        rates.step()
        yield loss.item()


def share_of_rate(step: int, choices: Any) -> float:
    """Return the part of the greatest learning rate that a step has."""
    if step < choices.warmup:
        return float((step + 1) / (choices.warmup + 1))
    return (1.0 + math.cos(math.pi * (step - choices.warmup) / (choices.steps - choices.warmup))) / 2.0


class Llama:
    """The network in plain torch, with the names and the order of places that GGUF has.

    Args:
        weights: By name; they stay as they are.
        adapters: Pairs of A and B, by the names of matrices.
        scale: How much these count.
        config: Of `zyx_llm`.
        length: Tokens of a sequence.
        has_complex: Whether pairs are turned as complex numbers: fewest operations, for which nothing is compiled.
    """

    def __init__(
        self,
        weights: dict[str, Any],
        adapters: dict[str, Any],
        scale: float,
        config: Any,
        length: int,
        *,
        has_complex: bool,
    ) -> None:
        import torch

        is_plain = config.rope.is_interleaved and not config.rope.divisors and config.experts is None
        if config.architecture != "llama" or not is_plain or any(config.windows):
            raise RuntimeError(f"only a plain Llama is written out here, not {config.architecture}")
        self._weights, self._adapters, self._scale, self._config = weights, adapters, scale, config
        head = config.head_width
        divisors = config.rope.base ** (torch.arange(0, head, 2, dtype=torch.float64) / head)
        angles = torch.arange(length)[:, None] / divisors
        self._turns = torch.polar(torch.ones_like(angles), angles).to(torch.complex64)
        self._parts = self._turns.real.contiguous(), self._turns.imag.contiguous()
        self._torch, self._has_complex = torch, has_complex

    def _linear(self, x: Any, name: str) -> Any:
        linear = self._torch.nn.functional.linear
        a, b = self._adapters[name]
        return linear(x, self._weights[f"{name}.weight"]) + self._scale * linear(linear(x, a), b)

    def _norm(self, x: Any, name: str) -> Any:
        scale = self._weights[f"{name}.weight"]
        return self._torch.nn.functional.rms_norm(x, scale.shape, scale, self._config.epsilon)

    def _turned(self, x: Any) -> Any:
        torch, pairs = self._torch, x.unflatten(-1, (-1, 2))
        if self._has_complex:
            return torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * self._turns).flatten(-2)
        (a, b), (cosines, sines) = pairs.unbind(-1), self._parts
        return torch.stack((a * cosines - b * sines, a * sines + b * cosines), -1).flatten(-2)

    def logits(self, tokens: Any) -> Any:
        """Return ``(rows, length, vocabulary)``."""
        functional, config = self._torch.nn.functional, self._config
        rows, length = tokens.shape
        x = self._weights["token_embd.weight"][tokens]
        for layer in range(len(config.windows)):
            start = f"blk.{layer}."
            y = self._norm(x, f"{start}attn_norm")
            q, k, v = (
                self._linear(y, f"{start}attn_{name}").reshape(rows, length, -1, config.head_width).transpose(1, 2)
                for name in "qkv"
            )
            groups = config.heads // config.key_heads
            k, v = (each.repeat_interleave(groups, 1) for each in (self._turned(k), v))
            y = functional.scaled_dot_product_attention(self._turned(q), k, v, is_causal=True)
            x = x + self._linear(y.transpose(1, 2).flatten(-2), f"{start}attn_output")
            y = self._norm(x, f"{start}ffn_norm")
            y = functional.silu(self._linear(y, f"{start}ffn_gate")) * self._linear(y, f"{start}ffn_up")
            x = x + self._linear(y, f"{start}ffn_down")
        head = "output.weight" if "output.weight" in self._weights else "token_embd.weight"
        return functional.linear(self._norm(x, "output_norm"), self._weights[head])


def serve(pipe: Connection, given: dict[str, Any]) -> None:
    """Make a step each time that something comes through a pipe, until its other end is closed."""
    kinds: dict[str, Callable[[dict[str, Any]], Iterator[float]]] = {"zyx": zyx_steps, "torch": torch_steps}
    try:
        steps = kinds[given["kind"]](given)
        while True:
            pipe.recv()
            started = time.perf_counter()
            loss = next(steps)
            pipe.send((loss, time.perf_counter() - started))
    except EOFError:
        return
    except Exception as error:  # noqa: BLE001  # of any library; the parent says it
        pipe.send(RuntimeError(f"{type(error).__name__}: {error}"))


class Side:
    """A library with a model that learns, in a process of its own.

    Args:
        given: What its process is told.
    """

    def __init__(self, given: dict[str, Any]) -> None:
        torch = "PyTorch compiled" if given["is_compiled"] else "PyTorch"
        self.name = torch if given["kind"] == "torch" else f"zyx {given['dtype']}"
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=serve, args=(other, given), daemon=True)
        self._process.start()
        other.close()

    def step(self) -> tuple[float, float]:
        """Make a step, and return its loss and its seconds.

        Raises:
            RuntimeError: It cannot, or takes too long.
        """
        self._pipe.send(None)
        if not self._pipe.poll(LIMIT_S):
            raise RuntimeError(f"{self.name} took more than {LIMIT_S:.0f} s for a step")
        answer = self._pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        loss, seconds = answer
        return loss, seconds

    def close(self) -> None:
        """End its process."""
        self._process.kill()
        self._process.join()
        self._pipe.close()


def times(given: dict[str, Any], dtypes: list[str]) -> dict[str, dict[str, list[float]]]:
    """Return losses and seconds of each step, by side."""
    os.environ["ZYX_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(given["threads"])  # the processes inherit them
    sides = [Side(given | {"kind": "zyx", "dtype": dtype, "is_compiled": False}) for dtype in dtypes]
    for is_compiled in [False, True][: 1 + given["compile"]]:
        sides.append(Side(given | {"kind": "torch", "is_compiled": is_compiled}))
    found: dict[str, dict[str, list[float]]] = {side.name: {"losses": [], "seconds": []} for side in sides}
    try:
        for _ in range(CHECKED + given["rounds"]):
            for side in sides:
                loss, seconds = side.step()
                found[side.name]["losses"].append(loss)
                found[side.name]["seconds"].append(seconds)
    finally:
        for side in sides:
            side.close()
    return found


def show(found: dict[str, dict[str, list[float]]], given: dict[str, Any]) -> bool:
    """Print a table of what `times` returns; return whether the first losses agree."""
    tokens = given["length"] * given["batch"]
    print(
        f"\nthreads of each: {given['threads']}; {given['batch']} sequences of {given['length']} tokens, rank "
        f"{given['rank']}, {given['rounds']} rounds; load of the machine {os.getloadavg()[0]:.1f}\n\n"
        f"| | tokens/s | of PyTorch | first step, s | losses of the first {CHECKED} |\n|---|---|---|---|---|"
    )
    peer = found["PyTorch"]
    agree = True
    for name, side in found.items():
        rates = [tokens / took for took in side["seconds"][CHECKED:]]
        ratio = statistics.median(rates) / statistics.median(tokens / took for took in peer["seconds"][CHECKED:])
        pairs = zip(side["losses"][:CHECKED], peer["losses"][:CHECKED], strict=True)
        agree &= all(abs(mine - theirs) <= TOLERANCE for mine, theirs in pairs)
        losses = ", ".join(f"{loss:.5f}" for loss in side["losses"][:CHECKED])
        print(
            f"| {name} | {statistics.median(rates):.1f} ({min(rates):.1f} to {max(rates):.1f}) | {ratio:.2f} | "
            f"{side['seconds'][0]:.1f} | {losses} |",
            flush=True,
        )
    print(f"\nlosses of the first {CHECKED} steps {'agree' if agree else 'DO NOT AGREE'} within {TOLERANCE:g}")
    return agree


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", help="a GGUF file with a Llama")
    parser.add_argument("--text", default=str(Path(__file__).parents[1] / "README.md"), help="what is learned")
    parser.add_argument("--device", default="c:0", help="where zyx runs (default: %(default)s)")
    parser.add_argument("--dtype", default="float32", help="of zyx's weights, such as float32,packed")
    parser.add_argument("--threads", default="1", help="of each library, such as 1,2 (default: %(default)s)")
    parser.add_argument("--length", type=int, default=128, help="tokens of a sequence (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=1, help="sequences of a step (default: %(default)s)")
    parser.add_argument("--rank", type=int, default=8, help="of adapters (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="of which the median counts (default: %(default)s)")
    parser.add_argument("--compile", action="store_true", help="also by torch.compile, which compiles for minutes")
    parser.add_argument("--json", help="a file that what was found is written to")
    options = parser.parse_args()
    agree, everything = True, []
    for threads in map(int, options.threads.split(",")):
        given = vars(options) | {"threads": threads}
        found = times(given, options.dtype.split(","))
        agree &= show(found, given)
        everything.append({"threads": threads, "sides": found})
    if options.json:
        Path(options.json).write_text(json.dumps(everything, indent=1), encoding="utf-8")
    return int(not agree)


if __name__ == "__main__":
    sys.exit(main())
