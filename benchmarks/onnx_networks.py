"""Time networks in ONNX files with zyx and with ONNX Runtime, on the processor and on the same inputs.

    python benchmarks/onnx_networks.py FOLDER_OR_FILE ...            # all .onnx files below
    python benchmarks/onnx_networks.py nets --threads 2 --only silero --rounds 11

Both have as many threads as `--threads` says, one by default. They take turns in rounds; a round is as many calls as
take some milliseconds, arrays of NumPy in and out, and the table has the medians of the rounds. The ratio is ONNX
Runtime's time over ours: above 1, zyx is faster. How far results are apart is in the last column.

The first call is with loading, and nothing kept on disk; "second process" is that of a new process that finds what the
first one has kept, without importing Python's modules. Inputs are drawn: sizes that a file does not fix are those of
`--size`, and else the first of a few that ONNX Runtime takes.
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
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: What is tried for sizes that are not fixed.
SIZES: Final = (32, 64, 96, 320, 576, 16_000)
ROUND_S: Final = 0.02
_TYPES: Final = {
    "float16": np.float16, "float": np.float32, "double": np.float64, "int64": np.int64, "int32": np.int32,
    "int8": np.int8, "uint8": np.uint8, "bool": np.bool_,
}  # fmt: skip


def session_of(path: Path, threads: int) -> Any:  # of a package without types
    """Return ONNX Runtime's session of a file."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def drawn(session: Any, unknown: Callable[[str, int, int], int]) -> dict[str, Any]:
    """Return inputs; `unknown` gives a size by the name of the input, the axis, and how many axes there are."""
    random = np.random.default_rng(0)
    arrays = {}
    for given in session.get_inputs():
        shape = [
            size if isinstance(size, int) else unknown(given.name, axis, len(given.shape))
            for axis, size in enumerate(given.shape)
        ]
        dtype = np.dtype(_TYPES[given.type.removeprefix("tensor(").removesuffix(")")])
        if dtype.kind == "f":
            arrays[given.name] = np.asarray(random.standard_normal(shape) * 0.1, dtype)
        elif not shape:
            arrays[given.name] = np.array(16_000, dtype)  # a rate, of what takes sounds
        else:
            arrays[given.name] = random.integers(0, 2 if dtype.kind == "b" else 5, shape).astype(dtype)
    return arrays


def inputs_of(session: Any, sizes: dict[str, tuple[int, ...]]) -> tuple[dict[str, Any], list[Any]]:
    """Return inputs that a session takes, and what it gives of them.

    Raises:
        RuntimeError: It takes none of the sizes that are tried.
    """
    error: Exception | None = None
    for size in SIZES:
        for is_last_only in (False, True):

            def unknown(name: str, axis: int, count: int, size: int = size, last: bool = is_last_only) -> int:
                if name in sizes:
                    return sizes[name][axis]
                return size if count == 1 or (axis and (axis == count - 1 or not last)) else 1

            arrays = drawn(session, unknown)
            try:
                return arrays, session.run(None, arrays)
            except Exception as raised:  # noqa: BLE001  # the package has many kinds of errors, for what it does not take
                error = raised
    raise RuntimeError(f"ONNX Runtime takes none of the sizes {SIZES}: {str(error)[:200]}")


def difference(ours: list[Any], theirs: list[Any]) -> float:
    """Return the greatest difference, beside the greatest number of a result where that is above 1.

    What is no number has to be so in both.
    """
    worst = 0.0
    for mine, other in zip(ours, theirs, strict=True):
        a, b = mine.astype(np.float64), other.astype(np.float64)
        known = np.isfinite(b)
        if a.shape != b.shape or not np.array_equal(a[~known], b[~known], equal_nan=True):
            return math.inf
        a, b = a[known], b[known]
        if b.size:
            worst = max(worst, float(np.max(np.abs(a - b)) / max(1.0, np.max(np.abs(b)))))
        if not np.isfinite(a).all():
            return math.inf
    return worst


def arrays_of(results: dict[str, Any]) -> list[Any]:
    """Return the results of a network as arrays."""
    return [value.numpy() if hasattr(value, "numpy") else np.asarray(value) for value in results.values()]


