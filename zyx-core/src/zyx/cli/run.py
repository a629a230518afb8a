"""``zyx run MODEL``: compute a network of an ONNX file once, or many times with a clock.

zyx run model.onnx --input x=x.npy --output out.npz        arrays of npy files, or one of all in npz; outputs by name
zyx run model.onnx --random --size batch=4 --time 20       drawn inputs; the first call, and the median of 20
zyx run model.onnx --input x=x.npy --device c              on a device

Numbers are drawn from 0 to 1, integers are 0 or 1, by the same seed each time. Sizes that a network leaves open are 1
if `--size` does not say.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zyx.errors import ArgumentError, FormatError, InvalidArgumentError
from zyx.io.numpy_file import load_npy, load_npz, save_npz
from zyx.lazy_import import lazy_import
from zyx.plugins.describe import columns
from zyx.runtime.profile import duration
from zyx.tensor.devices import synchronize

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import Console

    from zyx.io import onnx
    from zyx.io.onnx import ValueInfo
    from zyx.tensor.tensor import Tensor
else:
    onnx = lazy_import("zyx.io.onnx", globals())

_SEED: Final = 0


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="MODEL", help="an ONNX file")
    parser.add_argument("--input", action="append", default=[], metavar="NAME=FILE", help="an npy file, or FILE.npz")
    parser.add_argument("--random", action="store_true", help="draw the inputs that are not given")
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N", help="a size that the network names")
    parser.add_argument("--output", metavar="FILE", help="an npz file for the outputs, by name")
    parser.add_argument("--device", metavar="NAME", help="where to compute; the default device if not given")
    parser.add_argument("--time", type=int, default=0, metavar="N", help="compute so many times more, and say how long")


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Compute, print what came out, and write it."""
    if arguments.time < 0:
        raise InvalidArgumentError(f"--time {arguments.time}: a number of calls is at least 0")
    model = onnx.load(arguments.file, arguments.device)
    inputs: dict[str, Any] = dict(_given(arguments.input))
    sizes = _sizes(arguments.size)
    missing = [info for info in model.inputs if info.name not in inputs and info.kind != "optional"]
    if missing and not arguments.random:
        wanted = "; ".join(map(str, missing))
        raise ArgumentError(f"{arguments.file} takes {wanted}: give each as --input NAME=FILE.npy, or all as --random")
    generator = np.random.default_rng(_SEED)
    inputs |= {info.name: _drawn(info, sizes, generator) for info in missing}
    started = time.perf_counter()
    outputs = _computed(model.run, inputs)
    first = time.perf_counter() - started
    rows = [(name, *_described(value)) for name, value in outputs.items()]
    console.print("\n".join(columns([("OUTPUT", "DTYPE", "SHAPE", "LEAST", "MEAN", "GREATEST"), *rows])))
    if arguments.time:
        seconds = _timed(model.run, inputs, arguments.time)
        console.print(
            f"\nfirst call {duration(first)}; of {arguments.time} more the median "
            f"{duration(statistics.median(seconds))}, the least {duration(min(seconds))}"
        )
    if arguments.output:
        save_npz(arguments.output, outputs)
        console.print(f"\nwritten to {arguments.output}")
    return 0


def _given(pairs: Sequence[str]) -> dict[str, Tensor]:
    """Return the arrays of ``NAME=FILE.npy``, and all of ``FILE.npz``."""
    found: dict[str, Tensor] = {}
    for pair in pairs:
        name, is_named, file = pair.partition("=")
        if is_named:
            found[name] = load_npy(file)
        elif Path(pair).suffix == ".npz":
            found |= load_npz(pair)
        else:
            raise ArgumentError(f"--input {pair}: give NAME=FILE.npy, or one FILE.npz that has the names")
    return found


def _sizes(pairs: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for pair in pairs:
        name, _, size = pair.partition("=")
        if not name or not size.isdecimal():
            raise ArgumentError(f"--size {pair}: give NAME=N, such as batch=4")
        found[name] = int(size)
    return found


def _drawn(info: ValueInfo, sizes: Mapping[str, int], generator: np.random.Generator) -> np.ndarray[Any, Any]:
    dtype = info.numpy_dtype
    if info.kind != "tensor" or dtype is None or dtype.kind not in "fiub" or info.shape is None:
        raise FormatError(f"input {info} cannot be drawn: give it as --input {info.name}=FILE.npy")
    shape = tuple(size if isinstance(size, int) else sizes.get(size or "", 1) for size in info.shape)
    if dtype.kind == "f":
        return generator.random(shape).astype(dtype)
    return generator.integers(0, 2, shape).astype(dtype)


def _computed(step: Callable[[Mapping[str, Any]], dict[str, Any]], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return outputs whose values are there: devices are waited for."""
    outputs = {name: _realized(value) for name, value in step(inputs).items()}
    synchronize()
    return outputs


def _realized(value: Any) -> Any:  # noqa: ANN401  # what a network gives: tensors, arrays on the host, or lists of them
    if isinstance(value, list | tuple):
        return [_realized(each) for each in value]
    return value.realize() if hasattr(value, "realize") else value


def _timed(step: Callable[[Mapping[str, Any]], dict[str, Any]], inputs: Mapping[str, Any], count: int) -> list[float]:
    _computed(step, inputs)
    seconds = []
    for _ in range(count):
        started = time.perf_counter()
        _computed(step, inputs)
        seconds.append(time.perf_counter() - started)
    return seconds


def _described(value: Any) -> tuple[str, ...]:  # noqa: ANN401  # as above
    if isinstance(value, list):
        return (f"{len(value)} values", "-", "-", "-", "-")
    array = value.numpy() if hasattr(value, "numpy") else np.asarray(value)
    shape = " x ".join(map(str, array.shape)) or "-"
    if array.dtype.kind not in "fiu" or not array.size:
        return (array.dtype.name, shape, "-", "-", "-")
    numbers = array.astype(np.float64)
    return (array.dtype.name, shape, *(f"{number:.6g}" for number in (numbers.min(), numbers.mean(), numbers.max())))
