"""``zyx new-backend``: names that are refused, what is written, and that it is a backend which can be loaded.

That it installs and passes the conformance kit is tested in ``tests/packages``.
"""

import ast
import importlib
import importlib.util
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from zyx.backend import API_VERSION
from zyx.builtin.plugin import BUILT_IN
from zyx.cli import new_backend
from zyx.cli.main import main
from zyx.plugins.discover import Found
from zyx.plugins.state import KNOWN
from zyx.testing.opening import open_runtime
from zyx_pytest import read_expected_failures


def make(tmp_path: Path, name: str = "toy") -> Path:
    folder = tmp_path / "new"
    assert main(["new-backend", name, "--folder", str(folder)]) == 0
    return folder


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A new backend whose module can be imported."""
    folder = make(tmp_path)
    monkeypatch.syspath_prepend(folder / "src")
    yield folder
    for module in [name for name in sys.modules if name.startswith("zyx_backend_toy")]:
        del sys.modules[module]


@pytest.mark.parametrize("name", ["", "Toy", "2d", "my-gpu", "my gpu", "a/b", "naïve", "_x", "x.y", "x:0"])
def test_what_is_no_name_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new-backend", name, "--folder", str(tmp_path / "new")]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"zyx new-backend: {name!r} is no name for a backend: it begins with a lower-case letter")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", sorted({*KNOWN, *BUILT_IN, "cpu"}))
def test_a_name_that_is_taken_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new-backend", name, "--folder", str(tmp_path / "new")]) == 1
    assert f"the name {name!r} is taken: " in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_the_name_of_an_installed_backend_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = Found("toy", "toy.plugin", "acme-toy", "1.0", object)
    monkeypatch.setattr(new_backend, "installed", lambda: ([theirs], []))
    assert main(["new-backend", "toy", "--folder", str(tmp_path / "new")]) == 1
    assert "it is that of the package acme-toy; choose another one" in capsys.readouterr().err


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes").write_text("mine")
    assert main(["new-backend", "toy", "--folder", str(tmp_path)]) == 1
    assert f"{tmp_path} is not empty; name another folder with --folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_a_file_in_the_place_of_the_folder_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes").write_text("mine")
    assert main(["new-backend", "toy", "--folder", str(tmp_path / "notes")]) == 1
    assert "notes is a file; name another folder" in capsys.readouterr().err
    assert main(["new-backend", "toy", "--folder", str(tmp_path / "notes" / "new")]) == 1
    assert "cannot be written: " in capsys.readouterr().err


def test_an_empty_folder_will_do(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    assert (make(tmp_path) / "pyproject.toml").exists()


def test_the_folder_is_called_after_the_package_by_default(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new-backend", "my_gpu"]) == 0
    assert (tmp_path / "zyx-backend-my-gpu" / "src" / "zyx_backend_my_gpu" / "plugin.py").exists()
    told = capsys.readouterr().out
    assert "to zyx-backend-my-gpu; it works as it is" in told
    assert "pytest --pyargs zyx.testing --zyx-device my_gpu" in told


def test_every_file_is_complete(tmp_path: Path) -> None:
    folder = make(tmp_path, "my_gpu")
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    modules = {"__init__", "device", "driver", "info", "plugin", "program", "render", "version"}
    assert files == {
        ".github/workflows/ci.yml", ".gitignore", "README.md", "docs/backend.md", "pyproject.toml", "tox.ini",
        "src/zyx_backend_my_gpu/py.typed",
        *(f"src/zyx_backend_my_gpu/{module}.py" for module in modules),
        "tests/expected_failures.txt", "tests/test_docs.py", "tests/test_emitter.py", "tests/test_kit.py",
    }  # fmt: skip
    for name in files:
        text = (folder / name).read_text(encoding="utf-8")
        assert not re.search(r"@\w+@", text), name
        assert all(len(line) <= 130 for line in text.splitlines()), name
        if name.endswith(".py"):
            ast.parse(text)
    device = (folder / "src/zyx_backend_my_gpu/device.py").read_text(encoding="utf-8")
    assert "class MyGpuDevice(DriverDevice[MyGpuProgram]):" in device
    assert list(read_expected_failures(folder / "tests/expected_failures.txt")) == []


def test_the_package_asks_for_this_core_and_declares_the_backend(tmp_path: Path) -> None:
    project = tomllib.loads((make(tmp_path, "my_gpu") / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == "zyx-backend-my-gpu"
    assert project["dependencies"] == ["zyx-core>=0.2,<0.3"]
    assert project["entry-points"]["zyx.backends"] == {"my_gpu": "zyx_backend_my_gpu.plugin"}


def test_the_page_of_the_package_has_its_settings_and_the_readme_its_tests(package: Path) -> None:
    spec = importlib.util.spec_from_file_location("docs_of_toy", package / "tests" / "test_docs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.test_each_setting_has_its_row_with_its_default()
    text = (package / "README.md").read_text(encoding="utf-8")
    assert "pytest --pyargs zyx.testing --zyx-device toy\n" in text
    assert "\ntox\n" in text
    workflow = (package / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert "run: python -m tox\n" in workflow
    assert "python-version: ${{ matrix.python }}\n" in workflow


def test_a_setting_that_the_page_leaves_out_is_noticed(package: Path) -> None:
    page = package / "docs" / "backend.md"
    lines = page.read_text(encoding="utf-8").splitlines(keepends=True)
    page.write_text("".join(line for line in lines if "_INTERPRETER" not in line), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("docs_of_toy", package / "tests" / "test_docs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.raises(AssertionError):
        module.test_each_setting_has_its_row_with_its_default()


def test_the_card_is_of_the_present_interface(package: Path) -> None:
    info = importlib.import_module("zyx_backend_toy.plugin").zyx_backend_info()
    assert (info.name, info.version, info.api_version) == ("toy", "0.1.0", API_VERSION)


def test_the_device_computes_by_its_emitter_and_by_the_interpreter(package: Path) -> None:
    runtime = open_runtime("toy", ["zyx_backend_toy.plugin"])
    try:
        checks = importlib.util.spec_from_file_location("checks", package / "tests" / "test_emitter.py")
        module = importlib.util.module_from_spec(checks)
        checks.loader.exec_module(module)
        module.test_the_text_of_a_kernel_can_be_read()
        module.test_a_kernel_becomes_source_text_that_gives_what_the_interpreter_gives(runtime)
        module.test_what_has_no_form_yet_is_interpreted_and_says_why(runtime)
    finally:
        runtime.close()


def test_an_operation_that_is_filled_in_leaves_the_interpreter(package: Path) -> None:
    path = package / "src" / "zyx_backend_toy" / "render.py"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('BinaryOp.MUL: "*",', 'BinaryOp.MUL: "*", BinaryOp.DIV: "/",', 1), encoding="utf-8")
    parse = importlib.import_module("zyx.kernel.parse").parse_kernel
    kernel = parse(
        "kernel halve\n%x = global f32[4]\n%i = group 0 < 4 : i64\n%a = load %x[%i] : f32\n%h = const 2.0 : f32\n"
        "%b = div %a, %h : f32\nstore %x[%i] = %b"
    )
    runtime = open_runtime("toy", ["zyx_backend_toy.plugin"])
    program = runtime.device("toy").compile(kernel)
    runtime.close()
    assert "v2 / np.float32(2.0)" in program.source
