"""The command line itself."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from zyx.cli.main import COMMANDS, main
from zyx.version import __version__


def run(tmp_path: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run ``zyx`` in a process of its own, with no settings but those given."""
    clean = {"HOME": str(tmp_path), "PATH": os.environ.get("PATH", "")}
    return subprocess.run(
        [sys.executable, "-m", "zyx", *arguments],
        env=clean | environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_a_module_of_its_name_with_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = importlib.import_module(f"zyx.cli.{name.replace('-', '_')}")
    assert callable(module.configure)
    assert callable(module.run)
    with pytest.raises(SystemExit) as stopped:
        main([name, "--help"])
    assert stopped.value.code == 0
    assert f"usage: zyx {name}" in capsys.readouterr().out


def test_help_lists_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    for name, summary in COMMANDS.items():
        assert f"  {name}" in text
        assert summary in text


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"zyx {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["device"], ["devices", "--no-such-option"]])
def test_wrong_arguments_give_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "devices" in capsys.readouterr().err


def test_an_error_of_ours_is_one_message_and_status_1(tmp_path: Path) -> None:
    done = run(tmp_path, "devices", ZYX_NUM_THREADS="none")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("zyx devices: ZYX_NUM_THREADS: key threads: 'none' is not accepted")
    assert "Traceback" not in done.stderr


def test_devices_lists_devices_the_default_one_and_all_backends(tmp_path: Path) -> None:
    done = run(tmp_path, "devices", ZYX_BACKENDS="interpreter,dummy", ZYX_DUMMY_COUNT="2")
    assert done.returncode == 0
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["DEVICE", "MODEL", "COMPUTE", "BANDWIDTH", "FREE", "DRIVER"]
    assert [line.split()[0] for line in lines[1:4]] == ["interpreter:0", "dummy:0", "dummy:1"]
    assert "1 TiB" in lines[2]
    assert any(line.startswith("default: interpreter:0, since there is nothing else, and it is very") for line in lines)
    assert any(line.startswith("dummy ") and line.endswith("dummy:0, dummy:1") for line in lines)


def test_devices_has_status_1_if_the_default_device_is_not_there(tmp_path: Path) -> None:
    done = run(tmp_path, "devices", ZYX_BACKENDS="interpreter", ZYX_DEVICE="interpreter:3")
    assert done.returncode == 1
    assert (
        "default: none. no device 'interpreter:3' (from ZYX_DEVICE): backend interpreter has interpreter:0"
        in done.stdout
    )


def test_a_reader_that_stops_early_causes_no_traceback(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "zyx", "doctor"],
        env={"HOME": str(tmp_path), "ZYX_BACKENDS": "interpreter"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    process.wait(60)
    process.stderr.close()
    assert b"Traceback" not in errors
