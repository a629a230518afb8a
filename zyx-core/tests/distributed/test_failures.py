"""A process that dies, stops or is late: the others find out in time, and none is left behind."""

import time

import pytest


def test_who_waits_too_long_is_told_for_whom_and_all_are_ended(run_program):
    started = time.monotonic()
    done = run_program("failing.py", 3, "late", ends_all=False, ZYX_COLLECTIVE_TIMEOUT_S="1")
    assert time.monotonic() - started < 20
    assert done.returncode == 1
    # The first that has waited long enough ends the other one, which may not have come so far.
    texts = [
        f"rank {rank}: all_reduce sum of float32 [3]: rank {rank} of 3 has waited 1.0 s for rank 1; the limit is 1 s"
        for rank in (0, 2)
    ]
    assert any(text in done.stdout for text in texts)
    assert "then: barrier: the group cannot be used any more, since all_reduce sum of float32 [3]" in done.stdout


def test_a_process_that_is_stopped_does_not_stop_the_others_for_ever(run_program):
    done = run_program("failing.py", 2, "stopped", ZYX_COLLECTIVE_TIMEOUT_S="1")
    assert done.returncode != 0
    assert "for rank 1; the limit is 1 s" in done.stdout


def test_messages_that_nobody_sends_are_waited_for_in_vain(run_program):
    done = run_program("failing.py", 2, "receives", ends_all=False, ZYX_COLLECTIVE_TIMEOUT_S="1")
    assert done.returncode == 1
    assert "CollectiveTimeoutError: receive from rank 1: rank 0 of 2 has waited" in done.stderr


def test_a_group_is_not_waited_for_for_ever(run_program):
    done = run_program("failing.py", 4, "splits", ends_all=False, ZYX_COLLECTIVE_TIMEOUT_S="1")
    assert done.returncode == 1
    assert "CollectiveTimeoutError: split [0, 1, 2]: rank" in done.stderr
    assert "of 4 has waited 1.0 s for rank 1; the limit is 1 s" in done.stderr


@pytest.mark.parametrize("ends_all", [True, False])
def test_an_exception_in_one_process_ends_all(run_program, ends_all):
    started = time.monotonic()
    done = run_program("failing.py", 2, "raises", ends_all=ends_all)
    assert time.monotonic() - started < 15
    assert done.returncode == 1
    assert "ValueError: rank 1 has had enough" in done.stderr


def test_a_process_that_exits_or_is_killed_ends_all(run_program):
    assert run_program("failing.py", 2, "exits").returncode == 5
    assert run_program("failing.py", 2, "killed").returncode == 9
