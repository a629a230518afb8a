"""A trace is used again only for arguments that the function cannot tell from those that it was traced with."""

import array
import enum
import functools
import gc
import math
import struct
import types
import weakref
from collections import Counter, OrderedDict, UserDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import zyx
from zyx import nn
from zyx.errors import TraceError
from zyx.jit.exact_key import MOST_VALUES, exact_key

pytestmark = pytest.mark.usefixtures("interpreter")


@dataclass(frozen=True)
class Frozen:
    value: object


@dataclass(frozen=True, slots=True)
class Slotted:
    value: object


class Equal:
    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, Equal) and self.value == other.value

    def __hash__(self):
        return hash(self.value)


class InSlots:
    __slots__ = ("__value",)

    def __init__(self, value):
        self.__value = value


class Holder:
    def __init__(self, value):
        self.value = value


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


Pair = namedtuple("Pair", "left right")


def nan(bits):
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


def traces_of(*arguments):
    """Return how often a function is traced for these arguments, in this order."""
    count = []
    f = zyx.jit(lambda x, s: (count.append(s), x + 1)[1])
    x = zyx.Tensor([1.0])
    for argument in arguments:
        assert f(x, argument).tolist() == [2]
    return len(count)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0.0, -0.0), (1, 1.0), (1, True), (0, False), (1.0, 1 + 0j), (0j, -0j), (0j, complex(0.0, -0.0)),
        (np.float32(0.0), np.float32(-0.0)), (np.float32(1), np.float64(1)), (np.int32(1), np.int64(1)),
        (1, np.int64(1)),
        (1.0, np.float64(1.0)), (np.datetime64(1, "s"), np.datetime64(1, "m")), ("1", b"1"), (Colour.RED, Colour.GREEN),
        (Fraction(1), 1), (Decimal("1.0"), Decimal("1.00")), (Decimal(0), Decimal("-0")),
        (nan(0x7FF8 << 48), nan(0xFFF8 << 48)),
        ((1,), [1]), ({"a": 1}, {"a": True}), ({"a": 1}, {"b": 1}), ({1: 0}, {1.0: 0}), ({0.0: 1}, {-0.0: 1}),
        (frozenset({1}), frozenset({1.0})), ({1, 2}, {1, 3}), (range(3), range(4)), (slice(1), slice(1.0)),
        (deque([1]), deque([1], 3)), (deque([1]), deque([2])), (bytearray(b"a"), bytearray(b"b")),
        (array.array("i", [1]), array.array("i", [2])), (OrderedDict(a=1), {"a": 1}),
        (defaultdict(int), defaultdict(list)),
        (Pair(1, 2), (1, 2)), (Frozen(1), Frozen(1.0)), (Frozen(0.0), Frozen(-0.0)),
        (Frozen((1, True)), Frozen((1, 1))),
        (Slotted(1), Slotted(1.0)), (Equal(1), Equal(1.0)), (Equal(1), Equal(True)),
        (Frozen(Frozen(1)), Frozen(Frozen(True))),
        (functools.partial(max, 1), functools.partial(max, 1.0)), (zyx.float32, zyx.float64), (zyx.float32, "float32"),
        (Equal.__eq__, Equal.__hash__), (Equal(1).__hash__, Equal(1.0).__hash__), (Equal, Frozen), (None, ()),
        (types.SimpleNamespace(a=1), types.SimpleNamespace(a=1.0)), (Holder(1), Holder(1)),
    ],
    ids=lambda value: f"{type(value).__name__} {value!r}".partition(" at 0x")[0][:40],
)  # fmt: skip
def test_values_that_a_function_can_tell_apart_have_traces_of_their_own(one, other):
    assert traces_of(one, other, one, other) == 2
    assert traces_of([{"x": (one,)}], [{"x": (other,)}], [{"x": (one,)}]) == 2


@pytest.mark.parametrize(
    "make",
    [
        lambda: float("nan"), lambda: complex(math.nan, 1), lambda: np.float32("nan"), lambda: Decimal("nan"),
        lambda: Frozen(math.nan * 1), lambda: (float("nan"),), lambda: -0.0, lambda: Frozen((1, "a", 2.5)),
        lambda: Slotted([1]), lambda: {1, 2}, lambda: deque([1, 2], 5), lambda: bytearray(b"ab"),
        lambda: array.array("f", [1]),
        lambda: slice(1, 2), lambda: functools.partial(max, 1), lambda: Equal(3), lambda: Fraction(1, 3),
        lambda: np.float32(1.5), lambda: np.bool_(True), lambda: Counter("aab"), lambda: memoryview(b"ab"),
        lambda: [Colour.RED], lambda: OrderedDict(a=1), lambda: 10**30, lambda: "a" + str(5),
        lambda: frozenset({(1, 2.5)}),
    ],
    ids=lambda make: f"{make()!r}".partition(" at 0x")[0][:40],
)  # fmt: skip
def test_values_that_are_made_anew_are_no_reason_to_trace_again(make):
    assert traces_of(make(), make(), make()) == 1


