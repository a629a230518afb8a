"""Ranks that are threads of one process, each with a device: what several processes do, they do."""

import ast
import importlib
import importlib.util
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import zyx
import zyx.distributed as dist
from zyx.distributed import running, waiting
from zyx.errors import CollectiveError, CollectiveTimeoutError, InvalidArgumentError, NoDeviceError, TraceError
from zyx.runtime.runtime import Runtime, use

PROGRAMS = Path(__file__).parent / "programs"
#: What is about processes.
_OF_PROCESSES = {
    "test_children_of_a_fork_are_not_in_the_group", "test_another_runtime_has_an_order_of_its_own",
    "test_devices_may_be_closed_between", "test_other_threads_run_while_one_waits",
    "test_one_that_cannot_write_leaves_the_checkpoint_before_to_all",  # it changes a module, which threads share
}  # fmt: skip
_TWO, _THREE, _FOUR, _MIXED = ("c", "c"), ("c", "interpreter", "c"), ("c",) * 4, ("interpreter", "opencl")
#: What is run on which devices: order and training are the same on all, and for two ranks; OpenCL compiles for long.
_PROGRAMS = {
    "values": (_TWO, _THREE),
    "order": (_TWO,),
    "meshes": (_TWO, _FOUR),
    "training": (_TWO,),
    "sharded": (_TWO, _FOUR),
}
#: What takes its time: networks that are trained in every way there is, but for the quickest.
_SLOW = {("sharded", _FOUR), ("meshes", _FOUR), ("sharded", _TWO, "test_a_transformer_has_the_losses_of_one_process")}
_CASES = [
    (devices, program, part.name)
    for program in _PROGRAMS
    for part in ast.parse((PROGRAMS / f"{program}.py").read_text(encoding="utf-8")).body
    if isinstance(part, ast.FunctionDef) and part.name.startswith("test_") and part.name not in _OF_PROCESSES
    for devices in _PROGRAMS[program]
    if devices is _TWO or part.name != "test_arrays_have_from_no_bytes_to_many"  # which takes its time
] + [(_MIXED, "values", "test_axes_are_those_that_are_named"), (_MIXED, "values", "test_extremes_are_those_of_numpy")]


@pytest.fixture
def runtime():
    """Make a runtime with a limit the current one."""
    with use(Runtime({"collectives": {"timeout_s": 20}})) as runtime:
        yield runtime
    runtime.close()


def devices_of(runtime, *names):
    """Return names of devices; skip the test where there is none of a name."""
    try:
        return [runtime.device_name(name) for name in names]
    except NoDeviceError as error:
        pytest.skip(str(error))


def _marked(devices, program, name):
    is_slow = (program, devices) in _SLOW or (program, devices, name) in _SLOW
    return pytest.param(devices, program, name, marks=[pytest.mark.slow] if is_slow else [])


@pytest.mark.parametrize(("names", "program", "name"), [_marked(*case) for case in _CASES], ids=str)
def test_programs_of_processes_are_right_in_threads(runtime, tmp_path, monkeypatch, names, program, name):
    devices = devices_of(runtime, *names)
    if program in ("training", "sharded") and importlib.util.find_spec("sklearn") is None:
        pytest.skip("the digits come with scikit-learn, which is not installed")
    monkeypatch.syspath_prepend(PROGRAMS)
    monkeypatch.setattr(sys, "argv", ["", str(tmp_path)])
    case = getattr(importlib.import_module(program), name)

    def run():
        dist.all_reduce(zyx.ones(1))  # the first one on a device, at which ranks tell each other what they have
        case(dist.init())

    dist.run(run, devices)


def test_each_thread_has_what_a_process_has(runtime):
    devices = devices_of(runtime, "interpreter", "c")
    zyx.manual_seed(3)
    zyx.rand(2)
    wanted = zyx.Generator(3)
    zyx.rand(2, generator=wanted)
    begins, goes_on = (zyx.rand(4, generator=wanted).tolist() for _ in range(2))

    def look():
        group = dist.init()
        first = zyx.rand(4)
        dist.barrier()
        if group.rank == 0:
            zyx.manual_seed(8)
        dist.barrier()
        return group.rank, group.size, zyx.default_device(), first.device, first.tolist(), zyx.rand(4).tolist()

    seeded = zyx.rand(4, generator=zyx.Generator(8)).tolist()
    assert dist.run(look, devices) == [
        (0, 2, devices[0], devices[0], begins, seeded),
        (1, 2, devices[1], devices[1], begins, goes_on),
    ]
    assert zyx.rand(4).tolist() == begins  # here nothing was drawn
    assert dist.init().size == 1


