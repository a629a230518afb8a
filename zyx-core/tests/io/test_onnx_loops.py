"""Recurrent layers, Scan and Loop of a known number of steps are one loop: few kernels, whatever the length."""

import numpy as np
import pytest

import zyx
from zyx.errors import FormatError

onnx = pytest.importorskip("onnx", reason="onnx, whose files these tests make, is not installed")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

import zyx.io.onnx  # noqa: E402

STEPS = 500
BATCH, WIDTH, HIDDEN = 2, 3, 4


def normal(*shape, seed=0):
    return (np.random.default_rng(seed).standard_normal(shape) * 0.4).astype(np.float32)


def value(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def network(nodes, inputs, outputs, weights=()):
    graph = helper.make_graph(nodes, "network", inputs, outputs, [numpy_helper.from_array(a, n) for n, a in weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


def compiled_for(runtime, model, *inputs):
    """Return what a network gives, and how many kernels were compiled for it."""
    before = runtime.compiler.compiled
    results = model(*inputs)
    values = [part.numpy() for part in (results if isinstance(results, tuple) else (results,))]
    return values, runtime.compiler.compiled - before


def assert_like_the_reference(proto, found, inputs):
    expected = ReferenceEvaluator(proto).run(None, inputs)
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def recurrent(kind, gates, outputs, **attributes):
    weights = [
        ("w", normal(1, gates * HIDDEN, WIDTH, seed=1)),
        ("r", normal(1, gates * HIDDEN, HIDDEN, seed=2)),
        ("b", normal(1, 2 * gates * HIDDEN, seed=3)),
    ]
    node = helper.make_node(kind, ["x", "w", "r", "b"], outputs, hidden_size=HIDDEN, **attributes)
    inputs = [value("x", ["length", "batch", WIDTH])]
    return network([node], inputs, [value(name, None) for name in outputs], weights)


@pytest.mark.parametrize(("kind", "gates", "parts"), [("RNN", 1, 1), ("GRU", 3, 1), ("LSTM", 4, 2)])
def test_a_layer_of_500_steps_compiles_a_handful_of_kernels(interpreter, kind, gates, parts):
    proto = recurrent(kind, gates, ["y", "h", "c"][: parts + 1])
    x = normal(STEPS, BATCH, WIDTH)
    found, compiled = compiled_for(interpreter, zyx.io.onnx.load(proto), x)
    assert 0 < compiled <= 8
    assert_like_the_reference(proto, found, {"x": x})


def test_lengths_and_calls_share_kernels(interpreter):
    model = zyx.io.onnx.load(recurrent("LSTM", 4, ["y"]))
    counts = [compiled_for(interpreter, model, normal(length, BATCH, WIDTH))[1] for length in (20, 20, 31, 57)]
    assert counts[0] <= 8
    assert counts[1] == 0
    assert max(counts[2:]) <= 2  # what the input is multiplied with is of all steps together


def test_sequences_of_several_lengths_end_where_they_do():
    weights = [("w", normal(2, HIDDEN, WIDTH, seed=1)), ("r", normal(2, HIDDEN, HIDDEN, seed=2))]
    node = helper.make_node(
        "RNN", ["x", "w", "r", "", "lengths"], ["y", "h"], hidden_size=HIDDEN, direction="bidirectional"
    )
    inputs = [value("x", [7, BATCH, WIDTH]), value("lengths", [BATCH], TensorProto.INT32)]
    model = zyx.io.onnx.load(network([node], inputs, [value("y", None), value("h", None)], weights))
    x, lengths = normal(7, BATCH, WIDTH), np.array([4, 7], np.int32)
    y, h = (part.numpy() for part in model(x, lengths))
    (_, w), (_, r) = weights
    for sample, length in enumerate(lengths):
        for way, places in enumerate((range(length), range(length)[::-1])):
            state = np.zeros(HIDDEN, np.float32)
            for place in places:
                state = np.tanh(x[place, sample] @ w[way].T + state @ r[way].T)
                np.testing.assert_allclose(y[place, way, sample], state, atol=1e-5)
            np.testing.assert_allclose(h[way, sample], state, atol=1e-5)
            assert not y[length:, way, sample].any()


@pytest.mark.parametrize(("length", "batch"), [(0, 2), (3, 0), (1, 2)])
def test_no_steps_no_samples_and_one_step(length, batch):
    model = zyx.io.onnx.load(recurrent("GRU", 3, ["y", "h"]))
    y, h = model(normal(length, batch, WIDTH))
    assert (y.shape, h.shape) == ((length, 1, batch, HIDDEN), (1, batch, HIDDEN))
    assert np.array_equal(h.numpy()[0], y.numpy()[-1, 0] if length else np.zeros((batch, HIDDEN)))


def test_gradients_of_weights_pass_through_the_loop():
    model = zyx.io.onnx.load(recurrent("RNN", 1, ["y"]))
    model.requires_grad_()
    x = normal(9, BATCH, WIDTH)
    model(x).sum().backward()
    names = dict(model.named_parameters())
    slope, r = names["r"].grad.numpy(), names["r"].numpy()
    w, b = names["w"].numpy()[0].astype(float), names["b"].numpy()[0].astype(float)

    def total(r):
        state, found = np.zeros((BATCH, HIDDEN)), 0.0
        for row in x:
            state = np.tanh(row @ w.T + b[:HIDDEN] + b[HIDDEN:] + state @ r[0].T)
            found += state.sum()
        return found

    for place in ((0, 0, 0), (0, 3, 1)):
        step = np.zeros(r.shape)
        step[place] = 1e-5
        assert (total(r + step) - total(r - step)) / 2e-5 == pytest.approx(slope[place], rel=1e-3)


def scanning(**attributes):
    """Return a network: h = tanh(h @ w + x * scale), whose rows are h and the x of the step, w from outside."""
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["row", "scale"], ["scaled"]),
            helper.make_node("MatMul", ["before", "w"], ["product"]),
            helper.make_node("Add", ["product", "scaled"], ["sum"]),
            helper.make_node("Tanh", ["sum"], ["after"]),
            helper.make_node("Identity", ["after"], ["found"]),
            helper.make_node("Identity", ["row"], ["given"]),
        ],
        "body",
        [value("before", [BATCH, HIDDEN]), value("row", [BATCH, HIDDEN])],
        [value("after", [BATCH, HIDDEN]), value("found", [BATCH, HIDDEN]), value("given", [BATCH, HIDDEN])],
        [numpy_helper.from_array(np.float32(0.5), "scale")],
    )
    node = helper.make_node("Scan", ["h", "x"], ["last", "all", "same"], body=body, num_scan_inputs=1, **attributes)
    inputs = [value("h", [BATCH, HIDDEN]), value("x", None)]
    outputs = [value(name, None) for name in ("last", "all", "same")]
    return network([node], inputs, outputs, [("w", normal(HIDDEN, HIDDEN, seed=4))])


