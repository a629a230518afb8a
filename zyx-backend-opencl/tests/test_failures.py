"""How failures of queued work are noted and told, with a stand-in for the session: drivers differ in what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from refused import Refused

from zyx.errors import AllocationError, BackendError, DeviceLostError, LaunchError, TransferError
from zyx_backend_opencl.work import Work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx_backend_opencl.work import Command

RUNNING, OUT_OF_RESOURCES, WAITED_FOR_A_FAILURE, LOST = 2, -5, -14, -36


class PaperEvent:
    """An event that ends with a code once somebody waits for it.

    Args:
        ends: 0, or the code of an error.
        seems: What its status is then; drivers are known that say 0 all the same.
    """

    def __init__(self, ends: int = 0, seems: int | None = None) -> None:
        self.ends = ends
        self.seems = ends if seems is None else seems
        self.status = RUNNING


class PaperSession:
    """As much of a session as waiting needs."""

    def __init__(self) -> None:
        self.events: list[PaperEvent] = []
        self.is_lost = False

    def event(self, ends: int = 0, seems: int | None = None) -> PaperEvent:
        self.events.append(PaperEvent(ends, seems))
        return self.events[-1]

    def status(self, event: PaperEvent) -> int:
        if self.is_lost:
            raise Refused(LOST)
        return event.status

    def wait(self, events: Sequence[PaperEvent]) -> None:
        for event in events:
            event.status = event.seems
        failed = [event.ends for event in events if event.ends < 0]
        if self.is_lost or failed:
            raise Refused(LOST if self.is_lost else failed[0])

    def finish(self) -> None:
        for event in self.events:
            event.status = event.seems


@pytest.fixture
def session() -> PaperSession:
    return PaperSession()


@pytest.fixture
def work(session: PaperSession) -> Work:
    return Work(session)  # type: ignore[arg-type]  # as far as it is used


def chain(work: Work, session: PaperSession) -> tuple[Command, Command]:
    """A kernel that fails, and one behind it."""
    culprit = work.add(session.event(OUT_OF_RESOURCES), "kernel culprit on opencl:7")
    return culprit, work.add(session.event(WAITED_FOR_A_FAILURE), "kernel victim on opencl:7", [culprit])


@pytest.mark.parametrize("seems", [None, 0])
def test_a_failure_surfaces_at_the_wait_also_if_the_driver_says_complete_afterwards(
    work: Work, session: PaperSession, seems: int | None
):
    command = work.add(session.event(OUT_OF_RESOURCES, seems), "kernel culprit on opencl:7")
    with pytest.raises(LaunchError, match=r"kernel culprit on opencl:7: CL_OUT_OF_RESOURCES \(-5\)"):
        work.wait([command])
    assert work.count == 0
    work.finish()  # told once


def test_what_is_behind_a_failure_names_it(work: Work, session: PaperSession):
    culprit, victim = chain(work, session)
    session.finish()
    wanted = r"kernel victim on opencl:7 did not run, since work before it failed: kernel culprit on opencl:7.*-5"
    with pytest.raises(LaunchError, match=wanted):
        work.wait([victim])
    first = work.add(session.event(OUT_OF_RESOURCES), "an upload", kind=TransferError)
    session.finish()
    with pytest.raises(TransferError, match="kernel next did not run, since work before it failed: an upload"):
        work.natives([first], "kernel next")
    with pytest.raises(LaunchError, match=r"kernel next did not run.*kernel culprit"):
        work.natives([culprit], "kernel next")
    work.finish()


def test_a_failure_that_nobody_can_wait_for_surfaces_once_at_the_next_wait(work: Work, session: PaperSession):
    culprit, victim = chain(work, session)
    work.release([culprit, victim])
    session.finish()
    sound = work.add(session.event(), "kernel sound on opencl:7")
    with pytest.raises(LaunchError, match="kernel culprit"):
        work.wait([sound])
    work.wait([sound])
    work.finish()


def test_a_failure_is_not_told_to_those_who_wait_for_something_else(work: Work, session: PaperSession):
    culprit, _ = chain(work, session)
    work.wait([work.add(session.event(), "kernel sound on opencl:7")])
    with pytest.raises(LaunchError, match="kernel culprit"):
        work.wait([culprit])


def test_work_whose_state_the_driver_does_not_tell_counts_as_failed(work: Work, session: PaperSession):
    first = work.add(session.event(), "kernel first on opencl:7")
    session.is_lost = True
    second = work.add(session.event(), "kernel second on opencl:7", [first])
    with pytest.raises(DeviceLostError, match=r"kernel third on opencl:7 did not run.*kernel first on opencl:7"):
        work.natives([first], "kernel third on opencl:7")
    with pytest.raises(DeviceLostError, match=r"kernel second on opencl:7 did not run.*kernel first on opencl:7"):
        work.wait([second])
    work.finish()  # told


@pytest.mark.parametrize(
    ("code", "kind"), [(LOST, DeviceLostError), (-2, DeviceLostError), (-4, AllocationError), (-5, LaunchError)]
)
def test_codes_of_queued_work_become_errors_of_the_right_kind(
    work: Work, session: PaperSession, code: int, kind: type[BackendError]
):
    with pytest.raises(kind, match=rf"kernel unlucky on opencl:7: .*\({code}\)"):
        work.wait([work.add(session.event(code), "kernel unlucky on opencl:7")])


def test_a_device_that_does_not_even_tell_what_became_of_its_work_is_lost_with_all_of_it(
    work: Work, session: PaperSession
):
    first = work.add(session.event(), "kernel first on opencl:7")
    second = work.add(session.event(), "kernel second on opencl:7", [first])
    session.is_lost = True
    with pytest.raises(
        DeviceLostError, match=r"kernel second on opencl:7.*the device can do no more work in this process"
    ):
        work.wait([second])
    with pytest.raises(
        DeviceLostError, match="kernel first on opencl:7: the device can do no more work in this process"
    ):
        work.wait([first])
    assert work.count == 0
