"""Which line of a program each kernel is from, and who says so."""

from __future__ import annotations

import gc
import inspect
import threading
from pathlib import Path

import numpy as np
import pytest

import zyx
from zyx.errors import AllocationError, UnsupportedError
from zyx.graph import lines as table
from zyx.runtime.lines import line_of_caller
from zyx.runtime.runtime import Runtime, use


def here(back=0):
    """Return the line of the caller, so many lines further up, as it is seen from the folder of the process."""
    file = Path(__file__)
    name = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
    return f"{name}:{inspect.currentframe().f_back.f_lineno - back}"


def lines_of(kernels):
    return [line for kernel in kernels for line in kernel.lines]


@pytest.fixture
def x(interpreter):
    return zyx.Tensor(np.arange(12, dtype=np.float32).reshape(3, 4))


def test_a_kernel_has_the_lines_of_all_that_is_computed_in_it(x):
    with zyx.debug("lines"), zyx.profile() as seen:
        y = x.exp()
        first = here(1)
        z = y * x
        second = here(1)
        z.sum().numpy()
        third = here(1)
    (kernel,) = seen.kernels()
    assert sorted(kernel.lines) == sorted([first, second, third])
    assert str(seen).splitlines()[0].endswith("LINES")
    assert first in str(seen).splitlines()[1]
    (event,) = [event for event in seen.as_trace()["traceEvents"] if event.get("cat") == "kernel"]
    assert set(event["args"]["lines"].split(", ")) == {first, second, third}


def test_equal_programs_of_different_lines_are_told_apart(x):
    with zyx.debug("lines"), zyx.profile() as seen:
        (x + 1).numpy()
        first = here(1)
        (x + 1).numpy()
        second = here(1)
    (kernel,) = seen.kernels()
    assert (kernel.launches, kernel.lines) == (2, (first, second))


def test_layers_gradients_and_optimisers_are_of_the_line_that_calls_them(x):
    layer = zyx.nn.Linear(4, 2)
    optimizer = zyx.optim.SGD(layer.parameters(), lr=0.1)
    zyx.realize(*layer.parameters())
    with zyx.debug("lines"), zyx.profile() as seen:
        loss = layer(x).sum()
        forward = here(1)
        loss.backward()
        backward = here(1)
        optimizer.step()
        step = here(1)
        zyx.realize(loss, *layer.parameters())
    assert {forward, backward, step} >= set(lines_of(seen.kernels())) >= {forward, step}


def test_what_is_rewritten_on_the_way_keeps_its_line(x):
    with zyx.debug("lines"), zyx.profile() as seen:
        lines = []
        for rate in (1.5, 2.5, 3.5):  # a number that kernels are given
            ((x.T * rate).cumsum(0).sort(1)).numpy()
            lines.append(here(1))
        zyx.linalg.det(x[:, :3]).numpy()
        lines.append(here(1))
        (x + 1j).exp().abs().numpy()
        lines.append(here(1))
        step = zyx.jit(lambda x: x.softmax(1))
        lines.append(here(1))
        step(x).numpy()
    kernels = seen.kernels()
    assert all(kernel.lines for kernel in kernels)
    assert set(lines_of(kernels)) == set(lines)


def test_plans_and_launches_that_are_shown_say_it(x, capsys):
    with zyx.debug("lines", "plan", "launches"):
        x.sum().numpy()
        line = here(1)
    shown = [line_ for line_ in capsys.readouterr().err.splitlines() if line_.endswith(f", computed for {line}")]
    assert len(shown) == 2
    assert zyx.explain_plan(x.max())["steps"][0]["lines"] == []


def test_errors_of_memory_and_of_compilers_say_it(x, interpreter, monkeypatch):
    device = interpreter.device("interpreter")

    def full(nbytes):
        raise AllocationError(f"no room for {nbytes} bytes")

    with zyx.debug("lines"):
        y = x * 3 + 1
        line = here(1)
        with monkeypatch.context() as patch:
            patch.setattr(device.memory_pool, "allocate", full)
            with pytest.raises(AllocationError, match="no room") as caught:
                y.numpy()
        assert str(caught.value).endswith(f", computed for {line}")

        def refuse(kernel):
            raise UnsupportedError(f"{kernel.name} is too much")

        monkeypatch.setattr(type(device), "compile", lambda device, kernel: refuse(kernel))
        with pytest.raises(UnsupportedError, match="too much") as refused:
            (x - 7).numpy()
        assert refused.value.__notes__ == [f"binary_3x4, computed for {here(1)}"]


def test_it_is_off_by_default_and_after_a_block_and_of_its_thread(x, interpreter):
    def launched():
        with zyx.profile() as seen:
            (x + 5).numpy()
        return lines_of(seen.kernels())

    assert launched() == []
    assert not interpreter.observers.references
    with zyx.debug("lines"):
        assert len(launched()) == 1
        found = []
        thread = threading.Thread(target=lambda: found.append(launched()))
        thread.start()
        thread.join()
        assert found == [[]]
        assert not interpreter.observers.are_following
    assert interpreter.lines is None
    assert not interpreter.observers.references
    assert launched() == []


@pytest.mark.filterwarnings("ignore:.*very slow")
def test_the_configuration_can_ask_for_it():
    runtime = Runtime({"debug": "lines", "devices": {"backends": ["interpreter"]}})
    with use(runtime), zyx.profile() as seen:
        zyx.Tensor(np.ones(3, np.float32)).sum().numpy()
        line = here(1)
    runtime.close()
    assert lines_of(seen.kernels()) == [line]


def test_lines_keep_no_node_alive(x):
    with zyx.debug("lines"):
        y = x + 1
        assert table.lines_of([y._node])
        before = len(table._LINE_OF)
        del y
        gc.collect()
        assert len(table._LINE_OF) < before


def test_the_line_is_the_innermost_outside_of_the_library():
    assert line_of_caller() == here()
