"""Time a vector by packed matrices, beside the same matrices of float32.

    python benchmarks/packed_weights.py --device c:0 --size 576x1536 --size 4096x4096

As in a model that makes one word at a time, a call multiplies by so many matrices that those of float32 take 128 MiB,
more than caches hold. Formats take turns, so that what else the machine does falls on all alike; times are the least of
all rounds, for one product.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np

import zyx
from zyx.errors import ShapeError
from zyx.quantize import GGUF, NAMES, QuantizedTensor, layout_for, matmul

_BYTES = 128 << 20


def weights(name: str, outputs: int, inputs: int, random: np.random.Generator) -> zyx.Tensor | QuantizedTensor:
    """Return a matrix of random numbers; packed, of random bytes.

    Raises:
        ShapeError: The format has several rows together, and there are not whole groups of them.
    """
    if name == "float32":
        return zyx.Tensor(random.standard_normal((outputs, inputs)).astype(np.float32)).realize()
    layout = layout_for(name, inputs)
    if outputs % layout.rows:
        raise ShapeError(f"{name} has {layout.rows} rows together, and {outputs} are no multiple: take another --size")
    nbytes = inputs // layout.count * layout.nbytes
    data = random.integers(0, 60, (outputs // layout.rows, layout.rows * nbytes), dtype=np.uint8)
    return QuantizedTensor(zyx.Tensor(data).realize(), name)


def products(x: zyx.Tensor, matrices: list[zyx.Tensor | QuantizedTensor], activations: str | None) -> list[zyx.Tensor]:
    """Return the products of a vector with all of them."""
    return [matmul(x, w, activations=activations) if isinstance(w, QuantizedTensor) else x @ w.T for w in matrices]


def main() -> None:
    """Print a line for each format."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--device", default=None)
    parser.add_argument("--size", action="append", help="outputs x inputs, such as 4096x4096")
    parser.add_argument("--rows", type=int, default=1, help="of what is multiplied")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--formats", help="of the packed matrices, such as Q4_1,Q8_0; all by default")
    given = parser.parse_args()
    formats = given.formats.split(",") if given.formats else None
    with zyx.device(given.device):
        times(given.size or ["576x1536", "4096x4096"], given.rows, given.rounds, formats)


def times(sizes: list[str], rows: int, rounds: int, formats: list[str] | None) -> None:
    """Print the times of matrices of these sizes, of packed ones with floats and with activations of 8 bits."""
    random = np.random.default_rng(0)
    for size in sizes:
        outputs, inputs = map(int, size.split("x"))
        count = math.ceil(_BYTES / (4 * outputs * inputs))
        names = ["float32", *(name.replace("/n", "/64") for name in NAMES if not inputs % _block(name, inputs))]
        names += [f"{name}+" for name in names if name in GGUF and GGUF[name].nbytes % 4]
        names = ["float32", *formats] if formats else names
        x = zyx.Tensor(random.standard_normal((rows, inputs)).astype(np.float32)).realize()
        cases = {}
        for name in names:
            matrices = [weights(name, outputs, inputs, random) for _ in range(count)]
            is_rounded = isinstance(matrices[0], QuantizedTensor) and matrices[0].layout.has_one_scale
            for activations in (None, "int8") if is_rounded else (None,):
                traced = zyx.jit(products)
                for _ in range(3):
                    traced(x, matrices, activations)[-1].numpy()
                cases[name, activations or ""] = (traced, matrices)
        least = dict.fromkeys(cases, math.inf)
        for _ in range(rounds):
            for (name, activations), (traced, matrices) in cases.items():
                started = time.perf_counter()
                traced(x, matrices, activations or None)[-1].numpy()
                took_s = (time.perf_counter() - started) / count
                least[name, activations] = min(least[name, activations], took_s)
        for (name, activations), took_s in least.items():
            first = cases[name, activations][1][0]
            nbytes = first.nbytes if isinstance(first, QuantizedTensor) else 4 * outputs * inputs
            print(
                f"{size} {name:8} {activations:4} {took_s * 1e6:8.1f} us  {nbytes / took_s / 1e9:6.1f} GB/s  "
                f"{least['float32', ''] / took_s:5.2f} of float32"
            )


def _block(name: str, inputs: int) -> int:
    return layout_for(name.replace("/n", "/64"), inputs if not name.startswith("Q") else 256).count


if __name__ == "__main__":
    main()
