"""Keys of objects serve again for as long as the objects hold the same."""

import gc
import sys
import threading
import weakref

import numpy as np
import pytest

import zyx
from zyx.jit import exact_key as keys
from zyx.jit.exact_key import exact_key
from zyx.jit.snapshot import snapshot_of


class Settings:
    """What users give jitted methods."""

    def __init__(self):
        self.rate = 0.5
        self.sizes = [1, 2, [3, "x"]]
        self.by_name = {"a": (1, 2.0), "b": {"c": [None]}}
        self.function = len_of
        self.weights = np.ones(3)
        self.inner = Inner()


class Inner:
    def __init__(self):
        self.steps = 3
        self.list = [True]


class Slotted:
    __slots__ = ("__weakref__", "rate")

    def __init__(self):
        self.rate = 1.0


def len_of(x):
    return len(x)


def snapshot(value):
    return snapshot_of(value, keys.about_class)


CHANGES = {
    "number": lambda s: setattr(s, "rate", 0.25),
    "type of a number": lambda s: setattr(s, "rate", True),
    "item": lambda s: s.sizes.__setitem__(0, 7),
    "item below": lambda s: s.sizes[2].append(4),
    "order": lambda s: s.sizes.reverse(),
    "equal number of another type": lambda s: s.sizes.__setitem__(0, 1.0),
    "key": lambda s: s.by_name.__setitem__("d", 1),
    "key renamed": lambda s: s.by_name.__setitem__("z", s.by_name.pop("b")),
    "value below": lambda s: s.by_name["b"]["c"].__setitem__(0, 0),
    "function": lambda s: setattr(s, "function", lambda x: x),
    "array": lambda s: setattr(s, "weights", np.ones(3)),
    "attribute": lambda s: setattr(s, "more", 1),
    "no attribute": lambda s: delattr(s, "rate"),
    "attribute below": lambda s: setattr(s.inner, "steps", 4),
    "list below": lambda s: s.inner.list.append(1),
    "object": lambda s: setattr(s, "inner", Inner()),
    "sign of zero": lambda s: setattr(s, "rate", -0.0),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_is_seen(change):
    value = Settings()
    if change is CHANGES["sign of zero"]:
        value.rate = 0.0
    taken, key = snapshot(value), exact_key(value)
    assert taken.shows(value)
    assert exact_key(value) is key
    change(value)
    assert not taken.shows(value)
    assert exact_key(value) != key


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.usefixtures("interpreter")
def test_a_method_is_traced_again_after_every_change(change):
    traced = []

    class Model(Settings):
        @zyx.jit
        def step(self, x):
            traced.append(1)
            return x + 1.0

    model, x = Model(), zyx.ones(3)
    for _ in range(3):
        model.step(x)
    assert len(traced) == 1
    change(model)
    model.step(x)
    model.step(x)
    assert len(traced) == 2


def test_another_object_at_the_place_of_one_that_is_gone_is_another():
    value = Settings()
    places, seen = set(), 0
    for _ in range(50):
        value.function = lambda x: x  # often where the last one was
        taken = snapshot(value)
        place = id(value.function)
        seen += place in places
        places.add(place)
        del value.function
        value.function = lambda x: x + 1
        assert not taken.shows(value)
    assert seen


def test_nothing_that_can_change_is_kept_alive():
    value = Settings()
    references = [weakref.ref(value.weights), weakref.ref(value.inner), weakref.ref(value)]
    exact_key(value)
    value.weights = value.inner = None
    gc.collect()
    assert [reference() for reference in references[:2]] == [None, None]
    del value
    gc.collect()
    assert references[2]() is None


@pytest.mark.parametrize("held", [{1, 2}, bytearray(b"ab"), Slotted(), {1: 2}, lambda: (yield)])
def test_what_a_snapshot_would_not_show_has_its_key_made_each_time(held):
    value = Inner()
    value.held = held() if callable(held) else held
    taken = snapshot(value)
    assert taken is None or taken.shows(value)
    key = exact_key(value)
    assert exact_key(value) == key
    if isinstance(held, set):
        held.add(3)
        assert exact_key(value) != key
    if isinstance(held, Slotted):
        held.rate = 2.0
        assert exact_key(value) != key


def test_objects_that_hold_each_other_have_no_snapshot():
    value = Inner()
    value.inner = Inner()
    value.inner.outer = value
    assert snapshot(value) is None
    assert exact_key(value) == exact_key(value)


def test_a_key_that_serves_again_takes_few_calls():
    value = Settings()
    value.more = {str(number): len_of for number in range(100)}
    exact_key(value)
    calls = []
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_name) if event == "call" else None)
    try:
        exact_key(value)
    finally:
        sys.setprofile(None)
    assert len(calls) <= 14  # one for each container


def test_an_object_that_another_thread_changes_meanwhile_is_never_taken_for_what_it_was():
    value, stop = Inner(), threading.Event()

    def change():
        while not stop.is_set():
            value.steps += 1

    thread = threading.Thread(target=change)
    thread.start()
    try:
        found = [(value.steps, exact_key(value), value.steps) for _ in range(300)]
    finally:
        stop.set()
        thread.join()
    last = exact_key(value)
    assert all(key != last for _, key, after in found if after != value.steps)
