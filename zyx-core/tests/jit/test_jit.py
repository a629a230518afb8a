"""Traced functions: signatures, state, randomness, aliases, errors, and what must never be stale."""

import gc
import weakref
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

import zyx
from zyx import nn, optim
from zyx.errors import StateError, TraceError

pytestmark = pytest.mark.usefixtures("interpreter")


def counted(function):
    """Return `function` traced, and a list that grows with every trace."""
    traces = []

    def noting(*args, **kwargs):
        traces.append((args, kwargs))
        return function(*args, **kwargs)

    return zyx.jit(noting), traces


# ---- signatures


def test_a_function_is_traced_once_for_each_signature():
    double, traces = counted(lambda x: x * 2)
    assert double(zyx.Tensor([1.0, 2.0])).tolist() == [2, 4]
    assert double(zyx.Tensor([3.0, 4.0])).tolist() == [6, 8]
    assert len(traces) == 1
    assert double(zyx.Tensor([1.0])).tolist() == [2]  # another shape
    assert double(zyx.Tensor([1, 2])).tolist() == [2, 4]  # another dtype
    assert len(traces) == 3
    assert double(zyx.Tensor([5.0, 6.0])).tolist() == [10, 12]
    assert len(traces) == len(double.traces) == 3


def test_values_that_are_not_tensors_belong_to_the_signature():
    power, traces = counted(lambda x, n, flag=False: x**n if flag else x * n)
    x = zyx.Tensor([3.0])
    assert power(x, 2).tolist() == [6]
    assert power(x, 2, flag=True).tolist() == [9]
    assert power(x, 3).tolist() == [9]
    assert power(x, 2).tolist() == [6]
    assert len(traces) == 3
    assert power(x, True).tolist() == [3]
    assert len(traces) == 4  # True == 1, but they trace differently
    assert power(x, 1).tolist() == [3]
    assert len(traces) == 4  # as for 3: numbers that are not looked at are given to one trace


def test_switches_and_the_default_device_belong_to_the_signature():
    ask, traces = counted(lambda x: x * (2 if zyx.is_grad_enabled() else 3))
    x = zyx.ones(3)
    assert ask(x).tolist() == [2, 2, 2]
    with zyx.no_grad():
        assert ask(x).tolist() == [3, 3, 3]
    assert ask(x).tolist() == [2, 2, 2]
    assert len(traces) == 2


Pair = namedtuple("Pair", "left right")


def test_structures_are_looked_into_and_come_back():
    swap, traces = counted(lambda tree, *, scale: Pair({"b": tree["a"][0] * scale["s"]}, [tree["p"].left, None, 7]))
    one, two, three = zyx.Tensor([1.0]), zyx.Tensor([2.0]), zyx.Tensor([3.0])
    for _ in range(2):
        found = swap({"a": (one,), "p": Pair(two, "text")}, scale={"s": three})
        assert isinstance(found, Pair)
        assert found.left["b"].tolist() == [3]
        assert found.right[0].tolist() == [2]
        assert found.right[1:] == [None, 7]
    assert len(traces) == 1
    swap({"a": (one,), "p": Pair(two, "other text")}, scale={"s": three})
    assert len(traces) == 2


def test_the_same_tensor_may_be_given_twice_and_arguments_may_be_returned():
    both = zyx.jit(lambda x, y: (x, y + 1, x + y))
    x = zyx.Tensor([1.0])
    for _ in range(2):
        a, b, c = both(x, x)
        assert (a.tolist(), b.tolist(), c.tolist()) == ([1], [2], [2])


def test_methods_are_bound_to_their_objects():
    class Scale:
        def __init__(self, factor):
            self.factor = factor

        @zyx.jit
        def of(self, x):
            """Return x, scaled."""
            return x * self.factor

    two, three = Scale(2), Scale(3)
    x = zyx.Tensor([1.0])
    for _ in range(2):
        assert two.of(x).tolist() == [2]
        assert three.of(x).tolist() == [3]
    assert Scale.of.__doc__ == "Return x, scaled."
    assert len(Scale.of.traces) == 2


def test_a_traced_function_inside_another_is_part_of_it():
    inner, traces = counted(lambda x: x + 1)
    outer = zyx.jit(lambda x: inner(x) * 2)
    assert outer(zyx.Tensor([1.0])).tolist() == [4]
    assert outer(zyx.Tensor([2.0])).tolist() == [6]
    assert len(traces) == 1
    assert inner.traces == []


