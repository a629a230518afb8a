"""Zip archives that files of NumPy and checkpoints of PyTorch are: what is in them, and where it lies in the file.

Only what an archive stores as it is can be read late; `stored_at` says where. Sizes that an archive declares are
checked against the file before anything is made of them.
"""

from __future__ import annotations

import contextlib
import zipfile
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from zyx.errors import FormatError, TransferError, ZyxError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

#: How many bytes deflate makes of one at most: what promises more is no archive of arrays.
_MOST_INFLATED: Final = 1032
_LOCAL_BYTES: Final = 30
_LOCAL_MAGIC: Final = b"PK\x03\x04"


@contextlib.contextmanager
def opened(path: str | os.PathLike[str], content: str) -> Iterator[tuple[IO[bytes], zipfile.ZipFile]]:
    """Give the file and the archive in it, for a ``with`` block whose errors say that it is no archive of `content`.

    Raises:
        FormatError: No archive, or a damaged one.
        TransferError: The file cannot be read.
    """
    try:
        with Path(path).open("rb") as file, zipfile.ZipFile(file) as archive:
            yield file, archive
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        if isinstance(error, ZyxError):
            raise
        raise FormatError(f"{path}: no archive of {content}, or a damaged one: {error}") from error
    except OSError as error:
        if isinstance(error, ZyxError):
            raise
        raise TransferError(f"{path} cannot be read: {error.strerror or error}") from error


def check_member(member: zipfile.ZipInfo, what: str) -> None:
    """Raise a `FormatError` if `what`, which is this member, cannot be read or would be larger than it can be."""
    if member.flag_bits & 1:
        raise FormatError(f"{what} is encrypted")
    if member.file_size > _MOST_INFLATED * member.compress_size:
        raise FormatError(f"{what} would have {member.file_size} bytes, out of {member.compress_size}")


def stored_at(file: IO[bytes], member: zipfile.ZipInfo, what: str, total: int) -> int:
    """Return the byte of a file of `total` bytes at which a member begins that is stored as it is.

    Raises:
        FormatError: It is encrypted or compressed, has no header where it should be, or reaches beyond the file.
    """
    check_member(member, what)
    if member.compress_type != zipfile.ZIP_STORED:
        raise FormatError(f"{what} is compressed, and has to be stored as it is")
    if member.compress_size != member.file_size:
        raise FormatError(f"{what} is stored, with {member.compress_size} bytes for {member.file_size}")
    file.seek(member.header_offset)
    local = file.read(_LOCAL_BYTES)
    if len(local) < _LOCAL_BYTES or not local.startswith(_LOCAL_MAGIC):
        raise FormatError(f"{what} has no header at byte {member.header_offset}")
    skipped = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
    begin = member.header_offset + _LOCAL_BYTES + skipped
    if begin + member.file_size > total:
        raise FormatError(f"{what} reaches to byte {begin + member.file_size} of a file of {total} bytes")
    return begin
