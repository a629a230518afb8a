"""Backends by somebody else: a new one as it is generated, the one among the examples, and one that is broken."""

from __future__ import annotations

import os
import re
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Enough of the kit to launch kernels.
SHORT = ("-k", "test_pool or test_launches")

#: The schema of workflows comes with the package that compares; nothing is fetched.
CHECK = (sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows")

Run = Callable[..., str]

#: What may be wrong with a backend: the source of its plugin, the state that it is in, and what is said about it.
BROKEN = {
    "import": ("import there_is_no_such_module", "import failed", "No module named 'there_is_no_such_module'"),
    "hook": (
        "from zyx.hookspecs import API_VERSION, BackendInfo, hookimpl\n"
        "@hookimpl\n"
        "def zyx_backend_info():\n"
        "    return BackendInfo('broken', '1.0', API_VERSION, 'breaks', works_on_host_memory=True)\n"
        "@hookimpl\n"
        "def zyx_devices():\n"
        "    raise ZeroDivisionError('so it goes')\n",
        "failed",
        "ZeroDivisionError: so it goes",
    ),
}


def write_broken_package(folder: Path, source: str) -> Path:
    """Write a project whose backend ``broken`` has `source` as its plugin."""
    project = folder / "zyx-backend-broken"
    module = project / "src" / "zyx_backend_broken"
    module.mkdir(parents=True)
    (module / "__init__.py").write_text("")
    (module / "plugin.py").write_text(source)
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling>=1.27"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "zyx-backend-broken"\nversion = "1.0"\ndependencies = ["zyx-core"]\n'
        '[project.entry-points."zyx.backends"]\nbroken = "zyx_backend_broken.plugin"\n'
        '[tool.hatch.build.targets.wheel]\npackages = ["src/zyx_backend_broken"]\n'
    )
    return project


@pytest.fixture(scope="module")
def core(wheels: dict[str, Path], new_environment: Callable[..., Path]) -> Path:
    """The interpreter of an environment with core alone, and what its kit needs."""
    return new_environment(f"{wheels['zyx-core']}[testing]")


def test_the_commands_of_the_guide_make_a_new_backend_that_passes_the_kit(core: Path, tmp_path: Path, run: Run) -> None:
    guide = (ROOT / "docs" / "how-to" / "writing-a-backend.md").read_text(encoding="utf-8")
    commands = "".join(re.findall(r"^```sh\n(.*?)^```$", guide, re.DOTALL | re.MULTILINE))
    assert commands.startswith("zyx new-backend acme\n")
    path = f"{core.parent}{os.pathsep}{os.environ['PATH']}"
    modules = ("docs", "emitter", "kit", "events", "kernels", "launches", "limits", "plans", "pool")
    chosen = f"-p no:cacheprovider -k '{' or '.join(f'test_{name}' for name in modules)}'"
    try:
        # Its own tests run the kit, and fail if that skips for want of a device; here they run a part of it, and the
        # backend of examples/zyx-backend-tcc is tried with all.
        told = run("bash", "-eux", "-c", commands, cwd=tmp_path, PATH=path, PYTEST_ADDOPTS=chosen)
        assert "to zyx-backend-acme; it works as it is" in told
        assert "acme:0" in told
        assert told.count(" passed") == 3
        assert "7 passed" in told
        project = tmp_path / "zyx-backend-acme"
        (wheel,) = (project / "dist").glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            assert "zyx_backend_acme/py.typed" in archive.namelist()
        where = run(core, "-c", "import zyx, zyx_backend_acme as b; print(zyx.__file__, b.__file__)", cwd=tmp_path)
        assert str(ROOT) not in where
        assert str(project) not in where
        refused = run(core.with_name("zyx"), "new-backend", "acme", "--folder", "other", cwd=tmp_path, status=1)
        assert "it is that of the package zyx-backend-acme" in refused
    finally:
        run(core, "-m", "pip", "uninstall", "-y", "zyx-backend-acme", cwd=tmp_path)


def test_the_readme_of_a_new_backend_has_the_commands_that_work_in_it(core: Path, tmp_path: Path, run: Run) -> None:
    """Up to the kit as a whole and tox, which the tests around this one run."""
    run(core.with_name("zyx"), "new-backend", "acme", cwd=tmp_path)
    project = tmp_path / "zyx-backend-acme"
    text = (project / "README.md").read_text(encoding="utf-8")
    tested, by_kit, by_tox, built = re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert by_tox == "pip install 'tox>=4'\ntox\n"
    path = f"{core.parent}{os.pathsep}{os.environ['PATH']}"
    try:
        chosen = "-p no:cacheprovider -k 'test_docs or test_emitter or test_pool or test_launches'"
        told = run("bash", "-eux", "-c", tested + by_kit + built, cwd=project, PATH=path, PYTEST_ADDOPTS=chosen)
        assert "acme:0" in told
        assert "6 passed, 1 deselected" in told
        assert told.count(" passed") == 2
        assert len(list((project / "dist").glob("*.whl"))) == 1
    finally:
        run(core, "-m", "pip", "uninstall", "-y", "zyx-backend-acme", cwd=tmp_path)
    assert "ok" in run(*CHECK, project / ".github" / "workflows" / "ci.yml", cwd=tmp_path)


