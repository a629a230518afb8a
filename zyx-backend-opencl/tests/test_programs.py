"""Programs: built once, kept between runs, launched without looking anything up; and what is refused."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zyx
from zyx import dtype as dtypes
from zyx.backend import Program
from zyx.errors import AllocationError, CompileError, LaunchError, UnsupportedError
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.ops import BinaryOp
from zyx.runtime.runtime import Runtime, use
from zyx.tensor.tensor import Tensor
from zyx.testing.launching import run_on
from zyx_backend_opencl import driver
from zyx_backend_opencl.render import SYMBOL

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable
    from pathlib import Path

    from zyx.drivers.cache import MemoryCache
    from zyx.kernel.data import Kernel
    from zyx_backend_opencl.device import ClDevice
    from zyx_backend_opencl.memory import ClBuffer, ClPool

    Make = Callable[[int], ClBuffer]
    Read = Callable[[ClBuffer], set[int]]

#: What a session does only when something is compiled.
BUILDING = ("build", "load", "kernel", "binary", "group_limits")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts the calls of the methods of all sessions."""
    from collections import Counter

    counts: Counter[str] = Counter()

    def counted(name: str, method: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **options: object) -> object:
            counts[name] += 1
            return method(*args, **options)

        return call

    for name in (*BUILDING, "launch", "flush", "write", "read", "allocate"):
        monkeypatch.setattr(driver.Session, name, counted(name, getattr(driver.Session, name)))
    return counts


def test_a_launch_is_one_command_and_builds_nothing(
    device: ClDevice, pool: ClPool, add: Callable[..., Kernel], integers: Make, values: Read, calls: Counter[str]
):
    program = device.compile(add(3))
    assert calls["build"] == calls["kernel"] == 1
    assert program.source.count(SYMBOL) == 1
    buffer = integers(0)
    calls.clear()
    event = pool.completed()
    for _ in range(10):
        event = device.launch(program, [buffer], [event])
    assert calls == {"launch": 10, "flush": 10}
    pool.sync_events([event])
    assert values(buffer) == {30}
    pool.deallocate(buffer)


def test_arguments_are_set_only_if_they_changed(
    device: ClDevice, pool: ClPool, add: Callable[..., Kernel], integers: Make, values: Read
):
    program = device.compile(add(1))
    first, second = integers(0), integers(100)

    class Recorder:
        """Stands for the kernel of the driver, and counts the arguments that are set."""

        def __init__(self, kernel: object) -> None:
            self.kernel = kernel
            self.arguments = 0

        def set_arg(self, number: int, value: object) -> None:
            self.arguments += 1
            self.kernel.set_arg(number, value)  # type: ignore[attr-defined]

    recorder = Recorder(program.kernel)
    launch = pool.session.launch
    pool.session.launch = lambda kernel, *rest: launch(kernel.kernel, *rest)  # type: ignore[method-assign]
    program.kernel = recorder
    try:
        for buffer in (first, first, first, second, second, first):
            pool.sync_events([device.launch(program, [buffer])])
    finally:
        del pool.session.launch
    assert recorder.arguments == 3
    assert values(first) == {4}
    assert values(second) == {102}
    for buffer in (first, second):
        pool.deallocate(buffer)


def test_a_graph_that_is_computed_again_compiles_nothing(fresh: Callable[..., Runtime], calls: Counter[str]):
    with use(fresh()):
        for number in range(6):
            x = Tensor([1.0 * number, 2.0, 3.0])
            assert ((x * x).sum() + 1.0).item() == number * number + 14
            if number == 2:  # the plan was captured at its second run, and may be recorded once more
                calls.clear()
    assert calls["build"] == calls["load"] == calls["binary"] == 0
    assert calls["read"] == 3


