"""Networks in ONNX: loading, calling, weights, and files that are not what they say."""

import subprocess
import sys

import numpy as np
import pytest

import zyx
from zyx.errors import DTypeError, FormatError, ShapeError, TransferError, UnsupportedError

onnx = pytest.importorskip("onnx", reason="onnx, whose files these tests make, is not installed")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import zyx.io.onnx  # noqa: E402

WEIGHT = np.arange(6, dtype=np.float32).reshape(3, 2)


def value(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def network(nodes, inputs, outputs, weights=(), opset=21):
    graph = helper.make_graph(nodes, "network", inputs, outputs, [numpy_helper.from_array(a, n) for n, a in weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def linear():
    return network(
        [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"], name="rectify")],
        [value("x", ["batch", 3])],
        [value("y", ["batch", 2])],
        [("w", WEIGHT)],
    )


def test_a_network_is_called_by_position_and_by_name():
    model = zyx.io.onnx.load(linear())
    x = np.array([[1, -2, 3]], np.float32)
    expected = np.maximum(x @ WEIGHT, 0)
    assert np.array_equal(model(x).numpy(), expected)
    assert np.array_equal(model(x=zyx.asarray(x)).numpy(), expected)
    assert np.array_equal(model.run({"x": x})["y"].numpy(), expected)


def test_inputs_and_outputs_are_described():
    model = zyx.io.onnx.load(linear().SerializeToString())
    (x,), (y,) = model.inputs, model.outputs
    assert (x.name, x.dtype, x.shape, x.kind) == ("x", zyx.float32, ("batch", 3), "tensor")
    assert str(y) == "y: float32[batch, 2]"
    assert model.opsets == {"": 21}


def test_weights_are_trained_moved_and_cast():
    model = zyx.io.onnx.load(linear())
    assert [name for name, _ in model.named_parameters()] == ["w"]
    model.requires_grad_()
    model(np.ones((1, 3), np.float32)).sum().backward()
    assert np.array_equal(model.parameters()[0].grad.numpy(), np.ones((3, 2)))
    model.load_state_dict({"w": 2 * WEIGHT})
    assert np.array_equal(model.state_dict()["w"].numpy(), 2 * WEIGHT)
    half = model.astype("float16")
    assert half.parameters()[0].dtype is zyx.float16
    assert model.to("interpreter").parameters()[0].device.startswith("interpreter")


def test_arithmetic_on_shapes_needs_no_kernel():
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Mul", ["n", "two"], ["rows"]),
        helper.make_node("Concat", ["rows", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    weights = [("zero", np.array([0])), ("two", np.array([2])), ("rest", np.array([-1]))]
    model = zyx.io.onnx.load(network(nodes, [value("x", ["n", 4])], [value("y", None)], weights))
    assert model.parameters() == []
    for n in (1, 3):
        traced = zyx.jit(model.__call__)  # a trace refuses to read values
        for _ in range(3):
            assert traced(zyx.ones((n, 4))).shape == (2 * n, 2)


def test_all_operators_that_are_missing_are_listed():
    model = network(
        [
            helper.make_node("Nothing", ["x"], ["a"], name="first", domain="else.where"),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("Unheard", ["b"], ["y"], name="second"),
        ],
        [value("x", [1])],
        [value("y", [1])],
    )
    model.opset_import.append(helper.make_opsetid("else.where", 3))
    with pytest.raises(
        UnsupportedError, match=r"ai.onnx:Unheard of opset 21: 'second'\n.*else.where:Nothing of opset 3"
    ):
        zyx.io.onnx.load(model)


def test_inputs_of_other_shapes_dtypes_and_names_are_refused():
    two = network(
        [helper.make_node("Add", ["a", "b"], ["c"])], [value("a", ["n"]), value("b", ["n"])], [value("c", ["n"])]
    )
    model = zyx.io.onnx.load(two)
    with pytest.raises(ShapeError, match=r"does not take \(3,\), n=2"):
        model(np.ones(2, np.float32), np.ones(3, np.float32))
    with pytest.raises(DTypeError, match="of float32, not float64"):
        model(np.ones(2), np.ones(2))
    with pytest.raises(DTypeError, match="'b' is missing"):
        model(np.ones(2, np.float32))
    with pytest.raises(DTypeError, match="unknown or given twice"):
        model(np.ones(2, np.float32), z=np.ones(2, np.float32))


def broken(change):
    model = linear()
    change(model)
    return model


def huge(model):
    model.graph.initializer[0].dims[:] = [2**62, 2**62]


def mistyped(model):
    model.graph.initializer[0].data_type = 99


def twice(model):
    model.graph.node[1].output[0] = "m"


def out_of_order(model):
    model.graph.node[0].input[0] = "y"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (huge, "bytes; it has 24"),
        (mistyped, "element type 99"),
        (twice, "given twice"),
        (out_of_order, "no node before"),
    ],
)
def test_hostile_files_are_refused(change, text):
    with pytest.raises(FormatError, match=text):
        zyx.io.onnx.load(broken(change))(np.ones((1, 3), np.float32))


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "link", "", "."])
def test_external_data_stays_in_the_folder_of_the_model(tmp_path, location):
    (tmp_path / "secret").write_bytes(bytes(24))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "secret")
    model = linear()
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=location)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(FormatError, match="no file in the folder"):
        zyx.io.onnx.load(folder / "model.onnx")


