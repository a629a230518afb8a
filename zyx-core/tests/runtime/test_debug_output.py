"""What each subject of ``ZYX_DEBUG`` and of `zyx.debug` shows: a row of the table in the README, a test."""

import re
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import zyx
from zyx.backend import Program
from zyx.builtin.interpreter import InterpreterProgram
from zyx.errors import AllocationError, SettingsError
from zyx.kernel.run import Executable
from zyx.plugins.manager import Backend
from zyx.runtime.runtime import Runtime, use
from zyx.runtime.trace import Trace
from zyx.settings.debug import Debug


@pytest.fixture
def shown(capsys, interpreter):
    """Return a function that returns the lines that a piece of work writes under some subjects."""

    def lines(*subjects, work=lambda: zyx.Tensor(np.arange(6, dtype=np.float32)).sum().numpy()):
        capsys.readouterr()
        with zyx.debug(*subjects):
            work()
        output = capsys.readouterr()
        assert not output.out
        return output.err.splitlines()

    return lines


def test_nothing_is_shown_by_default(shown):
    assert shown() == []


def test_devices_are_shown_with_what_they_are_why_others_failed_and_the_one_chosen(capsys):
    runtime = Runtime({"debug": "devices", "devices": {"backends": ["interpreter"]}})
    with use(runtime), pytest.warns(match="very slow"):
        assert zyx.default_device() == "interpreter:0"
    runtime.close()
    lines = capsys.readouterr().err.splitlines()
    assert "setting devices.backends: given by code" in lines
    assert "backend interpreter: ready: interpreter:0" in lines
    assert any(re.match(r"    interpreter:0: zyx interpreter, .*FLOP/s, .*B/s, .* free, zyx", line) for line in lines)
    assert any(re.match(r"backend dummy: switched off: .+", line) for line in lines)
    assert any(re.match(r"device interpreter:0: there is nothing else", line) for line in lines)


def test_what_a_backend_notes_of_its_devices_is_shown_with_them(capsys, monkeypatch):
    original = Backend.call

    def call(backend, hook, **arguments):
        if hook == "zyx_devices" and backend.report.name == "interpreter":
            backend.note("a product is left out: the results are wrong")
        return original(backend, hook, **arguments)

    monkeypatch.setattr(Backend, "call", call)
    runtime = Runtime({"debug": "devices", "devices": {"backends": ["interpreter"]}})
    with use(runtime), pytest.warns(match="very slow"):
        zyx.default_device()
    runtime.close()
    lines = capsys.readouterr().err.splitlines()
    (place,) = (number for number, line in enumerate(lines) if line.startswith("    interpreter:0: "))
    assert lines[place + 1] == "    a product is left out: the results are wrong"


def test_plans_are_shown_with_their_steps_and_the_time_they_took_to_make(shown):
    head, *steps = shown("plan")
    assert re.fullmatch(r"plan of 1 launches and 0 copies, 0 bytes of temporaries, made in [\d.]+ ms", head)
    assert steps == ["    launch sum on interpreter:0: 0 -> 1; 28 bytes"]


def test_a_capture_that_is_refused_is_shown_with_the_plans(shown, interpreter, monkeypatch):
    def refuse(launches, slots):
        raise AllocationError("no room for it")

    monkeypatch.setattr(interpreter.device(), "capture", refuse, raising=False)
    x = zyx.Tensor(np.ones((3, 3), np.float32))
    lines = shown("plan", work=lambda: zyx.jit(lambda x: (x @ x).cumsum(0))(x))
    device = interpreter.device().name
    assert (
        f"{device} does not capture 2 launches: AllocationError: no room for it; they are launched one by one" in lines
    )


def test_schedules_are_shown_before_and_after_with_their_moves(shown):
    lines = shown("schedule")
    assert lines[0] == "schedule sum"
    assert lines.count("p0: f32[1] mutable, p1: f32[6]") == 2


def test_kernels_are_shown_as_the_device_is_given_them(shown):
    assert any(line.startswith("kernel sum") for line in shown("ir"))


def test_the_source_is_shown(shown, monkeypatch):
    assert shown("source") == ["sum has no source: interpreter:0 is given the kernel itself"]
    monkeypatch.setattr(InterpreterProgram, "__init__", with_source)
    assert shown("source", work=(zyx.ones(3) * 2).numpy) == ["source of binary_3"]


def test_machine_code_is_shown_after_the_source(capsys):
    program = Program("sum", "the source")
    shown = type("Shown", (Program,), {"__slots__": (), "assembly": lambda self: "the machine code"})(
        "sum", "the source"
    )
    with zyx.debug("source"):
        Trace().compiled(SimpleNamespace(name="c:0"), program, 0.0)
        Trace().compiled(SimpleNamespace(name="c:0"), shown, 0.0)
    assert capsys.readouterr().err.splitlines() == ["the source", "the source", "the machine code"]


def with_source(self, kernel):
    Program.__init__(self, kernel.name, f"source of {kernel.name}")
    self.executable, self.params = Executable(kernel), kernel.params


