"""Time programs that no schedule was made for beside PyTorch and JAX, in one process, on the same arrays.

    python benchmarks/unruled.py --rounds 9
    python benchmarks/unruled.py --device cuda:0 --only gravity

Interactions of points by differences, distances to centres, a gated norm, correlations, a stencil that is summed up, a
convolution in three dimensions, a banded product, causal linear attention, log-sum-exp along a middle axis: each is
written once, with what the three libraries have in common. zyx traces them with `zyx.jit`, JAX with `jax.jit`, and
PyTorch runs them as they are. The libraries take turns in rounds; a line has medians in microseconds, and the ratio of
the faster of the peers to zyx: above 1, zyx is faster. Results are compared with float64 first.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import zyx

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Any: modules and arrays of three libraries.

#: Relative to the largest element: what the orders of sums differ in.
TOLERANCE: Final = 2e-4


def _sum(m: Any, x: Any, axis: int) -> Any:  # see above
    return x.sum(axis) if m is not np else np.sum(x, axis)


def _relu(m: Any, x: Any) -> Any:  # see above
    return m.maximum(x, x * 0)


def gravity(m: Any, p: Any, mass: Any) -> Any:  # see above
    """Return the accelerations of points by the differences of all pairs."""
    d = p[None] - p[:, None]
    r2 = _sum(m, d * d, -1) + 1e-3
    return _sum(m, d * (mass[None] / (r2 * m.sqrt(r2)))[..., None], 1)


def kmeans(m: Any, x: Any, centres: Any) -> Any:  # see above
    """Return the squared distance of each point to its nearest centre, and which that is as a one-hot sum."""
    d = x[:, None] - centres[None]
    r2 = _sum(m, d * d, -1)
    return r2.argmin(1) * 1.0


def gated_norm(m: Any, x: Any, gate: Any, weight: Any) -> Any:  # see above
    """Return the rows divided by their root mean square, times a gate."""
    scale = (_sum(m, x * x, -1) / x.shape[-1] + 1e-6) ** -0.5
    return x * scale[..., None] * weight * (gate / (1 + m.exp(-gate)))


def correlation(m: Any, x: Any) -> Any:  # see above
    """Return the correlation of each row with each other one."""
    centred = x - (_sum(m, x, -1) / x.shape[-1])[:, None]
    scale = _sum(m, centred * centred, -1) ** -0.5
    unit = centred * scale[:, None]
    return m.matmul(unit, unit.T)


def stencil(m: Any, x: Any) -> Any:  # see above
    """Return the sums along rows of the squares of a five-point stencil."""
    inner = 4 * x[1:-1, 1:-1] - x[:-2, 1:-1] - x[2:, 1:-1] - x[1:-1, :-2] - x[1:-1, 2:]
    return _sum(m, inner * inner, 1)


def banded(m: Any, x: Any, bands: Any) -> Any:  # see above
    """Return the product with a matrix of five bands; `x` has two more rows at each end."""
    n = bands.shape[1]
    total = bands[0][:, None] * x[0:n]
    for i in range(1, 5):
        total = total + bands[i][:, None] * x[i : i + n]
    return total


def linear_attention(m: Any, q: Any, k: Any, v: Any) -> Any:  # see above
    """Return causal attention without a softmax: running sums of outer products."""
    q, k = _relu(m, q) + 0.1, _relu(m, k) + 0.1
    state = (k[..., :, None] * v[..., None, :]).cumsum(1)
    total = _sum(m, q[..., :, None] * state, -2)
    return total / _sum(m, q * k.cumsum(1), -1)[..., None]


def middle(m: Any, x: Any) -> Any:  # see above
    """Return `x` without its log-sum-exp along the middle axis."""
    top = m.amax(x, 1) if m.__name__ == "torch" else m.max(x, axis=1)
    return x - (m.log(_sum(m, m.exp(x - top[:, None]), 1)) + top)[:, None]


def volume(m: Any, x: Any, w: Any) -> Any:  # see above
    """Return a convolution in three dimensions."""
    if m.__name__ == "zyx":
        return zyx.nn.functional.conv3d(x, w, padding=1)
    if m.__name__ == "torch":
        return m.nn.functional.conv3d(x, w, padding=1)
    if m is np:
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], axis=(2, 3, 4))
        return np.einsum("ncdhwijk,ocijk->nodhw", windows, w, optimize=True)
    import jax

    return jax.lax.conv_general_dilated(x, w, (1, 1, 1), "SAME")


@dataclass(frozen=True)
class Program:
    """A function, and the shapes of what it is given."""

    name: str
    function: Callable[..., Any]
    shapes: Sequence[tuple[int, ...]]


PROGRAMS: Final = (
    *(Program(f"gravity of {n} points", gravity, ((n, 3), (n,))) for n in (300, 1531, 4096)),
    Program("k-means by differences, 20000 x 16, 64 centres", kmeans, ((20000, 16), (64, 16))),
    Program("RMS norm with a gate, 4096 x 1024", gated_norm, ((4096, 1024), (4096, 1024), (1024,))),
    Program("correlation of 700 rows of 1200", correlation, ((700, 1200),)),
    Program("squares of a stencil, 2050 x 2050, summed up", stencil, ((2050, 2050),)),
    Program("convolution in 3 dimensions, 2 x 16 x 24^3, 32 filters", volume, ((2, 16, 24, 24, 24), (32, 16, 3, 3, 3))),
    Program("banded product, 5 bands, 4000 x 512", banded, ((4004, 512), (5, 4000))),
    Program("causal linear attention, 8 x 256, 32", linear_attention, ((8, 256, 32),) * 3),
    Program("log-sum-exp over a middle axis, 64 x 241 x 64", middle, ((64, 241, 64),)),
)


def medians(calls: Sequence[Callable[[], Any]], rounds: int) -> list[float]:
    """Return the median time of each call in seconds; what takes little is called several times a round."""
    times: list[list[float]] = [[] for _ in calls]
    counts = []
    for call in calls:
        call()
        started = time.perf_counter()
        call()
        counts.append(max(1, min(50, int(2e-3 / max(1e-9, time.perf_counter() - started)))))
    for _ in range(rounds):
        for taken, call, count in zip(times, calls, counts, strict=True):
            started = time.perf_counter()
            for _ in range(count):
                call()
            taken.append((time.perf_counter() - started) / count)
    return [statistics.median(taken) for taken in times]


def callers(program: Program, arrays: Sequence[np.ndarray], options: argparse.Namespace) -> dict[str, Any]:
    """Return for each library a function that computes the result, waits for it, and returns it as an array."""
    found: dict[str, Any] = {}
    mine = [zyx.Tensor(array) for array in arrays]
    traced = zyx.jit(lambda *given: program.function(zyx, *given))

    def with_zyx(*, read: bool = False) -> Any:  # see above
        result = traced(*mine).realize()
        zyx.synchronize()
        return result.numpy() if read else None

    found["zyx"] = with_zyx
    if importlib.util.find_spec("torch"):
        import torch

        on = "cuda" if options.device.startswith("cuda") else "cpu"
        theirs = [torch.from_numpy(array).to(on) for array in arrays]

        def with_torch(*, read: bool = False) -> Any:  # see above
            result = program.function(torch, *theirs)
            if on == "cuda":
                torch.cuda.synchronize()
            return result.cpu().numpy() if read else None

        found["torch"] = with_torch
    if importlib.util.find_spec("jax"):
        import jax
        import jax.numpy as jnp

        given = [jnp.asarray(array) for array in arrays]
        jitted = jax.jit(lambda *values: program.function(jnp, *values))

        def with_jax(*, read: bool = False) -> Any:  # see above
            result = jitted(*given).block_until_ready()
            return np.asarray(result) if read else None

        found["jax"] = with_jax
    return found


def main() -> None:
    """Print a line for each program, and the geometric mean of the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--device", default="c:0")
    parser.add_argument("--only", default="", help="programs whose names contain this")
    options = parser.parse_args()
    ratios = []
    with zyx.device(options.device):
        for program in PROGRAMS:
            if options.only not in program.name:
                continue
            generator = np.random.default_rng(0)
            arrays = [generator.standard_normal(shape).astype(np.float32) for shape in program.shapes]
            wanted = program.function(np, *(array.astype(np.float64) for array in arrays))
            calls = callers(program, arrays, options)
            for name, call in calls.items():
                error = np.abs(call(read=True) - wanted).max() / np.abs(wanted).max()
                if not error < TOLERANCE:
                    print(f"{program.name}: {name} is off by {error:.1e}")
            times = dict(zip(calls, medians(list(calls.values()), options.rounds), strict=True))
            best = min((seconds for name, seconds in times.items() if name != "zyx"), default=math.nan)
            ratios.append(best / times["zyx"])
            shown = ", ".join(f"{name} {seconds * 1e6:.1f}" for name, seconds in times.items())
            print(f"{ratios[-1]:6.2f}  {program.name}: {shown} us", flush=True)
    print(f"{math.exp(statistics.fmean(map(math.log, ratios))):6.2f}  geometric mean, {os.cpu_count()} processors")


if __name__ == "__main__":
    main()
