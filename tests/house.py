"""Count what the source of core is made of, and how much tests it all, beside the same counts of an earlier commit.

    python tests/house.py                   the figures; the status is 1 if one is above its limit
    python tests/house.py --list functions  which ones: functions, imports, names or repeated

Core is counted without its kit (`zyx.testing`), and without what came after that commit for people: arrays and their
habits, files, several devices, whose lines are printed apart. Of these the other figures are counted as well. What
drivers share (`zyx.drivers`) is counted with the backends, which it came from.

Lines of tests are those of all packages and those that cross packages, by 100 lines of all packages without the kit;
what draws random programs (`fuzz`) is counted as the kit is, which it was a part of at that commit.
"""

from __future__ import annotations

import argparse
import ast
import collections
import fnmatch
import io
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT: Final = Path(__file__).parents[1]
CORE: Final = "zyx-core/src/zyx"
#: Where tests are, and what they test, by patterns of paths.
TESTS: Final = ("zyx-*/tests/*.py", "tests/*.py")
PRODUCT: Final = "zyx-*/src/*.py"
#: What draws and runs random programs, like the kit neither a test nor what is tested.
FUZZER: Final = "tests/fuzz/*.py"
#: The commit whose figures stand beside: the one that the targets of the house were written for.
BEFORE: Final = "c5998d3"
#: The kit, which authors of backends run.
KIT: Final = "testing"
#: What drivers have in common, and what each has.
DRIVERS: Final = "drivers"
BACKENDS: Final = "zyx-backend-*/src/*.py"
#: What came for people after that commit: folders, and modules of `zyx` itself.
FOR_PEOPLE: Final = (
    "amp.py", "cuda.py", "einops.py", "random.py", "tree.py", "data", "distributed", "pairs", "quantize", "io", "fft",
    "linalg", "functions", "nn", "optim", "tensor", "autograd", "utils", "cli", "tiles",
)  # fmt: skip
#: Lines of a function, without its docstring, that are not too many yet.
LONGEST: Final = 60
#: How many lines in a row are looked for elsewhere, without blanks, comments and imports.
RUN: Final = 6
#: Characters that these have together at least: shorter ones are brackets and ends of calls.
RUN_CHARACTERS: Final = 20 * RUN
#: Folders of data, which share the words of the trade: a `Loop` of each is one, in its form.
NOUNS: Final = ("graph", "nest", "kernel", "tiles")
#: Folders that offer one thing in two forms on purpose, under one name, and why.
TWICE: Final = {
    "optim": "a schedule of rates is a function of the step, and in `lr_scheduler`, as of PyTorch, one of an optimiser",
}
#: What each figure is called, and what was reached, lines by the hundred. These fall, and do not rise.
FIGURES: Final = {
    "lines": ("lines of core", 62_400),
    "files": ("files of core", 386),
    "driver_lines": ("lines of drivers and backends", 23_500),
    "people_lines": ("lines for people, apart", None),
    "people_files": ("files for people, apart", None),
    "imports": ("own imports inside functions", 0),
    "functions": (f"functions over {LONGEST} lines", 0),
    "repeated": (f"repeated runs of {RUN} lines", 102),
    "names": ("class names with two meanings", 9),
    "tests": ("lines of tests by 100 of product", 63),
}


class Counts(NamedTuple):
    """Figures of core at one commit; see `count`.

    Attributes:
        lines, files: Without the kit, what drivers share and what came for people.
        driver_lines: Of what drivers share.
        people_lines, people_files: Of what came for people.
        imports: Imports of zyx inside of functions, each with its place.
        functions: Functions that are too long, likewise.
        repeated: Runs of lines that stand somewhere else before, with both places.
        names: Names of classes that are public and have two meanings, with their modules.
    """

    lines: int
    files: int
    driver_lines: int
    people_lines: int
    people_files: int
    imports: list[str]
    functions: list[str]
    repeated: list[str]
    names: list[str]

    def figures(self) -> dict[str, int]:
        """Return the number of each."""
        return {name: value if isinstance(value, int) else len(value) for name, value in self._asdict().items()}


def count(sources: Mapping[str, str]) -> Counts:
    """Return the figures of modules, by their paths below `zyx`."""
    lines, files = collections.Counter[str](), collections.Counter[str]()
    imports, functions, repeated = list[str](), list[str](), list[str]()
    runs: dict[tuple[str, ...], str] = {}
    classes: dict[str, list[str]] = collections.defaultdict(list)
    for path, text in sorted(sources.items()):
        if (folder := path.split("/")[0]) == KIT:
            continue
        kind = "people" if folder in FOR_PEOPLE else DRIVERS if folder == DRIVERS else "core"
        lines[kind] += text.count("\n")
        files[kind] += 1
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions += [f"{path}:{node.lineno} {node.name}"] if length_of(node) > LONGEST else []
                imports += [f"{path}:{line} {name}" for line, name in own_imports(node)]
            elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].append(path)
        for line, run in runs_of(text, tree):
            first = runs.setdefault(run, f"{path}:{line}")
            repeated += [f"{path}:{line} as {first} {run[0]}"] if first != f"{path}:{line}" else []
    names = [f"{name}: {', '.join(where)}" for name, where in classes.items() if means_two(where)]
    sizes = lines["core"], files["core"], lines[DRIVERS], lines["people"], files["people"]
    return Counts(*sizes, sorted({*imports}), functions, repeated, names)


