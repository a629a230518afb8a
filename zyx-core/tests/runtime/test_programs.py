"""Programs: made once for equal nests, kept while something launches them; of the others, the latest are kept."""

from __future__ import annotations

import gc
import threading
from collections import Counter

import numpy as np
import pytest

import zyx
from zyx.errors import UnsupportedError
from zyx.fusion import build
from zyx.graph import node as n
from zyx.runtime import compiler as compilers
from zyx.runtime import drawing, plans
from zyx.runtime import runtime as runtimes


def tensor(*shape, value=1.0):
    return zyx.Tensor(np.full(shape, value, np.float32))


@pytest.fixture
def few(monkeypatch):
    """Room for 16 programs and 4 plans."""
    monkeypatch.setattr(compilers, "_MOST_PROGRAMS", 16)
    monkeypatch.setattr(plans, "_MAX_PLANS", 4)


def test_equal_layers_are_scheduled_and_compiled_once(lab, device):
    x = tensor(4, 8)
    weights = [tensor(8, 8, value=0.1 * number) for number in range(6)]
    for weight in weights:
        x = (x @ weight).softmax().contiguous()
    x.realize()
    assert lab.compiler.scheduled == lab.compiler.compiled == len(device.compiled) == 2
    assert sorted(Counter(device.launched).values()) == [6, 6]


@pytest.fixture
def drawn(monkeypatch):
    """The parts that were written as nests, by what gives them their ranges."""
    roots = []

    def build_nest(part, params):
        roots.append(part.root)
        return build.build_nest(part, params)

    monkeypatch.setattr(drawing, "build_nest", build_nest)
    return roots


def test_layers_that_are_alike_are_drawn_once(lab, device, drawn):
    rng = np.random.default_rng(0)
    start, wanted = rng.standard_normal((2, 4, 8)).astype(np.float32)
    x, counts = zyx.Tensor(start), set()
    for depth in (4, 8):
        y, wanted = x, start
        for weight in rng.standard_normal((depth, 8, 8)).astype(np.float32):
            y, wanted = (y @ zyx.Tensor(weight)).tanh().contiguous(), np.tanh(wanted @ weight)
        np.testing.assert_allclose(y.numpy(), wanted, 1e-4, 1e-5)
        counts.add(len(drawn))
        drawn.clear()
    assert counts == {1}
    assert len(device.launched) == 12


def test_what_is_alike_but_for_one_thing_is_drawn_by_itself(lab, drawn):
    a, b = np.random.default_rng(1).standard_normal((2, 3, 5, 5)).astype(np.float32)
    x, y = zyx.Tensor(a), zyx.Tensor(b)
    ways = [
        lambda x, y: (x * 2.0 + y).sum(1),
        lambda x, y: (x * -2.0 + y).sum(1),
        lambda x, y: (y * 2.0 + x).sum(1),
        lambda x, y: (x * 2.0 + x).sum(1),
        lambda x, y: (x * 2.0 + y).sum(2),
        lambda x, y: (x * 2.0 - y).sum(1),
        lambda x, y: (x * 2.0 + y.swapaxes(1, 2)).sum(1),
        lambda x, y: (x[:, ::-1] * 2.0 + y).sum(1),
        lambda x, y: (x * 2.0 + y).max(1),
    ]
    results = [way(x, y) for way in ways]
    zyx.realize(*results)
    for result, way in zip(results, ways, strict=True):
        np.testing.assert_allclose(result.numpy(), way(a, b), 1e-5, 1e-5)
    assert len(drawn) >= len(ways) - 1  # of the two that have x and y exchanged


def test_scatters_that_are_alike_are_drawn_once_and_their_places_are_looked_at(lab, drawn):
    data, one = np.arange(12, dtype=np.float32), np.ones(3, np.float32)
    places = [np.array(each, np.int32) for each in ([0, 5, 7], [1, 5, 5], [2, 2, 2], [0, 1, 2])]
    indices = [*map(zyx.Tensor, places[:3]), zyx.arange(3)]  # of the last it is known that no two are equal
    bases = [zyx.Tensor(data + number) for number in range(4)]
    results = [base.index_add(0, at, zyx.Tensor(one)) for base, at in zip(bases, indices, strict=True)]
    zyx.realize(*results)
    for number, (result, at) in enumerate(zip(results, places, strict=True)):
        wanted = data + number
        np.add.at(wanted, at, 1)
        assert result.tolist() == wanted.tolist()
    assert sum(isinstance(root, n.Scatter) for root in drawn) == 2


def test_equal_nests_of_other_plans_are_not_scheduled_again(lab, device):
    (tensor(5, 7) * 2.0).sum(axis=1).realize()
    scheduled = lab.compiler.scheduled
    results = (tensor(5, 7) * 2.0).sum(axis=1), tensor(9) + 1.0
    zyx.realize(*results)
    assert lab.compiler.scheduled == scheduled + 1
    assert results[0].tolist() == [14.0] * 5