def test_a_scan_of_500_steps_compiles_a_handful_of_kernels(interpreter):
    proto, h, x = scanning(), normal(BATCH, HIDDEN, seed=1), normal(STEPS, BATCH, HIDDEN)
    model = zyx.io.onnx.load(proto)
    found, compiled = compiled_for(interpreter, model, h, x)
    assert 0 < compiled <= 6
    assert_like_the_reference(proto, found, {"h": h, "x": x})
    assert compiled_for(interpreter, model, h, x)[1] == 0


def test_scans_walk_any_axis_either_way(interpreter):
    proto = scanning(
        scan_input_axes=[1], scan_input_directions=[1], scan_output_axes=[-1, 1], scan_output_directions=[0, 1]
    )
    h, x = normal(BATCH, HIDDEN, seed=1), normal(BATCH, STEPS, HIDDEN)
    (last, states, same), compiled = compiled_for(interpreter, zyx.io.onnx.load(proto), h, x)
    assert compiled <= 10
    w, expected = normal(HIDDEN, HIDDEN, seed=4), []
    for place in range(STEPS)[::-1]:
        h = np.tanh(h @ w + x[:, place] * np.float32(0.5))
        expected.append(h)
    np.testing.assert_allclose(last, h, atol=1e-5)
    np.testing.assert_allclose(states, np.stack(expected, -1), atol=1e-5)
    assert np.array_equal(same, x)