def test_external_data_is_read_at_its_offset(tmp_path):
    model = linear()
    weight = model.graph.initializer[0]
    (tmp_path / "data").write_bytes(bytes(8) + weight.raw_data)
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="data")
    weight.external_data.add(key="offset", value="8")
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    assert np.array_equal(zyx.io.onnx.load(path).state_dict()["w"].numpy(), WEIGHT)
    weight.external_data[1].value = "9"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(FormatError, match="24 bytes at 9 of 'data', which has 32"):
        zyx.io.onnx.load(path)


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(FormatError, match="no ONNX model"):
        zyx.io.onnx.load(b"these bytes are none")
    with pytest.raises(FormatError, match="no ONNX model"):
        zyx.io.onnx.load(b"")
    with pytest.raises(TransferError, match="is no file"):
        zyx.io.onnx.load(tmp_path / "missing.onnx")
    path = tmp_path / "model.onnx"
    path.write_bytes(linear().SerializeToString())
    with pytest.raises(FormatError, match="limit_bytes=10"):
        zyx.io.onnx.load(path, limit_bytes=10)


def test_zyx_alone_does_not_import_onnx():
    done = subprocess.run(
        [sys.executable, "-c", "import sys, zyx, zyx.io; zyx.io.load; print('onnx' in sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "False"


def test_a_whole_number_without_axes_chooses_a_branch_in_a_trace():
    def branch(name, node):
        return helper.make_graph([node], name, [], [value(name, None)])

    choice = helper.make_node(
        "If", ["is_high"], ["y"],
        then_branch=branch("a", helper.make_node("Neg", ["x"], ["a"])),
        else_branch=branch("b", helper.make_node("Abs", ["x"], ["b"])),
    )  # fmt: skip
    nodes = [helper.make_node("Greater", ["rate", "limit"], ["is_high"]), choice]
    inputs = [value("x", ["n"]), value("rate", [], TensorProto.INT64)]
    model = zyx.io.onnx.load(network(nodes, inputs, [value("y", None)], [("limit", np.array(9000))]))
    x = np.array([1, -2], np.float32)
    assert np.array_equal(model(x, 16000).numpy(), -x)
    assert np.array_equal(model(x, np.array(8000)).numpy(), abs(x))
    traced = zyx.jit(lambda x: model(x, 16000))
    for _ in range(3):
        assert np.array_equal(traced(zyx.asarray(x)).numpy(), -x)


def test_a_loop_that_does_not_end_is_stopped():
    body = helper.make_graph(
        [helper.make_node("Identity", ["going"], ["on"]), helper.make_node("Identity", ["v"], ["w"])],
        "body",
        [value("step", [], TensorProto.INT64), value("going", [], TensorProto.BOOL), value("v", [1])],
        [value("on", [], TensorProto.BOOL), value("w", [1])],
    )
    node = helper.make_node("Loop", ["", "", "x"], ["y"], body=body)
    model = zyx.io.onnx.load(network([node], [value("x", [1])], [value("y", [1])]), max_iterations=50)
    with pytest.raises(FormatError, match="max_iterations=50"):
        model(np.ones(1, np.float32))


def test_a_function_that_calls_itself_is_refused():
    model = network([helper.make_node("Again", ["x"], ["y"], domain="own")], [value("x", [1])], [value("y", [1])])
    again = helper.make_node("Again", ["a"], ["b"], domain="own")
    model.functions.append(helper.make_function("own", "Again", ["a"], ["b"], [again], [helper.make_opsetid("own", 1)]))
    model.opset_import.append(helper.make_opsetid("own", 1))
    with pytest.raises(FormatError, match="nested more than 100 deep"):
        zyx.io.onnx.load(model)(np.ones(1, np.float32))


def test_a_chain_of_ten_thousand_nodes_is_computed():
    nodes = [helper.make_node("Identity", [f"v{i}"], [f"v{i + 1}"]) for i in range(10_000)]
    model = zyx.io.onnx.load(network(nodes, [value("v0", [1])], [value("v10000", [1])]))
    assert model(np.ones(1, np.float32)).numpy() == [1]


@pytest.mark.parametrize("opset", [7, 11, 13])
def test_axes_are_attributes_or_inputs(opset):
    x = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    if opset < 13:
        node = helper.make_node("Squeeze", ["x"], ["s"], axes=[0])
        last = helper.make_node("ReduceSum", ["s"], ["y"], axes=[1], keepdims=0)
        weights = []
    else:
        node = helper.make_node("Squeeze", ["x", "zero"], ["s"])
        last = helper.make_node("ReduceSum", ["s", "one"], ["y"], keepdims=0)
        weights = [("zero", np.array([0])), ("one", np.array([1]))]
    model = zyx.io.onnx.load(network([node, last], [value("x", [1, 2, 3])], [value("y", [2])], weights, opset))
    assert np.array_equal(model(x).numpy(), [3, 12])


def test_fused_operators_of_microsoft_are_those_they_are_made_of():
    random = np.random.default_rng(0)
    x, skip, scale = (random.normal(size=shape).astype(np.float32) for shape in ((2, 4), (2, 4), (4,)))
    nodes = [
        helper.make_node("SkipLayerNormalization", ["x", "skip", "scale"], ["n"], domain="com.microsoft", epsilon=1e-5),
        helper.make_node("FusedMatMul", ["n", "x"], ["y"], domain="com.microsoft", transB=1, alpha=0.5),
    ]
    model = network(nodes, [value("x", [2, 4]), value("skip", [2, 4])], [value("y", [2, 2])], [("scale", scale)])
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    total = x + skip
    normal = (total - total.mean(-1, keepdims=True)) / np.sqrt(total.var(-1, keepdims=True) + 1e-5) * scale
    assert np.allclose(zyx.io.onnx.load(model)(x, skip).numpy(), 0.5 * normal @ x.T, atol=1e-5)


@pytest.mark.parametrize(
    "node",
    [
        helper.make_node("Range", ["zero", "large", "one"], ["y"]),
        helper.make_node("Tile", ["vector", "counts"], ["y"]),
        helper.make_node("Pad", ["vector", "margins"], ["y"]),
        helper.make_node("Resize", ["x", "", "", "counts"], ["y"]),
    ],
    ids=lambda node: node.op_type,
)
def test_sizes_that_no_memory_has_are_refused(node):
    weights = [
        ("zero", np.array(0)), ("one", np.array(1)), ("large", np.array(2**62)), ("vector", np.array([1])),
        ("counts", np.array([2**40])), ("margins", np.array([0, 2**40])),
    ]  # fmt: skip
    model = zyx.io.onnx.load(network([node], [value("x", [2])], [value("y", None)], weights))
    with pytest.raises(FormatError, match="at most 2"):
        model(np.ones(2, np.float32))


def test_external_data_that_is_larger_than_the_limit_is_not_read(tmp_path):
    model = linear()
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="data")
    weight.dims[:] = [2**40, 2**10]
    (tmp_path / "data").write_bytes(bytes(24))
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(FormatError, match=r"external data has \d+ bytes, more than limit_bytes"):
        zyx.io.onnx.load(tmp_path / "model.onnx")
    with pytest.raises(FormatError, match="which has 24"):
        zyx.io.onnx.load(tmp_path / "model.onnx", limit_bytes=2**60)


def test_names_that_are_no_texts_and_attributes_of_other_types_are_refused():
    raw = linear().SerializeToString().replace(b"rectify", b"rect\xff\xfey")
    with pytest.raises(FormatError, match="no texts"):
        zyx.io.onnx.load(raw)
    node = helper.make_node("Cast", ["x"], ["y"], to=WEIGHT[0])
    model = zyx.io.onnx.load(network([node], [value("x", [1])], [value("y", [1])]))
    with pytest.raises(FormatError, match="'to' of Cast has another type"):
        model(np.ones(1, np.float32))
