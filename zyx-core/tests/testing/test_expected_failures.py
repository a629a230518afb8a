"""Lists of expected failures are strict, and devices that are not there are skips with a reason, or failures."""

from __future__ import annotations

import pytest

from zyx_pytest import matches, read_expected_failures

#: Each test starts a process or two.
pytestmark = pytest.mark.slow

OPS = "test_ops.py::test_native_operations_give_the_right_values"


def listed(tmp_path, *lines):
    file = tmp_path / "failures.txt"
    file.write_text("\n".join(["# why they fail", "", *lines]))
    return ("--zyx-xfails", str(file))


def test_an_expected_failure_is_no_failure(run_kit, tmp_path):
    options = listed(tmp_path, f"{OPS}[planted-*: exclusive or is or")
    outcome = run_kit("or_for_xor", "test_ops", options=(*options, "-k", "native and binary and (i32 or u8)"))
    assert outcome.status == 0, outcome.output
    assert "2 xfailed" in outcome.output


def test_an_expected_failure_that_passes_is_a_failure(run_kit, tmp_path):
    options = listed(tmp_path, f"{OPS}*: exclusive or is or")
    outcome = run_kit("none", "test_ops", options=(*options, "-k", "native and i32"))
    assert outcome.status == 1
    assert "test_native_operations_give_the_right_values" in outcome.failed
    assert "exclusive or is or" in outcome.output


def test_a_list_can_be_named_in_the_settings_of_pytest(run_kit, tmp_path):
    _, file = listed(tmp_path, f"{OPS}*: exclusive or is or")
    outcome = run_kit("or_for_xor", "test_ops", options=("-k", "native and binary and i32"), ini=f"zyx_xfails = {file}")
    assert outcome.status == 0, outcome.output
    assert "1 xfailed" in outcome.output


def test_a_pattern_that_matches_nothing_is_an_error(run_kit, tmp_path):
    outcome = run_kit("none", "test_limits", options=listed(tmp_path, "test_limits.py::test_gone*: long fixed"))
    assert outcome.status == 4
    assert "'test_limits.py::test_gone*', which matches no test (long fixed)" in outcome.output


def test_patterns_for_other_modules_do_not_matter(run_kit, tmp_path):
    outcome = run_kit("none", "test_limits", options=listed(tmp_path, f"{OPS}*: exclusive or is or"))
    assert outcome.status == 0, outcome.output


@pytest.mark.parametrize("line", ["test_ops.py::*", "test_ops.py::*:", ": a reason for nothing", "test_ops.py::*:  "])
def test_a_line_without_pattern_or_reason_is_an_error(tmp_path, line):
    file = tmp_path / "failures.txt"
    file.write_text(f"# first line\n{line}\n")
    with pytest.raises(pytest.UsageError, match=r"failures\.txt, line 2: not 'PATTERN: reason'"):
        list(read_expected_failures(file))


def test_a_list_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(pytest.UsageError, match="No such file"):
        list(read_expected_failures(tmp_path / "missing.txt"))


def test_brackets_in_patterns_are_brackets():
    name = "test_ops.py::test_native[c-f64]"
    assert matches(name, "test_ops.py::test_native[c-f64]")
    assert matches(name, "test_ops.py::*f64*")
    assert matches(name, "*")
    assert not matches(name, "test_ops.py::test_native")
    assert not matches(name, "test_ops.py::test_native[c-f6[4]]")


def test_a_device_that_is_not_there_is_a_skip_with_its_reason(run_kit):
    outcome = run_kit("none", "test_pool", options=("--zyx-device", "planted:7", "-rs"))
    assert outcome.status == 0, outcome.output
    assert "no device planted:7: no device 'planted:7'" in outcome.output


def test_a_device_that_is_required_and_not_there_is_a_failure(run_kit, monkeypatch):
    monkeypatch.setenv("ZYX_REQUIRE_DEVICES", "nowhere,planted")
    outcome = run_kit("none", "test_pool", options=("--zyx-device", "planted:7"))
    assert outcome.status == 1
    assert "ZYX_REQUIRE_DEVICES names planted:7" in outcome.output


def test_the_number_of_random_examples_is_printed(run_kit):
    outcome = run_kit("none", "test_graphs")
    assert outcome.status == 0, outcome.output
    assert " 120 random graphs" in outcome.output
