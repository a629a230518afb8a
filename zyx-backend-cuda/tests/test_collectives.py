"""Exchanges between devices by NCCL, on two paper devices of one process."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from fake_driver import FakeSession, fake_cuda
from fake_nccl import (
    INVALID_ARGUMENT,
    INVALID_USAGE,
    REMOTE_ERROR,
    SYSTEM_ERROR,
    UNHANDLED_CUDA_ERROR,
    FakeNccl,
)

from zyx import dtype as dtypes
from zyx.backend import Launch, Slot
from zyx.backend.collectives import Exchange, ExchangeError, ExchangeKind, ExchangeTimeoutError
from zyx.drivers.nccl import IDENTIFIER_BYTES, Communicator, Nccl, NcclError
from zyx.errors import CollectiveError, CollectiveTimeoutError, UnsupportedError
from zyx.ops import ReduceOp
from zyx.testing.launching import download, upload
from zyx.testing.opening import open_runtime
from zyx_backend_cuda.collectives import group_of, identifier
from zyx_backend_cuda.libraries import load_library

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zyx.backend import Event
    from zyx.runtime.runtime import Runtime
    from zyx_backend_cuda.collectives import CudaGroup
    from zyx_backend_cuda.device import CudaDevice
    from zyx_backend_cuda.memory import CudaBuffer

SUM, F32 = ReduceOp.SUM, dtypes.float32


@pytest.fixture
def sessions() -> list[FakeSession]:
    return [FakeSession("First"), FakeSession("Second")]


@pytest.fixture
def nccl(sessions: list[FakeSession]) -> FakeNccl:
    return FakeNccl(sessions)


@pytest.fixture
def runtime(sessions: list[FakeSession], nccl: FakeNccl, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    """A runtime on two paper devices: nothing of the library may be left when that is closed."""
    with fake_cuda(monkeypatch, sessions, nccl=nccl):
        opened = open_runtime("cuda")
        yield opened
        opened.close()
    assert not nccl.violations
    assert not nccl.members


def devices_of(runtime: Runtime) -> list[CudaDevice]:
    return [runtime.device(f"cuda:{number}") for number in range(2)]  # type: ignore[misc]


def connected(runtime: Runtime, timeout_s: float = 5.0) -> CudaGroup:
    devices = devices_of(runtime)
    group = group_of(devices, [0, 1], 2, identifier(devices, is_first=True), timeout_s)
    group.connect()
    return group


def alone(runtime: Runtime, nccl: FakeNccl, timeout_s: float = 0.2) -> tuple[CudaGroup, CudaDevice]:
    """Return the first of two members, of which the other does not come."""
    nccl.waits = False
    device = devices_of(runtime)[0]
    group = group_of([device], [0], 2, identifier([device], is_first=True), timeout_s)
    group.connect()
    return group, device


def uploaded(group: CudaGroup, *arrays: np.ndarray) -> list[CudaBuffer]:
    return [upload(pool, array) for pool, array in zip(group.pools, arrays, strict=True)]  # type: ignore[misc]


def read(group: CudaGroup, buffers: list[CudaBuffer], like: np.ndarray) -> list[list[float]]:
    return [download(pool, buffer, like).tolist() for pool, buffer in zip(group.pools, buffers, strict=True)]


A, B = np.array([1.0, 2.0, 3.0, 4.0], np.float32), np.array([10.0, 20.0, 30.0, 40.0], np.float32)
WIDE, HALF = np.zeros(8, np.float32), np.zeros(2, np.float32)


@pytest.mark.parametrize(
    ("kind", "op", "length", "like", "wanted"),
    [
        (ExchangeKind.ALL_REDUCE, SUM, 4, A, [[11, 22, 33, 44]] * 2),
        (ExchangeKind.ALL_REDUCE, ReduceOp.PROD, 4, A, [[10, 40, 90, 160]] * 2),
        (ExchangeKind.ALL_REDUCE, ReduceOp.MAX, 4, A, [B.tolist()] * 2),
        (ExchangeKind.ALL_REDUCE, ReduceOp.MIN, 4, A, [A.tolist()] * 2),
        (ExchangeKind.REDUCE_SCATTER, SUM, 2, HALF, [[11, 22], [33, 44]]),
        (ExchangeKind.ALL_GATHER, None, 4, WIDE, [[*A, *B]] * 2),
        (ExchangeKind.BROADCAST, None, 4, A, [B.tolist()] * 2),
        (ExchangeKind.ALL_TO_ALL, None, 2, A, [[1, 2, 10, 20], [3, 4, 30, 40]]),
    ],
)
def test_two_devices_exchange(
    runtime: Runtime, kind: ExchangeKind, op: ReduceOp | None, length: int, like: np.ndarray, wanted: list[list[float]]
):
    group = connected(runtime)
    assert (group.name, group.ranks, group.size) == ("NCCL 2.28.9", (0, 1), 2)
    sources, targets = uploaded(group, A, B), uploaded(group, like, like)
    events = group.run(Exchange(kind, F32, length, op, peer=int(kind is ExchangeKind.BROADCAST)), sources, targets)
    for pool, event in zip(group.pools, events, strict=True):
        pool.sync_events([event])
    assert read(group, targets, like) == wanted


def test_an_exchange_waits_for_the_events_that_it_is_given(runtime: Runtime):
    group = connected(runtime)
    sources, targets = uploaded(group, B, A), uploaded(group, A, A)
    events = [
        [pool.host_to_pool(memoryview(data).cast("B"), source)]
        for pool, source, data in zip(group.pools, sources, (A, B), strict=True)
    ]
    events = [[event] for event in group.reduce(SUM, 1, F32, 4, sources, targets, events)]
    events = [[event] for event in group.broadcast(1, F32, 4, targets, targets, events)]
    for pool, each in zip(group.pools, events, strict=True):
        pool.sync_events(each)
    assert read(group, targets, A) == [[11, 22, 33, 44]] * 2


def test_what_is_not_reduced_is_refused_and_several_devices_have_no_program(runtime: Runtime):
    group = connected(runtime)
    sources = uploaded(group, A, B)
    with pytest.raises(UnsupportedError, match="all_reduce sum of int16"):
        group.all_reduce(SUM, dtypes.int16, 4, sources, sources)
    with pytest.raises(UnsupportedError, match="run it"):
        group.prepare(Exchange(ExchangeKind.ALL_REDUCE, F32, 4, SUM))


def test_exchanges_are_part_of_captured_graphs(
    runtime: Runtime, sessions: list[FakeSession], nccl: FakeNccl, monkeypatch: pytest.MonkeyPatch
):
    devices = devices_of(runtime)
    name = identifier(devices, is_first=True)
    nccl.waits = False
    groups = [group_of([device], [rank], 2, name, 5.0) for rank, device in enumerate(devices)]
    exchange = Exchange(ExchangeKind.ALL_REDUCE, F32, 4, SUM)
    programs, buffers = [], []
    for group, device, data in zip(groups, devices, (A, B), strict=True):
        group.connect()
        program = group.prepare(exchange)
        assert program is group.prepare(exchange)
        state = upload(device.pool, np.zeros(1, np.uint8))
        # the sum of sums: target = all_reduce(source), source = all_reduce(target)
        launches = [
            Launch(program, (Slot(0), Slot(2), Slot(1), Slot(2))),
            Launch(program, (Slot(1), Slot(2), Slot(0), Slot(2))),
        ]
        programs.append(device.capture(launches, 3))
        buffers.append([upload(device.pool, data), upload(device.pool, data), state])
    for _ in range(3):
        for device, program, args in zip(devices, programs, buffers, strict=True):
            device.launch(program, args)
    for device, args in zip(devices, buffers, strict=True):
        device.pool.synchronize()
        assert download(device.pool, args[1], A).tolist() == [11 * 32, 22 * 32, 33 * 32, 44 * 32]
    assert sessions[0].calls.count("capture") == 1
    assert sessions[0].calls.count("play") == 2
    assert nccl.counts["AllReduce"] == 2 * (2 + 2)  # queued by themselves, and captured


def test_without_the_library_its_package_is_named(sessions: list[FakeSession], monkeypatch: pytest.MonkeyPatch):
    with fake_cuda(monkeypatch, sessions):
        runtime = open_runtime("cuda")
        with pytest.raises(UnsupportedError, match=r"pip install 'zyx-backend-cuda\[nccl\]'"):
            runtime.backends.collectives_identifier(devices_of(runtime)[:1], is_first=False)
        runtime.close()


def test_a_library_that_makes_no_group_is_refused(runtime: Runtime, nccl: FakeNccl):
    nccl.refusals["GetUniqueId"] = [SYSTEM_ERROR]
    with pytest.raises(UnsupportedError, match=r"NCCL 2\.28\.9 makes no group: ncclGetUniqueId: ncclSystemError"):
        runtime.backends.collectives_identifier(devices_of(runtime)[:1], is_first=True)
    assert runtime.backends.collectives_identifier(devices_of(runtime)[:1], is_first=False) == b"NCCL 2.28.9"
    with pytest.raises(UnsupportedError, match="the first member has no NCCL"):
        runtime.backends.collectives(devices_of(runtime)[:1], [1], 2, b"RCCL", 1.0)


def test_members_that_cannot_connect_say_so(runtime: Runtime, nccl: FakeNccl):
    nccl.refusals["CommInitRank"] = [SYSTEM_ERROR, SYSTEM_ERROR]
    with pytest.raises(ExchangeError, match=r"cannot connect cuda:0, cuda:1: ncclCommInitRank: ncclSystemError"):
        connected(runtime)


def test_members_that_do_not_come_are_not_waited_for_for_ever(runtime: Runtime, nccl: FakeNccl):
    device = devices_of(runtime)[0]
    group = group_of([device], [0], 2, identifier([device], is_first=True), 0.05)
    with pytest.raises(ExchangeTimeoutError, match=r"has waited 0\.05 s to connect cuda:0 with all 2 members"):
        group.connect()
    nccl.waits = False  # lets the thread end
    while not nccl.members:
        time.sleep(1e-3)
    nccl.members.clear()  # nobody knows of it


def launched(group: CudaGroup, device: CudaDevice) -> Event:
    target, state = upload(device.pool, A), upload(device.pool, np.zeros(1, np.uint8))
    program = group.prepare(Exchange(ExchangeKind.ALL_REDUCE, F32, 4, SUM))
    return device.launch(program, [target, state, upload(device.pool, A), state])


def test_an_exchange_that_is_refused_ends_the_group(runtime: Runtime, nccl: FakeNccl):
    group, device = alone(runtime, nccl)
    nccl.refusals["AllReduce"] = [INVALID_USAGE]
    with pytest.raises(
        CollectiveError, match=r"NCCL 2\.28\.9 refused all_reduce sum of float32\[4\].*ncclInvalidUsage"
    ):
        launched(group, device)
    with pytest.raises(CollectiveError, match="ncclInvalidUsage"):
        launched(group, device)


def test_waits_tell_what_the_library_says_of_exchanges(runtime: Runtime, nccl: FakeNccl):
    group, device = alone(runtime, nccl, timeout_s=0)
    event = launched(group, device)
    (member,) = nccl.members.values()
    member.failure = REMOTE_ERROR
    with pytest.raises(ExchangeError, match=r"NCCL 2\.28\.9, rank 0 of 2: ncclRemoteError, what status 6 is"):
        device.pool.sync_events([event])
    assert nccl.counts["CommAbort"] == 1
    with pytest.raises(ExchangeError, match="ncclRemoteError"):
        device.pool.synchronize()


def test_waits_end_at_the_time_limit(runtime: Runtime, nccl: FakeNccl):
    group, device = alone(runtime, nccl)
    event = launched(group, device)
    with pytest.raises(CollectiveTimeoutError, match=r"nothing was done for 0\.2 s.*the limit is 0\.2 s"):
        device.pool.sync_events([event])
    assert nccl.counts["CommAbort"] == 1
    group.close()
    assert nccl.counts["CommDestroy"] == 0
    device.pool.synchronize()


def test_work_that_goes_on_is_not_taken_for_a_failure(runtime: Runtime, nccl: FakeNccl):
    group, device = alone(runtime, nccl, timeout_s=0.2)
    since = time.monotonic() - 10
    device.pool.session.runs_when_asked = True
    with device.pool.session:
        device.pool.compute.queued("something")
        device.pool.compute.mark()
    assert group.watch(since) > since + 9
    with pytest.raises(CollectiveTimeoutError):
        group.watch(since)


def test_the_library_itself_is_called_as_it_is_declared():
    native = load_library("nccl", (2,))
    if native is None:
        pytest.skip("NCCL is not installed: pip install nvidia-nccl-cu13")
    library = Nccl(native, "NCCL")
    name = library.identifier()
    assert len(name) == IDENTIFIER_BYTES
    assert library.identifier() != name
    # Member 5 of 2; and where there is no driver, that is what it says.
    with pytest.raises(NcclError, match=r"ncclCommInitRank: nccl(InvalidArgument|UnhandledCudaError)") as refused:
        Communicator(library, 2, name, 5)
    assert refused.value.status in (INVALID_ARGUMENT, UNHANDLED_CUDA_ERROR)
