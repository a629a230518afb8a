"""Packages that do their worst: every one is reported, and whatever else there is goes on."""

from __future__ import annotations

import contextvars
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zyx
from zyx.errors import NoDeviceError
from zyx.plugins.discover import installed
from zyx.plugins.manager import PluginManager
from zyx.plugins.state import BackendState
from zyx.plugins.watchdog import Overdue, Watchdog
from zyx.runtime.runtime import Runtime, current, use

from .conftest import GOOD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    PackageMaker = Callable[..., Path]

DEVICES = 'return [DummyDevice("{name}:0", pools["{name} memory"])]'
POOLS = 'return [DummyPool("{name} memory")]'
FAILED, INVALID, IMPORT_FAILED = BackendState.FAILED, BackendState.INVALID, BackendState.IMPORT_FAILED

#: Stands for a backend that works, and is the fastest one.
SOLID = """
import dataclasses
from zyx.builtin.interpreter import InterpreterDevice
from zyx.hookspecs import API_VERSION, BackendInfo, hookimpl

class Solid(InterpreterDevice):
    def __init__(self, name, pool):
        super().__init__(name, pool)
        self._info = dataclasses.replace(self._info, flops_per_s=1e18)

@hookimpl
def zyx_backend_info():
    return BackendInfo("solid", "1.5", API_VERSION, "works", works_on_host_memory=True)

@hookimpl
def zyx_devices(pools):
    return [Solid("solid:0", pools["host"])]
"""


@dataclass
class Hostile:
    """A package, and what must be known of it afterwards."""

    name: str
    state: BackendState
    reason: str
    code: str | None = None
    replace: dict[str, str] = field(default_factory=dict)

    def install(self, package: PackageMaker) -> None:
        replace = {old.replace("{name}", self.name): new for old, new in self.replace.items()}
        package(self.name, self.code or GOOD, replace=replace)


def importing(name: str, code: str, reason: str, state: BackendState = IMPORT_FAILED) -> Hostile:
    return Hostile(name, state, reason, code)


def hook(name: str, old: str, new: str, reason: str, state: BackendState = FAILED) -> Hostile:
    return Hostile(name, state, reason, None, {old: new})


def record(name: str, change: str, reason: str, extra: str = "", state: BackendState = INVALID) -> Hostile:
    """A device whose record has a field that it should not have."""
    device = (
        "import dataclasses\nclass Odd(DummyDevice):\n    def __init__(self, name, pool):\n"
        f"        super().__init__(name, pool)\n        self._info = dataclasses.replace(self._info, {change})\n{extra}"
        "@hookimpl\ndef zyx_devices"
    )
    made = DEVICES.replace("{name}", name).replace("DummyDevice", "Odd")
    return Hostile(name, state, reason, None, {DEVICES: made, "@hookimpl\ndef zyx_devices": device})


MUTE = "class Mute(Exception):\n    def __str__(self): raise RuntimeError\n    __repr__ = __str__\n"
PANIC = "class PanicException(BaseException): pass\n"
ONCE = "    uses = 0\n    @property\n    def info(self):\n        self.uses += 1\n        if self.uses > 1: raise"
BUG = "    def compile(self, kernel): raise RuntimeError('bug')\n"