def test_results_of_one_call_stay_when_the_next_is_made():
    double = zyx.jit(lambda x: x * 2)
    first, second = double(zyx.Tensor([1.0])), double(zyx.Tensor([2.0]))
    assert first.tolist() == [2]
    assert second.tolist() == [4]


def test_empty_and_constant_results():
    several = zyx.jit(lambda x: (x[:0], zyx.ones(2), 5, zyx.zeros(0)))
    for _ in range(2):
        empty, ones, number, none = several(zyx.Tensor([1.0]))
        assert empty.shape == none.shape == (0,)
        assert ones.tolist() == [1, 1]
        assert number == 5


# ---- state


def test_state_is_found_read_and_assigned():
    total = zyx.Tensor(np.zeros(2, np.float32))

    @zyx.jit
    def add(x):
        total.assign(total + x)
        return total * 10

    for number in range(1, 4):
        assert add(zyx.Tensor([1.0, 2.0])).tolist() == [10 * number, 20 * number]
        assert total.tolist() == [number, 2 * number]
    total.assign(zyx.Tensor([100.0, 0.0]))
    assert add(zyx.Tensor([1.0, 2.0])).tolist() == [1010, 20]


def test_state_that_is_assigned_before_it_is_read_or_exchanged():
    a, b = zyx.Tensor([1.0]), zyx.Tensor([2.0])

    @zyx.jit
    def exchange():
        old = a + 0
        a.assign(b)
        b.assign(old)

    exchange()
    assert (a.tolist(), b.tolist()) == ([2], [1])
    exchange()
    assert (a.tolist(), b.tolist()) == ([1], [2])


def test_an_assignment_of_another_shape_is_refused():
    x = zyx.Tensor([1.0])
    step = zyx.jit(lambda y: x.runtime.assign(x, y.node))
    with pytest.raises(TraceError, match="they must agree"):
        step(zyx.Tensor([1.0, 2.0]))
    assert x.tolist() == [1]


def test_an_error_in_the_function_leaves_its_state_as_it_was():
    x = zyx.Tensor([1.0])

    @zyx.jit
    def step():
        x.assign(x + 1)
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        step()
    assert x.tolist() == [1]
    assert (x + 1).tolist() == [2]  # nothing is being traced any more


# ---- aliases of state that is stored over


@pytest.mark.parametrize("alias", ["detach", "reshape", "copy", "values", "slice", "sum"])
def test_tensors_made_of_state_before_a_step_keep_their_values(alias):
    x = zyx.Tensor(np.arange(4, dtype=np.float32))
    step = zyx.jit(lambda: x.assign(x + 1))
    step()
    made = {
        "detach": x.detach,
        "reshape": lambda: x.reshape(2, 2),
        "copy": lambda: zyx.Tensor(x),
        "values": lambda: x.detach().realize(),
        "slice": lambda: x[1:3],
        "sum": x.sum,
    }[alias]()
    wanted = {"slice": [2, 3], "sum": 10, "reshape": [[1, 2], [3, 4]]}.get(alias, [1, 2, 3, 4])
    for _ in range(3):
        step()
    assert made.tolist() == wanted
    assert x.tolist() == [4, 5, 6, 7]


def test_numpy_arrays_read_before_a_step_keep_their_values():
    x = zyx.Tensor(np.zeros(2, np.float32))
    step = zyx.jit(lambda: x.assign(x + 1))
    step()
    before = x.numpy()
    step()
    assert before.tolist() == [1, 1]


def test_two_tensors_that_share_their_values_part_when_one_is_assigned():
    x = zyx.Tensor(np.zeros(2, np.float32))
    y = zyx.Tensor(x)
    step = zyx.jit(lambda: x.assign(x + 1))
    step()
    step()
    assert x.tolist() == [2, 2]
    assert y.tolist() == [0, 0]


def test_what_a_step_returns_of_its_state_keeps_its_value():
    x = zyx.Tensor([0.0])

    @zyx.jit
    def step():
        before = x.detach()
        x.assign(x + 1)
        return before, x

    results = [step() for _ in range(3)]
    assert [before.tolist() for before, _ in results] == [[0], [1], [2]]
    assert [after.tolist() for _, after in results] == [[1], [2], [3]]


