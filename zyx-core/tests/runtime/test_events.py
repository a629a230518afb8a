"""Asynchronous work: what is forgotten to be waited for is noticed, because nothing is done before it must."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from meanings.formulas import softmax

import zyx
from zyx.errors import LaunchError


def test_chains_of_kernels_wait_for_each_other(lab, device):
    x = zyx.Tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
    y = (x * 2.0).realize()
    z = (y.sum(axis=0) + 1.0).realize()
    assert len(device.launched) == 2
    assert z.tolist() == [25.0, 31.0, 37.0, 43.0]


def test_one_plan_of_many_steps_keeps_its_order(lab):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 16, 16)).astype(np.float32)
    x, y = zyx.Tensor(a), zyx.Tensor(b)
    for _ in range(3):
        x = (x @ y).softmax() @ y + x
        a = softmax(a @ b, 1) @ b + (x.numpy() * 0)
    assert np.isfinite(x.numpy()).all()


def test_an_array_may_be_changed_as_soon_as_a_tensor_was_made_of_it(lab):
    array = np.arange(6, dtype=np.float32)
    x = zyx.Tensor(array)
    array[:] = -1
    assert x.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_temporary_array_lives_until_it_is_uploaded(lab):
    x = zyx.Tensor(np.arange(600, dtype=np.float64)[::3], dtype="float32")  # converted: an array of our own
    y = (x + 1.0).realize()
    gc.collect()
    np.full(200, np.nan, np.float32)
    assert y[:3].tolist() == [1.0, 4.0, 7.0]


def test_memory_of_the_dead_is_used_again_only_after_the_work_on_it(lab, pool):
    x = zyx.Tensor(np.arange(8, dtype=np.float32))
    y = (x + 1.0).realize()
    del x  # its memory is what the next tensor of this size gets, while `y` still has to read it
    z = zyx.Tensor(np.full(8, 7, np.float32))
    assert pool.used <= 3 * 32
    assert z.tolist() == [7] * 8
    assert y.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]


def test_overwriting_state_waits_for_those_who_read_it(lab):
    weight = zyx.Tensor(np.zeros(4, np.float32))

    @zyx.jit
    def step(x):
        loss = (weight * x).sum()
        weight.assign(weight + x)
        return loss

    x = zyx.Tensor(np.ones(4, np.float32))
    losses = [step(x) for _ in range(6)]
    assert [loss.item() for loss in losses] == [0, 4, 8, 12, 16, 20]
    assert weight.tolist() == [6] * 4


def test_synchronize_does_everything(lab, pool):
    values = [(zyx.Tensor(np.ones(4, np.float32)) * float(i)).realize() for i in range(5)]
    assert any(work.action is not None for work in pool.queued)
    zyx.synchronize()
    assert not any(work.action is not None for work in pool.queued)
    assert [value.sum().item() for value in values] == [0, 4, 8, 12, 16]


def test_random_programs_have_the_values_they_have_when_done_step_by_step(lab):
    rng = np.random.default_rng(3)
    for seed in range(12):
        choose = np.random.default_rng(seed)
        tensors = [zyx.Tensor(rng.standard_normal((6, 6)).astype(np.float32)) for _ in range(3)]
        arrays = [np.array(tensor.numpy(), np.float64) for tensor in tensors]
        for _ in range(25):
            i, j = choose.integers(len(tensors), size=2)
            match choose.integers(6):
                case 0:
                    tensors.append((tensors[i] + tensors[j]) * 0.5)
                    arrays.append((arrays[i] + arrays[j]) * 0.5)
                case 1:
                    tensors.append((tensors[i] @ tensors[j]).tanh())
                    arrays.append(np.tanh(arrays[i] @ arrays[j]))
                case 2:
                    tensors.append(tensors[i] - tensors[i].max(axis=1, keepdims=True))
                    arrays.append(arrays[i] - arrays[i].max(1, keepdims=True))
                case 3:
                    tensors[i].realize()
                case 4 if len(tensors) > 3:
                    del tensors[i], arrays[i]
                case _:
                    array = rng.standard_normal((6, 6)).astype(np.float32)
                    tensors.append(zyx.Tensor(array))
                    arrays.append(np.array(array, np.float64))
                    array[:] = np.nan
        for tensor, array in zip(tensors, arrays, strict=True):
            np.testing.assert_allclose(tensor.numpy(), array, 1e-3, 1e-3)


class TestFailures:
    def test_work_that_fails_later_is_an_error_at_every_read(self, lab, device):
        device.fails_while_running = "binary"
        y = (zyx.Tensor(np.ones(4, np.float32)) + 1.0).realize()
        for _ in range(2):
            with pytest.raises(LaunchError, match="kernel binary_4 on lab:0: failed while running"):
                y.numpy()

    def test_what_was_made_of_it_fails_too(self, lab, device):
        device.fails_while_running = "binary"
        x = zyx.Tensor(np.ones((4, 4), np.float32))
        y = (x + 1.0).realize()
        z = (y @ y).realize()
        device.fails_while_running = None
        for _ in range(2):
            with pytest.raises(LaunchError, match="failed while running"):
                z.numpy()
        with pytest.raises(LaunchError, match="failed while running"):
            (y * 2.0).numpy()

    def test_an_error_holds_no_memory(self, lab, device, pool):
        x = zyx.Tensor(np.ones(4, np.float32))
        lab.memory.reclaim()
        used = pool.used
        device.fails_while_running = "binary"
        y = (x + 1.0).realize()
        depths = []
        gc.disable()  # whatever is in a cycle stays
        try:
            for _ in range(3):
                with pytest.raises(LaunchError, match="failed while running") as caught:
                    y.numpy()
                depths.append(len(caught.traceback))
                del caught
            del y
            lab.memory.reclaim()
            assert pool.used == used
        finally:
            gc.enable()
        assert depths[1] == depths[2]

    def test_others_are_not_concerned(self, lab, device):
        device.fails_while_running = "binary"
        x = zyx.Tensor(np.ones(4, np.float32))
        y = (x + 1.0).realize()
        with pytest.raises(LaunchError):
            y.numpy()
        device.fails_while_running = None
        assert x.tolist() == [1] * 4
        del y
        for _ in range(3):
            assert (x + 2.0).tolist() == [3] * 4

    def test_a_launch_that_is_refused_leaves_its_operands_as_they_were(self, lab, device, pool):
        x = zyx.Tensor(np.arange(200, dtype=np.float64)[::2], dtype="float32")  # its upload is still to be done
        device.fails_in_launch = "sum"
        y = x.sum()
        for _ in range(2):
            with pytest.raises(LaunchError, match="refused"):
                y.realize()
            assert not y.is_realized
        device.fails_in_launch = None
        assert x[:3].tolist() == [0, 2, 4]
        assert y.item() == 9900

    def test_a_traced_function_works_again(self, lab, device):
        weight = zyx.Tensor(np.ones((8, 8), np.float32))

        @zyx.jit
        def step(x):
            return ((x @ weight).contiguous() @ weight).sum()

        x = zyx.Tensor(np.ones((8, 8), np.float32))
        assert step(x).item() == 8**4
        device.fails_while_running = "sum"
        failed = step(x)
        with pytest.raises(LaunchError):
            failed.item()
        device.fails_while_running = None
        assert [step(x).item() for _ in range(4)] == [8**4] * 4
        assert weight.sum().item() == 64

    def test_a_plan_that_fails_half_way_keeps_nothing(self, lab, device, pool):
        x = zyx.Tensor(np.ones((64, 64), np.float32)).realize()
        y = (x @ x).contiguous().sum()
        lab.memory.reclaim()
        used = pool.used
        device.launched.clear()
        device.fails_in_launch = "sum_max"  # the last of three
        z = (x.exp().contiguous() + y).max(axis=1)
        with pytest.raises(LaunchError):
            z.realize()
        assert len(device.launched) == 2
        assert not z.is_realized
        lab.memory.reclaim()
        assert not y.is_realized
        assert pool.used == used == lab.memory.live_bytes
