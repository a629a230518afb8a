"""The folder of caches: it, and what is opened in it, must be the user's alone.

What a cache holds is executed, so whoever can swap a file in its folder, or the folder itself, could choose what. Of
the folder and those around it, none may be changed by others, but for the system's own and what a user's groups may do;
files are opened without following links, and judged by the descriptor that is then read. Windows has neither owners
of this kind nor links that anyone may make; there, only the kinds of files are looked at.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final

_KEY_BYTES: Final = 32
_ROOT: Final = 0
#: What names another folder.
_VARIABLE: Final = "ZYX_CACHE_DIR"
#: Flags that not every system has: no links, no waiting for the other end of a pipe, and no other line ends.
_SAFELY: Final = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


def own_folder(directory: Path) -> Path:
    """Return where a folder really lies, which is made for the user alone if it is not there.

    Raises:
        PermissionError: Others could change what is in it; the text says where, and what to do.
        OSError: It cannot be made.
    """
    fault = fault_of_folder(directory)  # before anything is made
    if not fault:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        fault = fault_of_folder(directory)
    if fault:
        raise PermissionError(fault)
    return Path(os.path.realpath(directory))


def fault_of_folder(directory: Path) -> str:
    """Return why a folder, or the first one above it that is there, must not hold code; empty if nothing is wrong."""
    user = _user()
    if user is None:
        return ""
    real = Path(os.path.realpath(directory))  # which does not raise, whatever the links are
    for path in dict.fromkeys((directory, real, *directory.parents, *real.parents)):
        try:
            status = path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            return f"{path} cannot be looked at: {error.strerror}"
        is_link = stat.S_ISLNK(status.st_mode)  # whose mode means nothing
        if status.st_uid not in ((user,) if path == real else (user, _ROOT)):
            whose = f"user {status.st_uid}, not to user {user}"
            return f"{path} belongs to {whose}; take a cache folder of your own ({_VARIABLE})"
        is_guarded = status.st_mode & stat.S_ISVTX and path != real  # others cannot replace what is ours there
        if status.st_mode & stat.S_IWOTH and not is_link and not is_guarded:
            return f"every user may write to {path}; take another cache folder ({_VARIABLE}), or: chmod o-w {path}"
    return ""


def fault_of_cache(directory: Path) -> str:
    """Return why nothing can be kept in a folder, and behind a semicolon what to do; empty if nothing is wrong."""
    fault = fault_of_folder(directory)
    if fault:
        return fault
    try:
        for path in (directory / "key", *sorted(directory.glob("*.sqlite*"))):
            check_file(path)
    except OSError as error:
        return str(error)
    return ""


def check_file(path: Path) -> None:
    """Check that a file, if it is there, is a plain one of the user's.

    Raises:
        PermissionError: It is a link, a pipe or the like, or somebody else's.
    """
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return
    _check(path, status)


def user_key(directory: Path) -> bytes:
    """Return the user's key in a folder that was checked, made at the first call.

    Raises:
        PermissionError: It is not a plain file of the user's, or somebody else could have read it.
        OSError: It cannot be made or read.
    """
    path = directory / "key"
    check_file(path)  # says what is wrong with a link or a pipe; what counts is seen of the open file
    try:
        descriptor = os.open(path, os.O_RDONLY | _SAFELY)
    except FileNotFoundError:
        _make_key(path)
        descriptor = os.open(path, os.O_RDONLY | _SAFELY)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        _check(path, status)
        if _user() is not None and stat.S_IMODE(status.st_mode) & 0o077:
            raise PermissionError(f"{path} is open to other users; remove {path}")
        key = file.read(_KEY_BYTES + 1)
    if len(key) != _KEY_BYTES:
        raise OSError(f"{path} does not hold a key of {_KEY_BYTES} bytes; remove {path}")
    return key


def _check(path: Path, status: os.stat_result) -> None:
    user = _user()
    if not stat.S_ISREG(status.st_mode):
        kind = "a link" if stat.S_ISLNK(status.st_mode) else "no file"
        raise PermissionError(f"{path} is {kind}; remove {path}")
    if user is not None and status.st_uid != user:
        raise PermissionError(f"{path} belongs to user {status.st_uid}, not to user {user}; remove {path}")


def _user() -> int | None:
    return os.geteuid() if hasattr(os, "geteuid") else None


def _make_key(path: Path) -> None:
    """Write a new key, all at once: another process may do the same at the same time, and one of them wins."""
    draft = path.with_name(f"key.{os.getpid()}.{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
        try:
            os.link(draft, path)
        except FileExistsError:
            return
        except OSError:  # a file system without links
            draft.rename(path)
            return
    finally:
        draft.unlink(missing_ok=True)
