"""The table of operators: which function computes which operator, and what differs between their versions.

    @operator("Unsqueeze", reads=(1,), moved={"axes": (13, 1)}, folds=True)
    def unsqueeze(node: NodeCall, x: Value, axes: Array) -> Value: ...

A function gets the call, and the inputs in order, None for one that is left out; it returns one value or a tuple of
several. Defaults of attributes are those of the version that the model asks for (`onnx.defs`), so one function computes
all versions, and what moved from the attributes to the inputs is data.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zyx.io.onnx.values import Value

#: The modules with the functions, one for each family.
_FAMILIES: Final = (
    "activations",
    "arithmetic",
    "casting",
    "comparisons",
    "control",
    "convolution",
    "detection",
    "indexing",
    "matrices",
    "microsoft",
    "movement",
    "normalization",
    "pooling",
    "quantization",
    "recurrent",
    "reductions",
    "resizing",
    "sampling",
    "scattering",
    "sequences",
    "shapes",
    "signals",
    "sorting",
    "sources",
    "texts",
    "training",
    "trees",
)


@dataclass(frozen=True, slots=True)
class Operator:
    """How an operator is computed.

    Attributes:
        function: Takes the call and the inputs.
        reads: Numbers of the inputs that it takes as arrays of the host, such as shapes and axes.
        moved: Inputs that are attributes in older versions: the version that made an input of it, and its number.
        folds: Whether arrays alone give arrays, computed on the host. Otherwise the other inputs become tensors.
        raw: Whether it takes all inputs as they are, sequences and what is left out included.
        sizes: Whether arrays may have sizes that vary; see `zyx.io.onnx.lengths`.
        since: The first version that is computed.
    """

    function: Callable[..., Value]
    reads: tuple[int, ...]
    moved: Mapping[str, tuple[int, int]]
    folds: bool
    raw: bool
    sizes: bool
    since: int


_TABLE: dict[tuple[str, str], Operator] = {}


def operator(
    *names: str,
    domain: str = "",
    reads: tuple[int, ...] = (),
    moved: Mapping[str, tuple[int, int]] | None = None,
    folds: bool = False,
    raw: bool = False,
    sizes: bool = False,
    since: int = 1,
) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Enter a function into the table under these names; the arguments are those of `Operator`."""

    def enter(function: Callable[..., Value]) -> Callable[..., Value]:
        for name in names:
            if (domain, name) in _TABLE:
                raise AssertionError(f"two functions compute {domain}:{name}")
            _TABLE[domain, name] = Operator(function, reads, moved or {}, folds, raw, sizes, since)
        return function

    return enter


@cache
def table() -> Mapping[tuple[str, str], Operator]:
    """Return all operators by domain and name; that of ONNX itself is ""."""
    for family in _FAMILIES:
        importlib.import_module(f"zyx.io.onnx.{family}")
    return _TABLE


def domain_of(domain: str) -> str:
    """Return the domain as the table has it."""
    return "" if domain == "ai.onnx" else domain
