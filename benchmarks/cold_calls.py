"""Count what the first run of a program takes in Python: calls, hops between folders, files; or time it.

    python benchmarks/cold_calls.py
    python benchmarks/cold_calls.py --only matmul-256 --folders 12
    python benchmarks/cold_calls.py --time --rounds 9 --beside OTHER/bin/python

Each program runs once in a process of its own, on the CPU backend, with an empty cache, after another small one, which
has imported what all programs need. Counted are calls of functions of zyx-core on the thread that realises (rendering
and compiling are on others), as CPython counts them; those from one top-level folder of `zyx` to another; and the files
that they are in. With ``--time``, the CPU time of that thread is taken instead, nothing counted. ``--beside`` names the
interpreter of another checkout's environment, whose runs alternate with this one's.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def matmul(size: int) -> Callable[[], Any]:
    """Return a product of two square matrices."""
    a, b = array(size, size), array(size, size)
    return lambda: a @ b


def elementwise() -> Callable[[], Any]:
    """Return a few operations on each element."""
    a = array(256, 256)
    return lambda: (a * 2.5 + 1).exp()  # noqa: PLW0108  # all of it is what runs


def softmax(size: int) -> Callable[[], Any]:
    """Return a softmax over rows."""
    a = array(size, size)
    return lambda: a.softmax(axis=-1)


def transformer_block() -> Callable[[], Any]:
    """Return a transformer block of width 128 on 4 texts of 64 tokens: forward, and the gradients of its weights."""
    import zyx
    from zyx.nn import functional as F

    heads, batch, tokens, width = 4, 4, 64, 128
    x = array(batch, tokens, width)
    shapes = [(width, width)] * 4 + [(width, 4 * width), (4 * width, width)]
    weights = [array(*shape) for shape in shapes]

    def of_heads(y: Any) -> Any:
        return y.reshape((batch, tokens, heads, width // heads)).permute_dims((0, 2, 1, 3))

    def run() -> Any:
        with zyx.Tape() as tape:
            q, k, v, o, up, down = weights
            y = F.layer_norm(x, (width,))
            attended = F.scaled_dot_product_attention(of_heads(y @ q), of_heads(y @ k), of_heads(y @ v), is_causal=True)
            h = x + attended.permute_dims((0, 2, 1, 3)).reshape((batch, tokens, width)) @ o
            h = h + F.gelu(F.layer_norm(h, (width,)) @ up) @ down
            loss = (h**2).mean()
        grads = tape.gradient(loss, weights)
        zyx.realize(loss, *grads)
        return loss

    return run


PROGRAMS: dict[str, Callable[[], Callable[[], Any]]] = {
    "matmul-256": lambda: matmul(256),
    "matmul-257": lambda: matmul(257),
    "elementwise": elementwise,
    "softmax-256": lambda: softmax(256),
    "softmax-257": lambda: softmax(257),
    "transformer": transformer_block,
}


def array(*shape: int) -> Any:
    """Return random numbers of the device."""
    import numpy as np

    import zyx

    numbers = np.random.default_rng(0).standard_normal(shape).astype(np.float32) * 0.05
    return zyx.Tensor(numbers).realize()


def measure(name: str, *, is_timed: bool) -> dict[str, Any]:
    """Run a program in this process, and return what it took."""
    import zyx

    root = str(Path(zyx.__file__).parent) + os.sep
    with zyx.device("c"):
        program = PROGRAMS[name]()
        (array(4, 6)[:3, :5] + 1).sum().numpy()
        if is_timed:
            before = time.thread_time()
            program().numpy()
            return {"seconds": time.thread_time() - before}
        calls, files = 0, set[str]()
        hops: collections.Counter[str] = collections.Counter()
        folders: dict[str, str] = {}

        def folder(path: str) -> str:
            found = folders.get(path)
            if found is None:
                found = folders[path] = Path(path).relative_to(root).parts[0] if path.startswith(root) else ""
            return found

        def note(frame: Any, event: str, _: object) -> None:
            nonlocal calls
            path = frame.f_code.co_filename
            if event != "call" or not folder(path):
                return
            calls += 1
            files.add(path)
            caller = frame.f_back
            while caller is not None and not folder(caller.f_code.co_filename):
                caller = caller.f_back
            if caller is not None and folder(caller.f_code.co_filename) != folder(path):
                hops[f"{folder(caller.f_code.co_filename)} -> {folder(path)}"] += 1

        sys.setprofile(note)
        result = program()
        result.numpy()
        sys.setprofile(None)
    return {"calls": calls, "hops": sum(hops.values()), "files": len(files), "folders": dict(hops.most_common())}


def run_alone(python: str, name: str, *, is_timed: bool) -> dict[str, Any]:
    """Return what a program takes in a process of its own, with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        command = [python, __file__, "--worker", name, *(["--time"] if is_timed else [])]
        ran = subprocess.run(
            command, env={**os.environ, "ZYX_CACHE_DIR": cache}, capture_output=True, text=True, check=False
        )
    if ran.returncode:
        raise SystemExit(f"{name} failed with {python}:\n{ran.stderr}")
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def main() -> None:
    """Measure, or run one program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=PROGRAMS, action="append", help="this program; may be repeated")
    parser.add_argument("--folders", type=int, default=0, metavar="N", help="print the N most frequent hops as well")
    parser.add_argument("--time", action="store_true", help="CPU time of the main thread instead of calls")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each program that are timed (5)")
    parser.add_argument("--beside", metavar="PYTHON", help="interpreter of another checkout, that runs them as well")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(measure(options.worker, is_timed=options.time)))
        return
    pythons = [sys.executable, *([options.beside] if options.beside else [])]
    for name in options.only or PROGRAMS:
        if options.time:
            taken: dict[str, list[float]] = {python: [] for python in pythons}
            for _ in range(options.rounds):
                for python in pythons:
                    taken[python].append(run_alone(python, name, is_timed=True)["seconds"])
            medians = [statistics.median(seconds) for seconds in taken.values()]
            ratio = f"   {medians[0] / medians[1]:.2f} of the other" if len(medians) > 1 else ""
            print(f"{name:14}", *(f"{1e3 * median:8.1f} ms" for median in medians), ratio)
            continue
        for python in pythons:
            found = run_alone(python, name, is_timed=False)
            print(f"{name:14} {found['calls']:8,} calls {found['hops']:7,} hops {found['files']:4} files")
            for hop, count in [*found["folders"].items()][: options.folders]:
                print(f"    {count:6,}  {hop}")


if __name__ == "__main__":
    main()
