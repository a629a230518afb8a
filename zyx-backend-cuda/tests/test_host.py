"""What the host does, on a paper device: order, ownership, graphs, the cache, and what is made of errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from every_driver.refusals import *  # noqa: F403
from fake_driver import FakeCompiler, FakeSession, fake_cuda

import zyx
from zyx.backend import Launch, Slot
from zyx.drivers.staging import PIECE_BYTES, RING_BYTES, Staging
from zyx.errors import CompileError, DeviceLostError
from zyx.runtime.runtime import use
from zyx.testing.launching import download, upload
from zyx.testing.opening import open_runtime
from zyx_backend_cuda import device as device_module
from zyx_backend_cuda.errors import CODES

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.kernel.data import Kernel
    from zyx.runtime.runtime import Runtime
    from zyx_backend_cuda.device import CudaDevice
    from zyx_backend_cuda.memory import CudaBuffer, CudaPool

ILLEGAL_ADDRESS, INVALID_VALUE = 700, 1


def test_networks_train_on_streams_that_run_as_late_as_they_may(runtime: Runtime):
    with use(runtime):
        zyx.manual_seed(0)
        model = zyx.nn.Sequential(zyx.nn.Linear(4, 8), zyx.nn.Tanh(), zyx.nn.Linear(8, 2))
        optimiser = zyx.optim.Adam(model.parameters(), lr=0.05)
        x = zyx.Tensor(np.random.default_rng(0).standard_normal((16, 4)).astype(np.float32))
        y = zyx.Tensor(np.arange(16) % 2)

        @zyx.jit
        def step(x, y):
            with zyx.Tape() as tape:
                loss = zyx.cross_entropy(model(x), y)
            optimiser.step(tape.gradient(loss, model.parameters()))
            return loss

        losses = [step(x, y).item() for _ in range(12)]
    assert losses[-1] < 0.8 * losses[0]


def test_launches_on_one_stream_record_no_events(
    device: CudaDevice, session: FakeSession, add: Callable[..., Kernel], integers, values
):
    program, buffer = device.compile(add(1)), integers(device.pool, 0)
    event = device.pool.completed()
    session.calls.clear()
    for _ in range(10):
        event = device.launch(program, [buffer], [event])
    assert session.calls == ["launch"] * 10
    device.pool.sync_events([event])
    assert session.calls[10:] == ["record", "synchronize"] or session.calls[10:] == ["event", "record", "synchronize"]
    assert values(buffer) == {10}


def test_numbers_that_change_are_put_into_the_graph_of_a_captured_sequence(runtime: Runtime, session: FakeSession):
    with use(runtime):
        x = zyx.Tensor(np.arange(6, dtype=np.float32).reshape(2, 3)).realize()

        @zyx.jit
        def chain(x, factor, place):
            for _ in range(3):
                x = (x * factor - x.max(1, keepdims=True)).contiguous()
            return x[place] + 1.0

        def meaning(x, factor, place):
            for _ in range(3):
                x = x * np.float32(factor) - x.max(1, keepdims=True)
            return x[place] + 1

        calls = [(1.5 + step / 8, step % 2) for step in range(12)]
        found = [chain(x, *call).numpy() for call in calls[:6]]
        session.calls.clear()
        found += [chain(x, *call).numpy() for call in calls[6:]]
    assert session.calls.count("play") == 6
    assert session.calls.count("change") >= 6
    assert session.calls.count("launch") == session.calls.count("change")  # which makes one, on paper
    assert "capture" not in session.calls
    for result, call in zip(found, calls, strict=True):
        np.testing.assert_allclose(result, meaning(np.arange(6, dtype=np.float32).reshape(2, 3), *call), rtol=1e-5)


def test_a_graph_whose_numbers_cannot_be_changed_is_queued_launch_by_launch(
    runtime: Runtime, session: FakeSession, monkeypatch: pytest.MonkeyPatch
):
    def change(*_: object) -> None:
        raise CODES.fault(INVALID_VALUE, "change")

    with use(runtime):
        x = zyx.Tensor(np.arange(6, dtype=np.float32)).realize()

        @zyx.jit
        def chain(x, factor):
            return (x * factor + x.sum()).contiguous() * factor + x.max()

        monkeypatch.setattr(session, "change", change)
        for step in range(8):
            factor = np.float32(1 + step / 8)
            np.testing.assert_allclose(
                chain(x, float(factor)).numpy(), (np.arange(6) * factor + 15) * factor + 5, rtol=1e-5
            )


def test_a_captured_sequence_is_one_call_from_its_third_launch_on(
    device: CudaDevice, session: FakeSession, add: Callable[..., Kernel], integers, values
):
    programs = [device.compile(add(number)) for number in (1, 10)]
    kept, one, other = (integers(device.pool, 0) for _ in range(3))
    captured = device.capture(
        [Launch(programs[0], (Slot(0),)), Launch(programs[1], (kept,)), Launch(programs[1], (Slot(0),))], 1
    )
    for turn in range(5):
        for buffer in (one, other):
            session.calls.clear()
            device.pool.sync_events([device.launch(captured, [buffer])])
            made = [name for name in session.calls if name in ("launch", "capture", "play")]
            assert made == (["launch"] * 3, ["capture", *["launch"] * 3, "play"], ["play"])[min(turn, 2)]
    assert values(one) == values(other) == {55}
    assert values(kept) == {100}
    session.calls.clear()
    device.pool.trim()
    assert session.calls.count("drop") == 2
    device.pool.sync_events([device.launch(captured, [one])])
    assert values(one) == {66}
    device.release(captured)


def test_a_program_is_unloaded_when_it_is_released_and_its_work_is_done(
    device: CudaDevice, session: FakeSession, add: Callable[..., Kernel], integers, values
):
    program = device.compile(add(1))
    buffer = integers(device.pool, 0)
    event = device.launch(program, [buffer])
    session.calls.clear()
    device.release(program)
    assert session.calls == ["drain", "unload"]
    device.pool.sync_events([event])
    assert values(buffer) == {1}


def test_a_program_in_captured_sequences_is_unloaded_with_the_last_of_them(
    device: CudaDevice, session: FakeSession, add: Callable[..., Kernel], integers, values
):
    programs = [device.compile(add(number)) for number in (1, 10)]
    sequences = [device.capture([Launch(program, (Slot(0),)) for program in (programs[0], *programs)], 1) for _ in "ab"]
    session.calls.clear()
    device.release(programs[0])
    device.release(sequences[0])
    assert "unload" not in session.calls
    buffer = integers(device.pool, 0)
    device.pool.sync_events([device.launch(sequences[1], [buffer])])
    assert values(buffer) == {12}
    device.release(sequences[1])
    assert session.calls.count("unload") == 1
    device.release(programs[1])
    assert session.calls.count("unload") == 2


def test_of_many_graphs_the_one_not_played_for_longest_is_dropped_once_it_has_run(
    device: CudaDevice, session: FakeSession, add: Callable[..., Kernel], integers, values
):
    captured = device.capture([Launch(device.compile(add(1)), (Slot(0),))] * 2, 1)
    buffers = [integers(device.pool, 0) for _ in range(9)]
    session.calls.clear()
    events = [device.launch(captured, [buffer]) for buffer in buffers for _ in range(3)]
    assert session.calls.count("capture") == 9
    assert session.calls.count("drop") == 1
    assert "drain" in session.calls[: session.calls.index("drop")]
    device.pool.sync_events(events)
    assert [values(buffer) for buffer in buffers] == [{6}] * 9
    session.calls.clear()
    device.release(captured)
    assert session.calls.count("drop") == 8


def test_a_driver_that_cannot_record_gets_the_launches_one_by_one(
    device: CudaDevice, session: FakeSession, add: Callable[..., Kernel], integers, values
):
    session.refusals["capture"] = [900]
    buffer = integers(device.pool, 0)
    captured = device.capture([Launch(device.compile(add(1)), (Slot(0),))] * 2, 1)
    for _ in range(4):
        device.pool.sync_events([device.launch(captured, [buffer])])
    assert values(buffer) == {8}
    assert "play" not in session.calls


def test_memory_is_used_again_in_the_order_of_the_stream(
    device: CudaDevice, pool: CudaPool, session: FakeSession, add: Callable[..., Kernel], integers
):
    buffer = integers(pool, 1)
    event = device.launch(device.compile(add(1)), [buffer])
    address = pool.address(buffer)
    pool.deallocate(buffer, [event])
    session.calls.clear()
    again, ready = pool.allocate(buffer.nbytes)
    assert pool.address(again) == address
    assert not ready.complete_when_made
    data = np.full(64, 7, np.int32)
    pool.sync_events([pool.host_to_pool(memoryview(data).cast("B"), again, [ready])])
    np.testing.assert_array_equal(download(pool, again, data), data)  # the launch, which came first, did not change it
    assert "allocate" not in session.calls


def test_large_transfers_go_round_the_ring(pool: CudaPool, session: FakeSession):
    data = np.random.default_rng(0).integers(0, 256, RING_BYTES + 3 * PIECE_BYTES + 5, np.uint8)
    buffer = upload(pool, data)
    np.testing.assert_array_equal(download(pool, buffer, data), data)
    assert session.calls.count("upload") == session.calls.count("download") == 12
    assert session.calls.count("pinned") == 2


def test_programs_are_kept_on_disk_and_damaged_ones_are_made_again(monkeypatch, tmp_path, add: Callable[..., Kernel]):
    counts = []
    for refused in ([], [], [200]):
        compiler, session = FakeCompiler(), FakeSession()
        session.refusals["load"] = refused
        with fake_cuda(monkeypatch, [session], compiler):
            settings = {"cache": {"enabled": True, "directory": str(tmp_path)}}
            runtime = open_runtime("cuda", settings=settings)
            runtime.device().compile(add(3))
            runtime.close()
        counts.append(compiler.compiled)
    assert counts == [1, 0, 1]


def test_the_key_of_a_program_has_source_architecture_options_and_version_of_the_compiler(monkeypatch):
    def key(source: str = "source", capability: int = 90) -> str:
        with fake_cuda(monkeypatch, [FakeSession(capability=capability)]):
            runtime = open_runtime("cuda")
            found: str = runtime.device()._key(source)  # type: ignore[attr-defined]  # of this backend
            runtime.close()
        return found

    assert key() == key()
    keys = [key(), key("other source"), key(capability=80)]
    with monkeypatch.context() as patch:
        patch.setattr(FakeCompiler, "version", (13, 1))
        keys.append(key())
    with monkeypatch.context() as patch:
        patch.setattr(device_module, "OPTIONS", ("--fmad=true",))
        keys.append(key())
    assert len(set(keys)) == len(keys) == 5


def test_another_version_of_the_compiler_makes_programs_again(monkeypatch, tmp_path, add: Callable[..., Kernel]):
    counts = []
    for version in ((13, 0), (13, 1), (13, 1), (13, 0)):
        monkeypatch.setattr(FakeCompiler, "version", version)
        compiler = FakeCompiler()
        with fake_cuda(monkeypatch, [FakeSession()], compiler):
            runtime = open_runtime("cuda", settings={"cache": {"enabled": True, "directory": str(tmp_path)}})
            runtime.device().compile(add(3))
            runtime.close()
        counts.append(compiler.compiled)
    assert counts == [1, 1, 0, 0]


def test_a_source_that_is_refused_is_an_error_with_the_log(
    device: CudaDevice, compiler: FakeCompiler, add: Callable[..., Kernel]
):
    compiler.log = "zyx.cu(3): error: no such thing"
    with pytest.raises(CompileError, match=r"kernel poor on cuda:0: NVRTC refused it, zyx\.cu\(3\): error"):
        device.compile(add(1, "poor"))


def test_a_kernel_that_fails_is_named_by_whoever_waits(
    device: CudaDevice, pool: CudaPool, session: FakeSession, add, integers
):
    event = device.launch(device.compile(add(1, "fatal")), [integers(pool, 0)])
    session.refusals["synchronize"] = [ILLEGAL_ADDRESS]
    with pytest.raises(DeviceLostError, match=r"kernel fatal on cuda:0 was queued last.*CUDA_LAUNCH_BLOCKING=1"):
        pool.sync_events([event])


def test_after_a_device_is_lost_every_call_says_so(
    device: CudaDevice, pool: CudaPool, session: FakeSession, add, integers
):
    program, buffer, other = device.compile(add(1, "fatal")), integers(pool, 0), integers(pool, 0)
    captured = device.capture([Launch(program, (Slot(0),))] * 2, 1)
    for _ in range(3):
        pool.sync_events([device.launch(captured, [buffer])])
    pool.deallocate(other)  # and stays with the pool
    session.is_lost = True
    calls: list[Callable[[], object]] = [
        lambda: device.launch(program, [buffer]),
        lambda: device.launch(captured, [buffer]),
        lambda: device.compile(add(2)),
        lambda: device.timed_launch(program, [buffer]),
        lambda: pool.host_to_pool(memoryview(bytes(4)), buffer),
        lambda: pool.pool_to_host(buffer, memoryview(bytearray(4))),
        lambda: pool.allocate(1 << 20),
        lambda: device.release(captured),
        pool.trim,
        pool.close,
    ]
    for call in calls:
        with pytest.raises(DeviceLostError, match=r"cuda:0.*CUDA_ERROR_ILLEGAL_ADDRESS \(700\)"):
            call()
    assert session.is_closed
    assert session.depth == 0


@pytest.mark.parametrize("linked", [True, False])
def test_a_copy_between_devices_waits_for_both(monkeypatch, add: Callable[..., Kernel], integers, values, linked: bool):
    first, second = FakeSession("First"), FakeSession("Second")
    first.linked = linked
    with fake_cuda(monkeypatch, [first, second]):
        runtime = open_runtime("cuda:0")
        here, there = runtime.device("cuda:0"), runtime.device("cuda:1")
        source: CudaBuffer = integers(here.memory_pool, 1)
        event = here.launch(here.compile(add(1)), [source])
        target: CudaBuffer = integers(there.memory_pool, 0)
        copied = there.memory_pool.pool_to_pool(source, target, [event])
        there.memory_pool.sync_events([there.launch(there.compile(add(40)), [target], [copied])])
        assert values(target) == {42}
        assert second.calls.count("copy_from") == second.calls.count("enable_peer") == 1
        runtime.close()
    assert first.is_closed
    assert second.is_closed
    assert not first.alive


@pytest.mark.parametrize("tf32", [False, True])
def test_float32_products_leave_bits_out_only_where_that_is_asked_for(
    session: FakeSession, compiler: FakeCompiler, monkeypatch: pytest.MonkeyPatch, tf32: bool
):
    x = np.full((512, 512), 1 + 2**-11, np.float32)  # smaller ones take no tensor cores
    with fake_cuda(monkeypatch, [session], compiler):
        opened = open_runtime("cuda", settings={"backends": {"cuda": {"tf32": tf32}}})
        with use(opened):
            found = (zyx.asarray(x) @ zyx.asarray(np.eye(512, dtype=np.float32))).numpy()
        opened.close()
    np.testing.assert_array_equal(found, np.full_like(x, 1 + 2**-10) if tf32 else x)


class SlowLane:
    """A lane that does nothing until somebody waits for it."""

    def __init__(self):
        self.done = 0
        self.waits = 0

    def finish(self, number):
        self.waits += number > self.done
        self.done = max(self.done, number)


def test_pieces_of_the_ring_are_waited_for_when_they_are_handed_out_again_and_not_before():
    lane = SlowLane()
    ring = Staging(lambda nbytes: np.zeros(nbytes, np.uint8), lane)
    count = RING_BYTES // PIECE_BYTES
    for turn in range(3 * count):
        ring.piece(PIECE_BYTES)
        assert lane.done == max(0, turn + 1 - count)
        ring.sent(PIECE_BYTES, turn + 1)
    assert lane.waits == 2 * count


def test_small_pieces_that_are_done_are_forgotten():
    lane = SlowLane()
    ring = Staging(lambda nbytes: np.zeros(nbytes, np.uint8), lane)
    for turn in range(1000):
        ring.piece(4)
        ring.sent(4, turn + 1)
        lane.finish(turn + 1)
    assert len(ring._pieces) == 1
