"""The end of a runtime, of the process, and processes that are forked."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import zyx

HERE = Path(__file__).parent

HEADER = """
import os, signal, sys, threading
signal.alarm(60)  # in the child of a fork, too
import numpy as np
import zyx
x = zyx.Tensor(np.arange(6, dtype=np.float32))
"""

CHILD = """
child = os.fork()
if child:
    _, status = os.waitpid(child, 0)
    print("the child's status is", status)
    print("parent:", (y + 2.0).numpy())
    sys.exit(0)
"""


def run(code: str, device: str = "interpreter") -> subprocess.CompletedProcess[str]:
    """Run a program; it must end well, and quietly."""
    environment = {**os.environ, "ZYX_DEVICE": device}
    command = [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", HEADER + code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, cwd=HERE, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done


@pytest.fixture
def diary(device, pool, monkeypatch):
    """What is done to all devices and pools, in order."""
    diary = []

    def note(owner, method, text):
        original = getattr(owner, method)

        def noting(self, *args, **options):
            diary.append(text.format(self.name))
            return original(self, *args, **options)

        monkeypatch.setattr(owner, method, noting)

    note(type(pool), "synchronize", "wait {}")
    note(type(device), "release", "release on {}")
    note(type(pool), "deallocate", "free in {}")
    note(type(device), "close", "close {}")
    note(type(pool), "close", "close pool {}")
    return diary


class TestClosing:
    def test_waits_then_programs_then_buffers_then_devices_then_pools(self, lab, diary):
        pools = [lab.device(name).memory_pool for name in ("lab:0", "lab:1")]
        x = zyx.Tensor(np.ones(8, np.float32))
        y = (x + 1.0).to("lab:1").sum().realize()
        assert all(pool.in_flight for pool in pools)
        del x, y
        diary.clear()
        lab.close()
        frees = [number for number, entry in enumerate(diary) if entry.startswith("free")]
        assert diary[:2] == ["wait lab:0", "wait lab:1"]
        assert diary[2 : frees[0]] == ["release on lab:0", "release on lab:1"]
        assert len(frees) == 4  # two tensors; what is between the two devices, on each
        assert diary[frees[-1] + 1 :] == [
            "close lab:0", "close lab:1", "close pool lab:0", "wait lab:0", "close pool lab:1", "wait lab:1"
        ]  # fmt: skip
        assert not any(pool.in_flight for pool in pools)
        assert [pool.used for pool in pools] == [0, 0]
        diary.clear()
        lab.close()
        assert diary == []

    def test_work_that_failed_does_not_keep_it_open(self, lab, device, diary):
        device.fails_while_running = ""  # whatever it is called
        x = (zyx.Tensor(np.ones(8, np.float32)) + 1.0).realize()
        lab.close()
        assert {"close pool lab:0", "close pool lab:1"} <= set(diary)
        del x  # tensors may outlive it

    def test_a_traced_function_may_outlive_it(self, lab, device, monkeypatch):
        released = []
        monkeypatch.setattr("zyx.runtime.plan.Plan.close", released.append)
        traced = zyx.jit(lambda x: x * 2.0 + 1.0)
        for _ in range(3):
            traced(zyx.Tensor(np.ones(8, np.float32))).realize()
        lab.close()
        released.clear()
        del traced
        gc.collect()
        lab.close()
        assert released == [], "its plan belongs to devices that are closed"

    def test_groups_leave_nothing(self, lab):
        pools = [lab.device(name).memory_pool for name in ("lab:0", "lab:1")]
        droppers = len(lab.memory.droppers)
        with zyx.device("lab:0", "lab:1"):
            results = [(zyx.ones(8) * float(i)).contiguous().realize() for i in range(4)]
            assert zyx.stack(results).sum().item() == 48
        assert len(lab.memory.droppers) == droppers + 1
        del results
        lab.close()
        assert [pool.used for pool in pools] == [0, 0]
        assert len(lab.memory.droppers) == droppers


class TestExit:
    def test_it_is_quiet_with_tensors_and_plans_alive(self):
        run("y = (x + 1.0).realize(); z = zyx.jit(lambda x: x * 2.0)(y); sys.stdout.write(str(z.numpy()))")

    def test_a_thread_that_computes_ends_quietly(self):
        done = run(
            """
def compute():
    for number in range(10**6):
        (zyx.Tensor(np.ones((number % 9 + 1, 3), np.float32)) * float(number)).sum().item()
        started.set()
started = threading.Event()
thread = threading.Thread(target=compute, daemon=True)
import atexit
from zyx.runtime import lifetime
atexit.register(lambda: thread.join(20) or print(thread.is_alive()))
lifetime.opened()  # as for another device: to be closed before that
thread.start()
started.wait(60)
"""
        )
        assert done.stdout == "False\n"

    def test_functions_for_the_end_of_the_process_may_compute(self):
        done = run("import atexit; atexit.register(lambda: print((x.exp() * 3.0).tolist()[0])); (x + 1.0).realize()")
        assert done.stdout == "3.0\n"

    def test_a_finaliser_that_computes_after_the_end_is_told_so(self):
        done = run(
            """
