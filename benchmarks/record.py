"""Measure what the record of measurements is made of, and write its page.

    python benchmarks/record.py --bench PATH                                    # on a processor, in 20 minutes at most
    python benchmarks/record.py --parts fuzz                                    # one part
    python benchmarks/record.py --device cuda --bench PATH --out FILE           # on a GPU, in 10 minutes at most
    python benchmarks/record.py --write                                # docs/reference/record.md and its picture

Prints entries as they go into a file of `benchmarks/record` (`record_entries.py` has their form); which of them are
kept is for whoever reads them. PATH is the folder of the comparison with other libraries, which has ``run.py`` and
``sweep.py``; without it, what needs it is said to be left out. The status is 1 if a part failed: why is shown, and what
the others measured is printed all the same.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from record_entries import NOT_NOTED, RecordError, read_topics, toml_of
from record_history import NoHistoryError, git
from record_page import PAGE, page_of
from record_parts import PARTS, Part, Setting
from record_picture import PICTURE, picture_of
from record_process import PartError

if TYPE_CHECKING:
    from collections.abc import Sequence

#: What all parts may take together, in seconds.
LIMIT_S: Final = {"cpu": 1200.0, "cuda": 600.0}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name} and {PICTURE.name}, measure nothing")
    parser.add_argument("--device", choices=tuple(LIMIT_S), default="cpu")
    parser.add_argument("--bench", type=Path, help="the folder of the comparison, which has run.py and sweep.py")
    parser.add_argument("--python", default=sys.executable, help="the Python that has zyx and its peers")
    parser.add_argument("--parts", help=f"some of {','.join(part.name for part in PARTS)}; all, if absent")
    parser.add_argument("--out", type=Path, help="a file for the entries, besides the output")
    parser.add_argument("--commit", help="the commit on main; by default, the one that is checked out")
    given = parser.parse_args(arguments)
    if given.write:
        return write()
    names = given.parts.split(",") if given.parts else [part.name for part in PARTS]
    if unknown := sorted(set(names) - {part.name for part in PARTS}):
        parser.error(f"no part {unknown[0]}; there are {', '.join(part.name for part in PARTS)}")
    bench = given.bench.resolve() if given.bench else None
    if bench is not None and not all((bench / script).is_file() for script in ("run.py", "sweep.py")):
        parser.error(f"--bench: {given.bench} has no run.py and sweep.py")
    commit = given.commit or commit_here()
    setting = Setting(given.device, bench, given.python, commit, model_of(given.device), datetime.date.today())
    return measure([part for part in PARTS if part.name in names], setting, given.out)


def write() -> int:
    """Write the page and its picture; return the exit status."""
    try:
        topics = read_topics()
        page, picture = page_of(topics), picture_of(topics)
    except RecordError as error:
        say(str(error))
        return 1
    PAGE.write_text(page, encoding="utf-8")
    PICTURE.write_text(picture, encoding="utf-8")
    return 0


def measure(parts: Sequence[Part], setting: Setting, out: Path | None) -> int:
    """Measure parts and print their entries, also to the file `out` if there is one; return the exit status."""
    failed = []
    deadline = time.monotonic() + LIMIT_S[setting.kind]
    texts = []
    for part in parts:
        if part.needs_bench and setting.bench is None:
            say(f"{part.name}: left out, since it needs the comparison with other libraries (--bench PATH)")
            continue
        started = time.monotonic()
        try:
            entries = part.measure(setting, min(part.limit_s[setting.kind], deadline - started))
        except (PartError, KeyError, TypeError, ValueError) as error:  # the latter: results of another form than ours
            failed.append(part.name)
            say(f"{part.name}: FAILED: {type(error).__name__}: {error}")
            continue
        say(f"{part.name}: {time.monotonic() - started:.0f} s")
        texts += [toml_of(entry) for entry in entries]
        print("\n".join(texts[-len(entries) :]), flush=True)
        if out is not None:
            out.write_text("\n".join(texts), encoding="utf-8")
    if failed:
        say(f"{len(failed)} of {len(parts)} parts failed: {', '.join(failed)}")
    return int(bool(failed))


def commit_here() -> str:
    """Return the commit that is checked out, or `NOT_NOTED`; say so if files differ from it."""
    try:
        if git("status", "--porcelain", "--untracked-files=no"):
            say("files differ from the commit that is checked out, which the entries name all the same")
        return git("rev-parse", "--short=7", "HEAD")
    except NoHistoryError as error:
        say(f"the commit is {NOT_NOTED!r}, unless --commit says it: {error}")
        return NOT_NOTED


def model_of(kind: str) -> str:
    """Return what the entries call this machine's processor or GPU."""
    if kind == "cuda":
        query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        try:
            done = subprocess.run(query, capture_output=True, text=True, check=True, timeout=60)
        except (OSError, subprocess.SubprocessError) as error:
            sys.exit(f"--device cuda: nvidia-smi names no GPU: {error}")
        return done.stdout.strip().splitlines()[0]
    return f"{processor()}, {os.cpu_count()} cores"


def processor() -> str:
    """Return the model of the processor, as Linux has it, else as Python does."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text(encoding="utf-8").splitlines() if information.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def say(text: str) -> None:
    """Print what is no entry."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
