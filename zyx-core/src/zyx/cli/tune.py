"""``zyx tune SCRIPT``: run a program, and search faster schedules for its kernels; what is found is kept.

zyx tune train.py --epochs 1             a minute of search, and a table of what each kernel took and takes
zyx tune --seconds 300 --json train.py   longer, and data instead of a table
zyx tune list [KERNEL...]                what is kept; names may have * in them
zyx tune export FILE [KERNEL...]         write it down, for another machine with the same device, driver and versions
zyx tune import FILE...                  take it from files, in place of what is kept
zyx tune merge FILE...                   take what is faster than what is kept
zyx tune forget [KERNEL...]              remove it, all of it if no kernel is named

Later processes use what is kept without measuring anything. What the program prints goes to where errors go. If the
program fails, what it launched until then is not searched. What was found for a kernel is kept at once: what is
interrupted keeps what it has found.
"""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from zyx.autotune.store import TuningStore, from_text, to_text
from zyx.cli.script import run_script, script_of
from zyx.errors import FormatError, SettingsError
from zyx.plugins.describe import columns
from zyx.runtime.profile import duration
from zyx.runtime.runtime import current
from zyx.settings.load import load_settings
from zyx.settings.paths import cache_directory
from zyx.tensor.control import tune

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from rich.console import Console

    from zyx.autotune.store import Winner
    from zyx.runtime.bars import Bar

_ACTIONS: Final = ("list", "export", "import", "merge", "forget")
#: Bytes that a file of schedules may have: some ten thousand kernels.
_MOST_BYTES: Final = 64 << 20


class _ProgramFailed(Exception):
    """The program failed, so that nothing is to be searched."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    import argparse

    parser.add_argument("--seconds", type=float, default=60.0, help="how long to search (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print data instead of a table")
    parser.add_argument("--measurements", metavar="FILE", help="append what was timed, for the fit of the estimate")
    parser.add_argument(
        "what", metavar="SCRIPT", help=f"the program, a file of Python; or one of {', '.join(_ACTIONS)}"
    )
    parser.add_argument("arguments", metavar="ARGUMENT", nargs=argparse.REMAINDER, help="what it is given")


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Do it; return the program's exit status, 1 if something is wrong."""
    if arguments.what in _ACTIONS:
        names = [name for name in arguments.arguments if name != "--json"]
        return _manage(arguments.what, names, console, as_json=arguments.json or len(names) < len(arguments.arguments))
    path = script_of(arguments.what)
    status = 0
    try:
        with (
            current().trace.bar("tuning", arguments.seconds, _seconds, after_s=0.0) as bar,
            tune(arguments.seconds, progress=partial(_told, bar, arguments.seconds)) as tuning,
        ):
            status = run_script(path, arguments.arguments)
            if status:
                raise _ProgramFailed
    except _ProgramFailed:
        console.print(f"zyx tune: {path} ended with status {status}, so nothing was searched")
        return status
    if arguments.measurements:
        with Path(arguments.measurements).open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in tuning.measurements)
    if arguments.json:
        console.print(json.dumps(tuning.as_json()))
        return int(bool(tuning.note) and not tuning.results())
    for line in str(tuning).splitlines():
        console.print(line)
    if not current().settings.autotune.save_to_disk or cache_directory(current().settings) is None:
        console.print("\nnothing of it is kept: autotune.save_to_disk or the cache is switched off")
    return 0


def _told(bar: Bar, seconds: float, kernel: str, tried: int, gain: float, left: float) -> None:
    """Show the kernel that is searched, and the best so far."""
    bar.advance(seconds - left - bar.done, f"{kernel}: {tried} tried, the best {gain:.2f}x")


def _seconds(done: float, total: float) -> str:
    return f"{done:.0f} of {total:.0f} s"


def _manage(action: str, names: Sequence[str], console: Console, *, as_json: bool) -> int:
    """Show or change what is kept; return the exit status."""
    settings = load_settings()
    switched_on = msgspec.structs.replace(settings.cache, enabled=True)  # what was kept is there still
    directory = cache_directory(msgspec.structs.replace(settings, cache=switched_on))
    if directory is None:
        console.print("nothing is kept: there is no home folder")
        return 1
    store = TuningStore(directory)
    try:
        if action in ("import", "merge"):
            return _take(store, names, console, only_faster=action == "merge")
        if action == "export":
            if not names:
                raise SettingsError("zyx tune export takes a file to write to")
            chosen = _chosen(store, names[1:])
            Path(names[0]).write_text(to_text(chosen), encoding="utf-8")
            console.print(f"{len(chosen)} written to {names[0]}")
            return 0
        chosen = _chosen(store, names)
        if action == "forget":
            store.forget(chosen)
            console.print(f"{len(chosen)} forgotten")
        elif as_json:
            console.print(to_text(chosen).rstrip())
        else:
            _list(chosen, console)
        return 0
    finally:
        store.close()


def _chosen(store: TuningStore, names: Sequence[str]) -> dict[str, Winner]:
    """Return the entries of these kernels, or all if no names are given.

    Raises:
        SettingsError: There is none of a name.
    """
    entries = store.entries()
    for name in names:
        if not any(fnmatchcase(winner.kernel, name) for winner in entries.values()):
            raise SettingsError(f"nothing was found for a kernel {name}; zyx tune list names those there are")
    kept = {key: winner for key, winner in entries.items() if any(fnmatchcase(winner.kernel, name) for name in names)}
    return kept if names else entries


def _take(store: TuningStore, names: Sequence[str], console: Console, *, only_faster: bool) -> int:
    if not names:
        raise SettingsError("zyx tune import and merge take files that zyx tune export wrote")
    for name in names:  # all are read before the first is taken
        _read(name)
    for name in names:
        entries = _read(name)
        console.print(f"{name}: {store.take(entries, only_faster=only_faster)} of {len(entries)} taken")
    return 0


def _read(name: str) -> dict[str, Winner]:
    try:
        with Path(name).open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise FormatError(f"{name} cannot be read: {error.strerror}") from error
    if len(text) > _MOST_BYTES:
        raise FormatError(f"{name} has more than {_MOST_BYTES} bytes, which no schedules have")
    return from_text(text, name)


def _list(entries: dict[str, Winner], console: Console) -> None:
    rows: list[tuple[str, ...]] = [("KERNEL", "DEVICE", "BEFORE", "FOUND", "GAINED", "TRIED", "WHAT")]
    for winner in sorted(entries.values(), key=lambda each: -each.gain):
        times = [duration(winner.before_s), duration(winner.seconds)]
        what = f"{winner.library}: {winner.what}" if winner.library else winner.what
        gain = f"{winner.gain:.2f}x" if winner.is_faster else "nothing"
        rows.append((winner.kernel, winner.device, *times, gain, str(winner.tried), what))
    for line in columns(rows) if entries else ["nothing was tuned yet"]:
        console.print(line)
