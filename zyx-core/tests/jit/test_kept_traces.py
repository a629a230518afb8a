"""How many traces a function keeps, what they keep alive, and what is released with them."""

import asyncio
import copy
import functools
import gc
import pickle
import sys
import weakref

import numpy as np
import pytest

import zyx
from zyx import nn
from zyx.backend import Program
from zyx.errors import TraceError
from zyx.jit.function import MOST_TRACES
from zyx.runtime.runtime import current

pytestmark = pytest.mark.usefixtures("interpreter")


class Model:
    def __init__(self, size=4):
        self.w = zyx.Tensor(np.ones(size, np.float32)).realize()

    @zyx.jit
    def go(self, x):
        self.w.assign(self.w * 1.0)
        return x + self.w


class Network(nn.Module):
    def __init__(self):
        self.inner = nn.Linear(2, 2)

    @zyx.jit
    def forward(self, x):
        return self.inner(x)


@zyx.jit
def named(x):
    return x * 2


def live_bytes(runtime):
    gc.collect()
    runtime.memory.reclaim()
    return runtime.memory.live_bytes


# ---- how many


def test_traces_for_changing_values_are_bounded_and_those_not_used_go_first(monkeypatch):
    monkeypatch.setattr(sys.modules["zyx.jit.function"], "MOST_TRACES", 5)
    count = []
    f = zyx.jit(lambda x, s: (count.append(s), x + float(s))[1])
    x = zyx.Tensor([1.0])
    for number in range(12):
        assert f(x, "0.5").tolist() == [1.5]
        assert f(x, f"{number + 1}").tolist() == [number + 2]
        assert len(f.traces) <= 5
    assert count.count("0.5") == 1
    assert f(x, "12").tolist() == [13]
    assert len(count) == 13
    f(x, "1")
    assert len(count) == 14


def test_the_bound_is_what_it_is_said_to_be():
    f = zyx.jit(lambda x, s: x)
    x = zyx.Tensor([1.0])
    for number in range(MOST_TRACES + 20):
        f(x, str(number))
    assert len(f.traces) == MOST_TRACES == 128


def test_each_object_of_a_method_has_traces_of_its_own(monkeypatch):
    monkeypatch.setattr(sys.modules["zyx.jit.function"], "MOST_TRACES", 3)
    Model.go.clear()
    models, x = [Model() for _ in range(5)], zyx.ones(4)
    for _ in range(2):
        for model in models:
            model.go(x)
    entries = Model.go.traces
    assert len(entries) == 5
    for number in range(4):
        models[0].go(zyx.ones(number + 1, 4))
    assert len(Model.go.traces) == 7
    assert set(entries[1:]) < set(Model.go.traces)


# ---- what is kept alive


@pytest.mark.parametrize("kind", [Model, Network])
def test_a_traced_method_keeps_no_object_alive(kind):
    runtime = current()
    x = (zyx.ones(2, 2) if kind is Network else zyx.ones(4)).realize()
    method = Network.forward if kind is Network else Model.go
    method.clear()
    first = kind()
    before = live_bytes(runtime)
    ends = []
    for _ in range(6):
        thing = kind()
        method(thing, x).realize()
        ends.append(weakref.ref(thing))
    del thing
    gc.collect()
    assert [end() for end in ends] == [None] * 6
    assert method.traces == []
    assert live_bytes(runtime) == before
    method(first, x)
    assert len(method.traces) == 1


def test_what_was_replaced_is_not_kept_alive():
    model, x = Model(), zyx.ones(4)
    model.go(x)
    old = weakref.ref(model.w)
    model.w = zyx.Tensor(np.full(4, 5, np.float32))
    gc.collect()
    assert old() is None
    assert model.go(x).tolist() == [6] * 4
    weight = zyx.Tensor([1.0])
    f = zyx.jit(lambda x: x + weight)
    f(zyx.Tensor([1.0]))
    old = weakref.ref(weight)
    weight = zyx.Tensor([2.0])
    gc.collect()
    assert old() is None
    assert f(zyx.Tensor([1.0])).tolist() == [3]
    assert len(f.traces) == 1


def test_modules_that_a_function_makes_for_itself_are_no_reason_to_trace_again():
    count = []

    @zyx.jit
    def f(x):
        count.append(x)
        return nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.ReLU()))(x) * 0 + nn.Dropout(0.5).eval()(x)

    for _ in range(4):
        assert f(zyx.ones(1, 1)).tolist() == [[1]]
    assert len(count) == 1


