"""Tuning the program of a ``with`` block: what was launched is searched, and used from then on."""

import json
import subprocess
import sys

import numpy as np
import pytest

import zyx
from zyx.autotune.search import Search
from zyx.errors import InvalidArgumentError, TraceError, UnsupportedError
from zyx.runtime.profile import Profile

FEW = {"n_launches": 1, "n_seeds": 4, "n_total_opts": 6}


def x(*shape):
    return zyx.Tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32)).realize()


def test_every_launch_has_a_row_and_what_is_faster_is_launched_from_then_on(opened, each_faster):
    with opened(autotune=FEW) as runtime:
        a = x(30, 40)
        step = zyx.jit(lambda a: (a * 2.0 + 1.0, a.sum(0)))
        with zyx.tune(60) as tuning:
            step(a)
            step(a)
        rows = tuning.results()
        assert rows
        assert all(row.launches == 2 for row in rows)
        assert all(row.gain > 1.0 and row.seconds < row.before_s and row.tried >= 1 for row in rows)
        faster = {row.kernel for row in rows}
        compiled = runtime.compiler.compiled
        wide, total = step(a)  # traced before, and launches what was found
        assert runtime.compiler.compiled == compiled
        np.testing.assert_allclose(wide.numpy(), a.numpy() * 2 + 1, rtol=1e-6)
        np.testing.assert_allclose(total.numpy(), a.numpy().sum(0), rtol=1e-4, atol=1e-5)
        kernels = {step.program for plan in runtime.compiler._plans for step in plan.steps}
        found = {runtime.compiler._programs[key].future.result() for key in runtime.compiler._kernels.values()}
        assert kernels <= found
        assert faster == {program.name for program in kernels}
        assert len(kernels) == len(rows)


def test_operations_one_by_one_launch_what_was_found(opened, each_faster):
    with opened(autotune=FEW) as runtime:
        a = x(64, 8)
        (a * 3.0).realize()
        with zyx.tune(60) as tuning:
            (a * 3.0).realize()
        assert tuning.results()[0].gain > 1.0
        launched = []
        launch = runtime.device("toy").launch
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runtime.device("toy"), "launch", lambda p, *rest: launched.append(p) or launch(p, *rest))
            np.testing.assert_allclose((a * 3.0).numpy(), a.numpy() * 3.0)
        assert launched[-1] in {known.future.result() for known in runtime.compiler._programs.values()}
        assert runtime.compiler.store.entries()


def test_a_later_process_uses_what_was_found_without_measuring(opened, each_faster, monkeypatch):
    with opened(autotune=FEW), zyx.tune(60) as tuning:
        x(30, 40).sum(0).realize()
    assert tuning.results()[0].gain > 1.0
    searches = []
    monkeypatch.setattr(Search, "__init__", lambda *_: searches.append(_))
    for given in ({}, {"autotune": {"enabled": True}}):
        with opened(**given) as runtime:
            np.testing.assert_allclose(x(30, 40).sum(0).numpy(), x(30, 40).numpy().sum(0), rtol=1e-4, atol=1e-5)
            (winner,) = runtime.compiler.store.entries().values()
            assert winner.is_faster
    assert not searches


def test_what_was_found_and_does_not_do_falls_back_is_dropped_and_is_seen(opened, each_faster, monkeypatch, capsys):
    with opened(autotune=FEW), zyx.tune(60):
        x(30, 40).sum(0).realize()
    with opened() as runtime, zyx.debug("autotune"):
        device = runtime.device("toy")
        compile_, refused = device.compile, []

        def once(kernel):
            if not refused:
                refused.append(kernel)
                raise UnsupportedError("the driver is another one")
            return compile_(kernel)

        monkeypatch.setattr(device, "compile", once)
        np.testing.assert_allclose(x(30, 40).sum(0).numpy(), x(30, 40).numpy().sum(0), rtol=1e-4, atol=1e-5)
        assert refused
        assert not runtime.compiler.store.entries()
    assert (
        "the schedule that was measured: UnsupportedError: the driver is another one; next: " in capsys.readouterr().err
    )


def test_a_block_that_raises_is_not_searched(opened):
    with opened() as runtime:
        with pytest.raises(ZeroDivisionError), zyx.tune(60) as tuning:
            x(9).sum().realize()
            raise ZeroDivisionError
        assert not tuning.results()
        assert runtime.trace.profile is None
        assert not runtime.compiler.store.entries()


def test_an_interrupt_keeps_what_was_found_before(opened, each_faster):
    seen = []

    def interrupt(kernel, tried, gain, left):
        seen.append(kernel)
        if len(set(seen)) == 2:
            raise KeyboardInterrupt

    with opened(autotune=FEW) as runtime:
        with pytest.raises(KeyboardInterrupt), zyx.tune(60, progress=interrupt):
            x(30, 40).sum(0).realize()
            (x(50, 60) * 2.0).realize()
        assert len(runtime.compiler.store.entries()) == 1
        np.testing.assert_allclose((x(50, 60) * 2.0).numpy(), x(50, 60).numpy() * 2.0)


