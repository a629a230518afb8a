"""Put a file in the place of another one: as a whole, or not at all.

    with replacing(path) as temporary:      a file beside it, which only we may read
        write(temporary)
                                            renamed to `path` at the end of the block; removed if that raises

Who reads `path` sees the old values or the new ones, never a part. All files that users name are written so.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from zyx.errors import TransferError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a file that takes the place of the one at `path` at the end of a ``with`` block, if nothing is raised there.

    A symbolic link stays, and what it leads to is replaced, or made if it is not there yet. The mode, and where the
    system allows the owner and access lists, stay what they were; a new file has those that new files get. Other hard
    links to the old file keep its values.

    Raises:
        TransferError: There is no such folder, no room and so on; or `path` is no plain file, or one that must not be
            written to. What was there is as it was.
    """
    try:
        target = Path(os.path.realpath(path, strict=False))
        old = _status(target)
        if old is not None and not stat.S_ISREG(old.st_mode):
            raise TransferError(f"{path} cannot be written: it is no plain file")
        if old is not None and not os.access(target, os.W_OK):
            raise TransferError(f"{path} cannot be written: it is read-only")
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", dir=target.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            if old is None:
                temporary.chmod(0o666 & ~_umask())
            else:
                _make_like(temporary, target, old)
            temporary.replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
    except OSError as error:
        if isinstance(error, TransferError):
            raise
        raise TransferError(f"{path} cannot be written: {error.strerror or error}") from error


def _status(target: Path) -> os.stat_result | None:
    """Return what is known of a file; None if there is none. A link that leads to itself is an error."""
    try:
        return target.stat()
    except FileNotFoundError:
        return None


def _make_like(temporary: Path, target: Path, old: os.stat_result) -> None:
    """Give a file the owner, mode and access lists of another one, as far as that is allowed."""
    if hasattr(os, "chown"):
        new = temporary.stat()
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
            with contextlib.suppress(OSError):  # of somebody else: allowed to the administrator alone
                os.chown(temporary, old.st_uid, old.st_gid)
    shutil.copystat(target, temporary)
    os.utime(temporary)  # it is written now


def _umask() -> int:
    """Return which rights new files do not get; it can be read by setting it only."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
