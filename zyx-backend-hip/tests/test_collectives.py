"""Exchanges between devices by RCCL, on the two fake devices and a library of paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from fake_rccl import REMOTE_ERROR, UNSUPPORTED, FakeRccl

from zyx import dtype as dtypes
from zyx.backend.collectives import ExchangeError, ExchangeTimeoutError
from zyx.errors import UnsupportedError
from zyx.ops import ReduceOp
from zyx.testing.launching import download, upload
from zyx_backend_hip import libraries
from zyx_backend_hip.collectives import group_of, identifier
from zyx_backend_hip.errors import NOT_READY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fake_hip import Fake

    from zyx.runtime.runtime import Runtime
    from zyx_backend_hip.collectives import HipGroup

SUM, F32 = ReduceOp.SUM, dtypes.float32
A, B = np.array([1.0, 2.0, 3.0], np.float32), np.array([10.0, 20.0, 30.0], np.float32)


@pytest.fixture
def rccl(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> FakeRccl:
    library = FakeRccl(fake)
    load = libraries.load
    monkeypatch.setattr(libraries, "load", lambda name, *rest: library if name == "rccl" else load(name, *rest))
    return library


@pytest.fixture
def runtime(fresh: Callable[..., Runtime]) -> Runtime:
    return fresh()


@pytest.fixture
def group(rccl: FakeRccl, runtime: Runtime) -> Iterator[HipGroup]:
    devices = [runtime.device(f"hip:{number}") for number in range(2)]
    made = group_of(devices, [0, 1], 2, identifier(devices, is_first=True), 0.1)
    made.connect()
    yield made
    made.close()
    assert not rccl.members


def added(group: HipGroup) -> list[list[float]]:
    buffers = [upload(pool, data) for pool, data in zip(group.pools, (A, B), strict=True)]
    events = [[pool.completed()] for pool in group.pools]
    done = group.all_reduce(SUM, F32, 3, buffers, buffers, events)
    for pool, event in zip(group.pools, done, strict=True):
        pool.sync_events([event])
    return [download(pool, buffer, A).tolist() for pool, buffer in zip(group.pools, buffers, strict=True)]


def test_two_devices_add_up(group: HipGroup):
    assert group.name == "RCCL 2.27.3"
    assert added(group) == [[11.0, 22.0, 33.0]] * 2


def test_an_exchange_that_is_refused_ends_the_group(group: HipGroup, rccl: FakeRccl):
    rccl.refusals["ncclAllReduce"] = UNSUPPORTED
    with pytest.raises(ExchangeError, match=r"RCCL 2\.27\.3 refused all_reduce sum of float32\[3\]"):
        added(group)


def test_waits_tell_what_the_library_says_and_end_at_the_limit(
    group: HipGroup, rccl: FakeRccl, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(group.pools[0].session, "is_complete", lambda event: NOT_READY)
    rccl.failure = REMOTE_ERROR
    with pytest.raises(ExchangeError, match="ncclRemoteError"):
        added(group)
    monkeypatch.undo()
    assert rccl.counts["ncclCommAbort"] == 2


def test_waits_end_at_the_limit(group: HipGroup, rccl: FakeRccl, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(group.pools[0].session, "is_complete", lambda event: NOT_READY)
    with pytest.raises(ExchangeTimeoutError, match=r"rank 0, 1 of 2: nothing was done for 0\.1 s"):
        added(group)
    monkeypatch.undo()
    assert rccl.counts["ncclCommAbort"] == 2


def test_without_the_library_it_is_said_what_brings_it(runtime: Runtime):
    with pytest.raises(UnsupportedError, match="the library rccl is not there"):
        runtime.backends.collectives_identifier([runtime.device("hip:0")], is_first=True)
