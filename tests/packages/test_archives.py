"""What is published: metadata, contents, the same bytes at each build, and packages that install in any order."""

from __future__ import annotations

import os
import random
import re
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator
from email.parser import Parser
from itertools import combinations
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement

if TYPE_CHECKING:
    from email.message import Message

ROOT = Path(__file__).parents[2]
BACKENDS = sorted(folder.name for folder in ROOT.glob("zyx-backend-*"))
PACKAGES = ["zyx-core", *BACKENDS, "zyx-llm"]
#: What ``zyx-core[all]`` brings.
OF_ALL = {"zyx-backend-c", "zyx-backend-opencl", "zyx-backend-wgpu"}
#: What an sdist has, in its one folder; .gitignore is what keeps caches out when a wheel is built from it.
SDIST = {".gitignore", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml", "src", "tests"}
#: Seconds since 1970, an even number, as zip files have it: what SOURCE_DATE_EPOCH is.
EPOCH_S = 1_600_000_000
CACHES = {"__pycache__", ".hypothesis", ".pytest_cache", ".mypy_cache", ".ruff_cache"}

Run = Callable[..., str]


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory, run: Run) -> dict[str, list[Path]]:
    """An sdist and a wheel of each package, built as the list for a release says."""
    page = (ROOT / "docs" / "releasing.md").read_text(encoding="utf-8")
    (command,) = (
        block for block in re.findall(r"^```sh\n(.*?)^```$", page, re.DOTALL | re.MULTILINE) if "build" in block
    )
    folder = tmp_path_factory.mktemp("dist")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run("bash", "-eu", "-c", command, cwd=ROOT, DIST=str(folder), PATH=path, SOURCE_DATE_EPOCH=str(EPOCH_S))
    built = {package: sorted(folder.glob(f"{package.replace('-', '_')}-*")) for package in PACKAGES}
    assert sorted(folder.iterdir()) == sorted(path for paths in built.values() for path in paths)
    return {package: sorted(paths, key=lambda path: path.suffix) for package, paths in built.items()}


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


@pytest.mark.parametrize("package", PACKAGES)
def test_an_sdist_has_the_source_and_its_tests_and_no_caches(archives: dict[str, list[Path]], package: str) -> None:
    sdist, _ = archives[package]
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
    paths = [PurePosixPath(member.name) for member in members]
    assert {path.parts[0] for path in paths} == {sdist.name.removesuffix(".tar.gz")}
    assert {path.parts[1] for path in paths} == SDIST
    assert not {part for path in paths for part in path.parts} & CACHES
    assert not [path for path in paths if path.suffix in {".pyc", ".so", ".whl"}]
    assert all(member.isfile() for member in members)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_wheel_has_its_package_and_nothing_beside(archives: dict[str, list[Path]], package: str) -> None:
    _, wheel = archives[package]
    with zipfile.ZipFile(wheel) as archive:
        paths = [PurePosixPath(name) for name in archive.namelist()]
    module = "zyx" if package == "zyx-core" else package.replace("-", "_")
    information = wheel.name.split("-py3")[0] + ".dist-info"
    beside = {"zyx_pytest.py"} if package == "zyx-core" else set()
    assert {path.parts[0] for path in paths} == {module, information, *beside}
    assert not {part for path in paths for part in path.parts} & CACHES
    assert not [path for path in paths if path.suffix == ".pyc"]
    assert PurePosixPath(information, "licenses", "LICENSE") in paths
    assert PurePosixPath(module, "py.typed") in paths


@pytest.mark.parametrize("package", PACKAGES)
def test_what_is_built_from_an_sdist_elsewhere_is_the_same_to_the_byte(
    archives: dict[str, list[Path]], package: str, tmp_path: Path, run: Run
) -> None:
    """Another folder, other times and rights of files, and caches beside them make no difference."""
    sdist, wheel = archives[package]
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (project,) = tmp_path.iterdir()
    for place in ("tests/__pycache__/test_a.cpython-311.pyc", "tests/.hypothesis/x", ".pytest_cache/x", "dist/x.whl"):
        (project / place).parent.mkdir(parents=True, exist_ok=True)
        (project / place).write_bytes(b"left over")
    for number, path in enumerate(sorted(project.rglob("*.py"))):
        path.chmod(0o600)
        os.utime(path, (1_500_000_000 + number, 1_500_000_000 + number))
    build = (sys.executable, "-m", "hatchling", "build", "-d", tmp_path / "again")
    run(*build, cwd=project, SOURCE_DATE_EPOCH=str(EPOCH_S))
    for built in (sdist, wheel):
        assert (tmp_path / "again" / built.name).read_bytes() == built.read_bytes(), built.name


