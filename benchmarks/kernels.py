"""Time a few operations with zyx, and with NumPy, PyTorch and JAX as far as they are installed.

    python benchmarks/kernels.py                      everything
    python benchmarks/kernels.py softmax matmul       some operations
    python benchmarks/kernels.py --device c:0         zyx on another device than the default one

All libraries run in this process, on the same arrays, with their own default number of threads. What each computes is
compared with NumPy in float64 first. Then come rounds: in each, every library runs a block of calls, in an order that
turns from round to round, so that a slower minute of the machine meets all of them. Before a block there is a pause, in
which threads of the one before go to sleep, and a few calls that are not counted. Reported are, over the rounds, the
median of the time for one call, the quartiles, and the ratio of the medians: above 1, zyx is faster.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import platform
import statistics
import subprocess
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np  # before zyx, which would have its threads sleep sooner

import zyx
from zyx.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Seconds for which OpenBLAS's threads spin, and more.
_PAUSE_S: Final = 0.15
_BLOCK_S: Final = 0.03
_WARM_UP_S: Final = 0.01
_TOLERANCE: Final = 1e-3


@dataclass(frozen=True, slots=True)
class Operation:
    """Something to time.

    Attributes:
        name: What it is called on the command line.
        shapes: Of the operands, which are float32.
        numpy, zyx, torch, jax: It, in each library; the last two are given the library and the operands.
    """

    name: str
    shapes: tuple[tuple[int, ...], ...]
    numpy: Callable[..., Any]
    zyx: Callable[..., Any]
    torch: Callable[..., Any]
    jax: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Library:
    """A library that is installed.

    Attributes:
        name: With its version.
        load: Makes its array of a NumPy array.
        make: Returns a function of no arguments that runs an operation on loaded operands once, and waits for it.
        read: Makes a NumPy array of what that returns.
    """

    name: str
    load: Callable[[np.ndarray], Any]
    make: Callable[[Operation, Sequence[Any]], Callable[[], Any]]
    read: Callable[[Any], np.ndarray]


def _numpy_softmax(x: Any) -> Any:
    shifted = np.exp(x - x.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def _numpy_gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def _numpy_layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    mean = x.mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5) * weight + bias


def _jax_layer_norm(jax: Any, x: Any, weight: Any, bias: Any) -> Any:
    mean = x.mean(axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(x.var(axis=-1, keepdims=True) + 1e-5) * weight + bias


OPERATIONS: Final = (
    Operation(
        "add",
        ((4096, 1024), (4096, 1024)),
        lambda x, y: x + y,
        lambda x, y: x + y,
        lambda torch, x, y: x + y,
        lambda jax, x, y: x + y,
    ),
    Operation(
        "gelu",
        ((4096, 1024),),
        _numpy_gelu,
        lambda x: zyx.gelu(x, approximate="tanh"),
        lambda torch, x: torch.nn.functional.gelu(x, approximate="tanh"),
        lambda jax, x: jax.nn.gelu(x, approximate=True),
    ),
    Operation(
        "sum",
        ((4096, 1024),),
        lambda x: x.sum(axis=1),
        lambda x: x.sum(axis=1),
        lambda torch, x: x.sum(dim=1),
        lambda jax, x: x.sum(axis=1),
    ),
    Operation(
        "softmax",
        ((4096, 1000),),
        _numpy_softmax,
        lambda x: x.softmax(axis=-1),
        lambda torch, x: torch.softmax(x, dim=-1),
        lambda jax, x: jax.nn.softmax(x, axis=-1),
    ),
    Operation(
        "layer_norm",
        ((4096, 1024), (1024,), (1024,)),
        _numpy_layer_norm,
        lambda x, weight, bias: functional.layer_norm(x, 1024, weight, bias),
        lambda torch, x, weight, bias: torch.nn.functional.layer_norm(x, (1024,), weight, bias),
        _jax_layer_norm,
    ),
    Operation(
        "matmul",
        ((1024, 1024), (1024, 1024)),
        lambda x, y: x @ y,
        lambda x, y: x @ y,
        lambda torch, x, y: x @ y,
        lambda jax, x, y: x @ y,
    ),
)


def zyx_library(device: str | None) -> Library:
    """Return zyx, whose operations are traced."""

    def make(operation: Operation, operands: Sequence[zyx.Tensor]) -> Callable[[], zyx.Tensor]:
        traced = zyx.jit(operation.zyx)

        def call() -> zyx.Tensor:
            result: zyx.Tensor = traced(*operands)
            zyx.synchronize()
            return result

        return call

    return Library(
        f"zyx {zyx.__version__}", lambda array: zyx.Tensor(array, device=device), make, lambda result: result.numpy()
    )


def numpy_library() -> Library:
    """Return NumPy."""
    return Library(
        f"numpy {np.__version__}",
        lambda array: array,
        lambda operation, operands: partial(operation.numpy, *operands),
        lambda result: result,
    )


def torch_library() -> Library:
    """Return PyTorch on the CPU, whose operations are done one by one."""
    import torch

    return Library(
        f"torch {torch.__version__}",
        torch.from_numpy,
        lambda operation, operands: partial(operation.torch, torch, *operands),
        lambda result: result.numpy(),
    )


def jax_library() -> Library:
    """Return JAX on the CPU, whose operations are compiled."""
    import jax

    cpu = jax.devices("cpu")[0]

    def make(operation: Operation, operands: Sequence[Any]) -> Callable[[], Any]:
        compiled = jax.jit(partial(operation.jax, jax))
        return lambda: compiled(*operands).block_until_ready()

    return Library(f"jax {jax.__version__}", lambda array: jax.device_put(array, cpu), make, np.asarray)


def libraries(device: str | None) -> list[Library]:
    """Return zyx, and the others that are installed."""
    found = [zyx_library(device), numpy_library()]
    for name, make in (("torch", torch_library), ("jax", jax_library)):
        if importlib.util.find_spec(name) is not None:
            found.append(make())
    return found


def seconds_of_block(call: Callable[[], Any], calls: int) -> float:
    """Return the seconds that one of so many calls takes."""
    started = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - started) / calls


def calls_within(call: Callable[[], Any], seconds: float) -> int:
    """Return how many calls take about so long; at least 1."""
    return max(1, round(seconds / max(seconds_of_block(call, 3), 1e-9)))


def checked(operation: Operation, peers: Sequence[Library]) -> list[Callable[[], Any]]:
    """Return a function for each library that runs the operation, having compared what it gives.

    Raises:
        AssertionError: It is wrong.
    """
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(shape).astype(np.float32) for shape in operation.shapes]
    exact = operation.numpy(*(array.astype(np.float64) for array in arrays))
    calls = []
    for library in peers:
        call = library.make(operation, [library.load(array) for array in arrays])
        error = float(np.abs(library.read(call()) - exact).max())
        assert error <= _TOLERANCE, f"{library.name}: {operation.name} is off by {error}"
        calls.append(call)
    return calls


def measure(calls: Sequence[Callable[[], Any]], rounds: int) -> list[list[float]]:
    """Return the seconds that one call took in each round, for each of `calls`."""
    sizes = [(calls_within(call, _WARM_UP_S), calls_within(call, _BLOCK_S)) for call in calls]
    found: list[list[float]] = [[] for _ in calls]
    for number in range(rounds):
        for step in range(len(calls)):
            which = (number + step) % len(calls)
            warm, timed = sizes[which]
            time.sleep(_PAUSE_S)
            seconds_of_block(calls[which], warm)
            found[which].append(seconds_of_block(calls[which], timed))
    return found


def row(operation: Operation, peers: Sequence[Library], found: Sequence[Sequence[float]]) -> list[str]:
    """Return the lines of an operation: for each library the time in milliseconds, and its ratio to zyx's."""
    ours = statistics.median(found[0])
    lines = []
    for library, seconds in zip(peers, found, strict=True):
        low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
        ratio = "" if library is peers[0] else f"{middle / ours:8.2f}"
        lines.append(
            f"{operation.name:11} {library.name:20} {middle * 1e3:9.3f} {low * 1e3:9.3f} {high * 1e3:9.3f} {ratio}"
        )
    return lines


