"""``zyx doctor``."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from zyx.builtin.interpreter import InterpreterDevice
from zyx.cli.main import main


def doctor(tmp_path: Path, **environ: str) -> tuple[int, str]:
    clean = {"HOME": str(tmp_path), "PATH": os.environ.get("PATH", ""), "ZYX_BACKENDS": "interpreter"}
    done = subprocess.run(
        [sys.executable, "-m", "zyx", "doctor"],
        env=clean | environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


def line_of(text: str, subject: str) -> str:
    return next(line for line in text.splitlines() if line[7:].startswith(f"{subject}:"))


def write_package(folder: Path, name: str, files: list[str], metadata: bytes | None = None) -> None:
    info = folder / f"{name}-9.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.0\n", encoding="utf-8")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files), encoding="utf-8")
    if metadata is not None:
        (info / "entry_points.txt").write_bytes(metadata)


def test_a_sound_installation_has_nothing_to_do(tmp_path: Path) -> None:
    status, text = doctor(tmp_path)
    assert status == 0, text
    assert "WRONG" not in text
    assert text.endswith("nothing to do\n")
    assert line_of(text, "python").startswith(f"ok     python: {sys.version.split()[0]}")
    assert "numpy " in line_of(text, "packages")
    assert "backend interpreter: ready. interpreter:0" in text
    assert line_of(text, "results of interpreter:0").startswith(
        "ok     results of interpreter:0: right, compiled and run"
    )
    assert f"no file {tmp_path / '.config' / 'zyx' / 'config.json'}" in line_of(text, "configuration")
    assert not (tmp_path / ".cache").exists()  # looking leaves nothing behind


def test_an_unrelated_distribution_with_a_module_of_our_name_is_reported(tmp_path: Path) -> None:
    site = tmp_path / "site"
    write_package(site, "zyx", ["zyx/other.py"])
    (site / "zyx").mkdir()
    (site / "zyx" / "other.py").touch()
    status, text = doctor(tmp_path, PYTHONPATH=str(site))
    assert status == 1
    assert line_of(text, "module zyx").startswith("WRONG  module zyx: zyx 9.0, which has nothing to do with zyx-core")
    assert text.endswith("next step: pip uninstall zyx; pip install --force-reinstall zyx-core\n")


def test_a_wrong_configuration_file_is_reported_and_the_rest_is_still_looked_at(tmp_path: Path) -> None:
    folder = tmp_path / ".config" / "zyx"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"thread": 3}', encoding="utf-8")
    status, text = doctor(tmp_path)
    assert status == 1
    assert "key thread: there is no such key; did you mean 'threads'?" in line_of(text, "configuration")
    assert "backend interpreter: ready" in text
    assert "next step: correct the configuration" in text


def test_what_sets_a_key_is_shown_and_so_are_unknown_variables(tmp_path: Path) -> None:
    status, text = doctor(tmp_path, ZYX_NUM_THREADS="2", ZYX_SOMETHING="1")
    assert status == 0
    assert "threads from ZYX_NUM_THREADS" in line_of(text, "configuration")
    assert "unknown, and not read: ZYX_SOMETHING" in line_of(text, "configuration")


def test_a_cache_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way", encoding="utf-8")
    status, text = doctor(tmp_path, ZYX_CACHE_DIR=str(blocked / "cache"))
    assert status == 1
    assert line_of(text, "cache").startswith(f"WRONG  cache: {blocked / 'cache'} cannot be written")
    assert "next step: set ZYX_CACHE_DIR to a folder that can be written" in text


def test_a_cache_that_is_off_is_nothing_to_worry_about(tmp_path: Path) -> None:
    status, text = doctor(tmp_path, ZYX_CACHE="off")
    assert status == 0
    assert "nothing is kept: it is switched off" in line_of(text, "cache")


def test_a_broken_backend_is_the_next_step(tmp_path: Path) -> None:
    site = tmp_path / "site"
    write_package(site, "zyx-backend-broken", [], b"[zyx.backends]\nbroken = no_such_module_here\n")
    status, text = doctor(tmp_path, PYTHONPATH=str(site), ZYX_BACKENDS="interpreter,broken")
    assert status == 1
    assert line_of(text, "backend broken").startswith("WRONG  backend broken: import failed. ModuleNotFoundError")
    assert text.endswith("or run: pip uninstall zyx-backend-broken\n")


NOTES = """
from zyx.builtin.interpreter import InterpreterDevice
from zyx.hookspecs import BackendInfo, hookimpl