def first_call(path: Path, device: str, inputs: dict[str, Any]) -> tuple[Any, list[Any], float]:
    """Return a network, what it gives, and how long loading it and its first call take."""
    import zyx.io.onnx

    started = time.perf_counter()
    model = zyx.io.onnx.load(path, device)
    results = arrays_of(model.run(inputs))
    return model, results, time.perf_counter() - started


def medians(calls: list[Callable[[], object]], rounds: int) -> list[float]:
    """Return the median seconds of a call of each, which take turns."""
    counts = []
    for call in calls:
        call()
        call()
        started = time.perf_counter()
        call()
        counts.append(max(1, round(ROUND_S / (time.perf_counter() - started))))
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for number, call in enumerate(calls):
            started = time.perf_counter()
            for _ in range(counts[number]):
                call()
            times[number].append((time.perf_counter() - started) / counts[number])
    return [statistics.median(one) for one in times]


def second_process(path: Path, device: str, inputs: dict[str, Any]) -> float:
    """Return the seconds of loading and of the first call in a new process."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "inputs.npz"
        np.savez(kept, **inputs)
        command = [sys.executable, __file__, str(path), "--device", device, "--first-call-of", str(kept)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    return float(json.loads(done.stdout.splitlines()[-1]))


def files_in(given: list[str], only: str) -> Iterator[tuple[str, Path]]:
    """Yield the files and what they are called: their path below the folder that was given."""
    for name in given:
        found = Path(name)
        for path in sorted(found.rglob("*.onnx")) if found.is_dir() else [found]:
            shown = str(path.relative_to(found)) if found.is_dir() else path.name
            if only in shown:
                yield shown, path


def sizes_in(given: list[str]) -> dict[str, tuple[int, ...]]:
    """Return shapes by name, of ``name=1x3x48x320``."""
    return {name: tuple(map(int, text.split("x"))) for name, _, text in (entry.rpartition("=") for entry in given)}


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", help="files, or folders whose .onnx files are taken")
    parser.add_argument("--device", default="c:0")
    parser.add_argument("--threads", type=int, default=1, help="of both libraries")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="", help="what names of files are to have in them")
    parser.add_argument(
        "--size", action="append", default=[], metavar="FILE:INPUT=1x3x48x320", help="the shape of an input, where free"
    )
    parser.add_argument("--no-second", action="store_true", help="without the second process")
    parser.add_argument("--first-call-of", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.first_call_of:
        with np.load(options.first_call_of) as kept:
            inputs = dict(kept)
        print(first_call(Path(options.paths[0]), options.device, inputs)[2])
        return
    os.environ["ZYX_NUM_THREADS"] = str(options.threads)  # before zyx is imported
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ZYX_CACHE_DIR"] = folder
        report(options)


def report(options: argparse.Namespace) -> None:
    """Print the table."""
    import zyx

    print(f"{zyx.device_info(options.device).model}, threads of each: {options.threads}\n")
    print(
        "| network | zyx, ms | ONNX Runtime, ms | ratio | first call, s | second process, s | difference |\n"
        "|---|---|---|---|---|---|---|"
    )
    ratios = []
    sizes = sizes_in(options.size)
    for name, path in files_in(options.paths, options.only):
        try:
            session = session_of(path, options.threads)
            own = {key.partition(":")[2]: shape for key, shape in sizes.items() if key.partition(":")[0] in name}
            inputs, expected = inputs_of(session, own)
        except Exception as error:  # noqa: BLE001  # of many kinds; the others are timed all the same
            print(f"| {name} | - | {' '.join(str(error).split())[:120]} | | | | |", flush=True)
            continue
        model, results, first_s = first_call(path, options.device, inputs)
        worst = difference(results, expected)
        calls: list[Callable[[], object]] = [
            lambda model=model, inputs=inputs: arrays_of(model.run(inputs)),
            lambda session=session, inputs=inputs: session.run(None, inputs),
        ]
        mine, theirs = medians(calls, options.rounds)
        second = "" if options.no_second else f"{second_process(path, options.device, inputs):.2f}"
        ratios.append(theirs / mine)
        print(
            f"| {name} | {mine * 1e3:.3f} | {theirs * 1e3:.3f} | {theirs / mine:.2f} | {first_s:.2f} | {second} | "
            f"{worst:.0e} |",
            flush=True,
        )
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        print(f"\n{len(ratios)} networks, geometric mean of the ratios {mean:.3f}")


if __name__ == "__main__":
    main()
