"""What tuning gains on programs drawn by seed, and whether any becomes slower.

    python benchmarks/tuned_programs.py --bench FOLDER --seed 505 --programs 40 --seconds 60
    python benchmarks/tuned_programs.py --bench FOLDER --seed 505 --programs 20 --seconds 30 --device cuda

FOLDER is that of a comparison with other libraries, which has ``sweep.py`` and its families. One process with a cache
of its own tunes each program by `zyx.tune`, and has it twice then, with what was found and without; both are timed in
turns, since two processes differ by 5 % with the same kernels. What seems slower by more than 3 % is timed again, for
longer, before it is said to be. Results of both are compared.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

#: Rounds of a timing, seconds of each, and how many times as long the second timing takes.
ROUNDS: Final = 7
ROUND_S: Final = 0.15
AGAIN: Final = 4
#: What is slower by less is not told from noise.
SLOWER: Final = 0.97


class Worker:
    """A process that runs programs, and answers in lines of JSON."""

    def __init__(self, options: argparse.Namespace, cache: str) -> None:
        environment = os.environ | {"XDG_CACHE_HOME": cache}
        command = [sys.executable, __file__, "--worker", "--bench", options.bench, "--device", options.device]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, **question: Any) -> Any:  # what the question is answered by
        """Return the answer to a question."""
        assert self._process.stdin is not None and self._process.stdout is not None  # pipes, both of them
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"a worker ended at {question}")
        return json.loads(answer)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None  # as above
        self._process.stdin.close()
        self._process.wait(60)


def serve(options: argparse.Namespace) -> None:
    """Answer questions until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever is printed meanwhile goes to where errors go
    sys.path.insert(0, options.bench)
    import numpy as np
    from peers.lib import LIBS
    from sweep_families import Case

    import zyx
    from zyx.runtime.runtime import current

    lib = LIBS["zyx"](options.device)
    compiler = current().compiler
    functions: dict[str, Any] = {}
    inputs: list[Any] = []

    def step(which: str) -> Any:  # a tensor or several
        result = functions[which](*inputs)
        lib.peer.sync(result)
        return result

    def make(which: str) -> None:
        """Make the program with what is in the store now."""
        compiler._kernels.clear()
        for known in compiler._programs.values():
            known.nests.clear()
        current().drop_plans()
        functions[which] = lib.compile(case.program)
        for _ in range(4):
            step(which)

    for line in sys.stdin:
        question = json.loads(line)
        match question["do"]:
            case "prepare":
                case = Case(question["family"], question["seed"], question["index"], options.device == "cuda")
                inputs = [lib.put(v, i) for v, i in zip(case.values(0), case.inputs, strict=True)]
                make("plain")
                answer: Any = case.text
            case "tune":
                with zyx.tune(question["seconds"]) as tuning:
                    make("tuned")
                found = compiler.store.entries()
                compiler.store.forget(found)
                make("plain")
                compiler.store.take(found)
                make("tuned")
                answer = {"wrong": sum(len(each.wrong) for each in tuning.results()), **tuning.as_json()}
            case "time":
                times, ends = [], time.perf_counter() + question["seconds"]
                while not times or time.perf_counter() < ends:
                    started = time.perf_counter()
                    step(question["which"])
                    times.append(time.perf_counter() - started)
                answer = statistics.median(times)
            case "results":
                result = step(question["which"])
                arrays = [
                    np.asarray(lib.peer.download(x)) for x in (result if isinstance(result, tuple | list) else [result])
                ]
                np.savez(question["file"], *arrays)
                answer = len(arrays)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def compared(worker: Worker, seconds: float) -> float:
    """Return how many times as fast the tuned program is: the median of the ratios of some rounds."""
    ratios = []
    for number in range(ROUNDS):
        names = ("plain", "tuned") if number % 2 else ("tuned", "plain")
        times = {name: worker.ask(do="time", which=name, seconds=seconds) for name in names}
        ratios.append(times["plain"] / times["tuned"])
    return statistics.median(ratios)


def difference(folder: str, worker: Worker) -> float:
    """Return how far the results of both are from each other, as a part of the largest."""
    import numpy as np

    files = [f"{folder}/{name}.npz" for name in ("plain", "tuned")]
    for file in files:
        worker.ask(do="results", which=Path(file).stem, file=file)
    worst = 0.0
    with np.load(files[0]) as first, np.load(files[1]) as second:
        for name in first.files:
            one, other = first[name].astype(np.float64), second[name].astype(np.float64)
            worst = max(worst, float(np.abs(one - other).max(initial=0.0) / max(np.abs(one).max(initial=0.0), 1e-30)))
    return worst


def main() -> None:
    """Tune, time and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", required=True, help="the folder of the comparison, which has sweep.py")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--seed", type=int, default=505)
    parser.add_argument("--first", type=int, default=0, help="the number of the first program")
    parser.add_argument("--programs", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=60.0, help="of search, for each program")
    parser.add_argument("--deadline", type=float, default=math.inf, help="seconds after which no program is begun")
    parser.add_argument("--save", default="", help="a file that gets a line of JSON for each program")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        serve(options)
        return
    sys.path.insert(0, options.bench)
    from sweep_families import FAMILIES

    families, gains, began = [*FAMILIES], [], time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        worker = Worker(options, folder)
        for number in range(options.first, options.first + options.programs):
            if time.monotonic() - began > options.deadline:
                print(f"the deadline left {options.first + options.programs - number} programs out")
                break
            index, place = divmod(number, len(families))
            case = {"family": families[place], "seed": options.seed, "index": index}
            text = worker.ask(do="prepare", **case)
            found = worker.ask(do="tune", seconds=options.seconds)
            gain = compared(worker, ROUND_S)
            again = compared(worker, AGAIN * ROUND_S) if gain < SLOWER else gain
            gains.append(max(gain, again))
            off = difference(folder, worker)
            row = {**case, "text": text, "gain": gain, "again": again, "off": off, **found}
            if options.save:
                with Path(options.save).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
            kernels, tried = len(found["kernels"]), sum(each["tried"] for each in found["kernels"])
            faster = sum(each["gain"] > 1.0 for each in found["kernels"])
            confirmed = f", again {again:.3f}" if again != gain else ""
            print(
                f"[{number} {time.monotonic() - began:.0f} s] {case['family']} {text[:60]}: {gain:.3f}{confirmed}; "
                f"{faster} of {kernels}, {tried} tried, {found['wrong']} wrong, off by {off:.0e} {found['note']}",
                flush=True,
            )
        worker.close()
    if gains:
        mean = math.exp(statistics.fmean(map(math.log, gains)))
        print(
            f"{len(gains)} programs: geometric mean {mean:.3f}, median {statistics.median(gains):.3f}, most "
            f"{max(gains):.2f}, least {min(gains):.3f}; slower by more than 3 % twice: {sum(g < SLOWER for g in gains)}"
        )


if __name__ == "__main__":
    main()