def place(device: str | None) -> str:
    """Return what the figures depend on: the commit, the machine, the device."""
    folder = Path(__file__).parent
    git = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=folder, capture_output=True, text=True, check=False
    )
    commit = git.stdout.strip() or "no commit"
    return (
        f"{commit}; Python {platform.python_version()}, {os.cpu_count()} processors; {device or zyx.default_device()}"
    )


def main() -> None:
    """Measure what the command line asks for."""
    names = [operation.name for operation in OPERATIONS]
    parser = argparse.ArgumentParser(description="Time a few operations beside other libraries.")
    parser.add_argument("operations", nargs="*", metavar="OPERATION", help=f"any of {', '.join(names)}; all by default")
    parser.add_argument("--device", help="zyx's device; the default one if it is not named")
    parser.add_argument("--rounds", type=int, default=15, help="blocks of calls for each library (%(default)s)")
    arguments = parser.parse_args()
    unknown = set(arguments.operations) - set(names)
    if unknown or arguments.rounds < 2:
        parser.error(f"no operation {', '.join(sorted(unknown))}" if unknown else "quartiles need two rounds")
    peers = libraries(arguments.device)
    print(f"{place(arguments.device)}; {arguments.rounds} rounds")
    print(f"\n{'operation':11} {'library':20} {'median ms':>9} {'1st qu.':>9} {'3rd qu.':>9} {'to zyx':>8}")
    for operation in OPERATIONS:
        if not arguments.operations or operation.name in arguments.operations:
            for line in row(operation, peers, measure(checked(operation, peers), arguments.rounds)):
                print(line, flush=True)


if __name__ == "__main__":
    main()
