"""The emitters of our backends are short, and none repeats another's: what two of them share is in core."""

from __future__ import annotations

import ast
import functools
import itertools
from pathlib import Path

import pytest

from zyx.plugins.state import KNOWN

ROOT = Path(__file__).parents[1]

#: Lines of one emitter, all of them counted; and of one file.
MOST_LINES = 500
#: Lines of those that write a module word by word: below them is no compiler of a language, which has types of all
#: sizes, conversions and structured statements, and above them no writer in core that another emitter shares.
MOST_LINES_OF_WORDS = {"vulkan": 2200}
#: Lines of code that two emitters may have in common, one after the other, by chance.
MOST_SHARED = 5

#: Modules that write no kernel; ``analysis`` lays out scratch memory and estimates work, ``spirv`` assembles modules of
#: any kind. All else that a backend has is of its emitter.
OTHERS = (
    "__init__", "version", "plugin", "start", "info", "errors", "device", "driver", "driver_*", "memory", "program",
    "sequence", "work", "lanes", "bindings", "subgroups", "blas", "cudnn", "collectives",
    "workspace", "libraries", "argument_block", "staging", "graphs", "nvrtc",
    "target", "toolchain", "toolchain_*", "workers", "analysis", "blocks",
    "disassembly", "probes", "probe_*", "spirv", "spirv_table",
)  # fmt: skip

#: Backends with two emitters, by what the second one's modules are called.
SECOND = {"c": "*llvm*"}


def emitters() -> dict[str, list[Path]]:
    """Return the files of each emitter."""
    found: dict[str, list[Path]] = {}
    for name in KNOWN:
        folder = ROOT / f"zyx-backend-{name}" / "src" / f"zyx_backend_{name}"
        for path in sorted(folder.glob("*.py")):
            if not any(path.match(f"{other}.py") for other in OTHERS):
                second = name in SECOND and path.match(SECOND[name])
                found.setdefault(f"{name}, through LLVM" if second else name, []).append(path)
    return found


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


@functools.cache
def code(text: str) -> list[tuple[str, int]]:
    """Return the lines of code with their numbers: no docstrings, comments, imports, blank lines, nor lone brackets."""
    dropped: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            dropped.update(range(node.lineno, node.end_lineno + 1))
    numbered = (
        (" ".join(line.split()), number) for number, line in enumerate(text.splitlines(), 1) if number not in dropped
    )
    return [(line, number) for line, number in numbered if line.strip("()[]{},:") and not line.startswith("#")]


def shared(first: Path, second: Path) -> list[str]:
    """Return where runs of more than `MOST_SHARED` lines of code of one file are in the other, too."""
    size = MOST_SHARED + 1
    runs = [
        {
            tuple(line for line, _ in part): part[0][1]
            for part in zip(*(code(path.read_text(encoding="utf-8"))[n:] for n in range(size)), strict=False)
        }
        for path in (first, second)
    ]
    return [
        f"{first.relative_to(ROOT)}:{runs[0][run]} is {second.relative_to(ROOT)}:{runs[1][run]}"
        for run in runs[0].keys() & runs[1].keys()
    ]


def test_every_backend_has_an_emitter() -> None:
    assert set(KNOWN) <= set(emitters())
    for name in KNOWN:
        assert any("render" in path.name for path in emitters()[name])


@pytest.mark.parametrize("name", emitters())
def test_an_emitter_has_at_most_500_lines(name: str) -> None:
    counts = {path.name: len(lines(path)) for path in emitters()[name]}
    assert sum(counts.values()) <= MOST_LINES_OF_WORDS.get(name, MOST_LINES), counts


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(emitters(), 2)))
def test_no_emitter_repeats_another(first: str, second: str) -> None:
    pairs = itertools.product(emitters()[first], emitters()[second])
    assert not [place for one, other in pairs for place in shared(one, other)]


def test_what_is_repeated_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    body = [f"x{number} = {number}" for number in range(MOST_SHARED + 1)]
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text('"""One."""\nimport os\n\n' + "\n".join(body) + "\n")
    other.write_text("def f():\n" + "\n\n    # as in the other\n".join(f"    {line}" for line in body) + "\n")
    assert shared(one, other) == ["one.py:4 is other.py:2"]
    other.write_text("\n".join(body[:-1]) + "\n")
    assert not shared(one, other)


def test_no_file_has_more_than_500_lines() -> None:
    folders = [ROOT / "zyx-core" / "src", *(ROOT / f"zyx-backend-{name}" / "src" for name in KNOWN)]
    counts = {str(path.relative_to(ROOT)): len(lines(path)) for folder in folders for path in folder.rglob("*.py")}
    assert len(counts) > 300
    assert {name: count for name, count in counts.items() if count > MOST_LINES} == {}
