"""Whose programs a device takes, and until when."""

from __future__ import annotations

import pytest

from zyx.backend import Launch, Program
from zyx.errors import LaunchError


def test_programs_of_others_those_released_and_those_after_the_end_are_refused(device, pool, new_pool, new_program):
    program = new_program("add", pool, ())
    assert device.own(program) is program
    for other in (Program("add"), new_program("add", new_pool(), ())):
        with pytest.raises(LaunchError, match="add is a program of another device than list:0"):
            device.own(other)
    device.close()
    with pytest.raises(LaunchError, match="add was launched on list:0, which is closed"):
        device.own(program)
    gone = type(device)(pool)
    gone.release(program)
    with pytest.raises(LaunchError, match="add was released before, on list:0"):
        gone.release(program)


def test_it_is_closed_once(device):
    device.close()
    device.close()
    assert device.stops == 1


def test_what_is_left_is_shared_with_the_work_in_flight(device):
    assert device.free_compute == 2e9


def test_a_sequence_is_no_part_of_another(device, pool, sequence, new_pool, new_program):
    device.check_capture([Launch(new_program("add", pool, ()), ())])
    with pytest.raises(LaunchError, match="two steps is a captured sequence, and cannot be part of another"):
        device.check_capture([Launch(sequence, ())])
    with pytest.raises(LaunchError, match="another device"):
        device.check_capture([Launch(new_program("add", new_pool(), ()), ())])


def test_programs_of_another_class_on_the_same_pool_are_another_devices(device, pool, sequence, new_program):
    class Picky(type(device)):
        program_type = new_program

    picky = Picky(pool)
    assert picky.own(new_program("add", pool, ())).name == "add"
    with pytest.raises(LaunchError, match="two steps is a program of another device"):
        picky.own(sequence)
