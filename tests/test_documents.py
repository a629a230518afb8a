"""What the documents name is there."""

from __future__ import annotations

import ast
import configparser
import importlib
import itertools
import os
import re
import sys
import tomllib
from pathlib import Path

import pytest

from zyx.cli.main import COMMANDS
from zyx.plugins.drivers import DRIVERS, SYSTEMS
from zyx.plugins.state import KNOWN
from zyx.settings import variables

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))  # scripts, not a package

import record_entries
import record_history
import record_page
import record_picture

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "zyx-core" / "src" / "zyx"
PLACES = ["*.md", "zyx-*/README.md", "benchmarks/*.md", "docs/**/*.md", "examples/*/README.md"]
DOCUMENTS = sorted(path for place in PLACES for path in ROOT.glob(place))
#: Files that a reader is to make.
TO_BE_MADE = {
    "passes/replace_this_by_that.py",
    "zyx-core/tests/passes/test_replace_this_by_that.py",
    "docs/backend.md",  # by `zyx new-backend`
}
#: Files that every backend has, by the name they have in each.
IN_BACKENDS = {"plugin.py", "driver.py", "info.py", "device.py", "memory.py", "program.py", "render.py"}


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
    environments |= {name.removeprefix("testenv:") for name in settings.sections()}
    for path in DOCUMENTS:
        assert set(re.findall(r"tox -e ([\w-]+)", path.read_text(encoding="utf-8"))) <= environments, path


def imported(path: Path) -> set[str]:
    """Return the modules of zyx that a file imports from, such as ``zyx.kernel.data``."""
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
    text = (ROOT / "docs" / "reference" / "backend-api.md").read_text(encoding="utf-8")
    section = text.split("## What belongs to it")[1].split("\n## ")[0]
    listed: set[str] = set()
    parent = ""
    for name in re.findall(r"`([a-z_.]+)`", section):  # `zyx.drivers.arguments`, `limits` and so on
        parent = name.rpartition(".")[0] if "." in name else parent
        listed.add(name if "." in name else f"{parent}.{name}")
    used = {name: path for path in ROOT.glob("zyx-backend-*/src/*/*.py") for name in imported(path)}
    assert {"zyx.drivers.cache", "zyx.kernel.data"} <= set(used)
    missing = {name: path.name for name, path in used.items() if not name.startswith("zyx.render.")}
    assert not {name: missing[name] for name in set(missing) - listed}


@pytest.mark.parametrize("folder", sorted(ROOT.glob("zyx-backend-*")), ids=name_of)
def test_a_backend_says_how_it_is_installed_from_here(folder: Path) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert re.search(rf"^    pip install \./zyx-core '?\./{folder.name}\b", text, re.MULTILINE)


def test_the_record_is_what_the_script_writes() -> None:
    written = record_page.PAGE.read_text(encoding="utf-8")
    assert written == record_page.page_of(record_entries.read_topics()), "python benchmarks/record.py --write"


def test_the_picture_of_the_record_is_what_the_script_draws() -> None:
    drawn = record_picture.PICTURE.read_text(encoding="utf-8")
    assert drawn == record_picture.picture_of(record_entries.read_topics()), "python benchmarks/record.py --write"