def test_one_traced_function_serves_all_ranks_each_with_its_own_trace(runtime):
    devices = devices_of(runtime, "interpreter", "interpreter", "interpreter")
    ranks = []

    @zyx.jit
    def step(x):
        ranks.append(dist.init().rank)
        return dist.all_reduce(x * 2) + dist.broadcast(x, 1)

    def repeat():
        rank = dist.init().rank
        return [step(zyx.ones(2) * (rank + number)).tolist() for number in range(5)]

    found = dist.run(repeat, devices)
    assert found == [[[2.0 * (3 + 3 * number) + 1 + number] * 2 for number in range(5)]] * 3
    assert {*ranks} == {0, 1, 2}


def test_arguments_and_results_are_those_of_calls(runtime):
    (device,) = devices_of(runtime, "interpreter")
    assert dist.run(lambda a, b: (a, b, dist.init().rank), [device] * 2, 1, b=2) == [(1, 2, 0), (1, 2, 1)]
    assert dist.run(lambda: dist.all_reduce(zyx.ones(2)).tolist(), [device]) == [[1.0, 1.0]]
    with pytest.raises(InvalidArgumentError, match="devices is empty"):
        dist.run(repr, [])
    with pytest.raises(NoDeviceError):
        dist.run(repr, ["no such device"])
    with pytest.raises(TraceError, match="threads cannot be part"):
        zyx.jit(lambda x: dist.run(lambda: x, [device])[0])(zyx.ones(2))


def test_an_error_of_one_rank_ends_the_others_where_they_wait_and_comes_out(runtime):
    devices = devices_of(runtime, *["interpreter"] * 3)
    errors = {}

    def fail():
        rank = dist.init().rank
        dist.barrier()
        if rank == 1:
            raise ValueError("enough")
        if rank == 2:
            time.sleep(0.3)
        try:
            dist.all_reduce(zyx.ones(3))
        except CollectiveError as error:
            errors[rank] = str(error)
            raise

    started = time.monotonic()
    with pytest.raises(ValueError, match="enough") as found:
        dist.run(fail, devices)
    assert time.monotonic() - started < 5
    for text in errors.values():
        assert "rank 1" in text and "ended by ValueError: enough" in text
    assert sorted(errors) == [0, 2]
    assert errors[0].startswith("all_reduce sum of float32 [3]") and ": rank 0 of 3 waits for rank 1" in errors[0]
    assert "test_threads.py:" in errors[0]
    notes = found.value.__notes__
    assert notes[0] == "on rank 1 of 3, interpreter:0"
    assert {note[:26] for note in notes[1:]} == {"then rank 0: CollectiveErr", "then rank 2: CollectiveErr"}


def test_a_rank_that_ends_early_is_named(runtime):
    devices = devices_of(runtime, "interpreter", "interpreter")
    with pytest.raises(CollectiveError, match=r"recv|receive from rank 1: .*rank 1, which has come to the end of its"):
        dist.run(lambda: dist.init().rank or dist.recv((2,), source=1), devices)
    with pytest.raises(CollectiveError, match="rank 0 of 2 waits for rank 1, which has come to the end of its func"):
        dist.run(lambda: dist.init().rank or dist.barrier(), devices)


def test_what_is_sent_before_the_end_arrives(runtime):
    devices = devices_of(runtime, "interpreter", "interpreter")

    def exchange():
        if dist.init().rank:
            return dist.send(zyx.ones(2), 0)
        time.sleep(0.3)
        return dist.recv((2,), source=1).tolist()

    assert dist.run(exchange, devices) == [[1.0, 1.0], None]