def test_a_replayed_plan_is_one_flush_and_builds_nothing(fresh: Callable[..., Runtime], calls: Counter[str]):
    with use(fresh()) as runtime:

        @zyx.jit
        def step(x: Tensor) -> Tensor:
            y = (x * 2.0).contiguous()
            z = (y - y.sum(axis=0)).contiguous()
            return z @ z.T

        x = Tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
        y = 2.0 * x.numpy() - (2.0 * x.numpy()).sum(0)
        for _ in range(8):  # traced, captured, and recorded for each of the buffers that take turns
            result = step(x)
            result.numpy()
        for _ in range(3):
            calls.clear()
            result = step(x)
            runtime.synchronize()
            assert calls["flush"] == 1
            assert not any(calls[name] for name in (*BUILDING, "write", "allocate"))
            np.testing.assert_array_equal(result.numpy(), y @ y.T)


def test_programs_are_kept_between_runs(
    tmp_path: Path, fresh: Callable[..., Runtime], add: Callable[..., Kernel], calls: Counter[str]
):
    fresh().close()  # to skip where there is no device
    for turn in range(2):
        with use(Runtime({"devices": {"default": "opencl"}, "cache": {"directory": str(tmp_path)}})) as runtime:
            runtime.device()  # which may try how threads swap values, with programs that are not kept
            calls.clear()
            assert (Tensor([1.0, 2.0]) + 41.0).numpy().tolist() == [42.0, 43.0]
            assert (calls["build"], calls["load"]) == ((1, 0) if turn == 0 else (0, 1))
            runtime.close()
    assert (tmp_path / "opencl-1.sqlite").exists()
    with sqlite3.connect(tmp_path / "opencl-1.sqlite") as database:
        database.execute("UPDATE entries SET value = x'00112233'")
    with use(Runtime({"devices": {"default": "opencl"}, "cache": {"directory": str(tmp_path)}})) as runtime:
        runtime.device()
        calls.clear()
        assert (Tensor([1.0, 2.0]) + 41.0).numpy().tolist() == [42.0, 43.0]
        assert calls["build"] == 1  # what was tampered with is not taken
        runtime.close()


