"""``zyx inspect FILE``: what is in a file, by what is in it and not by its name; no value is read.

zyx inspect model.safetensors                  the tensors, their dtypes, shapes and sizes, and what is said about them
zyx inspect model.safetensors.index.json       those of all files of an index
zyx inspect model.gguf --all                   texts and lists as a whole, and not their beginnings

Also npz, npy, checkpoints of PyTorch, whose pickles are not run, and networks of ONNX with what they take.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from zyx.io.contents import contents_of
from zyx.plugins.describe import columns, size

if TYPE_CHECKING:
    import argparse

    from rich.console import Console

    from zyx.io.header import TensorEntry

_SHOWN_ITEMS: Final = 6
_SHOWN_CHARACTERS: Final = 90


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="FILE", help="safetensors, their index, GGUF, npz, npy, a checkpoint or ONNX")
    parser.add_argument("--all", action="store_true", help="print long texts and lists as a whole")


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Print it."""
    found = contents_of(arguments.file)
    entries = found.entries
    numbers = sum(math.prod(entry.shape) for entry in entries.values())
    nbytes = size(sum(entry.nbytes for entry in entries.values()))
    tensors = "1 tensor" if len(entries) == 1 else f"{len(entries)} tensors"
    console.print(f"{arguments.file}: {found.format.value}; {tensors}, {numbers} numbers, {nbytes}")
    if entries:
        rows = [("TENSOR", "DTYPE", "SHAPE", "SIZE"), *(row(name, entry) for name, entry in entries.items())]
        console.print("\n" + "\n".join(columns(rows)))
    if found.metadata:
        said = [(name or "-", shown(value, whole=arguments.all)) for name, value in found.metadata.items()]
        console.print("\n" + "\n".join(columns([("KEY", "VALUE"), *said])))
    return 0


def row(name: str, entry: TensorEntry) -> tuple[str, ...]:
    """Return what the table says of a tensor."""
    return (name or "-", entry.dtype, " x ".join(map(str, entry.shape)) or "-", size(entry.nbytes))


def shown(value: Any, *, whole: bool) -> str:  # noqa: ANN401  # what files say
    """Return a value as a text, or its beginning."""
    if isinstance(value, list) and len(value) > _SHOWN_ITEMS and not whole:
        return f"{len(value)}: {shown(value[:_SHOWN_ITEMS], whole=False)} ..."
    text = value if isinstance(value, str) else str(value)
    return text if whole or len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]} ..."
