"""Networks in ONNX are traced by themselves, and sizes that change from call to call share traces."""

import copy
import weakref

import numpy as np
import pytest
from meanings.formulas import softmax

import zyx
from zyx.jit.bucketed import BucketedTrace
from zyx.runtime.trace import Trace

onnx = pytest.importorskip("onnx", reason="onnx, whose files these tests make, is not installed")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import zyx.io.onnx  # noqa: E402

RANDOM = np.random.default_rng(3)
WIDTH, HEADS = 16, 2
node = helper.make_node


def drawn(*shape):
    return (RANDOM.standard_normal(shape) * 0.2).astype(np.float32)


def network(nodes, inputs, outputs, weights):
    def values(shapes):
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]

    listed = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "network", values(inputs), values(outputs), listed)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def perceptron():
    a, b = drawn(8, 16), drawn(4, 16)
    nodes = [node("Gemm", ["x", "a"], ["h"]), node("Relu", ["h"], ["r"]), node("Gemm", ["r", "b"], ["y"], transB=1)]
    made = network(nodes, {"x": ["n", 8]}, {"y": ["n", 4]}, {"a": a, "b": b})
    return made, lambda x: np.maximum(x @ a, 0) @ b.T, lambda n, _: (n, 8)


def convolution():
    a, bias = drawn(6, 3, 5), drawn(6)

    def meaning(x):
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (2, 2))), 5, axis=2)
        y = np.maximum(np.einsum("nctk,ock->not", windows, a) + bias[:, None], 0)
        return y * y.mean(-1, keepdims=True)

    nodes = [
        node("Conv", ["x", "a", "bias"], ["c"], pads=[2, 2]),
        node("Relu", ["c"], ["r"]),
        node("GlobalAveragePool", ["r"], ["g"]),
        node("Mul", ["r", "g"], ["y"]),
    ]
    made = network(nodes, {"x": ["n", 3, "t"]}, {"y": ["n", 6, "t"]}, {"a": a, "bias": bias})
    return made, meaning, lambda n, t: (n, 3, t)


