"""Which commits there are, and which of those that entries name are not among them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from record_entries import NOT_NOTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from record_entries import Topic

ROOT: Final = Path(__file__).parents[1]


class NoHistoryError(Exception):
    """The commits are not here; the text says why, and what brings them."""


def git(*arguments: str, root: Path = ROOT) -> str:
    """Return what git prints of the repository in `root`.

    Raises:
        NoHistoryError: There is no git, or no repository.
    """
    if shutil.which("git") is None:
        raise NoHistoryError("git is not installed")
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoHistoryError(f"git {arguments[0]} says: {done.stderr.strip()}")
    return done.stdout.strip()


def history(root: Path = ROOT) -> list[str]:
    """Return the commits that led to the one that is checked out, and that one.

    Raises:
        NoHistoryError: There is no git or no repository, or it is a clone without the older commits.
    """
    if git("rev-parse", "--is-shallow-repository", root=root) == "true":
        raise NoHistoryError("this clone has the newest commits only: git fetch --unshallow brings the others")
    return git("rev-list", "HEAD", root=root).split()


def unknown_commits(topics: Iterable[Topic], known: Sequence[str]) -> list[str]:
    """Return ``TOPIC: COMMIT`` for each commit that an entry names and that is none of those `known`."""
    return [
        f"{topic.title}: {entry.commit}"
        for topic in topics
        for entry in topic.entries
        if entry.commit != NOT_NOTED and not any(commit.startswith(entry.commit) for commit in known)
    ]