@hookimpl
def zyx_backend_info():
    return BackendInfo("notes", "1", (1, 0), "says things", works_on_host_memory=True)

@hookimpl
def zyx_devices(config, pools):
    config.note("left out: the old card")
    return [InterpreterDevice("notes:0", pools["host"])]
"""


def test_what_a_backend_notes_is_fine(tmp_path: Path) -> None:
    site = tmp_path / "site"
    write_package(site, "zyx-backend-notes", [], b"[zyx.backends]\nnotes = zyx_toy_notes\n")
    (site / "zyx_toy_notes.py").write_text(NOTES, encoding="utf-8")
    status, text = doctor(tmp_path, PYTHONPATH=str(site), ZYX_BACKENDS="interpreter,notes")
    assert "ok     backend notes: left out: the old card" in text
    assert status == 0
    assert text.endswith("nothing to do\n")


def test_what_a_backend_does_wrong_is_the_next_step(tmp_path: Path) -> None:
    site = tmp_path / "site"
    write_package(site, "zyx-backend-notes", [], b"[zyx.backends]\nnotes = zyx_toy_notes\n")
    bug = "class Buggy(InterpreterDevice):\n    def compile(self, kernel): raise SystemExit('bug')\n\n"
    code = NOTES.replace("[InterpreterDevice(", "[Buggy(")
    code = code.replace("@hookimpl\ndef zyx_dev", f"{bug}@hookimpl\ndef zyx_dev")
    (site / "zyx_toy_notes.py").write_text(code, encoding="utf-8")
    status, text = doctor(tmp_path, PYTHONPATH=str(site), ZYX_BACKENDS="interpreter,notes")
    assert status == 1
    assert "WRONG  backend notes: notes:0 compiles nothing: SystemExit: bug" in text
    assert line_of(text, "device").startswith("ok     device: default: interpreter:0")
    assert text.endswith(
        "next step: report it to the authors of zyx-backend-notes, or run: pip uninstall zyx-backend-notes\n"
    )


def test_everything_that_is_wrong_comes_with_a_next_step(tmp_path: Path) -> None:
    site = tmp_path / "site"
    write_package(site, "zyx-backend-invalid", [], b"[zyx.backends]\ninvalid = zyx_toy_invalid\n")
    (site / "zyx_toy_invalid.py").write_text(NOTES.replace('"notes"', '"other"'), encoding="utf-8")
    status, text = doctor(tmp_path, PYTHONPATH=str(site), ZYX_BACKENDS="interpreter,invalid")
    assert status == 1
    assert line_of(text, "backend invalid").startswith("WRONG  backend invalid: invalid. the entry point is called")
    assert text.endswith("report it to the authors of zyx-backend-invalid, or run: pip uninstall zyx-backend-invalid\n")


def test_damaged_metadata_is_reported(tmp_path: Path) -> None:
    site = tmp_path / "site"
    write_package(site, "damaged", [], b"\xff\xfe")
    status, text = doctor(tmp_path, PYTHONPATH=str(site))
    assert status == 1
    assert str(site) in line_of(text, "package")


@pytest.mark.parametrize("device", ["interpreter:7", "cuda"])
def test_a_default_device_that_is_not_there_is_reported(tmp_path: Path, device: str) -> None:
    status, text = doctor(tmp_path, ZYX_DEVICE=device)
    assert status == 1
    assert line_of(text, "device").startswith(f"WRONG  device: default: none. no device '{device}' (from ZYX_DEVICE)")


def _refuse(*_: object) -> None:
    raise RuntimeError("no such instruction")


@pytest.mark.parametrize(
    ("run", "found"),
    [(_refuse, "RuntimeError: no such instruction"), (lambda *_: None, r"\d+ of 1887 numbers are wrong")],
    ids=["fails", "computes nothing"],
)
def test_a_device_whose_results_are_wrong_is_reported(
    run: object,
    found: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(InterpreterDevice, "_run", run)
    monkeypatch.setenv("ZYX_BACKENDS", "interpreter")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main(["doctor"]) == 1
    line = line_of(capsys.readouterr().out, "results of interpreter:0")
    assert re.fullmatch(rf"WRONG  results of interpreter:0: .*{found}", line)