class Late:
    def __del__(self, x=x, Error=zyx.errors.InitializationError, print=print):
        print(x.tolist())
        try:
            (x + 1.0).tolist()
        except Error as error:
            print(error)
late = Late()
(x + 2.0).realize()
"""
        )
        values, text = done.stdout.splitlines()
        assert values == str([float(number) for number in range(6)])
        assert "Python is ending, devices are closed" in text
        assert "not in __del__" in text

    def test_it_is_quiet_after_an_error(self):
        run(
            """
y = x + 1.0
try:
    zyx.device('nowhere').__enter__()
except zyx.errors.NoDeviceError as error:
    kept = error
"""
        )

    def test_runtimes_are_closed_before_what_drivers_do_then(self):
        code = """
import atexit
import conftest
from zyx.testing.opening import open_runtime
from zyx.runtime.runtime import use

made, close = conftest.LabPool, conftest.LabPool.close
made.close = lambda self: (print("close pool", self.name), close(self))
def pool(name):
    atexit.register(print, "the driver ends")
    return made(name)
conftest.LabPool = pool
runtime = open_runtime("lab:0", [conftest.LabBackend()])
with use(runtime):
    y = (zyx.Tensor(np.ones(4, np.float32)) + 1.0).realize()
"""
        lines = run(code).stdout.splitlines()
        assert lines == ["close pool lab:0", "close pool lab:1", "the driver ends", "the driver ends"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
class TestFork:
    @pytest.mark.parametrize("exit_", ["sys.exit(0)", "os._exit(0)"])
    def test_a_child_goes_on_with_host_memory(self, exit_):
        done = run(
            "y = (x + 1.0).realize()\nz = x * 3.0\ndouble = zyx.jit(lambda x: x * 2.0)\ndouble(y)\n"
            + CHILD
            + "print('child:', y.numpy(), z.numpy(), double(y).numpy(), (y @ y).item(), flush=True)\n"
            + exit_
        )
        assert "child: [1. 2. 3. 4. 5. 6.] [ 0.  3.  6.  9. 12. 15.] [ 2.  4.  6.  8. 10. 12.] 91.0" in done.stdout
        assert "the child's status is 0" in done.stdout
        assert "parent: [3. 4. 5. 6. 7. 8.]" in done.stdout

    def test_a_child_may_be_forked_while_another_thread_computes(self):
        done = run(
            """
stop = threading.Event()
def work():
    number = 0
    while not stop.is_set():
        number += 1
        (zyx.ones(number % 50 + 1) * 2.0).sum().item()
thread = threading.Thread(target=work)
thread.start()
for _ in range(5):
    child = os.fork()
    if child == 0:
        assert (x * 2.0).sum().item() == 30
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
stop.set()
thread.join()
"""
        )
        assert done.stdout == ""

    def test_a_child_must_not_use_drivers_of_its_parent(self):
        done = run(
            """
from conftest import LabBackend, LabPool
from zyx.testing.opening import open_runtime
from zyx.runtime.runtime import use
close = LabPool.close
LabPool.close = lambda self: (print("close pool", self.name, flush=True), close(self))
runtime = open_runtime("lab:0", [LabBackend()])
scope = use(runtime)
scope.__enter__()
y = (zyx.Tensor(np.arange(3, dtype=np.float32)) + 1.0).realize()
double = zyx.jit(lambda x: x * 2.0)
increase = zyx.jit(lambda: y.assign(y + 1.0))
with zyx.device("interpreter"):
    double(y), increase()
"""
            + CHILD
            + """
def refused(function, words):
    try:
        function()
    except zyx.errors.BackendError as error:
        assert words in str(error) and "fork" in str(error), error
        return
    raise AssertionError("not refused")
refused(y.numpy, "pool lab:0")
refused((y + 1.0).realize, "no device 'lab:0'")
with zyx.device("interpreter"):
    refused(lambda: double(y), "pool lab:0")
    refused(increase, "pool lab:0")
refused(lambda: double(y), "no device 'lab:0'")
refused(lambda: zyx.ones(2, device="lab:0"), "no device 'lab:0'")
z = zyx.Tensor([1.0, 2.0], device="interpreter")
print("child:", (z * 2.0).numpy(), zyx.devices().count("lab:0"), flush=True)
del y, z, double, increase
"""
        )
        lines = done.stdout.splitlines()
        assert lines[0] == "child: [2. 4.] 0"
        assert lines[1:4] == ["the child's status is 0", "parent: [4. 5. 6.]", "close pool lab:0"]
