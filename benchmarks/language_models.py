"""Time a language model in a GGUF file with zyx and with llama.cpp, or check that zyx writes what it should.

    python benchmarks/language_models.py --file F.gguf --llama FOLDER --threads 1,2
    python benchmarks/language_models.py --file F.gguf --llama FOLDER --check

FOLDER has llama.cpp's libraries at or below it: `language_models_llama.py` says where they come from. Without it, zyx
is timed alone. Each library, and zyx with each `--dtype`, has a process of its own, with as many threads; they take
turns, one at a time, and the table has medians. The first turn, which compiles, does not count. Prompts are read into
an empty cache, and tokens are written after a single one; both choose the likeliest token. Keys and values are float32
with zyx, and float16 with llama.cpp, as either has by itself.

What limits the tokens that are written a second is the bandwidth of reading: of 512 MiB, measured in the same turns
with a sum by zyx, on the same device with the same threads. The last column is the share of it that reading the weights
takes.

`--check` is said in `language_models_check.py`; the exit status is 1 if something does not hold.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

#: Seconds that one turn may take, compiling included. llama.cpp's threads wait for each other by spinning: where others
#: take their cores it may take minutes, and is then begun again.
LIMIT_S: Final = 240.0
#: How often a turn is begun before it is given up.
TRIES: Final = 3
#: Bytes that are read to measure the bandwidth; no cache holds them.
READ_BYTES: Final = 1 << 29


def zyx_turns(given: dict[str, Any]) -> dict[str, Callable[[int], object]]:
    """Load a model with zyx, and return what can be asked of it, by name; each is given a number of tokens."""
    import zyx
    import zyx_llm
    from zyx_llm.generation import CHUNKS

    dtype = None if given["dtype"] in ("packed", "int8") else getattr(zyx, given["dtype"])
    activations = "int8" if given["dtype"] == "int8" else None
    model = zyx_llm.load(
        given["file"], device=given["device"], dtype=dtype, context=given["context"], activations=activations
    )
    session = model.session()
    network = model.network
    total = zyx.jit(lambda x: x.sum())

    def prefill(count: int) -> float:
        session.clear()
        started = time.perf_counter()
        session.feed(prompt_of(count, network.config.vocabulary), CHUNKS[-1]).item()
        return time.perf_counter() - started

    def decode(count: int) -> float:
        session.clear()
        started = time.perf_counter()
        for _ in session.generate([1], count):
            pass
        return time.perf_counter() - started

    def bandwidth(count: int) -> float:
        x = zyx.ones((count // 4,), dtype=zyx.float32, device=network.device).realize()
        total(x).item()
        started = time.perf_counter()
        total(x).item()
        return time.perf_counter() - started

    def about(_: int) -> dict[str, object]:
        return {
            "device": str(network.device),
            "model": zyx.device_info(network.device).model,
            "bytes": read_of(network),
        }

    return {"prefill": prefill, "decode": decode, "bandwidth": bandwidth, "about": about}


def read_of(network: Any) -> int:
    """Return the bytes of weights that zyx reads for a token: all but a table that is for embeddings alone."""
    weights = network._matrices
    unread = weights["token_embd.weight"].nbytes if "output.weight" in weights else 0
    return int(network.weight_bytes) - unread


def llama_turns(given: dict[str, Any]) -> dict[str, Callable[[int], object]]:
    """Load a model with llama.cpp, and return what can be asked of it, as `zyx_turns` does."""
    import gguf
    from language_models_llama import Llama
    from language_models_numpy import nbytes_of

    llama = Llama(Path(given["llama"]), Path(given["file"]), given["context"], given["threads"])

    def prefill(count: int) -> float:
        llama.clear()
        started = time.perf_counter()
        llama.logits(prompt_of(count, llama.vocabulary), last=True).argmax()
        return time.perf_counter() - started

    def decode(count: int) -> float:
        llama.clear()
        started = time.perf_counter()
        llama.greedy([1], count)
        return time.perf_counter() - started

    nbytes = nbytes_of(gguf.GGUFReader(given["file"]))
    return {"prefill": prefill, "decode": decode, "about": lambda _: {"bytes": nbytes}}


def prompt_of(count: int, vocabulary: int) -> list[int]:
    """Return tokens, far from each other in the table of embeddings."""
    return [(number * 37) % vocabulary for number in range(count)]


def serve(pipe: Connection, given: dict[str, Any]) -> None:
    """Answer what comes through a pipe, until its other end is closed."""
    try:
        turns = (llama_turns if given["kind"] == "llama.cpp" else zyx_turns)(given)
        while True:
            name, count = pipe.recv()
            pipe.send(turns[name](count))
    except EOFError:
        return
    except Exception as error:  # noqa: BLE001  # of any library; the parent says it
        pipe.send(error if isinstance(error, RuntimeError) else RuntimeError(f"{type(error).__name__}: {error}"))


class Side:
    """A library with a model, in a process of its own.

    Args:
        given: What its process is told.
    """

    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given
        self.name = given["kind"] if given["kind"] == "llama.cpp" else f"zyx {given['dtype']}"
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=serve, args=(other, self._given), daemon=True)
        self._process.start()
        other.close()

    def ask(self, name: str, count: int = 0) -> Any:
        """Return what its process answers; one that takes too long is begun anew.

        Raises:
            RuntimeError: It cannot, or was too slow each time.
        """
        for _ in range(TRIES):
            self._pipe.send((name, count))
            if self._pipe.poll(LIMIT_S):
                answer = self._pipe.recv()
                if isinstance(answer, Exception):
                    raise answer
                return answer
            self.close()
            self._start()
        raise RuntimeError(f"{self.name} took more than {LIMIT_S:.0f} s for {name} {count} in each of {TRIES} tries")

    def close(self) -> None:
        """End its process."""
        self._process.kill()
        self._process.join()
        self._pipe.close()


def times(options: argparse.Namespace, threads: int) -> dict[str, Any]:
    """Return what was measured with so many threads."""
    os.environ["ZYX_NUM_THREADS"] = str(threads)
    common = {key: getattr(options, key) for key in ("file", "device", "llama", "context")} | {"threads": threads}
    sides = [Side(common | {"kind": "zyx", "dtype": dtype}) for dtype in options.dtype.split(",")]
    if options.llama:
        sides.append(Side(common | {"kind": "llama.cpp"}))
    try:
        about = [side.ask("about") for side in sides]
        turns = (("prefill", options.prompt), ("decode", options.tokens))
        seconds: dict[tuple[str, str], list[float]] = {}
        reads = []
        for number in range(options.rounds + 1):
            for side in sides:
                for name, count in turns:
                    took = side.ask(name, count)
                    if number:
                        seconds.setdefault((side.name, name), []).append(took)
            reads.append(READ_BYTES / sides[0].ask("bandwidth", READ_BYTES))
    finally:
        for side in sides:
            side.close()
    bandwidth = statistics.median(reads)
    rows = []
    for side, said in zip(sides, about, strict=True):
        prefill, decode = (
            [count / took for took in seconds[side.name, name]] for name, count in turns
        )  # tokens a second, each round
        share = statistics.median(decode) * said["bytes"] / bandwidth
        rows.append({"name": side.name, "prefill": prefill, "decode": decode, "bytes": said["bytes"], "share": share})
    return {"threads": threads, "bandwidth": bandwidth, "device": about[0], "rows": rows}


def show(measured: dict[str, Any], options: argparse.Namespace) -> None:
    """Print a table of what `times` returns."""
    print(
        f"\n{measured['device']['device']}: {measured['device']['model']}; threads of each: {measured['threads']}; "
        f"reading {measured['bandwidth'] / 1e9:.1f} GB/s; load of the machine {os.getloadavg()[0]:.1f}\n\n"
        f"| | prefill {options.prompt}, tokens/s | of llama.cpp | decode {options.tokens}, tokens/s | of llama.cpp | "
        "MB a token | of the bandwidth |\n|---|---|---|---|---|---|---|"
    )
    peer = next((row for row in measured["rows"] if row["name"] == "llama.cpp"), None)
    for row in measured["rows"]:
        cells = []
        for name in ("prefill", "decode"):
            mine = statistics.median(row[name])
            cells.append(f"{mine:.1f} ({min(row[name]):.1f} to {max(row[name]):.1f})")
            cells.append("" if peer is None else f"{mine / statistics.median(peer[name]):.2f}")
        print(f"| {row['name']} | {' | '.join(cells)} | {row['bytes'] / 1e6:.1f} | {row['share']:.0%} |", flush=True)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--file", required=True, help="a GGUF file")
    parser.add_argument("--llama", help="the folder at or below which llama.cpp's libraries lie")
    parser.add_argument("--device", default="c:0", help="where zyx runs (default: %(default)s)")
    parser.add_argument(
        "--dtype",
        default="float32",
        help="of zyx's matrices, such as packed,float32,bfloat16, or int8: packed, and activations rounded",
    )
    parser.add_argument("--threads", default="1", help="of each library, such as 1,2 (default: %(default)s)")
    parser.add_argument("--prompt", type=int, default=512, help="tokens that are read (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=128, help="tokens that are written (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="of which the median counts (default: %(default)s)")
    parser.add_argument("--context", type=int, default=2048, help="the most tokens (default: %(default)s)")
    parser.add_argument("--check", action="store_true", help="compare what is computed, instead of how fast")
    parser.add_argument("--only", default="", help="which of the checks, such as logits,greedy; all if left out")
    parser.add_argument("--greedy", type=int, default=128, help="tokens that are checked (default: %(default)s)")
    parser.add_argument("--json", help="a file that what was found is written to")
    options = parser.parse_args()
    threads = [int(text) for text in options.threads.split(",")]
    if options.check:
        os.environ["ZYX_NUM_THREADS"] = str(threads[0])  # before zyx is imported
        from language_models_check import check

        found: Any = check(options, threads[0])
        failed = [row["name"] for row in found if not row["holds"]]
        print(f"\n{len(found) - len(failed)} of {len(found)} hold{'; not: ' * bool(failed)}{', '.join(failed)}")
    else:
        found, failed = [], []
        for count in threads:
            found.append(times(options, count))
            show(found[-1], options)
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1), encoding="utf-8")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
