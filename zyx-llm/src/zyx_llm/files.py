"""Objects in JSON files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zyx.errors import FormatError, TransferError

if TYPE_CHECKING:
    import os


def read_json(path: str | os.PathLike[str], *, required: bool = True) -> dict[str, Any]:
    """Return the object in a file; {} if there is no file and none is required.

    Raises:
        FormatError: It is no JSON, or no object.
        TransferError: It cannot be read.
    """
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        if not required:
            return {}
        raise TransferError(f"{path} is not there") from error
    except OSError as error:
        raise TransferError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise FormatError(f"{path} holds a {type(found).__name__}, not an object")
    return found
