"""Networks written to ONNX files: checked, computed by ONNX Runtime where it is there, and read again."""

import numpy as np
import pytest

import zyx
from zyx import nn
from zyx.errors import ArgumentError, DimError, DTypeError

onnx = pytest.importorskip("onnx", reason="onnx, whose files these tests make, is not installed")

import zyx.io.onnx  # noqa: E402


def numbers(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def arrays(tree):
    return [leaf.numpy() if isinstance(leaf, zyx.Tensor) else leaf for leaf in zyx.tree.leaves(tree)]


def written(function, inputs, path, **settings):
    """Write, and let the checker look at all of it."""
    model = zyx.io.onnx.save(function, inputs, path, **settings)
    onnx.checker.check_model(str(path), full_check=True)
    return model


def computed(path, inputs):
    """Return what the file gives for inputs by name: read by us, and by ONNX Runtime."""
    again = {name: value.numpy() for name, value in zyx.io.onnx.load(path).run(inputs).items()}
    try:
        import onnxruntime
    except ImportError:
        return again, None
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found = session.run(None, inputs)
    return again, dict(zip([output.name for output in session.get_outputs()], found, strict=True))


def agree(function, inputs, path, *, atol=1e-5, **settings):
    """Whether a function, its file read again, and ONNX Runtime give the same; return the message."""
    model = written(function, inputs, path, **settings)
    names = [value.name for value in model.graph.input]
    given = dict(zip(names, arrays(inputs), strict=False))
    tensors = zyx.tree.map(lambda leaf: zyx.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf, inputs)
    expected = arrays(function(*tensors))
    for found in computed(path, given):
        if found is not None:
            for value, name in zip(expected, found, strict=False):
                assert found[name].dtype == value.dtype
                np.testing.assert_allclose(found[name], value, atol=atol, rtol=1e-5)
    return model


def kinds(model):
    return {node.op_type for node in model.graph.node}


def mlp():
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3), nn.Softmax(-1)), [numbers(2, 5)]


def lenet():
    layers = (
        nn.Conv2d(1, 4, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(4, 6, 5), nn.Tanh(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(24, 10), nn.ReLU(), nn.Linear(10, 4),
    )  # fmt: skip
    return nn.Sequential(*layers), [numbers(2, 1, 16, 16)]


NETWORKS = {"mlp": mlp, "lenet": lenet}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_computes_alike_wherever_its_file_is_read(name, tmp_path):
    network, inputs = NETWORKS[name]()
    agree(network, inputs, tmp_path / "network.onnx")


def test_weights_have_the_names_of_the_module(tmp_path):
    network, inputs = mlp()
    model = written(network, inputs, tmp_path / "mlp.onnx")
    names = {tensor.name for tensor in model.graph.initializer}
    assert {name for name, _ in network.named_parameters()} <= names
    assert [value.name for value in model.graph.input] == ["x"]
    assert [value.name for value in model.graph.output] == ["output"]


def test_products_and_convolutions_are_written_as_what_they_are(tmp_path):
    assert {"Conv", "MatMul"} <= kinds(written(*lenet(), tmp_path / "lenet.onnx"))


def test_writing_twice_gives_the_same_bytes(tmp_path):
    network, inputs = lenet()
    written(network, inputs, tmp_path / "a.onnx")
    written(network, inputs, tmp_path / "b.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_weights_lie_outside_where_there_are_too_many(tmp_path):
    network, inputs = nn.Linear(64, 64), [numbers(2, 64)]
    agree(network, inputs, tmp_path / "net.onnx", most_bytes_inside=1000)
    assert (tmp_path / "net.onnx").stat().st_size < 64 * 64 * 4 <= (tmp_path / "net.onnx.data").stat().st_size


@pytest.mark.parametrize(
    ("function", "inputs", "settings", "error", "text"),
    [
        (3, [], {}, ArgumentError, "a function or a module, not int"),
        (lambda x: x, [object()], {}, DTypeError, "'x' is of type object"),
        (lambda x: 2, [numbers(2)], {}, DTypeError, "returns a int"),
        (lambda a, b: a + b["x"], [numbers(2), {"x": object}], {}, DTypeError, "'b.x' is of type type"),
        (lambda x: x, [numbers(2)], {"dynamic": {"y": {0: "n"}}}, DimError, "names the input 'y'; there are x"),
        (lambda x: x, [numbers(2)], {"dynamic": {"x": {1: "n"}}}, DimError, "axis 1 of 'x'"),
        (lambda x: x, [numbers(2)], {"dynamic": {"x": {0: 3}}}, DimError, "a text or a Dim, not 3"),
        (lambda x: x, [numbers(2)], {"dynamic": {"x": "n"}}, DimError, "of each input"),
        (lambda x: x, [numbers(2, 3)], {"dynamic": {"x": {0: "n", 1: "n"}}}, DimError, "axes of one name"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_with_the_reason(function, inputs, settings, error, text, tmp_path):
    with pytest.raises(error, match=text):
        zyx.io.onnx.save(function, inputs, tmp_path / "no.onnx", **settings)
    assert not (tmp_path / "no.onnx").exists()
