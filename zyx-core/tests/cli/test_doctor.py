"""``zyx doctor``."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from zyx.cli.bug_report import without_names
from zyx.cli.main import main
from zyx.plugins.drivers import DRIVERS, SYSTEMS, advice_for_driver, system
from zyx.plugins.state import KNOWN
from zyx.version import __version__

pytestmark = pytest.mark.slow  # a process for each test, most of which compile and run what they report


def doctor(tmp_path: Path, *arguments: str, **environ: str) -> tuple[int, str]:
    clean = {"HOME": str(tmp_path), "PATH": os.environ.get("PATH", ""), "ZYX_BACKENDS": "interpreter"}
    done = subprocess.run(
        [sys.executable, "-m", "zyx", "doctor", *arguments],
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
        "ok     results of interpreter:0: right; compiled and run"
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
    return BackendInfo("notes", "1", (2, 0), "says things", works_on_host_memory=True)

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


def with_toy(tmp_path: Path, body: str, extra: str = "") -> Path:
    """Install a backend ``notes`` whose only device is an interpreter with other methods, as `body` has them."""
    site = tmp_path / "site"
    write_package(site, "zyx-backend-notes", [], b"[zyx.backends]\nnotes = zyx_toy_notes\n")
    code = NOTES.replace("[InterpreterDevice(", "[Toy(")
    toy = f"import os, signal, time\n\nclass Toy(InterpreterDevice):\n    {body}\n\n"
    code = code.replace("@hookimpl\ndef zyx_dev", f"{toy}@hookimpl\ndef zyx_dev")
    (site / "zyx_toy_notes.py").write_text(code.replace("    config.note", f"    {extra}\n    config.note"), "utf-8")
    return site


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("def launch(self, *_, **__): raise RuntimeError('no such unit')", r"RuntimeError: no such unit \(comp.*\)"),
        ("def _run(self, *_, **__): pass", r"\d+ of 1887 numbers are wrong \(compiling and running\)"),
        (
            "def launch(self, *_, **__): os.kill(os.getpid(), signal.SIGKILL)",
            "compiling and running ended the process by SIGKILL",
        ),
        ("def launch(self, *_, **__): os._exit(7)", "compiling and running ended the process by status 7"),
    ],
    ids=["fails", "computes nothing", "is killed", "leaves"],
)
def test_a_device_whose_results_are_wrong_is_reported(tmp_path: Path, body: str, found: str) -> None:
    site = with_toy(tmp_path, body)
    status, text = doctor(tmp_path, PYTHONPATH=str(site), ZYX_BACKENDS="interpreter,notes")
    assert status == 1
    assert re.fullmatch(rf"WRONG  results of notes:0: .*{found}", line_of(text, "results of notes:0"))
    assert "results of interpreter:0: right" in text
    assert text.endswith("next step: switch notes:0 off, and tell its authors\n")


def test_a_device_that_hangs_is_stopped_and_the_rest_is_still_looked_at(tmp_path: Path) -> None:
    site = with_toy(tmp_path, "def launch(self, *_, **__): time.sleep(1000)")
    given = ["--seconds", "8"]
    status, text = doctor(tmp_path, *given, PYTHONPATH=str(site), ZYX_BACKENDS="interpreter,notes")
    assert status == 1
    found = line_of(text, "results of notes:0")
    assert found.endswith("compiling and running took longer than 8 s, and was stopped")
    assert "results of interpreter:0: right" in text


def test_a_driver_that_ends_the_process_when_it_is_opened_is_found_among_others(tmp_path: Path) -> None:
    site = with_toy(tmp_path, "pass", "os.kill(os.getpid(), signal.SIGKILL)")
    status, text = doctor(tmp_path, PYTHONPATH=str(site), ZYX_BACKENDS="interpreter,notes")
    assert status == 1
    found = line_of(text, "backend notes")
    assert found == "WRONG  backend notes: opening it, in a process of its own, ended the process by SIGKILL"
    assert "results of interpreter:0: right" in text
    assert text.endswith("next step: update its driver, or set ZYX_NOTES_ENABLED=0 to do without it\n")


SPOIL = """
def spoil(pool):
    copy = pool.pool_to_host
    def spoiled(source, target, *rest, **more):
        copy(source, target, *rest, **more)
        target.cast("B")[0] ^= 1
    pool.pool_to_host = spoiled
