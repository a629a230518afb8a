"""Faults that are planted into core are seen by the tests that are named for them, in planted.toml."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from mutate import FAILED, NO_RESULT, SOURCE, TARGETS, TESTS, UNIMPORTABLE, fate_of, outcome, planted_faults

FAULTS = planted_faults()


def test_there_are_a_dozen_and_no_two_of_one_name():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 12


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_can_be_planted_and_its_test_is_there(fault):
    compile(fault.source, fault.file, "exec")
    path, *names = fault.test.split("::")
    text = (TESTS / path).read_text()
    for name in names:
        assert re.search(rf"^ *(def|class) {name}\b", text, re.MULTILINE), f"{path} has no {name}"


def test_the_tests_of_a_mutation_run_are_there():
    for file, tests in TARGETS.items():
        assert (SOURCE / file).is_file()
        assert [test for test in tests if not (TESTS / test).is_file()] == []


needs_fork = pytest.mark.skipif(sys.platform == "win32", reason="mutate.py needs fork")


@needs_fork
def test_tests_that_do_not_run_notice_nothing(capsys):
    status = outcome("zyx/nest/indices.py", None, 60, ["nest/no_such_test.py"])
    assert status == pytest.ExitCode.USAGE_ERROR
    assert fate_of("a change", status) == NO_RESULT
    assert "status 4" in capsys.readouterr().out


@needs_fork
def test_a_change_is_noticed_by_a_test_that_fails_or_because_it_cannot_be_imported():
    fault = FAULTS[0]
    script = f"""if True:
        import ast
        import mutate

        for source in ({fault.source!r}, "raise OSError"):
            print(mutate.outcome({fault.file!r}, ast.parse(source), 60, [{fault.test!r}]))"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=Path(__file__).parent
    )
    assert done.stdout.split() == [str(FAILED), str(UNIMPORTABLE)]


@pytest.mark.slow
@needs_fork
def test_every_planted_fault_is_seen_by_its_test():
    script = Path(__file__).with_name("mutate.py")
    done = subprocess.run(
        [sys.executable, str(script), "--planted"], capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr


@needs_fork
def test_a_test_that_goes_on_without_end_is_ended_soon():
    script = """if True:
        import ast
        import mutate

        mutate.MOST_SECONDS_OF_A_TEST = 1
        file = "zyx/lowering/storage.py"
        source = (mutate.SOURCE / file).read_text()
        endless = source.replace("while length <", "while True or length <")
        assert endless != source
        print(mutate.outcome(file, ast.parse(endless), 600, ["schedule/test_storage.py"]))"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,
        timeout=60,
    )
    assert done.stdout.split() == ["None"]
