"""What the documents name is there."""

from __future__ import annotations

import ast
import configparser
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "zyx-core" / "src" / "zyx"
PLACES = ["*.md", "zyx-*/README.md", "benchmarks/*.md", "docs/*.md", "examples/*/README.md"]
DOCUMENTS = sorted(path for place in PLACES for path in ROOT.glob(place))
#: Files that a reader is to make.
TO_BE_MADE = {"passes/replace_this_by_that.py", "zyx-core/tests/passes/test_replace_this_by_that.py"}
#: Files that every backend has, by the name they have in each.
IN_BACKENDS = {"plugin.py", "driver.py", "errors.py", "info.py", "device.py", "memory.py", "program.py", "render.py"}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_link_leads_to_a_file(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text(encoding="utf-8")):
        assert "://" in target or (path.parent / target).exists(), target


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_file_that_is_named_exists(path: Path) -> None:
    named = re.findall(r"`([\w/-]+\.(?:py|ll|toml|ini|md))`", path.read_text(encoding="utf-8"))
    for name in set(named) - TO_BE_MADE:
        places = [
            ROOT,
            path.parent,
            SOURCE,
            SOURCE.parent,
            *path.parent.glob("src/*"),
            ROOT / "zyx-core/tests/autograd",
        ]
        assert name in IN_BACKENDS or any((place / name).exists() for place in places), name


def test_the_map_of_the_source_has_every_folder_and_no_other() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    block = text.split("```")[1]
    heads = [re.split(r"\s{2,}", line)[0] for line in block.strip().splitlines()]
    named = {name for head in heads for name in re.split(r" \| |, ", head)}
    there = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert there <= named
    assert all((SOURCE / name).is_dir() or (SOURCE / f"{name}.py").exists() for name in named)


def test_every_environment_that_is_named_is_one_of_tox() -> None:
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(ROOT / "tox.ini", encoding="utf-8")
    environments = set(re.split(r",\s*", settings["tox"]["env_list"].strip()))
    for path in DOCUMENTS:
        assert set(re.findall(r"tox -e ([\w-]+)", path.read_text(encoding="utf-8"))) <= environments, path


def imported(path: Path) -> set[str]:
    """Return the modules of zyx that a file imports from, such as ``zyx.ir.kernel``."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.split(".")[0] == "zyx":
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                found.add(name if is_module(name) else node.module)
    return found


def is_module(name: str) -> bool:
    path = SOURCE.parent / name.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").exists()


def test_the_interface_has_every_module_that_backends_import() -> None:
    text = (ROOT / "docs" / "backend-api.md").read_text(encoding="utf-8")
    section = text.split("## What belongs to it")[1].split("\n## ")[0]
    listed: set[str] = set()
    parent = ""
    for name in re.findall(r"`([a-z_.]+)`", section):  # `zyx.backend.arguments`, `limits` and so on
        parent = name.rpartition(".")[0] if "." in name else parent
        listed.add(name if "." in name else f"{parent}.{name}")
    used = {name: path for path in ROOT.glob("zyx-backend-*/src/*/*.py") for name in imported(path)}
    assert {"zyx.backend.cache", "zyx.ir.kernel"} <= set(used)
    missing = {name: path.name for name, path in used.items() if not name.startswith("zyx.render.")}
    assert not {name: missing[name] for name in set(missing) - listed}


@pytest.mark.parametrize("folder", sorted(ROOT.glob("zyx-backend-*")), ids=name_of)
def test_a_backend_says_how_it_is_installed_from_here(folder: Path) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert re.search(rf"^    pip install \./zyx-core '?\./{folder.name}\b", text, re.MULTILINE)


@pytest.mark.parametrize("path", sorted(ROOT.glob("zyx-*/tests/recorded/*.md")), ids=name_of)
def test_a_record_has_its_date_commit_commands_and_what_they_printed_last(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# ")
    assert re.match(r"\d{4}-\d\d-\d\d, commit (`[0-9a-f]{7,40}`|not noted); ", lines[2]), lines[2]
    start = next(number for number, line in enumerate(lines) if line.startswith("| command | pytest's last line"))
    rows = [line.strip("| ").split(" | ") for line in lines[start + 2 : lines.index("", start)]]
    assert rows
    for command, *printed in rows:
        assert command
        assert any(re.match(r"(\d+ failed, )?\d+ passed|no failures", text) for text in printed), printed


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_where_pytest_is_called_it_is_installed_before(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    called = re.search(r"^    (?:ZYX_\w+=\S+ )?pytest ", text, re.MULTILINE)
    if called is not None:
        assert re.search(r"^    pip install .*\[testing\]", text[: called.start()], re.MULTILINE)