"""


def test_copies_that_come_back_as_others_are_reported(tmp_path: Path) -> None:
    site = with_toy(tmp_path, "pass", "spoil(pools['host'])")
    with (site / "zyx_toy_notes.py").open("a", encoding="utf-8") as file:
        file.write(SPOIL)
    status, text = doctor(tmp_path, PYTHONPATH=str(site), ZYX_BACKENDS="notes")
    assert status == 1
    assert "1 of 1048576 numbers came back from a copy as others" in line_of(text, "results of notes:0")


def test_what_brings_a_driver_is_said_where_it_is_missing(tmp_path: Path) -> None:
    site = tmp_path / "site"
    write_package(site, "zyx-backend-cuda", [], b"[zyx.backends]\ncuda = zyx_toy_cuda\n")
    code = NOTES.replace('"notes"', '"cuda"').replace("    config.note", "    raise DriverNotFoundError('none')\n    #")
    (site / "zyx_toy_cuda.py").write_text(f"from zyx.errors import DriverNotFoundError\n{code}", encoding="utf-8")
    status, text = doctor(tmp_path, PYTHONPATH=str(site), ZYX_BACKENDS="interpreter,cuda")
    assert status == 0, text
    assert "ok     backend cuda: no driver. none" in text
    named = re.findall(r"backend cuda: what brings its driver on (\w+): (.+)", text)
    assert named == advice_for_driver("cuda", system())


@pytest.mark.parametrize("seconds", ["0", "-1", "nan"])
def test_a_time_that_is_none_is_refused(tmp_path: Path, seconds: str, monkeypatch, capsys) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["doctor", f"--seconds={seconds}"]) == 1
    assert f"--seconds {float(seconds):g}: it is more than 0" in capsys.readouterr().err


# ---- the report


def test_a_report_is_one_block_with_versions_devices_settings_and_findings(tmp_path: Path) -> None:
    status, text = doctor(tmp_path, "--report", ZYX_NUM_THREADS="3", ZYX_CACHE_DIR=str(tmp_path / "mine"))
    lines = text.splitlines()
    assert (status, lines[0], lines[-1], text.count("```")) == (0, "```text", "```", 2)
    assert f"package: zyx-core {__version__}" in lines
    assert "setting: threads = 3 from ZYX_NUM_THREADS" in lines
    assert "setting: cache.directory = '~/mine' from ZYX_CACHE_DIR" in lines
    assert "threads in use: 3" in lines
    assert any(re.match(r"ok device interpreter:0: zyx interpreter; driver: zyx .*, numpy ", line) for line in lines)
    assert any(line.startswith("ok results of interpreter:0: right") for line in lines)
    assert str(tmp_path) not in text


def test_a_report_has_what_is_wrong_and_wrong_settings(tmp_path: Path) -> None:
    status, text = doctor(tmp_path, "--report", ZYX_NUM_THREADS="none")
    assert status == 1
    assert "settings: ZYX_NUM_THREADS: key threads: 'none' is not accepted" in text
    assert "WRONG configuration: " in text


def test_names_of_users_and_hosts_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/jane")
    monkeypatch.setattr("socket.gethostname", lambda: "mill.example.org")
    assert (
        without_names("/home/jane/.cache and /home/janet/x on mill.example.org") == "~/.cache and /home/janet/x on HOST"
    )
    assert without_names("mill, and not windmill or mills") == "HOST, and not windmill or mills"
    monkeypatch.setenv("HOME", "/")
    monkeypatch.setattr("socket.gethostname", lambda: "localhost")
    assert without_names("/etc/x at localhost") == "/etc/x at localhost"


# ---- what brings drivers


def test_every_backend_of_ours_has_a_row_for_every_system() -> None:
    assert set(DRIVERS) == set(KNOWN)
    for row in DRIVERS.values():
        assert tuple(row) == SYSTEMS
    assert len(advice_for_driver("opencl", None)) == len(SYSTEMS)
    assert advice_for_driver("somebody_elses", None) == []


@pytest.mark.parametrize(
    ("name", "release", "found"),
    [
        ("darwin", None, "macOS"),
        ("win32", None, "Windows"),
        ("linux", {"ID": "debian"}, "Debian"),
        ("linux", {"ID": "linuxmint", "ID_LIKE": "ubuntu debian"}, "Debian"),
        ("linux", {"ID": "rocky", "ID_LIKE": "rhel centos fedora"}, "Fedora"),
        ("linux", {"ID": "arch"}, None),
        ("freebsd14", {}, None),
    ],
)
def test_a_system_is_one_of_those_of_the_table_or_made_from_it(name, release, found) -> None:
    assert system(name, release) == found