@pytest.mark.parametrize(
    "other",
    [
        lambda x: x.maximum(3.0),
        lambda x: x.maximum(-0.0),
        lambda x: x + 2.0,
        lambda x: (x.reshape(-1) * 2.0).reshape(x.shape)[1:],
        lambda x: x[:, 1:] * 2.0,
        lambda x: x[:, ::-1] * 2.0,
        lambda x: (x * 2.0).sum(axis=0),
        lambda x: (x * 2.0).max(axis=1),
        lambda x: (x * 2.0).astype("float64"),
        lambda x: x.astype("int32") * 2,
        lambda x: x.permute((1, 0)) * 2.0,
    ],
)
def test_what_differs_has_a_program_of_its_own(lab, other):
    array = np.arange(30, dtype=np.float32).reshape(5, 6)
    x = zyx.Tensor(array)
    (x * 0.0).realize()
    (x * 2.0).realize()
    (x * 2.0).sum(axis=1).realize()
    x.minimum(3.0).realize()
    before = lab.compiler.compiled
    result = other(x).numpy()
    assert lab.compiler.compiled == before + 1
    assert result.dtype == other(x).numpy().dtype


def test_a_program_that_failed_is_made_again(lab, device):
    device.fails_in_compile = "binary"
    for _ in range(2):
        with pytest.raises(UnsupportedError, match="not with this device"):
            (tensor(3) + 1.0).realize()
    assert lab.compiler.programs == 0
    device.fails_in_compile = None
    assert (tensor(3) + 1.0).tolist() == [2.0] * 3


def test_those_that_nothing_launches_go_oldest_first(lab, device, few):
    for size in range(1, 101):
        (tensor(size) + 1.0).realize()
        assert lab.compiler.programs <= 16
    assert len(device.compiled) == 100
    assert len(device.released) == 100 - lab.compiler.programs
    assert device.released == device.compiled[: len(device.released)]
    assert (tensor(1) + 1.0).tolist() == [2.0]
    assert len(device.compiled) == 101


def test_one_that_is_asked_for_again_stays(lab, device, few):
    for size in range(2, 60):
        (tensor(size) + 1.0).realize()
        runtimes.current().drop_plans()
        (tensor(1) + 1.0).realize()
    assert device.compiled.count("binary_1") == 1
    assert "binary_1" not in device.released


def test_those_of_a_trace_stay_as_long_as_it(lab, device, few):
    @zyx.jit
    def step(x):
        return (x + 1.0).sum() * 2.0

    x = tensor(777)
    assert step(x).item() == 777 * 4.0
    own = set(device.compiled)
    for size in range(1, 60):
        (tensor(size) * 3.0).realize()
    assert not own & set(device.released)
    assert step(x).item() == 777 * 4.0
    assert device.compiled.count(next(iter(own))) == 1
    step.clear()
    del step
    gc.collect()
    for size in range(60, 120):
        (tensor(size) * 3.0).realize()
    assert own <= set(device.released)


def test_a_plan_of_more_programs_than_there_is_room_for_keeps_them(lab, device, few):
    x = tensor(1)
    for size in range(2, 40):
        x = (x.sum(axis=0, keepdims=True) * zyx.ones(size)).contiguous()
    assert x.shape == (39,)
    x.realize()
    assert not device.released
    assert lab.compiler.programs > 16


def test_memory_that_is_asked_for_in_vain_takes_programs_with_it(lab, device, pool):
    for size in range(1, 9):
        (tensor(size) + 1.0).realize()
    kept = zyx.jit(lambda x: x * 3.0)
    kept(tensor(5))
    compiled = list(device.compiled)
    pool.capacity = pool.used + 64
    held = [tensor(8) for _ in range(2)]
    with pytest.raises(zyx.errors.AllocationError):
        tensor(1000)
    assert sorted(device.released) == sorted(compiled[:8])
    assert lab.compiler.programs == 1
    del held
    assert kept(tensor(5)).tolist() == [3.0] * 5
    assert len(device.compiled) == len(compiled)


def test_closing_releases_every_program_once(lab, device, few):
    for size in range(1, 30):
        (tensor(size) + 1.0).realize()
    lab.close()
    assert sorted(device.released) == sorted(device.compiled)


@pytest.mark.parametrize("threads", [1, 3])
def test_kernels_are_compiled_in_as_many_threads_as_the_device_takes(lab, device, monkeypatch, threads):
    at_once, most, lock = [0], [0], threading.Lock()
    meet = threading.Event()
    compile_ = device.compile

    def slowly(kernel):
        with lock:
            at_once[0] += 1
            most[0] = max(most[0], at_once[0])
            if at_once[0] == threads:
                meet.set()
        assert meet.wait(20)
        with lock:
            at_once[0] -= 1
        return compile_(kernel)

    monkeypatch.setattr(device, "compile", slowly)
    monkeypatch.setattr(device, "compiles_at_once", threads)
    x = tensor(4, 8)
    results = [x.sum(axis=1), x.max(axis=0), (x @ tensor(8, 3)).contiguous(), x.cumsum(axis=1)]
    zyx.realize(*results)
    assert [result.numpy().flat[-1] for result in results] == [8, 1, 8, 8]
    assert most == [threads]
    assert lab.compiler.compiled == len(device.compiled)