HOSTILE = [
    importing("exits", "import sys\nsys.exit('no driver')", "SystemExit: no driver"),
    importing("panics", f"{PANIC}raise PanicException('boom')", "PanicException: boom"),
    importing("generator", "raise GeneratorExit", "GeneratorExit"),
    importing("mute", f"{MUTE}raise Mute", "Mute: a Mute whose text cannot be had"),
    hook("infoexits", "return BackendInfo(", "raise SystemExit(3)\n    (", "SystemExit: 3"),
    hook("settings", DEVICES, "from zyx.errors import SettingsError; raise SettingsError('yours')", "yours"),
    hook("infoodd", '"a toy"', '"a toy", enabled_by_default=None', "are not True or False", INVALID),
    hook("poolsexit", POOLS, "raise SystemExit('x')", "SystemExit: x"),
    hook("devexits", DEVICES, "raise SystemExit('x')", "SystemExit: x"),
    hook("devpanics", DEVICES, "raise type('Panic', (BaseException,), {})('x')", "Panic: x"),
    hook("devgenerator", DEVICES, "raise GeneratorExit", "GeneratorExit"),
    hook("devmute", DEVICES, f"{MUTE}raise Mute".replace("\n", "\n    "), "Mute: a Mute whose text cannot be had"),
    hook("devescape", DEVICES, "raise RuntimeError('a\\x1b[2Jb')", r"RuntimeError: a\x1b[2Jb"),
    hook("mutelist", DEVICES, f"{MUTE}return [Mute()]".replace("\n", "\n    "), "is not a Device", INVALID),
    record("ratenone", "flops_per_s=None", "its flops_per_s is None, not a number from 0 to 1e+21"),
    record("ratetext", "flops_per_s='fast'", "its flops_per_s is 'fast', not a number"),
    record("ratenan", "bytes_per_s=float('nan')", "its bytes_per_s is nan, not a number"),
    record("ratehuge", "flops_per_s=1e30", "its flops_per_s is 1e+30, not a number from 0 to 1e+21", BUG),
    record("modelnone", "model=None", "its model is None, not a text"),
    record("modelbytes", "model=b'a\\x1b[31m'", "its model is b'a\\x1b[31m', not a text"),
    record("groups", "max_groups=(0, 1)", "its max_groups is (0, 1), not a tuple of whole numbers from 1 on"),
    record("dtypes", "capabilities={'f32': 1}", "its capabilities is {'f32': 1}, not a mapping from DType"),
    record("once", "model='m'", "can be had once only; then it raises RuntimeError: gone",
           f"{ONCE} RuntimeError('gone')\n        return self._info\n"),
    record("onceexits", "model='m'", "SystemExit: 4", f"{ONCE} SystemExit(4)\n        return self._info\n", FAILED),
]  # fmt: skip

#: What does harm elsewhere, and is ready to be used itself.
READY = [
    importing("shallow", f"import sys\nsys.setrecursionlimit(80)\n{GOOD}", "", BackendState.READY),
    importing("prints", f"import os\nprint('NOISE')\nos.write(1, b'NOISE')\n{GOOD}", "", BackendState.READY),
    importing("shuts", f"import sys\nsys.stdout.close()\nsys.__stdout__.close()\n{GOOD}", "", BackendState.READY),
    importing("takes", f"import sys\nsys.stdout = None\n{GOOD}", "", BackendState.READY),
    importing("closes", f"import os\nos.close(1)\n{GOOD}", "", BackendState.READY),
    hook("stays", "[DummyPool(", "[type('P', (DummyPool,), {'close': lambda self: exit(5)})(", "", BackendState.READY),
    record("escapes", "model='a\\x1b[31mb\\nc', flops_per_s=1", ""),
]


@pytest.fixture
def runtime(package: PackageMaker) -> Iterator[Runtime]:
    """A runtime that has a good backend, what is built in, and the packages that the test makes."""
    package("solid", SOLID)
    others = {found.name: {"enabled": False} for found in installed()[0] if not found.value.startswith("zyx_toy_")}
    runtime = Runtime({"backends": others})
    with use(runtime):
        yield runtime
    runtime.close()


def check_that_the_rest_goes_on() -> None:
    one = np.ones(3, "float32")
    assert zyx.Tensor(one, device="solid").sum().item() == 3
    assert "solid:0" in zyx.devices()
    assert {report.name: report.state for report in zyx.backends()}["solid"] is BackendState.READY
    assert zyx.default_device() == "solid:0"
    assert zyx.Tensor(one).sum().item() == 3
    assert "solid:0" in zyx.explain_device()


def report_of(name: str) -> object:
    return next(report for report in zyx.backends() if report.name == name)


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda hostile: hostile.name)
def test_what_fails_in_whatever_way_is_reported_and_the_rest_goes_on(
    runtime: Runtime, package: PackageMaker, hostile: Hostile
) -> None:
    hostile.install(package)
    check_that_the_rest_goes_on()
    report = report_of(hostile.name)
    assert report.state is hostile.state
    assert hostile.reason in report.reason
    assert report.reason.isprintable()
    assert report.advice or report.state is INVALID
    with pytest.raises(NoDeviceError, match=f"backend {hostile.name}: {hostile.state.value}"):
        zyx.ones(3, device=hostile.name)


