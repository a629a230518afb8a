"""The page `docs/reference/record.md`, as it follows from the entries.

Of each topic: a table with a row an entry, and below it what entries have to say in detail, under their claims.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from record_entries import NOT_NOTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from record_entries import Entry, Topic

PAGE: Final = Path(__file__).parents[1] / "docs" / "reference" / "record.md"

HEAD: Final = """\
# What was measured

Written by `python benchmarks/record.py --write` from the files in `benchmarks/record`, which is where to change it.
[benchmarks/README.md](../../benchmarks/README.md) says how entries are made. Commands run from the root of the
repository. Entries of commit 120081a were measured on the steps that this commit brought together.
"""


def page_of(topics: Sequence[Topic]) -> str:
    """Return the text of the page."""
    return "\n".join([HEAD, *(section_of(topic) for topic in topics)])


def section_of(topic: Topic) -> str:
    """Return the part of the page about a topic; it ends with one end of a line."""
    about = [topic.about, ""] if topic.about else []
    head = ["| what | figure | command | commit | on | date |", "|---|---|---|---|---|---|"]
    details = [line for entry in topic.entries if entry.details for line in ("", *details_of(entry))]
    return "\n".join([f"## {topic.title}", "", *about, *head, *map(row_of, topic.entries), *details, ""])


def row_of(entry: Entry) -> str:
    """Return an entry's row of the table."""
    command, commit = (text if text == NOT_NOTED else f"`{text}`" for text in (entry.command, entry.commit))
    cells = (entry.claim, entry.figure, command, commit, entry.device, entry.date.isoformat())
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def details_of(entry: Entry) -> tuple[str, ...]:
    """Return the lines below the table that an entry has."""
    return f"### {entry.claim[0].upper()}{entry.claim[1:]}", "", entry.details