def test_numbers_that_a_launch_was_given_are_those_that_it_is_timed_with(opened, each_faster):
    with opened(autotune=FEW):
        a = x(40, 8)
        step = zyx.jit(lambda a, rate: a * rate)
        with zyx.tune(60) as tuning:
            for rate in (0.5, 0.25, 0.125, 2.0):
                step(a, rate)
        assert tuning.results()
        for rate in (3.0, 4.0):
            np.testing.assert_allclose(step(a, rate).numpy(), a.numpy() * np.float32(rate), rtol=1e-6)


def test_the_table_and_the_data_say_the_same(opened, each_faster):
    with opened(autotune=FEW), zyx.tune(60) as tuning:
        x(30, 40).sum(0).realize()
    head, row = str(tuning).splitlines()
    assert head.split() == [
        "KERNEL",
        "DEVICE",
        "LAUNCHES",
        "BEFORE",
        "EXPECTED",
        "FOUND",
        "GAINED",
        "TRIED",
        "WRONG",
        "WHY",
    ]
    (kernel,) = json.loads(json.dumps(tuning.as_json()))["kernels"]
    assert kernel["kernel"] in row
    assert f"{kernel['gain']:.2f}x" in row
    assert kernel["why"] in row
    assert " for " in kernel["why"]
    (measured,) = tuning.measurements
    assert len(measured["schedules"]) == kernel["tried"] + 1


@pytest.mark.parametrize("seconds", [0, -1.0, float("inf"), float("nan"), "60", None])
def test_seconds_are_a_positive_number(opened, seconds):
    with opened(), pytest.raises(InvalidArgumentError, match="seconds is a positive number"), zyx.tune(seconds):
        pass


def test_a_function_that_is_being_traced_is_not_tuned(opened):
    def inside(a):
        with zyx.tune(1):
            return a + 1

    with opened(), pytest.raises(TraceError, match="tune a call of it"):
        zyx.jit(inside)(x(3))


KILLED = """
import os, sys
import numpy as np
import zyx
from zyx.autotune.measure import Scratch

seen = {}
Scratch.seconds = lambda self, program, launches, **how: seen.setdefault(program, 1.0 / (1 + len(seen)))
names = []

def told(kernel, tried, gain, left):
    names.append(kernel)
    if len(set(names)) == 2:
        os.kill(os.getpid(), 9)

a = zyx.Tensor(np.ones((30, 40), np.float32), device="interpreter").realize()
with zyx.settings(autotune={"n_launches": 1, "n_seeds": 4, "n_total_opts": 6}), zyx.tune(60, progress=told):
    a.sum(0).realize()
    (a * 2.0).realize()
"""


def test_a_process_that_is_killed_keeps_what_it_has_found(tmp_path):
    environment = {"PATH": "", "HOME": str(tmp_path), "ZYX_CACHE_DIR": str(tmp_path / "cache")}
    environment |= {"ZYX_BACKENDS": "interpreter", "ZYX_DEVICE": "interpreter"}
    done = subprocess.run([sys.executable, "-c", KILLED], env=environment, check=False, timeout=120)
    assert done.returncode == -9
    listed = subprocess.run(
        [sys.executable, "-m", "zyx", "tune", "list", "--json"],
        env=environment, check=True, timeout=60, capture_output=True, text=True,
    )  # fmt: skip
    assert len(json.loads(listed.stdout)["schedules"]) == 1


def test_a_profile_expects_what_was_found_to_take_its_own_estimate(opened, each_faster):
    with opened(autotune=FEW) as runtime:
        with zyx.tune(60) as tuning:
            x(30, 40).sum(0).realize()
        (row,) = tuning.results()
        with runtime.profiled(profile := Profile()):
            x(30, 40).sum(0).realize()
        (kernel,) = profile.kernels()
        assert kernel.expected_s == pytest.approx(row.expected_s)


def test_nothing_is_searched_where_sums_have_one_order(opened):
    for is_deterministic in (True, False):
        with opened(deterministic=is_deterministic, autotune=FEW | {"enabled": True, "save_to_disk": False}) as runtime:
            x(30, 40).sum(0).realize()
            assert bool(runtime.compiler.store.entries()) == (not is_deterministic)


def test_what_is_kept_in_memory_outlives_other_settings(opened, each_faster):
    with opened(cache={"enabled": False}) as runtime:
        with zyx.settings(autotune=FEW), zyx.tune(60):
            x(30, 40).sum(0).realize()
        assert runtime.compiler.store.entries()
        x(30, 40).sum(0).realize()
        assert runtime.tuner.searches == 0
