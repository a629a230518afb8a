"""What is chosen for speed never keeps a program from being computed: there is always a simpler way."""

from __future__ import annotations

import re

import numpy as np
import pytest

import zyx
from zyx.drivers import limits
from zyx.errors import CompileError, DeviceLostError, ScheduleError, UnsupportedError
from zyx.runtime.runtime import use
from zyx.runtime.trace import PLAN
from zyx.schedule import fallback
from zyx.testing.paper import PAPER, PaperDevice, open_paper, paper_info

RANDOM = np.random.default_rng(2)


def values(*shape, dtype=np.float32):
    return RANDOM.standard_normal(shape).astype(dtype)


def nearest(x, y):
    """Return the least squared distance of each row of `x` from those of `y`; works for arrays and tensors."""
    difference = x[:, None] - y[None]
    return (difference * difference).sum(axis=2).min(axis=1)


def forces(x):
    difference = x[None] - x[:, None]
    return (difference / ((difference * difference).sum(axis=2)[..., None] + 0.1)).sum(axis=1)


def check(function, *arrays, tolerance=1e-4):
    expected = function(*(array.astype(np.float64) for array in arrays))
    found = function(*map(zyx.Tensor, arrays)).numpy()
    np.testing.assert_allclose(found, expected, tolerance, tolerance)


@pytest.fixture
def card():
    with open_paper("card") as runtime, use(runtime):
        yield runtime


def raising(error):
    def choose(nest, info, is_alone):
        raise error

    return choose


@pytest.mark.parametrize("error", [ScheduleError("no"), KeyError("r0"), AssertionError(), ZeroDivisionError()])
@pytest.mark.parametrize("bad", [1, 2, 3])
def test_a_schedule_that_raises_gives_way_to_the_next_one(card, monkeypatch, error, bad):
    broken = [schedule._replace(choose=raising(error)) for schedule in fallback.SCHEDULES[:bad]]
    monkeypatch.setattr(fallback, "SCHEDULES", (*broken, *fallback.SCHEDULES[bad:]))
    check(nearest, values(9, 5), values(12, 5))
    check(lambda x, y: x @ y, values(20, 30), values(30, 10))


def test_that_is_shown(card, monkeypatch):
    broken = fallback.SCHEDULES[0]._replace(choose=raising(KeyError("r7")))
    monkeypatch.setattr(fallback, "SCHEDULES", (broken, *fallback.SCHEDULES[1:]))
    written = []
    monkeypatch.setattr(card.trace, "_write", written.append)
    card.trace.configured = PLAN
    (zyx.Tensor(values(3)) + 1.0).numpy()
    assert written[0] == (
        "kernel binary_3: the schedule chosen for what it computes: KeyError: 'r7'; "
        "next: loops and threads as for anything else"
    )


def test_what_the_last_schedule_raises_is_raised(card, monkeypatch):
    broken = [schedule._replace(choose=raising(KeyError("r7"))) for schedule in fallback.SCHEDULES]
    monkeypatch.setattr(fallback, "SCHEDULES", tuple(broken))
    with pytest.raises(KeyError, match="r7"):
        (zyx.Tensor(values(3)) + 1.0).numpy()


def test_what_a_compiler_refuses_is_compiled_more_simply(card, monkeypatch):
    compiled = []

    def compile_(device, kernel):
        compiled.append(kernel)
        if len(compiled) < 3:
            raise CompileError("too complicated")
        return original(device, kernel)

    original = PaperDevice.compile
    monkeypatch.setattr(PaperDevice, "compile", compile_)
    check(lambda x: x / x.sum(axis=1, keepdims=True), np.abs(values(40, 300)))
    assert len({str(kernel) for kernel in compiled}) == 3
    assert card.compiler.compiled == 1
    check(lambda x: x / x.sum(axis=1, keepdims=True), np.abs(values(40, 300)))
    assert len(compiled) == 3  # the next time at once


def test_a_lost_device_is_not_asked_again(card, monkeypatch):
    asked = []

    def compile_(device, kernel):
        asked.append(kernel)
        raise DeviceLostError("gone")

    monkeypatch.setattr(PaperDevice, "compile", compile_)
    with pytest.raises(DeviceLostError):
        (zyx.Tensor(values(3)) + 1.0).numpy()
    assert len(asked) == 1