# ---- random numbers


def test_random_numbers_are_new_in_each_call_and_those_of_untraced_calls():
    def noise(x):
        return x + zyx.rand(3)

    zyx.manual_seed(11)
    wanted = [noise(zyx.zeros(3)).tolist() for _ in range(4)]
    zyx.manual_seed(11)
    traced = zyx.jit(noise)
    found = [traced(zyx.zeros(3)).tolist() for _ in range(2)]
    found.append(noise(zyx.zeros(3)).tolist())
    found.append(traced(zyx.zeros(3)).tolist())
    assert found == wanted
    assert len({tuple(row) for row in found}) == 4


def test_a_seed_set_between_calls_is_used():
    traced = zyx.jit(lambda: zyx.randn(2))
    zyx.manual_seed(3)
    first = traced().tolist()
    traced()
    zyx.manual_seed(3)
    assert traced().tolist() == first


def test_training_with_dropout_is_the_same_traced_and_not():
    def trained(wrap):
        zyx.manual_seed(5)
        net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 1)).train()
        optimizer = optim.AdamW(net.parameters(), 0.01)

        def step(x):
            with zyx.Tape() as tape:
                loss = (net(x) ** 2).mean()
            optimizer.step(tape.gradient(loss, optimizer.params))
            return loss

        step = wrap(step)
        data = zyx.Tensor(np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32))
        losses = [step(data).item() for _ in range(4)]
        return losses, {name: tensor.numpy() for name, tensor in net.state_dict().items()}

    (losses, state), (wanted, expected) = trained(zyx.jit), trained(lambda function: function)
    assert losses == pytest.approx(wanted, rel=1e-5)
    for name, value in state.items():
        assert np.allclose(value, expected[name], rtol=1e-4, atol=1e-6), name


# ---- errors


def test_reading_a_value_inside_names_the_line():
    @zyx.jit
    def step(x):
        y = x * 2
        return 1.0 if y.sum() > 0 else 2.0  # LINE

    with pytest.raises(TraceError) as caught:
        step(zyx.Tensor([1.0]))
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    number = next(n for n, line in enumerate(lines, 1) if line.endswith("  # LINE"))
    assert f"{__file__}, line {number}:" in str(caught.value)
    assert "zyx.where instead of if" in str(caught.value)


@pytest.mark.parametrize("read", ["numpy", "item", "tolist", "__float__", "__bool__", "__array__"])
def test_every_way_to_read_a_value_inside_is_refused(read):
    with pytest.raises(TraceError, match="while the function is being traced"):
        zyx.jit(lambda x: getattr(x, read)())(zyx.Tensor([1.0]))


def test_text_of_a_tensor_inside_says_that_there_are_no_values():
    texts = []
    zyx.jit(lambda x: texts.append(repr(x * 2)))(zyx.Tensor([1.0]))
    assert texts == ["Tensor(<not computed: being traced>, shape=(1,), dtype=float32, device=interpreter:0)"]


def test_numpy_arrays_as_arguments_are_refused():
    with pytest.raises(TraceError, match=r"numpy array of shape \(2,\).*pass zyx\.asarray"):
        zyx.jit(lambda x: x)(np.ones(2))


def test_a_tensor_that_was_kept_from_inside_has_no_values():
    kept = []
    zyx.jit(lambda x: kept.append(x + 1))(zyx.Tensor([1.0]))
    with pytest.raises(TraceError, match="returned by that function, not kept"):
        kept[0].numpy()


def test_realize_inside_does_nothing():
    assert zyx.jit(lambda x: (x + 1).realize() * 2)(zyx.Tensor([1.0])).tolist() == [4]


# ---- nothing is stale


def test_values_loaded_or_assigned_between_calls_are_used():
    net = nn.Linear(1, 1, bias=False)
    apply = zyx.jit(net)
    x = zyx.Tensor([[1.0]])
    apply(x)
    net.load_state_dict({"weight": [[5.0]]})
    assert apply(x).tolist() == [[5]]
    net.weight.assign(zyx.Tensor([[7.0]]))
    assert apply(x).tolist() == [[7]]
    assert len(apply.traces) == 1


