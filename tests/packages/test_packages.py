"""Every package builds alone, and what was built installs apart from this repository and runs."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ["zyx-core", *sorted(folder.name for folder in ROOT.glob("zyx-backend-*"))]
#: What is built likewise, and is no part of the kit.
PROGRAMS = ["zyx-llm"]
#: Backends whose devices an extra brings, of packages that are too large to be installed for these tests.
BY_AN_EXTRA = {"tenstorrent"}

Run = Callable[..., str]


@pytest.mark.parametrize("package", [*PACKAGES, *PROGRAMS])
def test_a_wheel_has_its_licence_its_types_and_its_card(wheels: dict[str, Path], package: str) -> None:
    module = "zyx" if package == "zyx-core" else package.replace("-", "_")
    with zipfile.ZipFile(wheels[package]) as wheel:
        names = wheel.namelist()
        metadata = Parser().parsestr(wheel.read(next(n for n in names if n.endswith(".dist-info/METADATA"))).decode())
        licence = wheel.read(next(n for n in names if n.endswith("licenses/LICENSE"))).decode()
        points = wheel.read(next(n for n in names if n.endswith("entry_points.txt"))).decode()
    assert f"{module}/py.typed" in names
    beside = {"zyx_pytest.py"} if package == "zyx-core" else set()  # what pytest imports wherever zyx is installed
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {module, *beside}
    assert "Apache License" in licence
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert str(metadata.get_payload()).startswith(f"# {package}")
    assert any("Typing :: Typed" in line for line in metadata.get_all("Classifier", []))
    assert ("[console_scripts]" if package in {"zyx-core", *PROGRAMS} else "[zyx.backends]") in points


def test_every_source_file_is_in_the_wheel(wheels: dict[str, Path]) -> None:
    for package in (*PACKAGES, *PROGRAMS):
        source = ROOT / package / "src"
        files = {
            path.relative_to(source).as_posix()
            for path in source.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        with zipfile.ZipFile(wheels[package]) as wheel:
            assert files <= set(wheel.namelist())


def test_what_was_built_runs_without_this_repository(python: Path, tmp_path: Path, run: Run) -> None:
    where = run(python, "-c", "import zyx; print(zyx.__file__)", cwd=tmp_path)
    assert not Path(where.strip()).is_relative_to(ROOT)
    listed = run(python.with_name("zyx"), "devices", cwd=tmp_path)
    for package in PACKAGES:
        name = package.removeprefix("zyx-backend-").replace("zyx-core", "interpreter")
        assert any(line.split()[:1] == [name] for line in listed.splitlines()), listed
    assert "import failed" not in listed
    assert "invalid" not in listed
    run(python.with_name("zyx"), "doctor", cwd=tmp_path)
    assert "chat" in run(python.with_name("zyx-llm"), "--help", cwd=tmp_path)


def test_the_versions_are_those_that_the_packages_tell(python: Path, tmp_path: Path, run: Run) -> None:
    for package in (*PACKAGES, *PROGRAMS):
        module = "zyx" if package == "zyx-core" else package.replace("-", "_")
        told = run(python, "-c", f"from importlib.metadata import version; print(version({package!r}))", cwd=tmp_path)
        own = run(python, "-c", f"from {module}.version import __version__; print(__version__)", cwd=tmp_path)
        assert told == own


@pytest.mark.parametrize("package", PACKAGES)
def test_what_was_built_passes_a_part_of_the_kit_without_this_repository(
    python: Path, tmp_path: Path, run: Run, package: str
) -> None:
    name = package.removeprefix("zyx-backend-").replace("zyx-core", "interpreter")
    backends = run(python.with_name("zyx"), "devices", cwd=tmp_path).split("BACKEND ")[1]
    (line,) = [line for line in backends.splitlines() if line.startswith(f"{name} ")]
    if not re.match(rf"{name} +ready ", line):
        assert name in BY_AN_EXTRA or name not in os.environ.get("ZYX_REQUIRE_DEVICES", "").split(",")
        pytest.skip(f"no device: {line}")
    kit = ["--pyargs", "zyx.testing", "--zyx-device", name, "-k", "test_pool or test_launches"]
    assert " passed" in run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *kit, cwd=tmp_path)


def test_devices_of_several_vendors_are_parts_of_one_graph(python: Path, tmp_path: Path, run: Run) -> None:
    found = run(python, "-c", "import zyx; print(*zyx.devices())", cwd=tmp_path).split()
    backends = {name.partition(":")[0] for name in found}
    ours = {package.removeprefix("zyx-backend-").replace("zyx-core", "interpreter") for package in PACKAGES}
    required = (ours - BY_AN_EXTRA) & set(os.environ.get("ZYX_REQUIRE_DEVICES", "").split(","))
    assert {"c", "interpreter", *required} <= backends
    test = f"{ROOT / 'tests' / 'test_lifetime.py'}::test_all_devices_may_be_parts_of_one_graph"
    assert "1 passed" in run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", test, cwd=tmp_path)
    if len(backends) < 4:
        pytest.skip(f"of {' and '.join(sorted(ours - backends))} there is no device to be part of the graph")
