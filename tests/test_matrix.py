"""The matrix of tox: every backend has its environments, and what they leave out is listed."""

from __future__ import annotations

import configparser
import dataclasses
import importlib.util
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from zyx.plugins.diagnosis import diagnose
from zyx.plugins.state import KNOWN, BackendReport, BackendState

TESTS = Path(__file__).parent


def load(name: str):
    """Return a script of this folder as a module."""
    spec = importlib.util.spec_from_file_location(name, TESTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def run_oldest(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "skipped", load("skipped"))
    return load("run_oldest")


def environments() -> list[str]:
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(TESTS.parent / "tox.ini", encoding="utf-8")
    return re.split(r",\s*", settings["tox"]["env_list"].strip())


def test_every_backend_has_an_environment_and_one_with_the_oldest_core() -> None:
    assert {*KNOWN, *(f"oldest-{name}" for name in KNOWN)} <= set(environments())


def test_the_list_of_what_was_skipped_comes_last() -> None:
    assert environments()[-1] == "skipped"
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(TESTS.parent / "tox.ini", encoding="utf-8")
    awaited = re.split(r",\s*", settings["testenv:skipped"]["depends"].strip())
    assert {*awaited, "lint", "types", "layers", "replay", "skipped"} == set(environments())


@pytest.mark.parametrize("name", KNOWN)
def test_every_backend_names_the_oldest_core_as_a_version_and_as_a_commit(name: str, run_oldest) -> None:
    assert re.fullmatch(r"[0-9a-f]{40}", run_oldest.oldest_commit(name))
    assert re.fullmatch(r"\d+\.\d+(\.\d+)?", run_oldest.oldest_version(name))


@pytest.mark.parametrize("name", KNOWN)
def test_the_commit_has_the_version(name: str, run_oldest, tmp_path: Path) -> None:
    try:
        core = run_oldest.export(run_oldest.oldest_commit(name), tmp_path)
    except run_oldest.Missing as missing:
        pytest.skip(f"the history is not here: {missing}")
    run_oldest.check_version(name, core)


def test_a_commit_with_another_version_is_noticed(run_oldest, tmp_path: Path) -> None:
    (tmp_path / "src" / "zyx").mkdir(parents=True)
    (tmp_path / "src" / "zyx" / "version.py").write_text('__version__ = "7.5.1"\n')
    with pytest.raises(SystemExit, match=r"claims zyx-core>=[\d.]+; oldest_core.toml names a commit with 7.5.1"):
        run_oldest.check_version("c", tmp_path)


def test_a_history_that_does_not_reach_back_skips_and_says_so(
    run_oldest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_oldest, "oldest_commit", lambda name: "0" * 40)
    monkeypatch.setenv("ZYX_SKIPPED", str(tmp_path))
    monkeypatch.setenv("ZYX_REQUIRE_DEVICES", "c,opencl,hip")
    assert run_oldest.main("oldest-c", []) == 0
    assert "SKIPPED: all of it, since " in capsys.readouterr().out
    assert "000000000000" in (tmp_path / "oldest-c.txt").read_text()


def test_a_history_that_does_not_reach_back_is_a_failure_where_it_is_required(
    run_oldest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_oldest, "oldest_commit", lambda name: "0" * 40)
    monkeypatch.setenv("ZYX_SKIPPED", str(tmp_path))
    monkeypatch.setenv("ZYX_REQUIRE_DEVICES", "opencl,history")
    assert run_oldest.main("oldest-c", []) == 1
    assert "ZYX_REQUIRE_DEVICES names history, so this is a failure: commit 000000000000 is not" in (
        capsys.readouterr().out
    )
    assert not list(tmp_path.iterdir())


def test_of_a_clone_without_its_history_it_is_said_what_brings_it(
    run_oldest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def git(*arguments: str) -> str:
        mine = ("-c", "user.name=nobody", "-c", "user.email=", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", *mine, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "-q", "whole")
    for number in (1, 2):
        git("-C", "whole", "commit", "-q", "--allow-empty", "-m", str(number))
    git("clone", "-q", "--depth", "1", f"file://{tmp_path / 'whole'}", "shallow")
    monkeypatch.setattr(run_oldest, "ROOT", tmp_path / "shallow")
    with pytest.raises(run_oldest.Missing, match="newest commits only: git fetch --unshallow brings the others"):
        run_oldest.export(git("-C", "whole", "rev-parse", "HEAD~1"), tmp_path)
    monkeypatch.setattr(run_oldest, "ROOT", tmp_path / "whole")
    with pytest.raises(run_oldest.Missing, match=r"^commit 000000000000 is not in the history here: [^;]*$"):
        run_oldest.export("0" * 40, tmp_path)


def test_the_tests_that_run_on_the_oldest_core_exist(run_oldest) -> None:
    tests = [TESTS.parent / f"zyx-backend-{name}" / "tests" for name in KNOWN]
    assert all((folder / "test_plugin.py").exists() for folder in tests)
    for file in run_oldest.OWN:
        assert any((folder / file).exists() for folder in tests)


def test_an_absent_device_is_skipped_unless_it_is_required(
    run_oldest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ZYX_SKIPPED", str(tmp_path))
    monkeypatch.setenv("ZYX_REQUIRE_DEVICES", "wgpu")
    assert run_oldest.absent("cuda", "oldest-cuda", "no driver") == 0
    assert run_oldest.absent("wgpu", "oldest-wgpu", "no driver") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["oldest-cuda.txt"]


def test_what_is_noted_is_listed_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    skipped = load("skipped")
    monkeypatch.setenv("ZYX_SKIPPED", str(tmp_path / "notes"))
    assert skipped.report() == "nothing was skipped"
    skipped.note("hip", "no AMD GPU")
    skipped.note("cuda", "no NVIDIA GPU")
    skipped.note("c", "no compiler")
    skipped.note("c")
    assert skipped.report() == "skipped in cuda: no NVIDIA GPU\nskipped in hip: no AMD GPU"
    assert skipped.report() == "nothing was skipped"


def test_a_reason_is_listed_once_with_all_environments_and_last_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    skipped = load("skipped")
    monkeypatch.setenv("ZYX_SKIPPED", str(tmp_path))
    skipped.note("wgpu", "no GPU")
    for environment in ("opencl", "wgpu"):
        skipped.note_all(
            environment, ["tests: x lacks int8", "tests: x lacks int8", "tests: x lacks bool", "long " * 99]
        )
    short = ("long " * 47).strip()
    assert skipped.report().splitlines() == [
        f"skipped in opencl, wgpu: {short} ...",
        "skipped in opencl, wgpu: tests: x lacks int8, bool",
        "skipped in wgpu: no GPU",
    ]


def test_pytest_notes_why_tests_of_an_environment_were_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "test_these.py"
    file.write_text(
        "import pytest, subprocess, sys\n"
        "def test_one():\n    pytest.skip('there is no NVRTC')\n"
        "@pytest.mark.skipif(True, reason='one GPU')\ndef test_two(): pass\n"
        "@pytest.mark.slow\ndef test_three(): pass\n"
        "@pytest.mark.parametrize('n', [0, 1])\ndef test_four(n):\n    pytest.skip('there is no NVRTC')\n"
        "def test_five():\n"
        "    script = __file__.replace('these', 'others')\n"
        "    with open(script, 'w') as file:\n"
        '        file.write(\'import pytest; pytest.importorskip("nonesuch", reason="of no concern")\')\n'
        f"    subprocess.run([sys.executable, '-m', 'pytest', '-c', {str(TESTS.parent / 'pyproject.toml')!r},\n"
        f"                    '-p', 'conftest', script], check=False)\n"
    )
    (tmp_path / "test_more.py").write_text("import pytest\npytest.importorskip('nonesuch', reason='no nonesuch')\n")
    monkeypatch.setenv("ZYX_SKIPPED", str(tmp_path / "notes"))
    monkeypatch.setenv("TOX_ENV_NAME", "cuda")
    monkeypatch.setenv("PYTHONPATH", str(TESTS.parent))
    settings = ["-c", str(TESTS.parent / "pyproject.toml"), "-p", "no:cacheprovider", "-p", "conftest"]
    command = [sys.executable, "-m", "pytest", *settings, str(file), str(tmp_path / "test_more.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "1 passed, 6 skipped" in done.stdout
    wanted = {"there is no NVRTC", "one GPU", "takes long; run with --slow", "no nonesuch"}
    noted = (tmp_path / "notes" / "cuda.txt").read_text().splitlines()
    assert sorted(noted) == sorted(f"tests: {reason}" for reason in wanted)


@pytest.fixture
def run_backend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("ZYX_SKIPPED", str(tmp_path))
    monkeypatch.setenv("OCL_ICD_VENDORS", "")
    monkeypatch.setitem(sys.modules, "skipped", load("skipped"))
    return load("run_backend")


def test_where_intels_runtime_has_no_wheel_its_environment_is_skipped_and_says_so(
    run_backend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(run_backend.platform, "machine", lambda: "riscv64")
    monkeypatch.setattr(run_backend.platform, "system", lambda: "Linux")
    assert run_backend.main("opencl-intel", []) == 0
    noted = (tmp_path / "opencl-intel.txt").read_text()
    assert noted == "all of it, since the package intel-opencl-rt has no wheel for Linux on riscv64\n"


def test_where_intels_runtime_has_a_wheel_it_must_be_a_device(
    run_backend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def state_of(name: str) -> BackendReport:
        asked.append((name, os.environ["OCL_ICD_VENDORS"]))
        return BackendReport("opencl", BackendState.NO_DRIVER, reason="no OpenCL driver is installed")

    monkeypatch.setattr(run_backend, "INTEL_PLATFORM", (platform.system(), platform.machine()))
    monkeypatch.setattr(run_backend, "state_of", state_of)
    monkeypatch.setenv("ZYX_REQUIRE_DEVICES", "c")
    assert run_backend.main("opencl-intel", []) == 1
    assert asked == [("opencl", str(run_backend.INTEL))]
    assert "a device of opencl is required" in capsys.readouterr().out


@pytest.mark.parametrize("error", ["zyx.later", "zyx_backend_opencl.start"])
def test_a_backend_that_cannot_import_what_is_ours_is_a_failure_and_not_skipped(
    run_backend, monkeypatch: pytest.MonkeyPatch, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = ModuleNotFoundError(f"No module named {error!r}", name=error)
    report = BackendReport("opencl", BackendState.INSTALLED, package="zyx-backend-opencl")
    state, _ = diagnose(missing, report, "zyx_backend_opencl.plugin")
    monkeypatch.setattr(run_backend, "state_of", lambda _: dataclasses.replace(report, state=state))
    assert run_backend.main("opencl", []) == 1
    assert "backend opencl is broken, so this is a failure" in capsys.readouterr().out


def test_a_backend_that_is_not_there_is_a_failure() -> None:
    done = subprocess.run(
        [sys.executable, str(TESTS / "run_backend.py"), "nonesuch"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "no package of this environment declares a backend 'nonesuch'" in done.stderr


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch):
    """The script, with a pip that notes what it is told and does nothing, and what it is told."""
    module, told = load("install"), []
    monkeypatch.setattr(module, "pip", lambda *arguments: told.append(arguments) or 0)
    return module, told


def test_where_pip_looks_for_packages_uv_does(install) -> None:
    module, _ = install
    settings = {"index-url": "https://one", "extra-index-url": "https://two\nhttps://three", "timeout": "9"}
    sources = module.uv_options(settings)[4:]
    assert sources == ["--default-index", "https://one", "--index", "https://two", "--index", "https://three"]
    assert module.uv_options({"find-links": "/a /b"})[4:] == ["--find-links", "/a", "--find-links", "/b"]


def test_of_torch_the_build_for_processors_is_installed_unless_another_place_is_named(install) -> None:
    module, _ = install
    assert module.uv_options({"timeout": "9"})[4:] == ["--torch-backend", "cpu"]


def test_what_tox_says_to_pip_keeps_nobody_from_asking_uv(install, monkeypatch) -> None:
    module, _ = install
    listed = ":env:.user='0'\n:env:.no-compile='0'\n:env:.disable-pip-version-check='1'\n"
    monkeypatch.setattr(module.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, listed))
    assert module.uv_options(module.pip_settings())
    with pytest.raises(module.Unknown, match=r"^user$"):
        module.uv_options({"user": "1"})


def test_variables_of_pip_go_before_its_files_and_sections_of_other_commands_do_not_count(install, monkeypatch) -> None:
    module, _ = install
    listed = ":env:.find-links='/mine'\nglobal.find-links='/all'\nglobal.index-url='https://a'\ndownload.pre='1'\n"
    monkeypatch.setattr(module.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, listed))
    assert module.pip_settings() == {"find-links": "/mine", "index-url": "https://a"}


@pytest.mark.parametrize("why", ["configuration", "no uv", "uv fails"])
def test_pip_installs_where_uv_cannot(why: str, install, monkeypatch, tmp_path: Path, capfd) -> None:
    module, told = install
    monkeypatch.setattr(module, "pip_settings", lambda: {"constraint": "file"} if why == "configuration" else {})
    monkeypatch.setattr(module, "find_uv", lambda _: None if why == "no uv" else Path(sys.executable))  # is no uv
    assert module.main(tmp_path, ["ruff"]) == 0
    assert told == [("ruff",)]
    assert ("names constraint" in capfd.readouterr().out) == (why == "configuration")


def test_uv_is_installed_once_for_all_environments(install, monkeypatch, tmp_path: Path) -> None:
    module, told = install

    def pip(*arguments: str) -> int:
        told.append(arguments)
        (Path(arguments[-2]) / "bin").mkdir()
        (Path(arguments[-2]) / "bin" / "uv").touch()
        return 0

    monkeypatch.setattr(module, "pip", pip)
    first = module.find_uv(tmp_path)
    assert first is not None
    assert module.find_uv(tmp_path) == first
    assert [arguments[-1] for arguments in told] == [module.UV]
    monkeypatch.setattr(module, "pip", lambda *_: 1)
    assert module.find_uv(tmp_path / "elsewhere") is None


def test_a_package_in_a_folder_is_built_again_though_only_its_sources_changed(install) -> None:
    module, _ = install
    folder = TESTS.parent / "zyx-core"
    assert module.anew(["ruff", f"{folder}[testing]"]) == ["--reinstall-package=zyx-core"]


def test_what_a_driver_compiles_in_haste_is_a_part_of_the_kit(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "skipped", load("skipped"))
    suite = TESTS.parent / "zyx-core" / "src" / "zyx" / "testing" / "suite"
    assert all((suite / f"{module}.py").exists() for module in load("run_backend").AROUND_KERNELS)
