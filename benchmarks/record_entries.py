'''Entries of the record of what was measured: how they are written, read and checked.

A file of `benchmarks/record` is a topic:

    title = "CUDA"
    about = "What holds of all entries: versions, and how times were taken."     # may be absent

    [[entries]]
    claim = "softmax of 8192 rows of 8192 floats"          # what was looked at
    figure = "3963 GB/s, 97% of a copy"                    # what came out, with its unit
    command = "python benchmarks/device_rates.py"          # from the root of the repository, or "not noted"
    commit = "1ce55e0"                                     # on main; "not noted" where nobody wrote it down
    device = "NVIDIA H200"                                 # the GPU, or the processor and how much of it
    date = 2026-11-22
    details = """A table, or what a reader should know besides; Markdown."""      # may be absent
'''

from __future__ import annotations

import datetime
import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).with_name("record")
NOT_NOTED: Final = "not noted"

TEXTS: Final = ("claim", "figure", "command", "commit", "device")
FIELDS: Final = (*TEXTS, "date")
MAY_BE_ABSENT: Final = "details"


class RecordError(ValueError):
    """A file is not of the form above; the text names the file, the entry, the field and what belongs there."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that was measured.

    Attributes:
        claim: What was looked at, in one line.
        figure: What came out, with its unit, in one line.
        command: What was run, from the root of the repository, or `NOT_NOTED`.
        commit: 7 to 40 hexadecimal digits, or `NOT_NOTED`.
        device: The GPU, or the processor.
        date: The day.
        details: Markdown, may be empty.
    """

    claim: str
    figure: str
    command: str
    commit: str
    device: str
    date: datetime.date
    details: str = ""


@dataclass(frozen=True, slots=True)
class Topic:
    """A file of the record.

    Attributes:
        title: Its heading.
        about: What holds of all its entries; Markdown, may be empty.
        entries: In the order of the file; one at least.
    """

    title: str
    about: str
    entries: tuple[Entry, ...]


def read_topics(folder: Path = FOLDER) -> list[Topic]:
    """Return the topics of a folder, in the order of their file names.

    Raises:
        RecordError: A file is not of the form, or there is none.
    """
    paths = sorted(folder.glob("*.toml"))
    if not paths:
        raise RecordError(f"{folder} has no topics: there is no file *.toml in it")
    return [topic_of(path.read_text(encoding="utf-8"), path.name) for path in paths]


def topic_of(text: str, name: str) -> Topic:
    """Return the topic that a file `name` with this text is.

    Raises:
        RecordError: It is not of the form.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RecordError(f"{name} is not TOML: {error}") from error
    refuse_others(table, ("title", "about", "entries"), name)
    listed = table.get("entries")
    if not isinstance(listed, list) or not listed or not all(isinstance(each, dict) for each in listed):
        raise RecordError(f"{name}: a topic has entries, tables that begin with [[entries]]")
    title = line_of(table, "title", name)
    about = text_of(table, "about", name)
    return Topic(title, about, tuple(entry_of(each, f"{name}, entry {n}") for n, each in enumerate(listed, 1)))


def entry_of(table: dict[str, object], where: str) -> Entry:
    """Return the entry that a table is.

    Raises:
        RecordError: A field is missing, of another type or form, or none of ours; the text begins with `where`.
    """
    if isinstance(table.get("claim"), str):
        where = f"{where} ({table['claim']})"
    refuse_others(table, (*FIELDS, MAY_BE_ABSENT), where)
    claim, figure, command, commit, device = (line_of(table, field, where) for field in TEXTS)
    if commit != NOT_NOTED and not re.fullmatch(r"[0-9a-f]{7,40}", commit):
        raise RecordError(f"{where}: commit is {commit!r}; it is 7 to 40 hexadecimal digits, or {NOT_NOTED!r}")
    date = table.get("date")
    if not isinstance(date, datetime.date) or isinstance(date, datetime.datetime):
        raise RecordError(f"{where}: date is {date!r}; it is a day without quotes, such as 2026-11-22")
    return Entry(claim, figure, command, commit, device, date, text_of(table, MAY_BE_ABSENT, where))


def refuse_others(table: dict[str, object], known: tuple[str, ...], where: str) -> None:
    """Raise `RecordError` if a table has another key than those known."""
    if others := sorted(set(table) - set(known)):
        raise RecordError(f"{where}: {', '.join(others)} is none of its fields: {', '.join(known)}")


def line_of(table: dict[str, object], field: str, where: str) -> str:
    """Return a field that has to be there, a text of one line."""
    value = table.get(field)
    if not isinstance(value, str) or not value.strip() or "\n" in value:
        raise RecordError(f"{where}: {field} is {value!r}; it is a text of one line")
    return value.strip()


def text_of(table: dict[str, object], field: str, where: str) -> str:
    """Return a text that may be absent, which is the empty one."""
    value = table.get(field, "")
    if not isinstance(value, str):
        raise RecordError(f"{where}: {field} is {value!r}; it is a text")
    return value.strip("\n")


def toml_of(entry: Entry) -> str:
    """Return an entry as it stands in a file; `topic_of` reads the same from it."""
    lines = ["[[entries]]"]
    lines += [f"{field} = {json.dumps(getattr(entry, field), ensure_ascii=False)}" for field in TEXTS]
    lines += [f"date = {entry.date.isoformat()}"]
    if entry.details:
        inside = entry.details.replace("\\", "\\\\").replace('"""', '""\\"')
        lines += [f'{MAY_BE_ABSENT} = """\n{inside}\n"""']
    return "\n".join(lines) + "\n"