def test_a_lower_limit_of_calls_is_put_back(runtime: Runtime, package: PackageMaker) -> None:
    before = sys.getrecursionlimit()
    READY[0].install(package)
    check_that_the_rest_goes_on()
    assert report_of("shallow").state is BackendState.READY
    assert sys.getrecursionlimit() == before


def test_a_close_that_ends_the_process_does_not(package: PackageMaker, runtime: Runtime) -> None:
    next(each for each in READY if each.name == "stays").install(package)
    check_that_the_rest_goes_on()
    opened = current().backends
    runtime.close()
    report = next(report for report in opened.reports if report.name == "stays")
    assert report.faults[0].startswith("closing stays memory: SystemExit: 5")


def test_records_are_read_once(runtime: Runtime, package: PackageMaker) -> None:
    once = "import dataclasses\nclass Once{kind}({kind}):\n    def __getattribute__(self, name):\n{body}"
    body = (
        "        seen = SEEN.setdefault(id(self), set())\n        if name in FIELDS and name in seen:\n"
        "            raise RuntimeError(name)\n        seen.add(name)\n        return super().__getattribute__(name)\n"
    )
    extra = once.format(kind="BackendInfo", body=body)
    start = "SEEN = {}\nFIELDS = {field.name for field in __import__('dataclasses').fields(BackendInfo)}\n"
    package("reads", replace={
        "@hookimpl\ndef zyx_backend_info": f"{start}{extra}@hookimpl\ndef zyx_backend_info",
        "return BackendInfo(": "return OnceBackendInfo(",
    })  # fmt: skip
    check_that_the_rest_goes_on()
    assert report_of("reads").state is BackendState.READY


def test_the_hook_for_libraries_is_asked_once_for_a_device(runtime: Runtime, package: PackageMaker) -> None:
    asked = (
        "asked = []\n@hookimpl\ndef zyx_library_kernels(device):\n    asked.append(device.name)\n    return [42]\n\n"
    )
    package("asks", replace={"@hookimpl\ndef zyx_devices": f"{asked}@hookimpl\ndef zyx_devices"})
    device = runtime.device("asks:0")
    for _ in range(3):
        assert runtime.backends.library_kernels(device) == ()
    assert sys.modules["zyx_toy_asks"].asked == ["asks:0"]
    assert report_of("asks").faults == ("zyx_library_kernels: an item of what it returns is not a LibraryKernel: 42",)


@pytest.mark.parametrize("error", ["RuntimeError('stuck')", "SystemExit(3)"])
def test_a_wait_that_fails_at_the_end_keeps_nothing_from_being_closed(
    runtime: Runtime, package: PackageMaker, error: str
) -> None:
    pool = f"class P(DummyPool):\n        def synchronize(self): raise {error}\n    return [P("
    hook("stuck", "return [DummyPool(", pool, "", BackendState.READY).install(package)
    check_that_the_rest_goes_on()
    opened = current().backends
    runtime.close()
    report = next(report for report in opened.reports if report.name == "stuck")
    assert report.faults[0].startswith(f"waiting for stuck memory: {error.partition('(')[0]}: ")
    assert not opened.pools


def test_a_device_that_is_not_a_number_later_is_listed_as_it_was(runtime: Runtime, package: PackageMaker) -> None:
    twice = record("twice", "model='m'", "", f"{ONCE} SystemExit(4)\n        return self._info\n")
    twice.replace = {old: new.replace("uses > 1", "uses > 2") for old, new in twice.replace.items()}
    twice.install(package)
    zyx.devices()
    assert "twice:0" in zyx.devices()
    assert zyx.default_device() in ("solid:0", "twice:0")


@pytest.mark.parametrize("error", ["RuntimeError('bug')", "SystemExit(3)"])
def test_the_fastest_device_is_not_guessed_if_it_compiles_nothing(
    runtime: Runtime, package: PackageMaker, error: str
) -> None:
    code = f"    def compile(self, kernel): raise {error}\n"
    record("buggy", "flops_per_s=1e20", "", code, BackendState.READY).install(package)
    check_that_the_rest_goes_on()
    report = report_of("buggy")
    assert report.state is BackendState.READY
    assert len(report.faults) == 1
    assert report.faults[0].startswith(f"buggy:0 compiles nothing: {error.partition('(')[0]}: ")
    assert zyx.devices()[0] == "buggy:0"