def test_a_rank_that_is_late_is_named_by_a_warning_and_then_by_an_error(runtime, monkeypatch):
    devices = devices_of(runtime, "interpreter", "interpreter")
    monkeypatch.setattr(waiting, "LATE_S", 0.2)
    with pytest.warns(
        dist.LateWarning, match=r"barrier: rank 1 of 2 has waited 0 s for rank 0 at .*test_threads.py:\d+"
    ):
        dist.run(lambda: (dist.init().rank or time.sleep(0.6), dist.barrier()), devices)
    monkeypatch.setattr(waiting, "LATE_S", 10)
    monkeypatch.setattr(running, "_PATIENCE_S", 0.2)
    goes_on = threading.Event()
    with use(Runtime({"collectives": {"timeout_s": 0.3}})) as short:
        with pytest.raises(CollectiveTimeoutError, match=r"barrier: rank 1 of 2 has waited .* for rank 0") as found:
            dist.run(lambda: (dist.init().rank or goes_on.wait(20), dist.barrier()), devices)
        goes_on.set()
        assert "rank 0 came to no operation in 0.2 s, and goes on in a thread" in found.value.__notes__
        for thread in threading.enumerate():
            if thread.name.startswith("rank 0"):
                thread.join(20)
    short.close()


def test_parts_of_ranks_meet_apart(runtime):
    devices = devices_of(runtime, *["interpreter"] * 3)

    def meet():
        whole = dist.init()
        chosen = [2, 0] if whole.rank != 1 else [1]
        if len(chosen) == 1:
            return dist.all_reduce(zyx.ones(1)).item()
        engine = whole.engine.split(chosen)
        group = dist.Group(engine.rank, engine.size, engine)
        found = dist.all_gather(zyx.Tensor([float(whole.rank)]), group=group).tolist()
        return dist.all_reduce(zyx.ones(1)).item(), engine.rank, found

    assert dist.run(meet, devices) == [(3.0, 1, [2.0, 0.0]), 3.0, (3.0, 0, [2.0, 0.0])]


def test_a_part_of_a_group_is_one_group_however_often_it_is_made(runtime):
    devices = devices_of(runtime, *["interpreter"] * 3)

    def split():
        whole = dist.init()
        chosen = [2, 0] if whole.rank != 1 else [1]
        first = whole.split(chosen)
        mesh = dist.Mesh({"data": 3, "model": 1})
        again = dist.Mesh({"data": 1, "model": 3})
        same = first is whole.split(chosen), mesh.group("model") is again.group("data"), mesh.group("data") is whole
        return same, first.turn is whole.turn, dist.all_reduce(zyx.ones(1), group=first).item()

    assert dist.run(split, devices) == [((True, True, True), False, size) for size in (2.0, 1.0, 2.0)]


def test_large_arrays_are_those_of_numpy(runtime):
    devices = devices_of(runtime, "interpreter", "interpreter", "interpreter")
    arrays = [np.random.default_rng(rank).standard_normal((3, 1 << 18)).astype(np.float32) for rank in range(3)]

    def reduce():
        x = zyx.Tensor(arrays[dist.init().rank])
        return [dist.all_reduce(x).numpy(), dist.reduce_scatter(x).numpy(), dist.all_gather(x).numpy()]

    found = dist.run(reduce, devices)
    total = arrays[0] + arrays[1] + arrays[2]
    for rank, (reduced, part, gathered) in enumerate(found):
        np.testing.assert_array_equal(reduced, total)
        np.testing.assert_array_equal(part, total[rank : rank + 1])
        np.testing.assert_array_equal(gathered, np.concatenate(arrays))


@pytest.mark.slow
def test_every_operation_dtype_and_size_is_that_of_numpy():
    environ = os.environ | {"ZYX_DEVICE": "c", "ZYX_NUM_THREADS": "1"}
    command = [sys.executable, os.fspath(PROGRAMS / "matrix.py"), "--threads", "2"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "1104 combinations are those of NumPy, in each of 2\n"


INTERRUPTED = """
import os, sys, threading, time, zyx, zyx.distributed as dist

def wait():
    if dist.init().rank:
        while sys.argv[1] == "loops":
            pass
        time.sleep(30)
    threading.Timer(0.5, os.kill, (os.getpid(), 2)).start()
    try:
        dist.barrier()
    except dist.group.CollectiveError as error:
        print(error, flush=True)

dist.running._PATIENCE_S = 0.5
dist.run(wait, ["interpreter"] * 2)
"""


@pytest.mark.parametrize("how", ["loops", "sleeps"])
def test_an_interrupt_ends_the_program(how):
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, how], capture_output=True, text=True, timeout=60, check=False
    )
    assert time.monotonic() - started < 15
    assert done.returncode in (-2, 130), done.stderr
    assert "since run() was interrupted by KeyboardInterrupt" in done.stdout