def attention():
    """A block as exporters write it: its heads are split by sizes that are looked up."""
    q, k, v, out = (drawn(WIDTH, WIDTH) for _ in range(4))
    scale = np.array((WIDTH // HEADS) ** -0.5, np.float32)
    numbers = {"at0": np.array(0), "at1": np.array(1), "axis": np.array([0]), "heads": np.array([HEADS])}
    numbers |= {"each": np.array([WIDTH // HEADS]), "width": np.array([WIDTH])}
    nodes = [node("Shape", ["x"], ["s"])]
    for name, place in (("n", "at0"), ("t", "at1")):
        nodes += [node("Gather", ["s", place], [f"{name}0"]), node("Unsqueeze", [f"{name}0", "axis"], [name])]
    nodes += [
        node("Concat", ["n", "t", "heads", "each"], ["split"], axis=0),
        node("Concat", ["n", "t", "width"], ["merged"], axis=0),
    ]
    for name in "qkv":
        order = [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]
        nodes += [
            node("MatMul", ["x", f"w{name}"], [f"{name}1"]),
            node("Reshape", [f"{name}1", "split"], [f"{name}2"]),
            node("Transpose", [f"{name}2"], [name], perm=order),
        ]
    nodes += [
        node("MatMul", ["q", "k"], ["dots"]),
        node("Mul", ["dots", "scale"], ["scores"]),
        node("Softmax", ["scores"], ["shares"], axis=-1),
        node("MatMul", ["shares", "v"], ["heads1"]),
        node("Transpose", ["heads1"], ["heads2"], perm=[0, 2, 1, 3]),
        node("Reshape", ["heads2", "merged"], ["heads3"]),
        node("MatMul", ["heads3", "wout"], ["y1"]),
        node("Add", ["y1", "x"], ["y"]),
    ]
    weights = {"wq": q, "wk": k, "wv": v, "wout": out, "scale": scale, **numbers}

    def meaning(x):
        def split(w):
            return (x @ w).reshape(*x.shape[:2], HEADS, -1).transpose(0, 2, 1, 3)

        y = softmax(split(q) @ split(k).swapaxes(2, 3) * scale) @ split(v)
        return y.transpose(0, 2, 1, 3).reshape(x.shape) @ out + x

    made = network(nodes, {"x": ["n", "t", WIDTH]}, {"y": ["n", "t", WIDTH]}, weights)
    return made, meaning, lambda n, t: (n, t, WIDTH)


def recurrence():
    """As exporters write it: of a fixed length, with first states that are zeros for each of the batch."""
    weights = {"w": drawn(2, 32, 3), "r": drawn(2, 32, 8), "zero": np.zeros((1, 1), np.float32)}
    numbers = {"first": np.array([0]), "one": np.array([1]), "ways": np.array([2]), "hidden": np.array([8])}
    nodes = [
        node("Transpose", ["x"], ["steps"], perm=[1, 0, 2]),
        node("Shape", ["x"], ["s"]),
        node("Slice", ["s", "first", "one"], ["n"]),
        node("Concat", ["ways", "n", "hidden"], ["states"], axis=0),
        node("Expand", ["zero", "states"], ["h"]),
        node("LSTM", ["steps", "w", "r", "", "", "h", "h"], ["", "y"], direction="bidirectional", hidden_size=8),
    ]

    def meaning(x):
        results = []
        for way, steps in enumerate((x.swapaxes(0, 1), x.swapaxes(0, 1)[::-1])):
            h = c = np.zeros((len(x), 8), np.float32)
            for step in steps:
                gates = step @ weights["w"][way].T + h @ weights["r"][way].T
                enter, leave, forget = (1 / (1 + np.exp(-gate)) for gate in np.split(gates[:, :24], 3, axis=1))
                c = forget * c + enter * np.tanh(gates[:, 24:])
                h = leave * np.tanh(c)
            results.append(h)
        return np.stack(results)

    made = network(nodes, {"x": ["n", 6, 3]}, {"y": [2, "n", 8]}, weights | numbers)
    return made, meaning, lambda n, _: (n, 6, 3)


def strided():
    """A convolution and a pooling that halve a length: lengths come in multiples of four."""
    a = drawn(6, 3, 4)

    def meaning(x):
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1))), 4, axis=2)[:, :, ::2]
        y = np.einsum("nctk,ock->not", windows, a)
        return softmax(y.reshape(*y.shape[:2], -1, 2).mean(-1))

    nodes = [
        node("Conv", ["x", "a"], ["c"], pads=[1, 1], strides=[2]),
        node("AveragePool", ["c"], ["p"], kernel_shape=[2], strides=[2]),
        node("Softmax", ["p"], ["y"], axis=-1),
    ]
    made = network(nodes, {"x": ["n", 3, "t"]}, {"y": ["n", 6, "s"]}, {"a": a})
    return made, meaning, lambda n, t: (n, 3, 4 * (t // 2))


@pytest.fixture
def planned(monkeypatch):
    """The plans that are made, as a list that grows."""
    made = []
    monkeypatch.setattr(Trace, "planned", lambda _, plan, seconds: made.append(plan))
    return made


@pytest.mark.one_in(2)
@pytest.mark.parametrize("is_jitted", [False, True], ids=["called", "jitted"])
@pytest.mark.parametrize("make", [perceptron, convolution, attention, recurrence, strided])
def test_fifty_sizes_have_at_most_eight_programs(make, is_jitted, planned):
    """On the interpreter, and on the default device if that is another one."""
    for device in dict.fromkeys((zyx.default_device(), "interpreter:0")):
        planned.clear()
        proto, meaning, shape_at = make()
        model = zyx.io.onnx.load(proto, device)
        call = zyx.jit(model.__call__) if is_jitted else model
        grid = [(n, t) for n in range(1, 17) for t in range(4, 60)]
        sizes = [grid[place] for place in np.random.default_rng(1).permutation(len(grid))[:50]]
        for n, t in sizes:
            x = drawn(*shape_at(n, t))
            y = call(zyx.Tensor(x, device=device))
            np.testing.assert_allclose(y.numpy(), meaning(x), rtol=1e-4, atol=1e-5, err_msg=f"{device}: {n, t}")
        assert len(planned) <= 8, device


def test_calls_after_the_first_make_no_plan(planned):
    proto, meaning, _ = perceptron()
    model = zyx.io.onnx.load(proto)
    for _ in range(3):
        x = drawn(5, 8)
        np.testing.assert_allclose(model(x).numpy(), meaning(x), rtol=1e-4, atol=1e-5)
    assert len(planned) == 1


def test_a_recording_follows_its_weights():
    proto, meaning, _ = perceptron()
    model, x = zyx.io.onnx.load(proto), drawn(5, 8)
    expected = meaning(x)
    np.testing.assert_allclose(model(x).numpy(), expected, rtol=1e-4, atol=1e-5)
    model.load_state_dict({name: 2 * value.numpy() for name, value in model.state_dict().items()})
    np.testing.assert_allclose(model(x).numpy(), 4 * expected, rtol=1e-4, atol=1e-5)
    other = copy.deepcopy(model)
    other.load_state_dict({name: 0 * value.numpy() for name, value in other.state_dict().items()})
    assert not other(x).numpy().any()
    np.testing.assert_allclose(model(x).numpy(), 4 * expected, rtol=1e-4, atol=1e-5)
    assert model.astype("float16")(x).shape == (5, 4)
    assert model.to("interpreter:0")(x).device == "interpreter:0"


def test_gradients_pass_a_network_that_was_recorded():
    proto, _, _ = perceptron()
    model, x = zyx.io.onnx.load(proto), zyx.Tensor(drawn(5, 8))
    model(x)
    with zyx.Tape() as tape:
        loss = model(x).sum()
    taped = tape.gradient(loss, model.parameters())
    model.requires_grad_()
    model(x).sum().backward()
    for parameter, gradient in zip(model.parameters(), taped, strict=True):
        np.testing.assert_allclose(parameter.grad.numpy(), gradient.numpy(), rtol=1e-5)
    model.requires_grad_(False)
    given = zyx.Tensor(drawn(5, 8)).requires_grad_()
    model(given * 2).sum().backward()
    assert given.grad.shape == (5, 8)
    with zyx.no_grad():
        assert not model(given).requires_grad


def test_what_reads_values_is_computed_node_by_node(capsys):
    nodes = [node("NonZero", ["x"], ["places"]), node("Cast", ["places"], ["y"], to=TensorProto.FLOAT)]
    model = zyx.io.onnx.load(network(nodes, {"x": ["n"]}, {"y": [1, "m"]}, {}))
    with zyx.debug("plan"):
        for x in ([1, 0, 2], [0, 0, 3], [1, 1, 1]):
            x = np.array(x, np.float32)
            assert np.array_equal(model(x).numpy(), np.array(np.nonzero(x)))
    assert capsys.readouterr().err.count("computed node by node") == 1


def test_a_number_of_the_host_has_traces_of_its_own():
    graph = helper.make_graph(
        [node("Equal", ["rate", "eight"], ["is_eight"]), node("If", ["is_eight"], ["y"], then_branch=helper.make_graph(
            [node("Add", ["x", "x"], ["a"])], "a", [], [helper.make_tensor_value_info("a", TensorProto.FLOAT, [2])]
        ), else_branch=helper.make_graph(
            [node("Neg", ["x"], ["b"])], "b", [], [helper.make_tensor_value_info("b", TensorProto.FLOAT, [2])]
        ))],
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]),
         helper.make_tensor_value_info("rate", TensorProto.INT64, [])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
        [numpy_helper.from_array(np.array(8), "eight")],
    )  # fmt: skip
    model, x = zyx.io.onnx.load(helper.make_model(graph)), np.array([1, 2], np.float32)
    for rate, expected in ((8, 2 * x), (16, -x), (8, 2 * x)):
        assert np.array_equal(model(x, np.array(rate)).numpy(), expected)
        assert np.array_equal(model(x, rate).numpy(), expected)


def test_traces_go_with_their_network():
    proto, _, _ = perceptron()
    model = zyx.io.onnx.load(proto)
    model(drawn(2, 8))
    weight = weakref.ref(model.parameters()[0])
    del model
    import gc

    gc.collect()
    assert weight() is None


ARITHMETIC = {
    "product": (
        [node("ReduceProd", ["s"], ["t"], keepdims=1), node("Reshape", ["x", "t"], ["y"])], lambda x: x.reshape(-1)
    ),
    "rows": (
        [node("Slice", ["s", "zero", "one"], ["n"]), node("Mul", ["n", "two"], ["m"]), node("Div", ["m", "two"], ["k"]),
         node("Concat", ["k", "rest"], ["t"], axis=0), node("Reshape", ["x", "t"], ["y"])],
        lambda x: x.reshape(len(x), -1),
    ),
    "flat": ([node("Flatten", ["x"], ["y"], axis=2)], lambda x: x.reshape(-1, x.shape[2])),
    "expanded": (
        [node("Slice", ["s", "zero", "one"], ["n"]), node("Concat", ["n", "one"], ["t"], axis=0),
         node("Expand", ["number", "t"], ["y"])],
        lambda x: np.full((len(x), 1), 3, np.float32),
    ),
    "cut": (
        [node("Slice", ["s", "zero", "one"], ["n"]), node("Sub", ["n", "one"], ["m"]),
         node("Slice", ["x", "zero", "m"], ["y"])],
        lambda x: x[:-1],
    ),
    "filled": (
        [node("ConstantOfShape", ["s"], ["z"]), node("Add", ["x", "z"], ["y"])],
        lambda x: x,
    ),
    "numbered": (
        [node("Gather", ["s", "place"], ["n"]), node("Range", ["start", "n", "step"], ["r"]),
         node("Cast", ["r"], ["f"], to=TensorProto.FLOAT), node("Unsqueeze", ["f", "axes"], ["u"]),
         node("Add", ["x", "u"], ["y"])],
        lambda x: x + np.arange(len(x), dtype=np.float32)[:, None, None],
    ),
    "chosen": (
        [node("Equal", ["s", "minus"], ["e"]), node("ConstantOfShape", ["three"], ["o"]),
         node("Cast", ["o"], ["i"], to=TensorProto.INT64),
         node("Where", ["e", "i", "s"], ["t"]), node("Expand", ["number", "t"], ["y"])],
        lambda x: np.full(x.shape, 3, np.float32),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_of_sizes_is_traced_once_for_all(name):
    nodes, meaning = ARITHMETIC[name]
    weights = {"zero": np.array([0]), "one": np.array([1]), "two": np.array([2]), "rest": np.array([-1])}
    weights |= {"place": np.array(0), "start": np.array(0), "step": np.array(1), "axes": np.array([1, 2])}
    weights |= {"minus": np.array([-1]), "three": np.array([3]), "number": np.array([[3]], np.float32)}
    nodes = [*nodes, node("Add", ["y", "y"], ["doubled"])]
    proto = network([node("Shape", ["x"], ["s"]), *nodes], {"x": ["n", 3, 4]}, {"doubled": None}, weights)
    model = zyx.io.onnx.load(proto)
    jitted = zyx.jit(model.__call__)
    for n in (3, 5, 7, 11, 20, 13, 30):
        x = drawn(n, 3, 4)
        np.testing.assert_array_equal(jitted(zyx.Tensor(x)).numpy(), 2 * meaning(x))
    assert [isinstance(trace, BucketedTrace) for trace in jitted.traces] == [False, False, True]


def test_floats_that_are_only_read_stay_on_the_host(planned):
    nodes = [node("Identity", ["scales"], ["same"]), node("Resize", ["x", "", "same"], ["y"], mode="nearest")]
    proto = network(nodes, {"x": ["n", 1, 2]}, {"y": None}, {"scales": np.array([1, 1, 2], np.float32)})
    model = zyx.io.onnx.load(proto)
    assert not model.parameters()
    for n in (1, 1, 3):
        x = drawn(n, 1, 2)
        assert np.array_equal(model(x).numpy(), x.repeat(2, 2))
    assert len(planned) == 2


def test_windows_without_a_place_give_nothing():
    nodes = [node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2])]
    model = zyx.io.onnx.load(network(nodes, {"x": [1, 2, "h", "w"]}, {"y": None}, {}))
    assert model(drawn(1, 2, 1, 8)).shape == (1, 2, 0, 4)