@pytest.mark.parametrize("order", [("evil", "zyx-backend-solid"), ("zzz", "zyx-backend-solid")])
def test_a_name_belongs_to_the_package_that_is_called_after_it(
    runtime: Runtime, package: PackageMaker, order: tuple[str, str]
) -> None:
    package("solid", "raise AssertionError('imported')", distribution=order[0], module=f"zyx_toy_{order[0]}")
    check_that_the_rest_goes_on()
    thief = report_of(f"solid ({order[0]})")
    assert thief.state is INVALID
    assert thief.reason == (
        f"{order[0]} 1.5 (zyx_toy_{order[0]}) declares backend 'solid', which is that of zyx-backend-solid"
    )
    assert thief.package == order[0]


class Impatient(Watchdog):
    """Waits long for those that come back, however busy the machine is."""

    def run(self, work: Callable[[], object], what: str) -> object:
        self._limit_s = 0.2 if "hangs" in what else 30.0
        return super().run(work, what)


@pytest.mark.parametrize("where", ["import", "zyx_backend_info", "zyx_devices"])
def test_what_does_not_come_back_is_left_alone_and_named(
    runtime: Runtime, package: PackageMaker, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zyx.plugins.manager.PluginManager.watchdog", lambda _: Impatient(0.2, "ZYX_BACKEND_TIMEOUT_S"))
    hang = "import threading; threading.Event().wait(20)"
    name = f"hangs_{where}"  # one each: the module of the first is being imported still
    lines = {"zyx_backend_info": "return BackendInfo(", "zyx_devices": DEVICES.replace("{name}", name)}
    if where == "import":
        package(name, hang)
    else:
        package(name, replace={lines[where]: f"{hang}\n    {lines[where]}"})
    started = time.perf_counter()
    check_that_the_rest_goes_on()
    assert time.perf_counter() - started < 10
    report = report_of(name)
    assert report.state is (IMPORT_FAILED if where == "import" else FAILED)
    assert f"of backend {name} did not come back within 0.2 s (ZYX_BACKEND_TIMEOUT_S)" in report.reason
    switch = f"ZYX_{name.upper()}_ENABLED=0"
    assert report.advice == f"set ZYX_BACKEND_TIMEOUT_S to more seconds, or {switch} to do without it"


def test_an_import_that_hangs_is_waited_for_once_by_all_managers(
    runtime: Runtime, package: PackageMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[str] = []

    class Counting(Impatient):
        def run(self, work: Callable[[], object], what: str) -> object:
            limits.append(what)
            return super().run(work, what)

    monkeypatch.setattr("zyx.plugins.manager.PluginManager.watchdog", lambda _: Counting(0.2))
    package("hangs_once", "import threading; threading.Event().wait(20)")
    settings = runtime.settings
    for _ in range(2):
        report = PluginManager(settings).load()["hangs_once"].report
        assert report.state is IMPORT_FAILED
    assert [what for what in limits if "hangs_once" in what] == ["the import of backend hangs_once"]
    assert "begun before, has not come back" in report.reason


def run(tmp_path: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {"HOME": str(tmp_path), "PATH": "", "PYTHONPATH": str(tmp_path / "site")}
    return subprocess.run(
        [sys.executable, "-m", "zyx", *arguments],
        env=clean | environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("command", ["devices", "doctor"])
def test_the_command_line_lists_them_all_and_its_output_is_its_own(
    package: PackageMaker, tmp_path: Path, command: str
) -> None:
    package("solid", SOLID)
    package("solid", "raise AssertionError", distribution="evil", module="zyx_toy_evil")
    for hostile in HOSTILE + READY:
        hostile.install(package)
    names = [hostile.name for hostile in HOSTILE + READY] + ["solid"]
    if command == "devices":
        package("hangs", "import threading; threading.Event().wait(40)")
        names.append("hangs")
    done = run(tmp_path, command, ZYX_BACKENDS=",".join(names), ZYX_BACKEND_TIMEOUT_S="2")
    assert "Traceback" not in done.stderr, done.stderr
    assert "NOISE" in done.stderr
    assert "NOISE" not in done.stdout
    assert "\x1b" not in done.stdout
    assert done.returncode == (1 if command == "doctor" else 0), done
    lines = [line.removeprefix("ok     backend ").removeprefix("WRONG  backend ") for line in done.stdout.splitlines()]
    of = {line.split()[0].rstrip(":"): line for line in lines if line}
    for hostile in HOSTILE:
        assert hostile.state.value in of[hostile.name]
        assert hostile.reason in of[hostile.name]
    assert any("solid:0" in line for line in lines if line.split()[:1] == ["solid"] or line.startswith("solid: ready"))
    assert any("solid (evil)" in line and "which is that of zyx-backend-solid" in line for line in lines)
    if command == "devices":
        assert "did not come back within 2 s" in of["hangs"]
        assert any(line.startswith("default: solid:0, since it is the fastest") for line in lines)
        assert r"a\x1b[31mb c" in of["escapes:0"]
    else:
        assert any(line.startswith("ok     results of solid:0: right") for line in lines)


def test_a_process_with_hostile_backends_ends_with_its_own_status(package: PackageMaker, tmp_path: Path) -> None:
    package("solid", SOLID)
    next(each for each in READY if each.name == "stays").install(package)
    package("hangs", "import threading; threading.Event().wait(40)")
    code = "import zyx; zyx.devices(); print(zyx.ones(3, device='solid').sum().item())"
    environ = {"PYTHONPATH": str(tmp_path / "site"), "HOME": str(tmp_path), "PATH": ""}
    environ |= {"ZYX_BACKENDS": "solid,stays,hangs", "ZYX_BACKEND_TIMEOUT_S": "0.5"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False, timeout=30
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "3.0\n", "")


def test_code_of_others_runs_in_a_thread_that_ends_and_sees_the_callers_context() -> None:
    before = threading.active_count()
    variable = contextvars.ContextVar("variable", default=0)
    variable.set(7)
    with Watchdog(10) as watchdog:
        name, seen, number = watchdog.run(
            lambda: (threading.current_thread().name, variable.get(), threading.get_ident()), "it"
        )
        assert watchdog.run(threading.get_ident, "it") == number != threading.get_ident()
    assert (name, seen) == ("zyx: plugins", 7)
    assert threading.active_count() == before


def test_without_a_limit_it_runs_where_it_is_called() -> None:
    with Watchdog(0) as watchdog:
        assert watchdog.run(threading.get_ident, "it") == threading.get_ident()


def test_where_no_thread_can_be_started_it_runs_where_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with Watchdog(10) as watchdog:
        assert watchdog.run(threading.get_ident, "it") == threading.get_ident()


def test_what_comes_back_too_late_is_told_of_before_it_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("zyx.plugins.watchdog._PATIENCE_S", 0.05)
    done = threading.Event()
    with Watchdog(0.15) as watchdog:
        with pytest.raises(Overdue, match=r"a hook did not come back within 0\.15 s"):
            watchdog.run(lambda: done.wait(20), "a hook")
        assert watchdog.run(lambda: 1, "another") == 1  # in another thread
    assert "a hook has not come back for 0.05 s; it is waited for 0.1 s more" in caplog.text
    done.set()


def test_an_interrupt_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()
    with Watchdog(20) as watchdog:
        monkeypatch.setattr(watchdog, "_wait", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            watchdog.run(lambda: done.wait(20), "a hook")
    done.set()


def test_the_first_devices_cost_one_thread_and_few_calls_each_more_than_without_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it costs beside that, two changes of threads for each piece, no count can tell."""
    started = []
    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda thread: (started.append(thread), start(thread))[1])

    def calls_of(limit_s: float) -> int:
        calls = 0

        def count(frame: object, event: str, arg: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        with Watchdog(limit_s) as watchdog:
            watchdog.run(lambda: None, "it")
            sys.setprofile(count)
            for _ in range(11):  # six backends, each loaded and opened
                watchdog.run(lambda: None, "it")
            sys.setprofile(None)
        return calls

    assert calls_of(30) - calls_of(0) <= 11 * 4
    assert len(started) == 1