@pytest.mark.slow
def test_tox_as_a_new_backend_has_it_builds_the_package_and_passes_its_tests(
    core: Path, wheels: dict[str, Path], tmp_path: Path, run: Run
) -> None:
    run(core.with_name("zyx"), "new-backend", "acme", cwd=tmp_path)
    project = tmp_path / "zyx-backend-acme"
    # As if zyx-core were in the registry. All that the kit says of the very same files the test before has seen: here
    # it is run in short, in that environment.
    own = ("--", "--deselect", "tests/test_kit.py")
    told = run(sys.executable, "-m", "tox", *own, cwd=project, PIP_FIND_LINKS=str(wheels["zyx-core"].parent))
    assert "6 passed, 1 deselected" in told
    assert "skipped" not in told
    there = next(
        path for path in (project / ".tox/py/bin/python", project / ".tox/py/Scripts/python.exe") if path.exists()
    )
    kit = ["-m", "pytest", "-q", "--pyargs", "zyx.testing", "--zyx-device", "acme", "-p", "no:cacheprovider", *SHORT]
    assert " passed" in run(there, *kit, cwd=project, ZYX_REQUIRE_DEVICES="acme")
    assert re.search(r"^ +py: OK ", told, re.MULTILINE)
    (core_there,) = project.glob(".tox/py/**/site-packages/zyx")
    assert (core_there / "version.py").exists()
    assert list((core_there.parent / "zyx_backend_acme").glob("plugin.py"))


def test_the_backend_among_the_examples_installs_and_computes(core: Path, tmp_path: Path, run: Run) -> None:
    project = ROOT / "examples" / "zyx-backend-tcc"
    run(core, "-m", "pip", "wheel", "--no-deps", "-w", tmp_path, project, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    run(core, "-m", "pip", "install", wheel, cwd=tmp_path)
    try:
        code = "import zyx; print((zyx.Tensor([1.0, 2.0]) * 2).sum().item(), zyx.Tensor([1.0]).device)"
        assert run(core, "-c", code, cwd=tmp_path, ZYX_DEVICE="tcc").split() == ["6.0", "tcc:0"]
    finally:
        run(core, "-m", "pip", "uninstall", "-y", "zyx-backend-tcc", cwd=tmp_path)


def test_the_backend_among_the_examples_is_short() -> None:
    project = ROOT / "examples" / "zyx-backend-tcc"
    files = [path for path in project.rglob("*") if path.suffix in {".py", ".toml"} and ".tox" not in path.parts]
    assert len(files) >= 6
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files) < 250


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_backend_is_reported_and_the_others_work(core: Path, tmp_path: Path, run: Run, fault: str) -> None:
    source, state, reason = BROKEN[fault]
    run(core, "-m", "pip", "install", "--no-deps", write_broken_package(tmp_path, source), cwd=tmp_path)
    try:
        listed = run(core.with_name("zyx"), "devices", cwd=tmp_path)
        (line,) = [line for line in listed.splitlines() if line.startswith("broken ")]
        assert state in line
        assert reason in line
        kit = ["-m", "pytest", "-q", "--pyargs", "zyx.testing", "-p", "no:cacheprovider", *SHORT]
        assert " passed" in run(core, *kit, "--zyx-device", "interpreter", cwd=tmp_path)
    finally:
        run(core, "-m", "pip", "uninstall", "-y", "zyx-backend-broken", cwd=tmp_path)


def test_a_broken_backend_fails_its_own_environment_of_tox_and_no_other(tmp_path: Path, run: Run) -> None:
    """The settings of this repository, beside another backend in the place of ours."""
    settings = (ROOT / "tox.ini").read_text(encoding="utf-8")
    assert "[testenv:{opencl,vulkan,wgpu,cuda}]" in settings
    settings = settings.replace("[testenv:{opencl,vulkan,wgpu,cuda}]", "[testenv:broken]")
    (tmp_path / "tox.ini").write_text(settings, encoding="utf-8")
    for name in ("zyx-core", "tests", "docs", "benchmarks"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", ".*", "packages"))
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    write_broken_package(tmp_path, BROKEN["hook"][0])
    tox = [sys.executable, "-m", "tox", "-e", "broken,interpreter,skipped", "--", *SHORT]
    told = run(*tox, cwd=tmp_path, status=1, ZYX_REQUIRE_DEVICES="", HOME=str(tmp_path))
    result = {line.split(":")[0].strip(): line for line in told.splitlines()[-6:] if ": " in line}
    assert "FAIL" in result["broken"]
    assert {name for name, line in result.items() if " OK " in line} == {"interpreter", "skipped"}
    assert "backend broken is broken, so this is a failure" in told
    assert "backend broken: failed: in zyx_devices: ZeroDivisionError: so it goes" in told