def test_what_dies_goes_at_once():
    """Nothing in a trace waits for the collection of cycles, which may come late, and memory is scarce."""
    model, x = Model(), zyx.ones(4)
    gc.collect()
    gc.disable()
    try:
        model.go(x)
        ends = [weakref.ref(model), weakref.ref(model.w)]
        del model
        assert [end() for end in ends] == [None, None]
        f = zyx.jit(lambda x, n: (x @ x).cumsum(0) + n)
        f(zyx.ones(2, 2), 1)
        end = weakref.ref(f.traces[0])
        f.clear()
        assert end() is None
    finally:
        gc.enable()


def test_arguments_and_results_are_not_kept_alive():
    f = zyx.jit(lambda x, tree: (x + 1, tree["y"] * 2))
    x, tree = zyx.Tensor([1.0]), {"y": zyx.Tensor([2.0])}
    results = f(x, tree)
    ends = [weakref.ref(tensor) for tensor in (x, tree["y"], *results)]
    del x, tree, results
    gc.collect()
    assert [end() for end in ends] == [None] * 4
    assert len(f.traces) == 1


class Captured(Program):
    """A sequence of launches."""

    def __init__(self, launches):
        super().__init__("captured")
        self.launches = launches


def test_everything_that_a_trace_held_is_released(monkeypatch):
    runtime = current()
    device = runtime.device("interpreter")
    launch, released = device.launch, []

    def launch_all(program, args, events=()):
        for step in program.launches if isinstance(program, Captured) else ():
            event = launch(step.program, [args[slot.number] for slot in step.args], events)
        return event if isinstance(program, Captured) else launch(program, args, events)

    monkeypatch.setattr(device, "capture", lambda launches, slots: Captured(launches), raising=False)
    monkeypatch.setattr(device, "launch", launch_all)
    monkeypatch.setattr(device, "release", released.append)
    before = live_bytes(runtime)
    f = zyx.jit(lambda x: (x @ x).softmax(0) @ x.cumsum(0))
    x = zyx.Tensor(np.ones((2, 2), np.float32))
    assert f(x).shape == f(x).shape == (2, 2)
    del x
    assert live_bytes(runtime) > before
    del f
    assert live_bytes(runtime) == before
    zyx.jit(lambda x: x * 3)(zyx.Tensor([1.0]))  # when there is work again
    assert [type(program) for program in released] == [Captured]


# ---- copies


def test_copies_have_traces_of_their_own():
    f = zyx.jit(lambda x: x * 2)
    x = zyx.Tensor([1.0])
    f(x)
    for copied in (copy.copy(f), copy.deepcopy(f)):
        assert copied.traces == []
        assert copied(x).tolist() == [2]
    assert len(f.traces) == 1
    assert pickle.loads(pickle.dumps(named)) is named


def test_a_copied_network_is_not_the_one_that_was_traced():
    net = nn.Sequential(nn.Linear(1, 1, bias=False))
    net.fast = zyx.jit(net[0].forward)
    x = zyx.Tensor([[1.0]])
    net.fast(x)
    other = copy.deepcopy(net)
    other[0].load_state_dict({"weight": [[7.0]]})
    assert other.fast(x).tolist() == [[7]]
    assert net.fast(x).tolist() != [[7]]
    applied = zyx.jit(net)
    applied(x)
    again = copy.deepcopy(applied)
    net[0].load_state_dict({"weight": [[9.0]]})
    assert applied(x).tolist() == [[9]]
    assert again(x).tolist() != [[9]]


# ---- what can be traced


async def coroutine(x):
    return x


def generator(x):
    yield x


async def async_generator(x):
    yield x


class Async:
    async def __call__(self, x):
        return x


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (coroutine, "coroutine is an async function: a call of it computes nothing that could be traced"),
        (generator, "generator is a generator.*return a list of tensors"), (async_generator, "is a generator"),
        (functools.partial(generator), "is a generator"), (Async(), "is an async function"),
        (Async().__call__, "is an async function"), (staticmethod(named), "given a staticmethod; put it below"),
        (3, "zyx.jit was given a int; "), (property(lambda x: x), "given a property; "),
        (classmethod(lambda x: x), "given a classmethod; put"),
    ],
)  # fmt: skip
def test_what_does_not_compute_when_it_is_called_is_refused_at_once(function, text):
    with pytest.raises(TraceError, match=text):
        zyx.jit(function)


def test_an_async_function_may_call_a_traced_one():
    async def work(x):
        await asyncio.sleep(0)
        return named(x)

    async def all_of_it():
        return await asyncio.gather(*[work(zyx.Tensor([float(number)])) for number in range(3)])

    assert [result.item() for result in asyncio.run(all_of_it())] == [0, 2, 4]