@pytest.mark.parametrize("most", [8, 30, 100])
def test_what_a_device_takes_in_no_schedule_is_done_in_parts(card, monkeypatch, most):
    """As where arrays, registers or the text of a kernel are limited in a way that no record says."""

    def compile_(device, kernel):
        if len(kernel.ops) > most + 25:
            raise UnsupportedError(f"{len(kernel.ops)} operations")
        return original(device, kernel)

    original = PaperDevice.compile
    monkeypatch.setattr(PaperDevice, "compile", compile_)

    def function(x):
        y = x * 2.0
        for number in range(30):
            y = y * 0.5 + number
        z = y - y.sum(axis=1)[:, None]
        return z * z, y.max(axis=0)

    written = []
    monkeypatch.setattr(card.trace, "_write", written.append)
    card.trace.configured = PLAN
    x = values(6, 5)
    found = function(zyx.Tensor(x))
    zyx.realize(*found)
    divided = [line for line in written if line.endswith("next: done in parts")]
    assert bool(divided) == (most < 100)  # of which another schedule takes fewer
    shown = r"kernel \w+: UnsupportedError: \d+ operations; next: done in parts"
    assert all(re.fullmatch(shown, line) for line in divided)
    expected = function(x.astype(np.float64))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other, 1e-3, 1e-3)


def test_what_no_kernel_of_a_device_can_have_is_refused_with_its_reason(card, monkeypatch):
    def compile_(device, kernel):
        raise UnsupportedError("never")

    monkeypatch.setattr(PaperDevice, "compile", compile_)
    with pytest.raises(UnsupportedError, match="never"):
        (zyx.Tensor(values(3, 4)) + 1.0).sum(axis=1).numpy()


TINY = {
    "no local memory": {"local_bytes": 0},
    "little local memory": {"local_bytes": 100},
    "little private memory": {"private_bytes": 16, "local_bytes": 64},
    "few params": {"max_params": 3},
    "one group": {"max_groups": (1, 1, 1)},
    "two threads": {"max_group_threads": 2, "max_group_shape": (2, 1, 1), "local_bytes": 16},
    "no lanes": {"lanes": ()},
}


def tiny(name, **more):
    fields = {"units": 4, "warp_size": 32, "max_group_threads": 128, "max_group_shape": (128, 128, 64), **TINY[name]}
    return paper_info(name, **{**fields, **more})


@pytest.mark.parametrize("name", TINY)
def test_programs_fit_devices_that_have_little_of_something(name):
    with open_paper(tiny(name)) as runtime, use(runtime):
        check(nearest, values(17, 3), values(33, 3))
        check(forces, values(10, 3))
        check(lambda x: x.var(axis=None) if hasattr(x, "device") else x.var(), values(67, 3))
        check(lambda x: (np if isinstance(x, np.ndarray) else zyx).cumsum(x, axis=1), values(5, 70))
        check(lambda x, y: x @ y, values(70, 20), values(20, 40))
        softmax = zyx.Tensor(values(3, 300)).softmax(axis=1).sum(axis=1)
        np.testing.assert_allclose(softmax.numpy(), np.ones(3), 1e-4)


def test_a_variance_of_integers_fits_the_local_memory_of_a_card():
    info = paper_info(
        "card with 49088 bytes", units=132, warp_size=32, max_group_threads=1024, max_group_shape=(1024, 1024, 64),
        vector_bytes=16, registers=128, local_bytes=49088, cache_bytes=(1 << 18, 1 << 25),
    )  # fmt: skip
    x = RANDOM.integers(0, 1000, (4097, 3)).astype(np.uint32)
    with open_paper(info) as runtime, use(runtime):
        np.testing.assert_allclose(zyx.var(zyx.Tensor(x)).item(), x.var(), 1e-5)


@pytest.mark.parametrize("device", ["plain", "processor", "card", "tiny card", "tiny caches", "few registers"])
@pytest.mark.parametrize("schedule", range(1, 4))
def test_every_schedule_gives_the_same_values(device, schedule, monkeypatch):
    monkeypatch.setattr(fallback, "SCHEDULES", fallback.SCHEDULES[schedule:])
    with open_paper(device) as runtime, use(runtime):
        check(nearest, values(5, 3), values(9, 3))
        check(lambda x: x - x.mean(axis=1, keepdims=True), values(4, 6))
        check(lambda x, y: x @ y, values(7, 6), values(6, 5))
        check(lambda x: (np if isinstance(x, np.ndarray) else zyx).cumsum(x, axis=0), values(5, 7))


def test_the_devices_on_paper_refuse_what_is_too_much():
    """Or the tests above say nothing."""
    assert PAPER["tiny card"].local_bytes < 1024
    assert PaperDevice.compile.__globals__["check_limits"] is limits.check_limits
