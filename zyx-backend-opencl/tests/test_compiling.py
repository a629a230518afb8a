"""Programs that are built in several threads at the same time."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zyx
from zyx.runtime.runtime import use
from zyx_backend_opencl.device import ClDevice
from zyx_backend_opencl.driver import BuildError, Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.kernel.data import Kernel
    from zyx.runtime.runtime import Runtime
    from zyx_backend_opencl.memory import ClBuffer, ClPool

    Make = Callable[[int], ClBuffer]
    Read = Callable[[ClBuffer], set[int]]

THREADS = 4
#: Waits that fail a test where they take so long.
PATIENCE_S = 60


def in_threads(work: Callable[[int], object]) -> list[Exception]:
    """Call `work` with 0, 1, .. in threads of their own, and return what they raised."""
    errors: list[Exception] = []

    def run(number: int) -> None:
        try:
            work(number)
        except Exception as error:  # noqa: BLE001  # the test's own thread looks at it
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * PATIENCE_S)
    assert not any(thread.is_alive() for thread in threads)
    return errors


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_a_runtime_builds_as_many_programs_at_once_as_the_device_takes(
    fresh: Callable[..., Runtime], monkeypatch: pytest.MonkeyPatch, at_once: int
):
    runtime = fresh()
    device = runtime.device()
    assert isinstance(device, ClDevice)
    assert device.compiles_at_once == min(8, os.cpu_count() or 1)
    monkeypatch.setattr(device, "compiles_at_once", at_once)
    inside, most, lock, meet = 0, 0, threading.Lock(), threading.Event()
    build = Session.build

    def together(self: Session, source: str, options: str) -> Any:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
            if inside == at_once:
                meet.set()
        assert meet.wait(PATIENCE_S)  # until so many are here
        try:
            return build(self, source, options)
        finally:
            with lock:
                inside -= 1

    monkeypatch.setattr(Session, "build", together)
    values = np.arange(32, dtype=np.float32).reshape(4, 8)
    with use(runtime):
        x, y = zyx.Tensor(values), zyx.Tensor(values.reshape(8, 4))
        results = [x.sum(axis=1), x.max(axis=0), (x @ y).contiguous(), x.cumsum(axis=1)]
        zyx.realize(*results)
        wanted = [values.sum(1), values.max(0), values @ values.reshape(8, 4), values.cumsum(1)]
        for result, right in zip(results, wanted, strict=True):
            np.testing.assert_array_equal(result.numpy(), right)
    assert most == at_once


def test_programs_that_are_built_at_once_compute_what_their_kernels_say(
    device: ClDevice, pool: ClPool, add: Callable[..., Kernel], integers: Make, values: Read
):
    meet = threading.Barrier(THREADS)
    programs: dict[int, Any] = {}
    rounds = 6

    def build(number: int) -> None:
        for turn in range(rounds):
            meet.wait(PATIENCE_S)
            constant = 1000 + THREADS * turn + number
            programs[constant] = device.compile(add(constant))

    assert in_threads(build) == []
    assert len(programs) == THREADS * rounds
    buffer = integers(0)
    for constant, program in programs.items():
        before = values(buffer)
        pool.sync_events([device.launch(program, [buffer])])
        assert values(buffer) == {old + constant for old in before}
        device.release(program)
    pool.deallocate(buffer)


def test_a_compiler_that_takes_no_declarations_is_noted_once_by_those_that_build_at_once(
    fresh: Callable[..., Runtime], add: Callable[..., Kernel], monkeypatch: pytest.MonkeyPatch
):
    device = fresh().device()
    assert isinstance(device, ClDevice)
    notes: list[str] = []
    meet = threading.Barrier(THREADS)
    build = Session.build

    def refusing(self: Session, source: str, options: str) -> Any:
        if "_OPENCL_H_" in options:
            meet.wait(PATIENCE_S)
            raise BuildError("CL_BUILD_PROGRAM_FAILURE\nwhat is a barrier?")
        return build(self, source, options)

    monkeypatch.setattr(Session, "build", refusing)
    monkeypatch.setattr(device, "_declares", True)
    monkeypatch.setattr(device, "_note", notes.append)
    assert in_threads(lambda number: device.release(device.compile(add(2000 + number)))) == []
    assert len(notes) == 1
    assert "what is a barrier?" in notes[0]
