"""Tokens a second that `zyx_llm.serving` writes for some clients at once, who ask again as soon as they are answered.

    python benchmarks/serving.py SmolLM2-135M-Instruct.Q4_1.gguf --dtype float32 --clients 1 --clients 32

All prompts differ from the first token on: none finds pages of another. Figures are of the engine alone, without
HTTP. What is compiled is compiled before.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time

import zyx
import zyx_llm
from zyx_llm.serving import BatchEngine, Request

_DTYPES = {"packed": None, "float32": zyx.float32, "float16": zyx.float16, "bfloat16": zyx.bfloat16}


def main() -> None:
    """Print a line for each number of clients."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("file")
    parser.add_argument("--device")
    parser.add_argument("--dtype", choices=_DTYPES, default="packed")
    parser.add_argument("--cache-dtype", choices=[*_DTYPES][1:], default="float32")
    parser.add_argument("--activations", choices=("float", "int8"), default="float")
    parser.add_argument("--clients", type=int, action="append", help="1, 8 and 32 by default; may be given again")
    parser.add_argument("--prompt", type=int, default=32, help="tokens of each")
    parser.add_argument("--tokens", type=int, default=64, help="that are written for each")
    parser.add_argument("--requests", type=int, default=1, help="of each client, one after the other")
    given = parser.parse_args()
    model = zyx_llm.load(
        given.file,
        device=given.device,
        dtype=_DTYPES[given.dtype],
        activations=None if given.activations == "float" else given.activations,
        context=256,
    )
    counts = given.clients or [1, 8, 32]
    engine = BatchEngine(model.network, (), rows=max(counts), pages=16 * max(counts), dtype=_DTYPES[given.cache_dtype])
    started = time.perf_counter()
    engine.steps.warm()
    print(f"{model.network.device}, {given.dtype}: compiled in {time.perf_counter() - started:.1f} s")
    for count in counts:
        rate, waits = measure(engine, count, given)
        print(f"{count:3} clients: {rate:7.1f} tokens/s, the first token after {statistics.median(waits):.2f} s")
    engine.close()


def measure(engine: BatchEngine, clients: int, given: argparse.Namespace) -> tuple[float, list[float]]:
    """Return tokens written a second by all clients, and seconds until the first token of each request."""
    waits: list[float] = []

    def client(number: int) -> None:
        for request in range(given.requests):
            start = 7 + 131 * (number + clients * request)
            tokens = tuple((start + 37 * place) % 30000 for place in range(given.prompt))
            asked = time.perf_counter()
            for place, _ in enumerate(engine.submit(Request(tokens, given.tokens))):
                if place == 0:
                    waits.append(time.perf_counter() - asked)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return clients * given.requests * given.tokens / (time.perf_counter() - started), waits


if __name__ == "__main__":
    main()