def test_files_in_archives_are_as_old_as_is_said(archives: dict[str, list[Path]]) -> None:
    wanted = time.gmtime(EPOCH_S)
    for sdist, wheel in archives.values():
        with tarfile.open(sdist) as archive:
            assert {member.mtime for member in archive.getmembers()} == {EPOCH_S}
        with zipfile.ZipFile(wheel) as archive:
            assert {member.date_time for member in archive.infolist()} == {wanted[:6]}


def test_no_two_packages_have_a_file_in_common(archives: dict[str, list[Path]]) -> None:
    files = {}
    for package, (_, wheel) in archives.items():
        with zipfile.ZipFile(wheel) as archive:
            files[package] = set(archive.namelist())
    for one, other in combinations(PACKAGES, 2):
        assert not files[one] & files[other], (one, other)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_page_of_a_package_can_be_read_apart_from_the_repository(
    archives: dict[str, list[Path]], package: str
) -> None:
    told = metadata(archives[package][1])
    assert told["Description-Content-Type"] == "text/markdown"
    links = re.findall(r"\]\(([^)]+)\)", str(told.get_payload()))
    assert not [link for link in links if "://" not in link and not link.startswith("#")]


def test_the_packages_agree_on_what_holds_of_all(archives: dict[str, list[Path]]) -> None:
    told = {package: metadata(wheel) for package, (_, wheel) in archives.items()}
    for field in ("Requires-Python", "License-Expression", "Author", "Project-URL"):
        assert len({str(sorted(each.get_all(field, []))) for each in told.values()}) == 1, field
    kinds = ("Development Status", "Operating System", "Programming Language", "Topic", "Typing")
    shared = {
        package: {name for name in each.get_all("Classifier") if name.startswith(kinds)}
        for package, each in told.items()
    }
    assert all(each == shared["zyx-core"] for each in shared.values())
    assert all("zyx" in each["Keywords"].split(",") for each in told.values())
    assert all(each["Summary"] and len(each["Summary"]) < 120 for each in told.values())


def test_packages_need_core_and_no_other_of_ours_at_versions_that_are_here(archives: dict[str, list[Path]]) -> None:
    versions = {package: metadata(wheel)["Version"] for package, (_, wheel) in archives.items()}
    of_all = set()
    for package, (_, wheel) in archives.items():
        for needed in map(Requirement, metadata(wheel).get_all("Requires-Dist")):
            if needed.name.startswith("zyx-"):
                assert needed.specifier.contains(versions[needed.name]), (package, needed)
                is_of_all = package == "zyx-core" and needed.marker is not None
                assert is_of_all or needed.name == "zyx-core", (package, needed)
                of_all |= {needed.name} if is_of_all else set()
    assert of_all == OF_ALL


@pytest.fixture
def install(python: Path, wheels: dict[str, Path], tmp_path: Path, run: Run) -> Iterator[Callable[..., set[str]]]:
    """A function that installs some of ours, and returns which are there; there is none before, and all are afterwards.

    Wheels are found in a folder, as if that were the registry; what packages of others they need is there.
    """
    pip = (python, "-m", "pip", "--disable-pip-version-check")
    found = ("--no-index", "--find-links", wheels["zyx-core"].parent)

    def some(*packages: str) -> set[str]:
        run(*pip, "install", *found, *packages, cwd=tmp_path)
        listed = run(*pip, "list", "--format=freeze", cwd=tmp_path).split()
        return {line.partition("==")[0] for line in listed} & set(PACKAGES)

    run(*pip, "uninstall", "-y", *PACKAGES, cwd=tmp_path)
    yield some
    run(*pip, "install", *found, *PACKAGES, cwd=tmp_path)


def test_some_packages_install_in_any_order(
    install: Callable[..., set[str]], python: Path, tmp_path: Path, run: Run
) -> None:
    """The first to come brings core; which they are, and in which order, is of no account, since they share no file."""
    chosen = random.Random(0).sample([*BACKENDS, "zyx-llm"], 3)
    there = {"zyx-core"}
    for package in chosen:
        there |= {package}
        assert install(package) == there, chosen
    backends = run(python.with_name("zyx"), "devices", cwd=tmp_path).split("BACKEND ")[1]
    states = {line.split()[0].removesuffix(":"): line for line in backends.splitlines()[1:] if line[:1].isalpha()}
    for package in BACKENDS:
        name = package.removeprefix("zyx-backend-")
        assert ("not installed" in states[name]) == (package not in there), (chosen, states[name])
        assert "import failed" not in states[name]


def test_the_extra_all_brings_the_backends_that_install_everywhere(install: Callable[..., set[str]]) -> None:
    assert install("zyx-core[all]") == {"zyx-core", *OF_ALL}
