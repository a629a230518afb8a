"""Tensors in several safetensors files, with a file beside them that says which is where.

{"metadata": {"total_size": 28}, "weight_map": {"<name>": "<file in the same folder>", ...}}
"""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zyx.errors import FormatError, TransferError
from zyx.io.header import Pairs
from zyx.io.safetensors_file import load_safetensors

if TYPE_CHECKING:
    import os
    from collections.abc import Collection

    from zyx.tensor.tensor import Tensor

_WEIGHT_MAP: Final = "weight_map"
_MOST_BYTES: Final = 100_000_000


def load_sharded(
    path: str | os.PathLike[str], names: Collection[str] | None = None, device: str | None = None
) -> dict[str, Tensor]:
    """Return the tensors of all files of an index by name, in its order, without reading their values.

    Shapes and dtypes are those of the files.

    Args:
        path: The index, such as ``model.safetensors.index.json``. Its files lie in the same folder.
        names: Which tensors to return; None means all. Files that have none of them are not looked at.
        device: Where they are used; the default device if None.

    Raises:
        FormatError: The index or a file is not well formed, a name comes twice or is missing, or a file would lie in
            another folder.
        TransferError: A file cannot be read.
        UnsupportedError: This machine stores numbers most significant byte first.

    >>> import json, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     zyx.save(f"{folder}/a.safetensors", {"x": zyx.arange(3)})
    ...     index = pathlib.Path(folder, "model.safetensors.index.json")
    ...     _ = index.write_text(json.dumps({"weight_map": {"x": "a.safetensors"}}))
    ...     zyx.io.load_sharded(index)["x"].tolist()
    [0, 1, 2]
    """
    places = read_index(path)
    missing = [name for name in names or () if name not in places]
    if missing:
        raise FormatError(f"{path} has no tensor {', '.join(map(repr, missing))}; it has {', '.join(places)}")
    asked = places.keys() if names is None else set(names)
    wanted: dict[str, list[str]] = {}
    for name, file in places.items():
        if name in asked:
            wanted.setdefault(file, []).append(name)
    folder = Path(path).parent
    found: dict[str, Tensor] = {}
    for file, theirs in wanted.items():
        found |= load_safetensors(folder / file, theirs, device)
    return {name: found[name] for name in places if name in found}


def read_index(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the names of the files by the names of the tensors in them, in the order of the index.

    Raises:
        FormatError: It is not well formed, or a file would lie in another folder.
        TransferError: It cannot be read.
    """
    try:
        status = Path(path).stat()
        if not stat.S_ISREG(status.st_mode):
            raise TransferError(f"{path} cannot be read: it is no plain file")
        if status.st_size > _MOST_BYTES:
            raise FormatError(f"{path} has {status.st_size} bytes, and an index has {_MOST_BYTES} at most")
        text = Path(path).read_bytes()
    except OSError as error:
        if isinstance(error, TransferError):
            raise
        raise TransferError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        found = json.loads(text, object_pairs_hook=Pairs)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: the index is no JSON: {str(error)[:200]}") from error
    maps = [value for key, value in found if key == _WEIGHT_MAP] if isinstance(found, Pairs) else []
    if len(maps) != 1 or not isinstance(maps[0], Pairs):
        raise FormatError(f"{path} has no {_WEIGHT_MAP} of names, or several")
    places: dict[str, str] = {}
    for name, file in maps[0]:
        if name in places:
            raise FormatError(f"{path}: tensor {name!r:.200} comes twice")
        _check_file(path, name, file)
        places[name] = file
    return places


def _check_file(path: str | os.PathLike[str], name: str, file: Any) -> None:  # noqa: ANN401  # whatever JSON has
    if not isinstance(file, str) or file in {"", ".", ".."} or any(sign in file for sign in "/\\:\0"):
        raise FormatError(
            f"{path}: tensor {name!r:.200} would lie in {file!r:.200}, which is no name of a file beside the index"
        )
