"""Measure how near a device comes to what its memory and arithmetic allow, beside PyTorch where that runs on CUDA.

    python benchmarks/device_rates.py                          # the default device
    python benchmarks/device_rates.py --device cuda:0 --pipeline 20

Arrays have 256 MB unless a row says otherwise. Calls of `zyx.jit` functions are queued one after the other, so many to
one wait as `--pipeline` says; of a few such rounds, the fastest counts. Results are compared with NumPy before they are
timed. Bandwidths count each array once, and with PyTorch also as shares of a copy from device memory to device memory.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import zyx
from zyx.nn import functional as F
from zyx.runtime.runtime import Runtime, use

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS: Final = 5
SIDE: Final = 8192
STEPS: Final = 100


class Rates:
    """Times what it is given, and prints a table row by row."""

    def __init__(self, pipeline: int) -> None:
        self.pipeline = pipeline
        self.copy = 0.0
        print("| what | zyx | PyTorch | zyx, of a copy |")
        print("|---|---|---|---|")

    def seconds(self, step: Callable[[], object], wait: Callable[[], object], count: int = 0) -> float:
        """Return the seconds of one `step`, the least over some rounds of `count` to one `wait`."""
        count = count or self.pipeline
        best = float("inf")
        for _ in range(3):
            step()
        wait()
        for _ in range(ROUNDS):
            start = time.perf_counter()
            for _ in range(count):
                step()
            wait()
            best = min(best, (time.perf_counter() - start) / count)
        return best

    def row(self, what: str, zyx_s: float | None, torch_s: float | None, amount: float, unit: str) -> None:
        """Print a row of rates: `amount` over seconds, or for microseconds the seconds themselves."""

        def text(seconds: float | None) -> str:
            if seconds is None:
                return ""
            return f"{seconds * 1e6:.1f} us" if unit == "us" else f"{amount / seconds:.4g} {unit}"

        share = f"{amount / zyx_s / self.copy:.0%}" if self.copy and zyx_s and unit == "GB/s" else ""
        print(f"| {what} | {text(zyx_s)} | {text(torch_s)} | {share} |", flush=True)


def find_torch(device: str) -> Any:  # a module that need not be there
    """Return PyTorch if it has a GPU, and zyx's device is not the processor."""
    if device.startswith(("c:", "interpreter")) or importlib.util.find_spec("torch") is None:
        return None
    import torch

    return torch if torch.cuda.is_available() else None


def opened(device: str | None, library: str) -> Runtime:
    """Return a runtime whose default is a device."""
    settings: dict[str, Any] = {"autotune": {"library_kernels": library}}
    if device is not None:
        settings["devices"] = {"default": device}
    return Runtime(settings)


