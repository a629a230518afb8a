"""Groups of devices: each plan runs on one of them, and what it needs is there."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import zyx
from zyx.errors import AllocationError, LaunchError, UnsupportedError, ZyxError
from zyx.runtime.runtime import current

GROUP = "lab:0|lab:1"
MIB = 1 << 20


@pytest.fixture
def devices(lab):
    return lab.device("lab:0"), lab.device("lab:1")


@pytest.fixture
def pools(devices):
    return [device.memory_pool for device in devices]


def values(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def ones(nbytes):
    return zyx.Tensor(np.ones(nbytes // 4, np.float32), device=GROUP)


def set_speed(device, flops_per_s):
    device._info = dataclasses.replace(device.info, flops_per_s=flops_per_s)
    current().device_name(GROUP)  # looks at speeds once, when the group is named


def test_the_fastest_computes_where_nothing_else_differs(devices):
    for fast, slow in (devices, devices[::-1]):
        set_speed(fast, 2e12)
        set_speed(slow, 1e12)
        count = len(fast.launched), len(slow.launched)
        x = zyx.rand(4, 4, device=GROUP)
        np.testing.assert_allclose((x @ x).numpy(), x.numpy() @ x.numpy(), 1e-5)
        assert len(fast.launched) > count[0]
        assert len(slow.launched) == count[1]


def test_work_in_flight_sends_the_next_plan_elsewhere_and_its_end_brings_it_back(devices, pools):
    first, second = devices
    full = first.free_compute
    assert full == first.info.flops_per_s == second.free_compute
    results = [(zyx.arange(64, device=GROUP) * number).realize() for number in range(6)]
    assert first.free_compute < full
    assert abs(pools[0].in_flight - pools[1].in_flight) <= 2  # each went to where less was queued
    assert min(len(device.launched) for device in devices) >= 2
    zyx.synchronize()
    assert first.free_compute == second.free_compute == full
    assert [result[-1].item() for result in results] == [63 * number for number in range(6)]


def test_inputs_weigh_more_than_a_short_wait(devices, pools):
    x = ones(MIB)
    y = (x * 2.0).realize()
    busy = devices[0] if y.node.storage.pool is pools[0] else devices[1]
    launched = len(busy.launched)
    z = (y + x).realize()  # its inputs lie where the device is busy
    assert len(busy.launched) == launched + 1
    assert [pool.copies for pool in pools if pool is not busy.memory_pool] == [[]]
    assert z.sum().item() == 3 * MIB // 4


def test_a_buffer_is_copied_once_to_each_pool_and_not_to_where_it_is(devices, pools):
    x = zyx.Tensor(values(64), device=GROUP)
    assert x.node.storage.pool is pools[0]
    set_speed(devices[0], 1.0)  # now the other one is first
    y, z = (x + 1.0).realize(), (x * 3.0).realize()
    assert [pool.copies for pool in pools] == [[("upload", 256)], [("copy", 256)]]
    w = (y + z).realize()
    assert [pool.copies for pool in pools] == [[("upload", 256)], [("copy", 256)]]
    set_speed(devices[0], 1e15)
    v = (x - 1.0).realize()  # and back: the original is still there
    assert [pool.copies for pool in pools] == [[("upload", 256)], [("copy", 256)]]
    assert v.node.storage.pool is pools[0]
    np.testing.assert_allclose(w.numpy(), values(64) * 4 + 1, 1e-5)
    np.testing.assert_allclose(v.numpy(), values(64) - 1, 1e-5)


def test_a_member_and_its_group_share_memory_but_not_an_operation(devices, pools):
    x = zyx.Tensor(values(16), device=GROUP)
    with pytest.raises(ZyxError, match=r"lab:0\|lab:1.*lab:0|lab:0.*lab:0\|lab:1"):
        x + zyx.Tensor(values(16), device="lab:0")
    pools[0].copies.clear()
    y = (x.to("lab:0") + zyx.ones(16, device="lab:0")).realize()
    assert pools[0].copies == pools[1].copies == []
    z = (y.to("lab:1").to(GROUP) + x).realize()
    np.testing.assert_allclose(z.numpy(), values(16) * 2 + 1, 1e-5)


def test_the_first_with_room_is_taken(devices, pools):
    set_speed(devices[0], 2e12)  # the first choice, as long as there is room
    set_speed(devices[1], 1e12)
    kept = [ones(MIB) for _ in range(6)]  # 4 MiB each
    assert [tensor.node.storage.pool for tensor in kept] == [pools[0]] * 4 + [pools[1]] * 2
    result = (kept[0] + 1.0).realize()
    assert result.node.storage.pool is pools[1]
    assert pools[1].copies[-1] == ("copy", MIB)
    assert result.sum().item() == 2 * MIB // 4


def test_without_a_group_nothing_spills_over_to_another_device(devices, pools):
    assert pools[1].free_bytes == pools[1].capacity
    kept = [zyx.Tensor(np.ones(MIB // 4, np.float32)) for _ in range(4)]  # on the default device, which is full then
    with pytest.raises(AllocationError, match=f"pool lab:0 has no room for {MIB} bytes: 0 bytes are free"):
        zyx.Tensor(np.ones(MIB // 4, np.float32))
    assert [tensor.device for tensor in kept] == ["lab:0"] * 4
    assert pools[1].used == 0


def test_none_with_room_names_all_and_changes_nothing(lab, pools):
    kept = [ones(MIB) for _ in range(7)]
    results = [kept[0] * 2.0, kept[6] * 2.0]
    lab.memory.reclaim()
    used = [pool.used for pool in pools]
    with pytest.raises(AllocationError) as caught:
        zyx.realize(*results)
    text = str(caught.value)
    assert "no device can compute this:\n  lab:" in text
    assert "lab:0 (3145728 bytes of results and inputs from elsewhere, 0 bytes free in pool lab:0)" in text
    assert "lab:1 (3145728 bytes of results and inputs from elsewhere, 1048576 bytes free in pool lab:1)" in text
    assert "pool lab:0 has no room for 1048576 bytes" in text
    assert isinstance(caught.value.__cause__, AllocationError)
    assert not any(result.is_realized for result in results)
    del caught  # its traceback holds what was there when it was raised
    lab.memory.reclaim()
    assert [pool.used for pool in pools] == used
    with pytest.raises(
        AllocationError, match=r"no device of lab:0\|lab:1 has room for 2097152 bytes:\n  lab:.*\n  lab:"
    ):
        ones(2 * MIB)
    del kept[1:6]
    assert [result.sum().item() for result in results] == [MIB // 2] * 2


def test_copies_are_dropped_before_memory_runs_out(lab, devices, pools):
    x = ones(MIB)
    set_speed(devices[0], 1.0)
    total = (x + 1.0).sum().item()
    assert pools[1].used >= MIB
    lab.memory.reclaim()
    large = zyx.Tensor(np.ones(15 * MIB // 16, np.float32), device="lab:1")  # nearly all of it
    assert large.sum().item() == 15 * MIB // 16
    assert (total, x.sum().item()) == (2 * MIB // 4, MIB // 4)


def test_a_device_that_cannot_leaves_it_to_the_next(lab, devices):
    set_speed(devices[0], 2e15)
    devices[0].fails_in_compile = "sum"
    x = zyx.Tensor(values(8), device=GROUP)
    y = x.sum().realize()
    assert y.node.storage.pool.name == "lab:1"
    np.testing.assert_allclose(y.item(), values(8).sum(), 1e-5)
    devices[1].fails_in_compile = "max"
    devices[0].fails_in_compile = "max"
    with pytest.raises(UnsupportedError, match=r"no device can compute this:\n  lab:0 .*not with this device\n  lab:1"):
        x.max().realize()
    devices[0].fails_in_compile = None
    assert x.max().item() == values(8).max()


def test_a_failed_launch_is_an_error_and_not_a_reason_to_go_elsewhere(devices):
    x = zyx.Tensor(values(8), device=GROUP)
    devices[0].fails_in_launch = "sum"
    with pytest.raises(LaunchError, match="refused"):
        x.sum().realize()
    assert devices[1].launched == []
    devices[0].fails_in_launch = None
    np.testing.assert_allclose(x.sum().item(), values(8).sum(), 1e-5)


def test_empty_tensors_and_files(lab, devices, tmp_path):
    assert zyx.zeros((0, 3), device=GROUP).sum(axis=0).tolist() == [0.0] * 3
    assert zyx.Tensor(np.zeros((2, 0), np.float32), device=GROUP).numpy().shape == (2, 0)
    values(10, 4).tofile(tmp_path / "numbers")
    x = zyx.Tensor.from_file(tmp_path / "numbers", "float32", (10, 4), device=GROUP)
    np.testing.assert_allclose((x[2:4] + 1.0).numpy(), values(10, 4)[2:4] + 1)
    set_speed(devices[0], 1.0)
    np.testing.assert_allclose((x + 1.0).numpy(), values(10, 4) + 1)


class TestTraced:
    def test_a_trace_runs_on_one_device_wherever_its_inputs_are(self, devices, pools):
        @zyx.jit
        def double(x):
            return x * 2.0

        x = zyx.Tensor(values(16), device=GROUP)
        assert (double(x).numpy() == values(16) * 2).all()
        (trace,) = double.traces
        (target,) = {step.device for step in trace.plan.steps}
        other = devices[1] if target is devices[0] else devices[0]
        set_speed(other, 1e15)
        y = zyx.Tensor(values(16, seed=2), device=GROUP)
        assert y.node.storage.pool is other.memory_pool
        for _ in range(3):
            assert (double(y).numpy() == values(16, seed=2) * 2).all()
        assert target.memory_pool.copies.count(("copy", 64)) == 1
        assert double.traces == [trace]

    def test_what_is_stored_over_has_no_old_copies(self, lab, devices, pools):
        weight = zyx.Tensor(values(16), device=GROUP)
        assert weight.node.storage.pool is pools[0]
        set_speed(devices[1], 1e15)
        other = (weight + 0.5).realize()  # there is a copy in the other pool now
        set_speed(devices[1], 1e12)
        set_speed(devices[0], 1e15)

        @zyx.jit
        def step():
            weight.assign(weight + 1.0)

        expected = values(16)
        for place in (0, 1, 0, 1):
            step()
            expected = expected + 1
            set_speed(devices[place], 1.0)
            set_speed(devices[1 - place], 1e15)
            np.testing.assert_allclose((weight * 1.5).numpy(), expected * 1.5, 1e-6)
        np.testing.assert_allclose(other.numpy(), values(16) + 0.5, 1e-6)

    def test_a_network_is_trained_in_a_group_as_on_one_device(self, lab):
        def losses(device):
            with zyx.device(device):
                zyx.manual_seed(3)
                network = zyx.nn.Sequential(zyx.nn.Linear(6, 5), zyx.nn.Tanh(), zyx.nn.Linear(5, 2))
                optimizer = zyx.optim.Adam(network.parameters(), lr=0.05)
                x, y = zyx.Tensor(values(9, 6)), zyx.Tensor(values(9, 2))

                def step():
                    with zyx.Tape() as tape:
                        loss = ((network(x) - y) ** 2).mean()
                    optimizer.step(tape.gradient(loss, optimizer.params))
                    return loss

                traced = zyx.jit(step)
                return [step().item(), step().item(), *[traced().item() for _ in range(3)], step().item()]

        found = losses(GROUP)
        np.testing.assert_allclose(found, losses("lab:0"), 1e-5)
        assert found[-1] < found[0]


def test_every_pool_is_empty_at_the_end(lab, pools):
    x = zyx.Tensor(values(64), device=GROUP)
    results = [(x * float(i)).realize() for i in range(8)]
    total = zyx.stack(results).sum()
    np.testing.assert_allclose(total.item(), 28 * values(64).sum(), 1e-3)
    del x, results, total
    lab.drop_plans()
    lab.memory.reclaim()
    assert [pool.used for pool in pools] == [0, 0]
    assert lab.memory.live_bytes == 0