def test_commits_that_the_record_names_are_there() -> None:
    try:
        known = record_history.history()
    except record_history.NoHistoryError as missing:
        assert "history" not in os.environ.get("ZYX_REQUIRE_DEVICES", "").split(","), missing
        pytest.skip(f"commits of the record are not looked up: {missing}")
    assert not record_history.unknown_commits(record_entries.read_topics(), known)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_where_pytest_is_called_it_is_installed_before(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    called = re.search(r"^    (?:ZYX_\w+=\S+ )?pytest ", text, re.MULTILINE)
    if called is not None:
        assert re.search(r"^    pip install .*\[testing\]", text[: called.start()], re.MULTILINE)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_what_is_installed_is_enough_and_any_shell_takes_it(path: Path) -> None:
    """Brackets without quotes are a pattern to zsh; and without a backend a language model runs on the interpreter."""
    for line in re.findall(r"\bpip install ([^`\n]*)", path.read_text(encoding="utf-8")):
        assert not re.search(r"(?:^| )[\w./-]+\[", line), line
        assert "./zyx-llm" not in line or "./zyx-backend-" in line, line


# ---- what the documents say of the library


def test_the_guide_has_what_brings_each_driver() -> None:
    text = (ROOT / "docs" / "how-to" / "devices.md").read_text(encoding="utf-8")
    for backend, row in DRIVERS.items():
        assert f"| {backend} | {' | '.join(row[system] for system in SYSTEMS)} |\n" in text


def names_in(pattern: str) -> dict[str, Path]:
    """Return what a pattern finds in all documents, with where it stands."""
    return {name: path for path in DOCUMENTS for name in re.findall(pattern, path.read_text(encoding="utf-8"))}


def is_there(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        try:
            for part in parts[length:]:
                found = getattr(found, part)
        except AttributeError:
            return False
        return True
    return False


def test_every_name_of_the_library_is_there() -> None:
    named = names_in(r"(?<![\w./:-])(zyx(?:\.\w+)+)(?![\w/-])")
    assert len(named) > 60
    of_commits = {"zyx.testing.fuzz"}  # in commands of the record, each beside the commit that it is of
    not_names = {"zyx.backends"} | of_commits | {name for name in named if name.endswith((".svg", ".dot"))}
    assert not {name: path.name for name, path in named.items() if name not in not_names and not is_there(name)}


def test_every_command_is_one() -> None:
    named = names_in(r"(?:^|`|bin/)zyx ([a-z][a-z-]*)\b")
    assert {"devices", "doctor", "demo", "new-backend"} <= set(named)
    assert set(named) <= set(COMMANDS)


def test_every_variable_is_read() -> None:
    sections = {field.upper() for field in BACKEND_FIELDS} | {"ENABLED"}
    for name, path in names_in(r"\bZYX_[A-Z][A-Z_]*[A-Z]\b").items():
        is_of_backend = any(name.endswith(f"_{field}") for field in sections)
        assert name in variables.KEY_OF or name in variables.FOREIGN or is_of_backend, (name, path)


#: Fields of the sections of all backends here, such as ``device_ids``.
BACKEND_FIELDS = {
    node.target.id
    for path in ROOT.glob("zyx-backend-*/src/*/plugin.py")
    for record in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    if isinstance(record, ast.ClassDef)
    for node in record.body
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
}


def test_every_extra_that_is_installed_is_offered() -> None:
    for extra, path in names_in(r"zyx-core\[([\w,]+)\]").items():
        project = tomllib.loads((ROOT / "zyx-core" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        assert set(extra.split(",")) <= set(project["optional-dependencies"]), path


def test_every_extra_is_used() -> None:
    project = tomllib.loads((ROOT / "zyx-core" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    sources = "\n".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    modules = {"scikit-learn": "sklearn", "google-re2": "re2"}
    for needed in project["optional-dependencies"].values():
        for package in needed:
            name = re.match(r"[\w-]+", package)[0]
            if name.startswith("zyx-backend-"):  # of the extra "all"; found by its entry point, not imported
                assert name.removeprefix("zyx-backend-") in KNOWN, package
                continue
            if name == "mpich":  # what mpi4py is for: a library, and the launcher of programs
                continue
            assert re.search(rf"^ *(import|from) {modules.get(name, name)}\b", sources, re.MULTILINE), package


def test_each_noun_is_where_the_map_says() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split("## Nouns")[1].split("## Verbs")[0]
    rows = re.findall(r"^\| (`.+?) \| (`.+?) \|", text, re.MULTILINE)
    assert len(rows) >= 10
    for nouns, places in rows:
        for noun in re.findall(r"`(\w+)`", nouns):
            words = {
                re.search(rf"^class {noun}\b|^{noun}\b.* = ", path.read_text(encoding="utf-8"), re.MULTILINE)
                for place in re.findall(r"`([\w.]+)`", places)
                for path in module_files(place)
            }
            assert words - {None}, (noun, places)


def module_files(name: str) -> list[Path]:
    place = SOURCE / name.replace(".", "/")
    return sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]


def test_the_map_is_the_contract_of_layers() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = [set(re.findall(r"\w+", re.sub(r"\(\w+\)", "", layer))) for layer in contract["contracts"][0]["layers"]]
    block = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split("```")[1]
    heads = [set(re.findall(r"\w+", re.split(r"\s{2,}", line)[0])) for line in block.strip().splitlines()]
    rank = {name: place for place, layer in enumerate(layers) for name in layer}
    for higher, lower in itertools.pairwise(heads):
        assert all(rank[above] <= rank[below] for above in higher for below in lower), (higher, lower)