def elementwise_and_rows(rates: Rates, torch: Any, wait: Callable[[], object]) -> None:  # PyTorch
    """Time what memory bounds."""
    data = np.random.default_rng(0).random((SIDE, SIDE), np.float32)
    x = zyx.Tensor(data).realize()
    w = zyx.Tensor(data[0]).realize()
    there = None if torch is None else torch.from_numpy(data).cuda()
    weight = None if torch is None else there[0].clone()
    gb = data.nbytes / 1e9
    if torch is not None:
        target = torch.empty_like(there)
        copy_s = rates.seconds(lambda: target.copy_(there), torch.cuda.synchronize)
        rates.copy = 2 * gb / copy_s
        rates.row("copy", None, copy_s, 2 * gb, "GB/s")
    ops: list[tuple[str, float, Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = [
        ("(x * 2 + 1) * x - 3", 2, lambda x: (x * 2 + 1) * x - 3, lambda x: (x * 2 + 1) * x - 3,
         lambda a: (a * 2 + 1) * a - 3),
        ("softmax of rows", 2, lambda x: zyx.softmax(x, -1), lambda x: torch.softmax(x, -1),
         lambda a: np.exp(a) / np.exp(a).sum(-1, keepdims=True)),
        ("layer norm of rows", 2, lambda x: F.layer_norm(x, SIDE, w, w),
         lambda x: torch.nn.functional.layer_norm(x, (SIDE,), weight, weight),
         lambda a: (a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + 1e-5) * a[0] + a[0]),
        ("sum", 1, lambda x: x.sum(), lambda x: x.sum(), lambda a: a.sum(dtype=np.float64)),
        ("sums of rows", 1, lambda x: x.sum(-1), lambda x: x.sum(-1), lambda a: a.sum(-1, dtype=np.float64)),
        ("sums of columns", 1, lambda x: x.sum(0), lambda x: x.sum(0), lambda a: a.sum(0, dtype=np.float64)),
    ]  # fmt: skip
    for what, arrays, of_zyx, of_torch, of_numpy in ops:
        step = zyx.jit(of_zyx)
        np.testing.assert_allclose(step(x).numpy(), of_numpy(data), rtol=2e-4, atol=2e-4)
        zyx_s = rates.seconds(lambda step=step: step(x), wait)
        torch_s = None if torch is None else rates.seconds(lambda: of_torch(there), torch.cuda.synchronize)  # noqa: B023
        rates.row(what, zyx_s, torch_s, arrays * gb, "GB/s")


def products(rates: Rates, torch: Any, library: str, wait: Callable[[], object], dtypes: list[str]) -> None:
    """Time products of matrices."""
    random = np.random.default_rng(0)
    for name, side in ((name, side) for name in dtypes for side in (4096, SIDE)):
        if name == "float32" and side == SIDE:  # slow, and the same story
            continue
        data = random.standard_normal((side, side), np.float32)
        x = zyx.Tensor(data).astype(getattr(zyx, name)).realize()
        step = zyx.jit(lambda x: x @ x)
        some = np.arange(0, side, 509)
        exact = x.astype(zyx.float32).numpy()
        wanted = exact[some] @ exact
        found = step(x).astype(zyx.float32).numpy()[some]
        np.testing.assert_allclose(found, wanted, rtol=0, atol=8e-3 * np.abs(wanted).max())
        zyx_s = rates.seconds(lambda step=step, x=x: step(x), wait, 10)
        torch_s = None
        if torch is not None:
            there = torch.from_numpy(data).cuda().to(getattr(torch, name))
            torch_s = rates.seconds(lambda: there @ there, torch.cuda.synchronize, 10)  # noqa: B023
        rates.row(f"product {side}, {name}, {library}", zyx_s, torch_s, 2 * side**3 / 1e12, "TFLOP/s")


def small(rates: Rates, torch: Any, wait: Callable[[], object]) -> None:  # PyTorch
    """Time calls of next to nothing, and of a step of many kernels."""
    tiny = zyx.Tensor(np.ones(16, np.float32)).realize()
    add = zyx.jit(lambda x, y: x + y)
    rates.row("a call of x + y, 16 elements", rates.seconds(lambda: add(tiny, tiny), wait, 1000), None, 0, "us")
    waited = rates.seconds(lambda: (add(tiny, tiny), wait()), wait, 200)
    rates.row("the same, each call waited for", waited, None, 0, "us")
    matrix = np.eye(64, dtype=np.float32)
    x, w = zyx.Tensor(matrix).realize(), zyx.Tensor(matrix).realize()

    def chain(x: Any, w: Any) -> Any:  # tensors of either library
        for _ in range(STEPS):
            x = x @ w
        return x

    step = zyx.jit(chain)
    assert np.array_equal(step(x, w).numpy(), matrix)
    launches = step.traces[0].plan.launches
    zyx_s = rates.seconds(lambda: step(x, w), wait, 100)
    torch_s = None
    if torch is not None:
        a = torch.from_numpy(matrix).cuda()
        b = a.clone()
        chain(a, b)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            chain(a, b)
        torch_s = rates.seconds(graph.replay, torch.cuda.synchronize, 100)
    rates.row(f"{launches} kernels (64 x 64 products); PyTorch as a CUDA graph", zyx_s, torch_s, 0, "us")


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help="the name of a device of zyx; the default one if left out")
    parser.add_argument("--pipeline", type=int, default=20, help="calls to one wait (20)")
    arguments = parser.parse_args()
    for library, kind in (("prefer", "library"), ("off", "generated")):
        runtime = opened(arguments.device, library)
        with use(runtime):
            device = runtime.device()
            info, wait = device.info, zyx.synchronize
            torch = find_torch(device.name)
            dtypes = ["bfloat16", "float16", "float32"] if info.wmma else ["float32"]
            if kind == "library":
                print(f"{device.name}: {info.model}; {info.driver}\n")
                rates = Rates(arguments.pipeline)
                elementwise_and_rows(rates, torch, wait)
                small(rates, torch, wait)
            if kind == "generated" or device.name.startswith("cuda"):
                products(rates, torch, kind, wait, dtypes)
        runtime.close()


if __name__ == "__main__":
    main()