def length_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a function without its docstring."""
    first = function.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    spared = (first.end_lineno or 0) - first.lineno + 1 if is_docstring else 0
    return (function.end_lineno or 0) - function.lineno + 1 - spared


def own_imports(function: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the lines of imports of zyx inside of a function, with what they import from."""
    for node in ast.walk(function):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "zyx":
            yield node.lineno, node.module or ""
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, each.name) for each in node.names if each.name.split(".")[0] == "zyx")


def runs_of(text: str, tree: ast.Module) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the runs of lines of a module, without indentation, each with the number of its first line."""
    spared = {
        line
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom | ast.If)  # those on the level of the module are around imports
        for line in range(node.lineno, (node.end_lineno or 0) + 1)
    }
    stripped = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if number not in spared]
    plain = [(number, line) for number, line in stripped if line and not line.startswith(("#", '"""'))]
    for start in range(len(plain) - RUN + 1):
        run = tuple(line for _, line in plain[start : start + RUN])
        if sum(map(len, run)) > RUN_CHARACTERS:
            yield plain[start][0], run


def means_two(where: list[str]) -> bool:
    """Return whether a name that classes of these modules have is one too many."""
    folders = [path.split("/")[0] for path in where]
    others = [folder for folder in folders if folder not in NOUNS]
    if len(others) < len(folders):
        return len(others) > 0 or len(set(folders)) < len(folders)
    return len(set(where)) > 1 and not (len(set(folders)) == 1 and folders[0] in TWICE)


def proportion(files: Mapping[str, str]) -> int:
    """Return the lines of tests by the hundred lines of product, of files by their paths; 0 without a product."""
    lines = collections.Counter[str]()
    for path, text in files.items():
        if fnmatch.fnmatch(path, FUZZER):
            continue
        if any(fnmatch.fnmatch(path, pattern) for pattern in TESTS):
            lines["tests"] += text.count("\n")
        elif fnmatch.fnmatch(path, PRODUCT) and not path.startswith(f"{CORE}/{KIT}/"):
            lines["product"] += text.count("\n")
    return round(100 * lines["tests"] / lines["product"]) if lines["product"] else 0


def modules_of(files: Mapping[str, str]) -> dict[str, str]:
    """Return the modules of core of a tree, by their paths below `zyx`."""
    return {path.removeprefix(f"{CORE}/"): text for path, text in files.items() if path.startswith(f"{CORE}/")}


def figures_of(files: Mapping[str, str]) -> dict[str, int]:
    """Return all figures of a tree, of whose files these are the paths and texts."""
    figures = count(modules_of(files)).figures()
    figures["driver_lines"] += sum(text.count("\n") for path, text in files.items() if fnmatch.fnmatch(path, BACKENDS))
    return figures | {"tests": proportion(files)}


def here() -> dict[str, str]:
    """Return the modules and tests of this tree, by their paths."""
    folders = [folder for pattern in ("zyx-*/src", "zyx-*/tests", "tests") for folder in ROOT.glob(pattern)]
    paths = [path for folder in folders for path in folder.rglob("*.py")]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def at(commit: str) -> dict[str, str]:
    """Return the modules and tests of a commit, by their paths; none if it is not in this clone."""
    made = subprocess.run(["git", "-C", str(ROOT), "archive", commit], capture_output=True, check=False)
    if made.returncode:
        return {}
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
        files = [(member.name, archive.extractfile(member)) for member in archive if member.name.endswith(".py")]
        return {name: file.read().decode() for name, file in files if file is not None}


def table(now: Mapping[str, int], before: Mapping[str, int]) -> str:
    """Return the figures as a table, with those of the earlier commit beside, and the limits."""
    rows: list[tuple[str, object, object, object]] = [("", "now", BEFORE, "at most")]
    limits = {name: "-" if most is None else most for name, (_, most) in FIGURES.items()}
    rows += [(said, now[name], before.get(name, "-"), limits[name]) for name, (said, _) in FIGURES.items()]
    return "\n".join(f"{said:<32}{new!s:>10}{old!s:>10}{most!s:>10}" for said, new, old, most in rows)


def exceeded(now: Mapping[str, int]) -> list[str]:
    """Return the figures that are above their limits."""
    return [said for name, (said, most) in FIGURES.items() if most is not None and now[name] > most]


def main(arguments: list[str] | None = None) -> int:
    """Print what was asked for; return 1 if a figure is above its limit."""
    parser = argparse.ArgumentParser(description="Count what the source of core is made of.")
    parser.add_argument("--list", choices=("functions", "imports", "names", "repeated"), help="which ones there are")
    files, listed = here(), parser.parse_args(arguments).list
    if listed:
        print(*getattr(count(modules_of(files)), listed), sep="\n")
        return 0
    now, earlier = figures_of(files), at(BEFORE)
    print(table(now, figures_of(earlier) if earlier else {}))
    if too_many := exceeded(now):
        print(f"more than there were: {', '.join(too_many)}; --list says which ones")
    return 1 if too_many else 0


if __name__ == "__main__":
    sys.exit(main())