def test_launches_and_copies_are_shown_with_time_bytes_and_rate(shown):
    upload, launch, download = shown("launches")
    assert re.fullmatch(r"copy an array -> host: [\d.]+ us, 24 bytes, .*B/s", upload)
    assert re.fullmatch(r"interpreter:0 sum: [\d.]+ us, reads 24 bytes, writes 4, .*B/s", launch)
    assert re.fullmatch(r"copy host -> an array: [\d.]+ us, 4 bytes, .*B/s", download)


def test_copies_between_devices_are_shown(capsys, lab):
    with zyx.debug("launches"):
        (zyx.ones(8, device="lab:0") + 1).to("lab:1").realize()
    assert re.search(r"^copy lab:0 -> lab:1: [\d.]+ us, 32 bytes", capsys.readouterr().err, re.MULTILINE)


def test_allocations_deallocations_and_failures_are_shown(capsys, lab, pool):
    free = pool.free_bytes
    with zyx.debug("memory"):
        x = zyx.ones(64, device="lab:0").realize()
        del x
        zyx.empty_cache()
        with pytest.raises(AllocationError):
            zyx.ones(pool.capacity, device="lab:0").realize()
    assert capsys.readouterr().err.splitlines() == [
        f"[lab:0] allocate 256 -> free {free - 256} B",
        f"[lab:0] deallocate 256 -> free {free} B",
        f"[lab:0] allocate {4 * pool.capacity} FAILED, free {free} B",
    ]


def test_compilations_are_shown_with_their_time(shown):
    (line,) = shown("compile")
    assert re.fullmatch(r"compiled sum for interpreter:0 in [\d.]+ ms", line)


def test_autotune_shows_what_each_kernel_took_and_takes(shown):
    with zyx.settings(autotune={"enabled": True, "save_to_disk": False, "time_budget_s": 0.2, "n_launches": 1}):
        (line,) = shown("autotune", work=lambda: zyx.Tensor(np.arange(77, dtype=np.float32)).sum().numpy())
    assert re.fullmatch(r"tuned sum on interpreter:0: [\d.]+ us, [\d.]+ us by the best of \d+; .+", line)


def test_lines_are_shown_where_something_else_is(shown):
    assert shown("lines") == []
    (launch,) = [line for line in shown("lines", "launches") if " sum: " in line]
    assert re.search(r", computed for .*test_debug_output\.py:\d+$", launch)


def test_stages_are_shown_as_kernels_are_planned(shown):
    def work():
        for _ in range(2):  # the same kernel is shown once
            (zyx.Tensor(np.arange(33, dtype=np.float32)) * 2).sum().numpy()

    heads = [line for line in shown("stages", work=work) if line.startswith(("kernel sum on ", "---- "))]
    names = ["graph", "nests", "scheduled", "lowered", "passes", "source"]
    assert heads == ["kernel sum on interpreter:0", *(f"---- {at} {name}" for at, name in enumerate(names, 1))]


def test_every_subject_has_a_row_in_the_table_and_a_test_here():
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    tests = " ".join(name for name in globals() if name.startswith("test_"))
    words = {"ir": "kernels", "compile": "compilations", "memory": "allocations"}
    assert re.findall(r"^\| `(\w+)` \| (\d+) \|", text, re.MULTILINE) == [
        (flag.name.lower(), str(flag.value)) for flag in Debug
    ]
    for flag in Debug:
        name = flag.name.lower()
        assert words.get(name, name) in tests, name


# ---- zyx.debug


def test_a_block_shows_what_it_says_and_then_what_was_shown_before(shown, capsys):
    with zyx.debug("compile"):
        with zyx.debug():
            assert shown() == []
        (zyx.ones(3) * 7).numpy()
        assert capsys.readouterr().err.startswith("compiled")
    (zyx.ones(3) * 8).numpy()
    assert not capsys.readouterr().err


def test_subjects_are_names_numbers_and_lists_and_work_at_once(shown, capsys):
    undo = zyx.debug(["plan"], 128)
    (zyx.ones(3) * 9).numpy()
    with undo:
        pass
    text = capsys.readouterr().err
    assert "plan of" in text
    assert "compiled" in text


def test_it_beats_the_configuration(capsys):
    runtime = Runtime({"debug": "all"})
    with use(runtime), zyx.debug(), runtime.default("interpreter"):
        zyx.ones(3).sum().numpy()
        runtime.close()
    assert not capsys.readouterr().err


def test_it_holds_for_its_thread_alone(interpreter, capsys):
    def work():
        with use(interpreter), interpreter.default("interpreter"):
            (zyx.ones(5) * 3).numpy()

    with zyx.debug("all"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert not capsys.readouterr().err


def test_an_unknown_subject_is_an_error_that_lists_them():
    with pytest.raises(SettingsError, match=r"zyx\.debug: there is no subject 'memroy'; did you mean 'memory'"):
        zyx.debug("memroy")