def test_signs_of_zeros_and_types_come_out_right():
    x = zyx.Tensor([1.0, 2.0])
    f = zyx.jit(lambda x, s: x * s)
    assert not np.signbit(f(x, 0.0).numpy()).any()
    assert np.signbit(f(x, -0.0).numpy()).all()
    g = zyx.jit(lambda x, c: zyx.Tensor([1, 2]) * c.value)
    assert g(x, Frozen(1)).dtype is zyx.int64
    assert g(x, Frozen(1.0)).dtype is zyx.float32


def test_numpy_scalars_are_arguments():
    f = zyx.jit(lambda x, s: x * float(s))
    x = zyx.Tensor([1.0, 2.0])
    for scalar in (np.float32(2.0), np.float64(3.0), np.int32(4), np.bool_(True)):
        for _ in range(2):
            assert f(x, scalar).tolist() == [float(scalar), 2 * float(scalar)]


# ---- what was changed since


@pytest.mark.parametrize(
    ("thing", "change"),
    [
        ([1], lambda v: v.append(2)), ({"a": 1}, lambda v: v.update(a=2)), ({1}, lambda v: v.add(2)),
        (deque([1]), lambda v: v.append(2)), (bytearray(b"a"), lambda v: v.append(2)),
        (array.array("i", [1]), lambda v: v.append(2)), (Counter("a"), lambda v: v.update("ab")),
        (Holder(1), lambda v: setattr(v, "value", 2)), (Holder(1), lambda v: setattr(v, "value", 1.0)),
        (Holder(1), lambda v: setattr(v, "other", 2)), (Holder([1]), lambda v: v.value.append(2)),
        (Holder({"a": {1}}), lambda v: v.value["a"].add(2)),
        (Holder(Holder(1)), lambda v: setattr(v.value, "value", 2)),
        (Equal([1]).__eq__, lambda v: v.__self__.value.append(2)), (UserDict(a=1), lambda v: v.update(a=2)),
        (types.SimpleNamespace(a=1), lambda v: setattr(v, "a", 2)),
        (functools.partial(max, [1]), lambda v: v.args[0].append(1)),
        (Frozen([1]), lambda v: v.value.append(2)), ((Holder([[1]]),), lambda v: v[0].value[0].append(2)),
        (InSlots(1), lambda v: v.__init__(2)),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_changes_of_what_is_an_argument_are_seen(thing, change):
    count = []
    f = zyx.jit(lambda x, s: (count.append(s), x + 1)[1])
    x = zyx.Tensor([1.0])
    f(x, thing)
    f(x, thing)
    assert len(count) == 1
    change(thing)
    f(x, thing)
    f(x, thing)
    assert len(count) == 2


def test_attributes_of_the_object_of_a_method_are_seen():
    class Scale:
        def __init__(self):
            self.factor, self.shifts, self.w = 2.0, [1.0], zyx.Tensor([10.0])

        @zyx.jit
        def of(self, x):
            return x * self.factor + sum(self.shifts) + self.w

    scale, x = Scale(), zyx.Tensor([1.0])
    assert scale.of(x).tolist() == [13]
    scale.factor = 3.0
    assert scale.of(x).tolist() == [14]
    scale.shifts.append(0.5)
    assert scale.of(x).tolist() == [14.5]
    scale.w.assign(zyx.Tensor([20.0]))
    assert scale.of(x).tolist() == [24.5]
    assert len(Scale.of.traces) == 3
    scale.w = zyx.Tensor([30.0])
    assert scale.of(x).tolist() == [34.5]
    bound = zyx.jit(types.MethodType(lambda self, x: x * self.factor, scale))
    assert bound(x).tolist() == [3]
    scale.factor = 4.0
    assert bound(x).tolist() == [4]


def test_a_network_in_an_object_is_watched():
    class Trainer:
        def __init__(self):
            self.net = nn.Linear(1, 1, bias=False)

        @zyx.jit
        def run(self, x):
            return x @ self.net.weight

    trainer, x = Trainer(), zyx.Tensor([[1.0]])
    trainer.run(x)
    trainer.net.weight = nn.Parameter(zyx.Tensor([[3.0]]))
    assert trainer.run(x).tolist() == [[3]]


def test_objects_that_refer_to_each_other_have_keys():
    one, other = Holder(1), Holder(None)
    one.other, other.value = other, one
    loop = [one]
    loop.append(loop)
    one.loop = loop
    assert traces_of(one, one) == 1
    assert exact_key(one) == exact_key(one) != exact_key(other)


def test_objects_with_too_many_values_are_refused():
    with pytest.raises(TraceError, match=rf"a Holder, holds more than {MOST_VALUES} values.*SupportsTraceKey"):
        zyx.jit(lambda x, s: x)(zyx.Tensor([1.0]), Holder([[0] * 600] * 2 + [[0] * 600 for _ in range(20)]))


@pytest.mark.parametrize("make", [lambda: iter([1]), lambda: (i for i in range(3)), lambda: map(abs, [1])])
def test_iterators_as_arguments_are_refused(make):
    with pytest.raises(TraceError, match=r"was given a \w+, of which it would take values at the first call only"):
        zyx.jit(lambda x, s: x)(zyx.Tensor([1.0]), make())


# ---- structures


@dataclass
class State:
    h: object
    count: int = 0
    rest: list = field(default_factory=list)


class Named(OrderedDict):
    pass


class Stack(list):
    label = None


class Row(tuple):
    pass


def stack(*items):
    found = Stack(items)
    found.label = "a label"
    return found


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: OrderedDict(b=x, a=1), lambda x: Named(b=x), lambda x: defaultdict(list, b=x),
        lambda x: deque([x, 2], 4),
        lambda x: Pair(x, [x]), lambda x: State(x, 3, [x, None]), lambda x: Frozen({"k": x}), lambda x: Slotted((x,)),
        lambda x: stack(x, 1), lambda x: Row((x, 2)), lambda x: Counter({"a": x}), lambda x: {"a": [x, (x,)]},
    ],
    ids=lambda wrap: type(wrap(0)).__name__,
)  # fmt: skip
def test_structures_come_in_and_back_as_what_they_were(wrap):
    count = []

    def function(tree):
        count.append(tree)
        return tree

    f = zyx.jit(function)

    def text(tree):
        return repr(tree), vars(tree) if hasattr(tree, "__dict__") else None

    for number in (1.0, 2.0, 3.0):
        given = wrap(zyx.Tensor([number]))
        found = f(given)
        assert type(found) is type(given)
        assert found is not given
        assert text(found) == text(given)
        assert getattr(found, "maxlen", None) == getattr(given, "maxlen", None)
        assert getattr(found, "default_factory", None) == getattr(given, "default_factory", None)
    assert len(count) == 1


