"""Two devices with memories of their own: copies, and order between them."""

from __future__ import annotations

import numpy as np
import pytest

import zyx
from zyx.errors import AllocationError, LaunchError, NoDeviceError
from zyx.testing.faults import Faults


def values(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def test_each_computes_its_own(lab):
    a = values(3, 4)
    here, there = zyx.Tensor(a, device="lab:0"), zyx.Tensor(a, device="lab:1")
    assert (here * 2.0).realize().device == "lab:0"
    np.testing.assert_allclose((here * 2.0).numpy(), (there * 2.0).numpy())
    assert lab.device("lab:0").launched
    assert lab.device("lab:1").launched


def test_operands_on_two_devices_are_refused(lab):
    with pytest.raises(zyx.errors.ZyxError, match=r"lab:0.*lab:1"):
        zyx.Tensor([1.0], device="lab:0") + zyx.Tensor([1.0], device="lab:1")


def test_one_graph_may_go_back_and_forth(lab):
    a = values(8, 8)
    x = zyx.Tensor(a, device="lab:0")
    y = (x @ x).to("lab:1").tanh()
    z = (y.sum(axis=0).to("lab:0") + x.sum(axis=1)).to("lab:1") * 2.0
    expected = 2 * (np.tanh(a @ a).sum(0) + a.sum(1))
    assert z.device == "lab:1"
    np.testing.assert_allclose(z.numpy(), expected, 1e-4)


def test_what_is_copied_is_no_more_than_the_value_where_its_memory_was_another_s_before(lab):
    w, x = values(5, 3), values(6, 5)
    weight = zyx.Tensor(w, device="lab:0")
    with zyx.Tape() as tape:
        loss = (zyx.Tensor(x, device="lab:1") @ weight.to("lab:1")).sum().to("lab:0")
    gradient = tape.gradient(loss, weight)  # between, the loss, and the product of a matrix, are copied back
    np.testing.assert_allclose(gradient.numpy(), np.repeat(x.sum(0)[:, None], 3, axis=1), 1e-5)
    np.testing.assert_allclose(loss.item(), (x @ w).sum(), 1e-4)


def test_a_copy_waits_for_its_source_and_its_source_for_the_copy(lab):
    x = zyx.Tensor(values(16), device="lab:0")
    for number in range(4):
        y = (x + float(number)).realize()
        copy = y.to("lab:1").realize()
        expected = y.numpy() if number % 2 else None
        del y  # the next one gets its memory, which is to be copied first
        z = (x * 100.0).realize()
        found = copy.numpy()
        np.testing.assert_allclose(found, x.numpy() + number, 1e-6)
        assert expected is None or (found == expected).all()
        np.testing.assert_allclose(z.numpy(), x.numpy() * 100)


def test_nothing_is_copied_to_where_it_is(lab):
    pool = lab.device("lab:0").memory_pool
    x = zyx.Tensor(values(4)).realize()
    pool.copies.clear()
    assert x.to("lab:0").tolist() == x.tolist()
    assert pool.copies == []


def test_what_is_needed_twice_there_is_copied_once(lab):
    pool = lab.device("lab:1").memory_pool
    x = zyx.Tensor(values(32)).realize()
    moved = x.to("lab:1")
    zyx.realize(moved + 1.0, moved * 2.0)
    assert pool.copies == [("copy", 128)]


def test_to_and_from_host_memory(lab):
    x = zyx.Tensor(values(6), device="interpreter")
    y = (x.to("lab:0") * 2.0).to("interpreter") + x
    np.testing.assert_allclose(y.numpy(), x.numpy() * 3, 1e-6)


def test_transfers_are_one_copy_where_there_is_a_direct_path_else_through_the_host(lab):
    pool = lab.device("lab:1").memory_pool
    x = zyx.Tensor(values(32)).realize()
    assert (x.to("lab:1").numpy() == values(32)).all()
    assert pool.copies == [("copy", 128)]
    pool.has_direct_path = False
    assert (x.to("lab:1").numpy() == values(32)).all()
    assert pool.copies == [("copy", 128), ("copy", 128), ("upload", 128)]


@pytest.mark.parametrize("has_direct_path", [True, False])
def test_the_source_is_kept_until_it_was_copied(lab, has_direct_path):
    source, target = (lab.device(name).memory_pool for name in ("lab:0", "lab:1"))
    target.has_direct_path = has_direct_path
    x = (zyx.Tensor(values(32)) + 1.0).realize()
    y = x.to("lab:1").realize()
    assert target.in_flight == has_direct_path  # one that goes through the host is over when it returns
    before = source.used
    del x
    lab.memory.reclaim()  # gives the memory back, which becomes garbage
    assert source.used < before
    np.testing.assert_allclose(y.numpy(), values(32) + 1, 1e-6)


def test_a_plan_over_two_devices_is_queued_and_not_waited_for(lab):
    first, second = (lab.device(name).memory_pool for name in ("lab:0", "lab:1"))
    x = zyx.Tensor(values(8, 8)).realize()
    lab.synchronize()
    y = ((x @ x).to("lab:1").tanh() * 2.0).sum(axis=0).realize()
    assert (first.in_flight, second.in_flight) == (1, 2)  # the product; its copy, and the sum
    np.testing.assert_allclose(y.numpy(), 2 * np.tanh(values(8, 8) @ values(8, 8)).sum(0), 1e-4)
    assert (first.in_flight, second.in_flight) == (0, 0)


def test_a_failure_on_one_device_is_one_of_what_was_made_of_it_on_the_other(lab):
    first, second = lab.device("lab:0"), lab.device("lab:1")
    x = zyx.Tensor(values(8))
    first.fails_while_running = ""  # whatever it is called
    y = ((x + 1.0).contiguous().to("lab:1") * 2.0).realize()
    for _ in range(2):
        with pytest.raises(LaunchError, match="on lab:0: failed while running"):
            y.numpy()
    first.fails_while_running = None
    assert second.launched
    np.testing.assert_allclose((x.to("lab:1") * 2.0).numpy(), values(8) * 2, 1e-6)


@pytest.mark.parametrize("where", ["lab:0", "lab:1"])
def test_memory_that_runs_out_on_one_device_leaves_nothing_on_the_other(lab, where):
    pools = [lab.device(name).memory_pool for name in ("lab:0", "lab:1")]
    x = zyx.Tensor(values(1 << 18)).realize()  # 1 of 4 MiB
    lab.memory.reclaim()
    used = [pool.used for pool in pools]
    y = (x * 2.0).contiguous().to("lab:1") + 1.0
    lab.device(where).memory_pool.capacity = used[where == "lab:1"] + 1000
    with pytest.raises(AllocationError, match=f"pool {where} has no room for 1048576 bytes: 1000 bytes are free"):
        y.realize()
    assert not y.is_realized
    lab.memory.reclaim()
    assert [pool.used for pool in pools] == used
    lab.device(where).memory_pool.capacity = 1 << 22
    np.testing.assert_allclose(y.numpy(), values(1 << 18) * 2 + 1, 1e-6)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_memory_that_runs_out_in_the_middle_of_a_plan_is_given_back(lab, number):
    pools = [lab.device(name).memory_pool for name in ("lab:0", "lab:1")]
    x = zyx.Tensor(values(64, 64)).realize()
    lab.memory.reclaim()
    used = [pool.used for pool in pools]

    def compute():
        y = ((x @ x).contiguous() @ x).to("lab:1")
        return [((y @ y).contiguous() @ y).to("lab:0"), y.sum(axis=0)]

    results = compute()
    with Faults(lab.device("lab:1")) as faults:
        with faults.failing("launch", number, error=AllocationError), pytest.raises(AllocationError, match="lab:1"):
            zyx.realize(*results)
        assert faults.calls["launch"] == number
    assert not any(result.is_realized for result in results)
    lab.memory.reclaim()
    assert [pool.used for pool in pools] == used
    y = values(64, 64) @ values(64, 64) @ values(64, 64)
    for result, expected in zip(results, (y @ y @ y, y.sum(0)), strict=True):
        np.testing.assert_allclose(result.numpy(), expected, 1e-3, 1e-3 * np.abs(expected).max())


def test_every_pool_is_empty_at_the_end(lab):
    x = zyx.Tensor(values(64), device="lab:0")
    y = (x.to("lab:1") * 2.0).to("lab:0") + x
    y.numpy()
    del x, y
    lab.drop_plans()
    lab.memory.reclaim()
    assert [pool.used for name, pool in lab.backends.pools.items() if name.startswith("lab")] == [0, 0]
    assert lab.memory.live_bytes == 0


def test_what_a_device_is_and_can_do_is_told(interpreter):
    info = zyx.device_info("interpreter")
    assert info is interpreter.device("interpreter").info is zyx.device_info()
    assert info.can_store(zyx.float64)
    assert info.can_compute(zyx.int8)
    with pytest.raises(NoDeviceError):
        zyx.device_info("nothing")