def test_a_parameter_that_is_replaced_is_noticed():
    net = nn.Sequential(nn.Linear(1, 1, bias=False))
    apply = zyx.jit(net)
    x = zyx.Tensor([[1.0]])
    apply(x)
    net[0].weight = nn.Parameter(zyx.Tensor([[3.0]]))
    assert apply(x).tolist() == [[3]]
    net[0] = nn.Linear(1, 1)
    net[0].load_state_dict({"weight": [[2.0]], "bias": [1.0]})
    assert apply(x).tolist() == [[3]]
    del net[0].bias
    net[0].bias = None
    assert apply(x).tolist() == [[2]]
    assert len(apply.traces) == 1


def test_the_old_parameter_of_a_network_is_not_kept_forever():
    net = nn.Linear(1, 1)
    apply = zyx.jit(net)
    x = zyx.Tensor([[1.0]])
    apply(x)
    old = weakref.ref(net.weight)
    net.weight = nn.Parameter(zyx.Tensor([[3.0]]))
    apply(x)
    gc.collect()
    assert old() is None


def test_a_network_that_is_an_argument_is_watched_too():
    net = nn.Linear(1, 1, bias=False)
    apply = zyx.jit(lambda model, x: x @ model.weight)
    x = zyx.Tensor([[1.0]])
    apply(net, x)
    net.weight = nn.Parameter(zyx.Tensor([[3.0]]))
    assert apply(net, x).tolist() == [[3]]


def test_modes_are_noticed_and_each_keeps_its_trace():
    net = nn.Sequential(nn.Dropout(1.0))
    apply, traces = counted(net)
    x = zyx.ones(2)
    for _ in range(2):
        assert apply(x).tolist() == [0, 0]
        net.eval()
        assert apply(x).tolist() == [1, 1]
        net.train()
    assert apply(x).tolist() == [0, 0]
    assert len(traces) == 2
    assert len(apply.traces) == 2


def test_a_method_that_asks_for_the_mode_of_its_module_is_traced_for_each():
    class Doubler(nn.Module):
        @zyx.jit
        def forward(self, x):
            return x * 2 if self.training else x

    net = Doubler()
    assert net(zyx.ones(1)).tolist() == [2]
    assert net.eval()(zyx.ones(1)).tolist() == [1]
    assert net.train()(zyx.ones(1)).tolist() == [2]
    assert net.eval()(zyx.ones(1)).tolist() == [1]


def test_settings_of_layers_are_noticed():
    net = nn.Dropout(0.0).train()
    apply = zyx.jit(net)
    assert apply(zyx.ones(2)).tolist() == [1, 1]
    net.p = 1.0
    assert apply(zyx.ones(2)).tolist() == [0, 0]


def test_a_layer_that_is_added_is_noticed():
    net = nn.Sequential(nn.Identity())
    apply = zyx.jit(net)
    assert apply(zyx.ones(1)).tolist() == [1]
    net.append(nn.Linear(1, 1, bias=False))
    net[1].load_state_dict({"weight": [[4.0]]})
    assert apply(zyx.ones(1)).tolist() == [4]


def test_state_that_changes_its_dtype_is_noticed():
    net = nn.Linear(1, 1)
    apply = zyx.jit(lambda: net.weight * 1)
    assert apply().dtype is zyx.float32
    net.to(dtype="float64")
    assert apply().dtype is zyx.float64


def test_a_state_that_does_not_fit_changes_nothing_for_the_trace():
    net = nn.Linear(1, 1, bias=False)
    net.load_state_dict({"weight": [[2.0]]})
    apply = zyx.jit(net)
    apply(zyx.ones(1, 1))
    with pytest.raises(StateError):
        net.load_state_dict({"weight": [1.0]})
    assert apply(zyx.ones(1, 1)).tolist() == [[2]]


def test_traces_can_be_forgotten():
    double, traces = counted(lambda x: x * 2)
    double(zyx.ones(1))
    double.clear()
    assert double.traces == []
    assert double(zyx.ones(1)).tolist() == [2]
    assert len(traces) == 2


def test_functions_of_numpy_are_traced():
    x = np.arange(3, dtype=np.float32)
    found = zyx.jit(lambda t: np.concatenate([np.sin(t), x * t]))(zyx.Tensor(x))
    assert np.allclose(found.numpy(), np.concatenate([np.sin(x), x * x]))