def test_a_scan_under_jit_is_a_loop_as_well():
    model = zyx.io.onnx.load(scanning())
    h, x = zyx.Tensor(normal(BATCH, HIDDEN, seed=1)), zyx.Tensor(normal(20, BATCH, HIDDEN))
    expected = [part.numpy() for part in model(h, x)]
    traced = zyx.jit(model)
    for _ in range(3):
        for ours, theirs in zip(traced(h, x), expected, strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs, atol=1e-6)


def test_a_scan_whose_body_reads_values_runs_step_by_step():
    body = helper.make_graph(
        [
            helper.make_node("NonZero", ["row"], ["places"]),
            helper.make_node("Shape", ["places"], ["count"], start=1),
            helper.make_node("Cast", ["count"], ["number"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["before", "number"], ["after"]),
            helper.make_node("Identity", ["after"], ["found"]),
        ],
        "body",
        [value("before", [1]), value("row", [4])],
        [value("after", [1]), value("found", [1])],
    )
    node = helper.make_node("Scan", ["h", "x"], ["last", "all"], body=body, num_scan_inputs=1)
    proto = network([node], [value("h", [1]), value("x", [3, 4])], [value("last", [1]), value("all", [3, 1])])
    h, x = np.zeros(1, np.float32), np.array([[0, 1, 0, 2], [0, 0, 0, 0], [1, 1, 1, 1]], np.float32)
    last, found = zyx.io.onnx.load(proto)(h, x)
    assert last.numpy() == [6]
    assert found.numpy()[:, 0].tolist() == [2, 2, 6]


def looping(body_nodes, state, *, count=STEPS, condition="", most=100_000):
    body = helper.make_graph(
        body_nodes,
        "body",
        [value("step", [], TensorProto.INT64), value("going", [], TensorProto.BOOL), value("v", state)],
        [value("on", [], TensorProto.BOOL), value("w", None), value("row", None)],
    )
    node = helper.make_node("Loop", ["count", condition, "x"], ["y", "rows"], body=body)
    outputs = [value("y", None), value("rows", None)]
    proto = network([node], [value("x", state)], outputs, [("count", np.array(count, np.int64))])
    return zyx.io.onnx.load(proto, max_iterations=most)


ON = helper.make_node("Identity", ["going"], ["on"])


def test_a_loop_of_a_known_count_compiles_a_handful_of_kernels(interpreter):
    nodes = [
        ON,
        helper.make_node("Cast", ["step"], ["number"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["v", "number"], ["sum"]),
        helper.make_node("Sin", ["sum"], ["w"]),
        helper.make_node("ReduceSum", ["w"], ["row"], keepdims=0),
    ]
    x, expected = normal(5), []
    found, compiled = compiled_for(interpreter, looping(nodes, [5]), x)
    assert 0 < compiled <= 6
    for step in range(STEPS):
        x = np.sin(x + np.float32(step))
        expected.append(x.sum())
    np.testing.assert_allclose(found[0], x, atol=1e-4)
    np.testing.assert_allclose(found[1], expected, atol=1e-4)


def test_a_loop_whose_state_grows_or_that_ends_early_runs_step_by_step():
    grows = [
        ON,
        helper.make_node("Concat", ["v", "v"], ["w"], axis=0),
        helper.make_node("ReduceSum", ["v"], ["row"], keepdims=0),
    ]
    y, rows = looping(grows, [None], count=4)(np.ones(1, np.float32))
    assert y.shape == (16,)
    assert rows.numpy().tolist() == [1, 2, 4, 8]
    ends = [
        helper.make_node("Add", ["v", "v"], ["w"]),
        helper.make_node("Constant", [], ["bound"], value_float=20.0),
        helper.make_node("Less", ["w", "bound"], ["on"]),
        helper.make_node("Identity", ["v"], ["row"]),
    ]
    y, rows = looping(ends, [])(np.float32(1))
    assert y.numpy() == 32
    assert rows.numpy().tolist() == [1, 2, 4, 8, 16]


def test_random_numbers_differ_from_step_to_step():
    nodes = [
        ON,
        helper.make_node("RandomUniformLike", ["v"], ["row"]),
        helper.make_node("Identity", ["v"], ["w"]),
    ]
    _, rows = looping(nodes, [5], count=6)(normal(5))
    assert len(np.unique(rows.numpy())) == 30


def test_the_limit_holds_for_loops_of_a_known_count():
    nodes = [ON, helper.make_node("Sin", ["v"], ["w"]), helper.make_node("Identity", ["v"], ["row"])]
    with pytest.raises(FormatError, match="max_iterations=50"):
        looping(nodes, [5], most=50)(normal(5))


@pytest.mark.parametrize("is_each", [False, True], ids=["one scale", "one scale a gate"])
def test_an_lstm_of_quantised_weights_quantises_what_it_meets(is_each):
    rng = np.random.default_rng(6)
    width = 4 * HIDDEN
    w, r = (rng.integers(-128, 128, (1, size, width)).astype(np.int8) for size in (WIDTH, HIDDEN))
    shape = (1, width) if is_each else (1,)
    w_scale, r_scale = ((rng.random(shape) * 0.01 + 0.002).astype(np.float32) for _ in range(2))
    zero, bias = np.full(shape, 3, np.int8), normal(1, 2 * width, seed=7)
    names = ("w", "r", "b", "w_scale", "w_zero", "r_scale", "r_zero")
    weights = list(zip(names, (w, r, bias, w_scale, zero, r_scale, zero), strict=True))
    node = helper.make_node(
        "DynamicQuantizeLSTM",
        ["x", "w", "r", "b", "", "", "", "", "w_scale", "w_zero", "r_scale", "r_zero"],
        ["y", "h", "c"],
        domain="com.microsoft",
        hidden_size=HIDDEN,
    )
    proto = network([node], [value("x", [9, BATCH, WIDTH])], [value(name, None) for name in "yhc"], weights)
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))

    def product(a, b, scale):
        high, low = max(a.max(), 0), min(a.min(), 0)
        step = (high - low) / np.float32(255) or np.float32(1)
        point = np.clip(np.round(-low / step), 0, 255)
        whole = np.clip(np.round(a / step) + point, 0, 255) - point
        return (whole.astype(int) @ (b[0].astype(int) - 3)) * (step * scale[0])

    x = normal(9, BATCH, WIDTH)
    h, c = np.zeros((2, BATCH, HIDDEN), np.float32)
    given = product(x, w, w_scale)
    expected = []
    for row in given:
        gates = row + product(h, r, r_scale) + bias[0, :width] + bias[0, width:]
        enter, leave, forget = (1 / (1 + np.exp(-part)) for part in np.split(gates, 4, -1)[:3])
        c = forget * c + enter * np.tanh(np.split(gates, 4, -1)[3])
        h = (leave * np.tanh(c)).astype(np.float32)
        expected.append(h)
    y, last, cell = zyx.io.onnx.load(proto)(x)
    np.testing.assert_allclose(y.numpy()[:, 0], expected, atol=1e-5)
    np.testing.assert_allclose(last.numpy()[0], h, atol=1e-5)
    np.testing.assert_allclose(cell.numpy()[0], c, atol=1e-5)
