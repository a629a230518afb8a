"""One thing after the other in a thread, also where there can be no thread."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

import zyx
from zyx.errors import BackendError
from zyx.runtime.background import Background
from zyx.testing.handlers import at_each_line


@pytest.fixture
def background():
    background = Background("test")
    yield background
    background.close()


def test_work_is_done_in_order_in_one_other_thread(background):
    order: list[int] = []

    def work(number: int) -> int:
        order.append(number)
        return threading.get_ident()

    found = {future.result(60) for future in [background.submit(work, number) for number in range(20)]}
    assert order == list(range(20))
    assert len(found) == 1
    assert threading.get_ident() not in found


def test_what_work_raises_is_raised_where_its_result_is_asked_for(background):
    def work() -> None:
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        background.submit(work).result(60)
    assert background.submit(int, "7").result(60) == 7


def test_closing_waits_and_another_piece_of_work_starts_again(background):
    go_on = threading.Event()
    first = background.submit(go_on.wait, 60)
    second = background.submit(int, "2")
    threading.Timer(0.05, go_on.set).start()
    background.close()
    assert (first.done(), second.result(0)) == (True, 2)
    assert background.submit(int, "3").result(60) == 3


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
def test_where_the_system_has_no_thread_the_work_is_done_here(background, monkeypatch, error):
    def start(_thread: threading.Thread) -> None:
        raise error

    monkeypatch.setattr(threading.Thread, "start", start)
    future = background.submit(threading.get_ident)
    assert (future.done(), future.result()) == (True, threading.get_ident())


def test_when_python_ends_the_work_is_done_here(background, monkeypatch):
    background.submit(int).result(60)
    monkeypatch.setattr(sys, "is_finalizing", lambda: True)
    assert background.submit(threading.get_ident).result(0) == threading.get_ident()


def test_a_handler_of_a_signal_may_ask_for_work_at_any_line(background):
    backgrounds = [background]

    def submit() -> None:
        backgrounds.append(Background("another"))  # whose thread has to be started
        for number in range(2):
            assert backgrounds[-1].submit(int, str(number)).result(60) == number
        backgrounds[-1].close()

    def handler() -> None:
        assert backgrounds[-1].submit(int, "7").result(60) == 7

    assert at_each_line(submit, handler, "zyx.runtime.background") > 10
    for another in backgrounds:
        another.close()


def test_a_thread_that_would_wait_for_itself_says_so(background):
    def work() -> int:
        return background.submit(int, "7").result(60)

    with pytest.raises(BackendError, match="would wait for itself"):
        background.submit(work).result(60)


def test_a_tensor_is_not_read_by_the_thread_that_its_reader_waits_for(background):
    x = zyx.Tensor([1.0, 2.0])
    with pytest.raises(BackendError, match="would wait for itself"):
        background.submit(x.numpy).result(60)
    assert x.numpy().tolist() == [1.0, 2.0]


_HANGING = """
import os, signal, sys, threading, time
import zyx
from zyx.runtime.compiler import Compiler
never = threading.Event()
def hang(*_):
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    never.wait()
Compiler._compile = Compiler._build = hang
try:
    (zyx.rand(3) + 1.0).numpy()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals come otherwise there")
def test_an_interrupt_ends_waiting_for_a_compiler_that_hangs():
    done = subprocess.run(
        [sys.executable, "-c", _HANGING], capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "ZYX_DEVICE": "interpreter", "ZYX_CACHE": "0"},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr
