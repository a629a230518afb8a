"""The default device at the end of the process, and in children that are forked."""

import os
import subprocess
import sys

import pytest

import zyx
from zyx.runtime.runtime import Runtime, use

HEADER = """
import os, signal, sys, warnings
signal.alarm(150)  # in the child of a fork, too
import numpy as np
import zyx
a = np.random.default_rng(0).standard_normal((300, 300)).astype(np.float32)
x = zyx.Tensor(a)
y = (x @ x + 1.0).realize()
step = zyx.jit(lambda x: (x * 2.0).sum())
"""


def run(code):
    """Run a program; it must end well, and quietly."""
    command = [sys.executable, "-c", HEADER + code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "end", ["", "sys.exit(0)", "del y", "zyx.synchronize()"], ids=lambda end: end or "the last line"
)
def test_a_process_ends_quietly(end):
    """With work in flight, tensors, plans and traces alive."""
    assert run(f"loss = step(y)\nz = (y.sum() + loss).realize()\n{end}") == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_goes_on_if_memory_is_the_hosts_and_is_told_if_not():
    """And its end leaves what is the parent's alone."""
    with use(Runtime()) as runtime:
        is_host = runtime.device().memory_pool is runtime.backends.pools["host"]
        runtime.close()
    text = run(
        """
step(y).item()
child = os.fork()
if child:
    _, status = os.waitpid(child, 0)
    np.testing.assert_allclose(y.numpy(), a @ a + 1, 1e-3, 1e-2)
    np.testing.assert_allclose(((y @ x) * 0.5).numpy(), (a @ a + 1) @ a * 0.5, 1e-3, 1e-1)
    print("status", status)
    sys.exit(0)
try:
    np.testing.assert_allclose(y.numpy(), a @ a + 1, 1e-3, 1e-2)
    np.testing.assert_allclose((x @ x - x).numpy(), a @ a - a, 1e-3, 1e-2)
    print("computes", flush=True)
except zyx.errors.DeviceLostError as error:
    print("lost" if "fork" in str(error) else error, flush=True)
z = zyx.Tensor(a[:4], device="interpreter")
assert (z * 2.0).numpy().tolist() == (a[:4] * 2).tolist()
"""
    )
    assert text.splitlines() == ["computes" if is_host else "lost", "status 0"]


def test_a_process_may_open_its_devices_anew():
    text = run(
        """
from zyx.runtime.runtime import Runtime, use
for _ in range(3):
    with use(Runtime()) as runtime:
        print((zyx.ones(5) * 2.0).sum().item())
        runtime.close()
"""
    )
    assert text.split() == ["10.0"] * 3


def test_all_devices_may_be_parts_of_one_graph():
    """From each device to the next and back to the first, and as a group."""
    with use(Runtime()) as runtime:
        names = zyx.devices()
        x = zyx.arange(12, dtype="float32").reshape(3, 4)
        expected = x.numpy()
        y = x
        for name in [*names, names[0]]:
            y = y.to(name) * 0.5 + x.to(name)
            expected = expected * 0.5 + x.numpy()
        assert y.device == names[0]
        assert abs(y.numpy() - expected).max() < 1e-4
        with zyx.device(*names) as group:
            z = (zyx.arange(6, dtype="float32") + y.to(group).sum()).realize()
            assert z.device == group
            assert abs(z.numpy() - (range(6) + expected.sum())).max() < 1e-3
        del y, z
        runtime.close()


def test_a_process_ends_quietly_after_devices_were_opened_anew():
    """What was captured for a traced function on the devices before that went with these."""
    text = """
def traced():
    step = zyx.jit(lambda x: (zyx.tanh(x @ x) @ x).sum() * 2.0)
    for _ in range(3):
        step(zyx.Tensor(a))
    return step
before = traced()
zyx.close()
after = traced()
del before
"""
    assert run(text) == ""


@pytest.mark.parametrize(
    "work", ["step(y)", "(y * 2.0).realize()", "y.numpy()", "zyx.Tensor(a)", "step(x @ y)"], ids=lambda work: work
)
def test_threads_that_wait_for_a_runtime_while_the_process_ends_end_quietly(work):
    """They are there until devices are closed, and do nothing on these."""
    text = f"""
import atexit, threading, time
from zyx.runtime.lifetime import opened
from zyx.runtime.runtime import current
for _ in range(3):
    step(y).item()
z = (x + 1.0).realize()
begin, ended = threading.Event(), []
def waiting():
    begin.wait()
    {work}
    ended.append("computed on what is closed")
threads = [threading.Thread(target=waiting, daemon=True) for _ in range(3)]
for thread in threads:
    thread.start()
def join():
    for thread in threads:
        thread.join(60)
    print(*[thread.is_alive() for thread in threads], *ended, flush=True)
atexit.register(join)
opened()  # so that devices are closed before that
runtime = current()
close = runtime.close
def closing():
    begin.set()
    time.sleep(0.2)  # they wait for the lock by then
    close()
runtime.close = closing
"""
    assert run(text) == "False False False\n"