def test_tensors_in_dataclasses_are_arguments_and_may_be_assigned_to():
    @zyx.jit
    def step(state, x):
        state.rest[0].assign(state.rest[0] + x)
        return State((state.h + x).tanh(), state.count + 1, state.rest)

    state, memory, x = State(zyx.Tensor([0.0])), zyx.Tensor([0.0]), zyx.Tensor([0.5])
    state.rest.append(memory)
    wanted = 0.0
    for number in range(3):
        state = step(state, x)
        wanted = math.tanh(wanted + 0.5)
        assert state.count == number + 1
        assert state.h.item() == pytest.approx(wanted, rel=1e-5)
        assert state.rest[0].item() == 0.5 * (number + 1)
    assert memory.item() == 0.5


@pytest.mark.parametrize(
    ("argument", "change"),
    [
        ([1], lambda v: v.append(2)), ({"a": 1}, lambda v: v.pop("a")), (State(1), lambda v: setattr(v, "count", 7)),
        ((deque([1]),), lambda v: v[0].append(2)), ({"a": [1]}, lambda v: v["a"].clear()),
    ],
    ids=["list", "dict", "dataclass", "deque", "list in dict"],
)  # fmt: skip
def test_a_function_that_changes_a_structure_it_was_given_is_refused(argument, change):
    before = repr(argument)
    with pytest.raises(TraceError, match=r"changed a \w+ among its arguments, which a replay would not do"):
        zyx.jit(lambda x, tree: (x, change(tree))[0])(zyx.Tensor([1.0]), argument)
    if not isinstance(argument, State):
        assert repr(argument) == before


@pytest.mark.parametrize(
    ("wrap", "text"),
    [
        (lambda x: (v for v in [x]), "returned a generator, which runs when there is no trace; return a list"),
        (lambda x: [map(abs, [x])], "returned a map, which runs"),
        (lambda x: {x}, "returned a set with tensors in it that have no values"),
        (lambda x: {"a": Holder(x)}, "returned a Holder with tensors in it"),
    ],
)
def test_results_that_a_replay_cannot_make_are_refused(wrap, text):
    with pytest.raises(TraceError, match=text):
        zyx.jit(lambda x: wrap(x + 1))(zyx.Tensor([1.0]))


def test_keys_keep_no_object_alive():
    kept = [
        Holder(1),
        zyx.Tensor([1.0]),
        lambda: 0,
        type("Class", (), {}),
        nn.Identity(),
        {1},
        Holder(zyx.Tensor([1.0])),
    ]
    key = exact_key(Holder(kept[:5]))
    ends = [weakref.ref(thing) for thing in kept if not isinstance(thing, set)]
    keys = [exact_key(thing) for thing in kept]
    del kept
    gc.collect()
    assert [end() for end in ends] == [None] * len(ends)
    assert key == key  # noqa: PLR0124
    assert len(set(keys)) == len(keys)