def test_a_binary_that_the_driver_does_not_take_is_made_again(
    device: ClDevice, pool: ClPool, add: Callable[..., Kernel], integers: Make, values: Read, calls: Counter[str],
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    from zyx.drivers.cache import MemoryCache

    cache: MemoryCache = MemoryCache()
    monkeypatch.setattr(device, "_cache", cache)
    first = device.compile(add(7))
    assert (calls["build"], calls["load"]) == (1, 0)
    cache.put(device._key(first.source), b"not a program")
    second = device.compile(add(7))
    assert (calls["build"], calls["load"]) == (2, 1)
    third = device.compile(add(7))
    assert (calls["build"], calls["load"]) == (2, 2)
    buffer = integers(0)
    for program in (first, second, third):
        pool.sync_events([device.launch(program, [buffer])])
    assert values(buffer) == {21}
    pool.deallocate(buffer)


def test_the_key_of_a_program_has_device_driver_options_and_source(device: ClDevice, monkeypatch: pytest.MonkeyPatch):
    from dataclasses import replace

    keys = {device._key("source"), device._key("other source")}
    info = device.info
    for changed in (replace(info, model="another"), replace(info, driver="another")):
        monkeypatch.setattr(device, "_info", changed)
        keys.add(device._key("source"))
    monkeypatch.setattr(device, "_info", info)
    monkeypatch.setattr(device, "_options", "-cl-std=CL9")
    keys.add(device._key("source"))
    assert len(keys) == 5
    assert "pyopencl" in info.driver
    assert pool_platform(device) in info.model


def pool_platform(device: ClDevice) -> str:
    return device.pool.session.device.platform


def test_a_compiler_that_refuses_is_an_error_with_kernel_log_and_source(
    device: ClDevice, add: Callable[..., Kernel], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    from dataclasses import replace

    monkeypatch.setattr(device, "dialect", replace(device.dialect, preamble="#error no kernels today\n"))
    with pytest.raises(CompileError) as refused:
        device.compile(add(1, "unlucky"))
    text = str(refused.value)
    assert f"kernel unlucky on {device.name}" in text
    assert "no kernels today" in text
    assert f"{SYMBOL}(" in text
    capfd.readouterr()  # some drivers print as well


def test_programs_that_cannot_run_are_refused(
    device: ClDevice,
    pool: ClPool,
    add: Callable[..., Kernel],
    integers: Make,
    values: Read,
    fresh: Callable[..., Runtime],
):
    buffer = integers(5)
    program = device.compile(add(1))
    elsewhere = fresh().device().compile(add(1))
    with pytest.raises(LaunchError, match="another device"):
        device.launch(elsewhere, [buffer])
    with pytest.raises(LaunchError, match="another device"):
        device.launch(Program("nobody's"), [buffer])
    with pytest.raises(LaunchError, match=r"takes 1 arguments \(a buffer of 256 bytes\); it was given 2"):
        device.launch(program, [buffer, buffer])
    device.release(program)
    with pytest.raises(LaunchError, match="released before"):
        device.launch(program, [buffer])
    assert values(buffer) == {5}
    pool.deallocate(buffer)


def test_a_kernel_with_more_threads_than_fit_as_it_is_compiled_is_refused(
    device: ClDevice, monkeypatch: pytest.MonkeyPatch
):
    b = Builder()
    x = b.define(k.Memory.GLOBAL, dtypes.int32, 64)
    b.store(x, b.index(k.Axis.LOCAL, 0, 64), b.const(1, dtypes.int32))
    kernel = b.finish("wide")
    monkeypatch.setattr(driver.Session, "group_limits", lambda self, kernel: (32, 0))
    with pytest.raises(UnsupportedError, match=f"kernel wide has groups of 64 threads.*{device.name}, at most 32 fit"):
        device.compile(kernel)
    monkeypatch.setattr(driver.Session, "group_limits", lambda self, kernel: (64, 1 << 40))
    with pytest.raises(UnsupportedError, match="kernel wide takes 1099511627776 bytes of local memory"):
        device.compile(kernel)


def test_what_threads_have_of_their_own_survives_a_branch_in_which_they_meet(device: ClDevice, pool: ClPool):
    b = Builder()
    y = b.define(k.Memory.GLOBAL, dtypes.int32, 128)
    shared = b.define(k.Memory.LOCAL, dtypes.int32, 64)
    i32 = dtypes.int32
    group, thread = b.index(k.Axis.GROUP, 0, 2, i32), b.index(k.Axis.LOCAL, 0, 64, i32)
    is_low = b.binary(BinaryOp.LE, thread, b.const(30, i32))
    turned = b.binary(BinaryOp.SUB, b.const(63, i32), thread)
    for number in range(2):
        b.add(k.If(b.binary(BinaryOp.EQ, group, b.const(number, i32))))
        b.store(shared, thread, thread)
        b.add(k.Barrier())
        value = b.load(shared, turned)
        b.add(k.Barrier())
        b.store(y, b.binary(BinaryOp.ADD, thread, b.const(64 * number, i32)), value, is_low)
        b.add(k.EndIf())
    (result,) = run_on(device, b.finish("branches"), [np.full(128, -1, np.int32)])
    wanted = np.where(np.arange(64) <= 30, 63 - np.arange(64), -1)
    np.testing.assert_array_equal(result, np.tile(wanted, 2))


def test_a_buffer_that_does_not_fit_is_refused_with_pool_request_and_what_is_free(pool: ClPool):
    before = pool.free_bytes
    with pytest.raises(AllocationError) as refused:
        pool.allocate(pool.max_buffer_bytes + 1)
    for part in (pool.name, str(pool.max_buffer_bytes + 1), f"at most {pool.max_buffer_bytes}", str(before)):
        assert part in str(refused.value)
    assert pool.free_bytes == before
