"""Two devices with memories of their own: copies, and order between them."""

from __future__ import annotations

import numpy as np
import pytest

import zyx


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


def test_every_pool_is_empty_at_the_end(lab):
    x = zyx.Tensor(values(64), device="lab:0")
    y = (x.to("lab:1") * 2.0).to("lab:0") + x
    y.numpy()
    del x, y
    lab._drop_plans()
    lab.memory.reclaim()
    assert [pool.used for name, pool in lab.backends.pools.items() if name.startswith("lab")] == [0, 0]
    assert lab.memory.live_bytes == 0
