"""Networks written to ONNX files: checked, read again, and computed by ONNX Runtime."""

import numpy as np
import pytest

import zyx
from zyx import nn
from zyx.errors import ArgumentError, DimError, DTypeError, TraceError, TransferError, UnsupportedError

onnx = pytest.importorskip("onnx", reason="onnx, whose files these tests make, is not installed")

import zyx.io.onnx  # noqa: E402


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def written(function, inputs, path, **settings):
    """Write, and let the checker look at all of it."""
    model = zyx.io.onnx.save(function, inputs, path, **settings)
    onnx.checker.check_model(str(path), full_check=True)
    return model


def arrays(tree):
    return [leaf.numpy() if isinstance(leaf, zyx.Tensor) else leaf for leaf in zyx.tree.leaves(tree)]


def tensors(inputs):
    return zyx.tree.map(lambda leaf: zyx.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf, inputs)


def given(model, inputs):
    """Return inputs by the names of a network."""
    return dict(zip([value.name for value in model.graph.input], arrays(inputs), strict=False))


def assert_alike(reader, function, inputs, path, model, atol=1e-5):
    """Whether a file gives what a function does."""
    expected = arrays(function(*tensors(inputs)))
    found = reader(path, given(model, inputs))
    for value, name in zip(expected, found, strict=False):
        assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape)
        np.testing.assert_allclose(found[name], value, atol=atol, rtol=1e-5)


def kinds(model):
    return {node.op_type for node in model.graph.node}


# ---- networks


def mlp():
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3), nn.Softmax(-1)), [numbers(2, 5)]


def lenet():
    layers = (
        nn.Conv2d(1, 4, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(4, 6, 5), nn.Tanh(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(24, 10), nn.ReLU(), nn.Linear(10, 4),
    )  # fmt: skip
    return nn.Sequential(*layers), [numbers(2, 1, 16, 16)]


class ResidualBlock(nn.Module):
    def __init__(self):
        self.first, self.second = nn.Conv2d(3, 6, 3, stride=2, padding=1), nn.Conv2d(6, 6, 3, padding=1, groups=2)
        self.norms = [nn.BatchNorm2d(6), nn.BatchNorm2d(6)]
        self.short = nn.Conv2d(3, 6, 1, stride=2)

    def forward(self, x):
        inside = self.norms[1](self.second(self.norms[0](self.first(x)).relu()))
        return (inside + self.short(x)).relu()


def residual():
    return ResidualBlock().eval(), [numbers(2, 3, 7, 6)]


def transformer():
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), [numbers(2, 5, 8)]


def lstm():
    state = (numbers(1, 2, 5, seed=1), numbers(1, 2, 5, seed=2))
    return nn.LSTM(4, 5, batch_first=True), [numbers(2, 37, 4), state]


def gru():
    return nn.GRU(4, 5, num_layers=2, bidirectional=True), [numbers(7, 2, 4)]


class UNet(nn.Module):
    def __init__(self):
        self.down, self.middle = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.up, self.last = nn.ConvTranspose2d(4, 4, 2, stride=2), nn.Conv2d(8, 2, 1)

    def forward(self, x):
        fine = self.down(x).relu()
        coarse = self.middle(nn.functional.max_pool2d(fine, 2)).relu()
        return self.last(zyx.concat([fine, self.up(coarse)], axis=1))


def unet():
    return UNet(), [numbers(1, 2, 8, 6)]


def group_norm():
    return nn.Sequential(nn.GroupNorm(2, 4), nn.SiLU(), nn.Conv1d(4, 3, 3, dilation=2)), [numbers(2, 4, 9)]


class CachedAttention(nn.Module):
    def __init__(self):
        self.products = nn.Linear(8, 24)

    def forward(self, x, keys, values):
        q, k, v = zyx.split(self.products(x), 8, axis=-1)
        keys, values = zyx.concat([keys, k], axis=1), zyx.concat([values, v], axis=1)
        return nn.functional.scaled_dot_product_attention(q, keys, values), {"keys": keys, "values": values}


def cached_attention():
    return CachedAttention(), [numbers(2, 1, 8), numbers(2, 6, 8, seed=1), numbers(2, 6, 8, seed=2)]


def embedding_bag():
    return nn.EmbeddingBag(10, 4, mode="mean"), [np.array([[1, 2, 2], [3, 9, 0]])]


class Quantised(nn.Module):
    def __init__(self):
        self.weight = zyx.asarray(np.random.default_rng(0).integers(-127, 128, (6, 5)).astype(np.int8))
        self.scale = zyx.asarray(np.float32(0.02))

    def forward(self, x):
        whole = zyx.clip(zyx.round(x / 0.05), -128, 127).astype("int8")
        total = whole.astype("int32") @ self.weight.astype("int32").T
        return total.astype("float32") * (self.scale * 0.05)


def quantised():
    return Quantised(), [numbers(3, 5)]


def gradients():
    network = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 1))
    return zyx.grad(lambda x: network(x).sum()), [numbers(2, 1, 6, 6)]


NETWORKS = {
    function.__name__: function
    for function in (
        mlp, lenet, residual, transformer, lstm, gru, unet, group_norm, cached_attention, embedding_bag, quantised,
        gradients,
    )
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_computes_alike_wherever_its_file_is_read(name, reader, tmp_path):
    network, inputs = NETWORKS[name]()
    model = written(network, inputs, tmp_path / "network.onnx")
    assert_alike(reader, network, inputs, tmp_path / "network.onnx", model)


def test_steps_of_training_go_on_from_what_the_step_before_gave(reader, tmp_path):
    network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.25), nn.Linear(8, 2))
    optimizer = zyx.optim.Adam(network.parameters(), lr=0.01)

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(x), y)
        loss.backward()
        optimizer.step()
        return loss

    x, y = numbers(6, 4), np.array([0, 1, 1, 0, 1, 0])
    zyx.manual_seed(5)
    model = written(step, [x, y], tmp_path / "step.onnx")
    names = {value.name for value in model.graph.input}
    assert {name for name, _ in network.named_parameters()} < names
    fed = {"x": x, "y": y}
    for _ in range(3):
        found = reader(tmp_path / "step.onnx", fed)
        loss = step(*tensors([x, y])).numpy()
        np.testing.assert_allclose(found["output"], loss, rtol=1e-5)
        fed |= {name.removesuffix(".new"): value for name, value in found.items() if name.endswith(".new")}
    for name, parameter in network.named_parameters():
        np.testing.assert_allclose(fed[name], parameter.numpy(), atol=1e-5)


@pytest.mark.parametrize("draw", [lambda: zyx.rand(5, 3), lambda: zyx.randn(7), lambda: zyx.randint(0, 100, (9,))])
def test_random_numbers_are_those_of_the_generator(draw, reader, tmp_path):
    zyx.manual_seed(11)
    written(draw, [], tmp_path / "draw.onnx")
    zyx.manual_seed(11)
    expected = draw().numpy()
    found = reader(tmp_path / "draw.onnx", {})
    np.testing.assert_allclose(found["output"], expected, atol=1e-6)
    (state,) = [value for name, value in found.items() if name != "output"]
    assert state.shape == (4,)
    assert state[2] > 0  # the words that were drawn are counted


@pytest.mark.parametrize(
    "function",
    [
        lambda x: zyx.view_as_real(zyx.fft.rfft(x)),
        lambda x: zyx.fft.irfft(zyx.fft.rfft(x) * 2),
        lambda x: zyx.fft.ifft(zyx.fft.fft(x) ** 2).imag,
    ],
)
def test_transforms_and_complex_numbers_are_written_as_pairs(function, reader, tmp_path):
    inputs = [numbers(3, 12)]
    model = written(function, inputs, tmp_path / "fft.onnx")
    assert "DFT" in kinds(model)
    assert_alike(reader, function, inputs, tmp_path / "fft.onnx", model, atol=1e-4)


# ---- what is in the file


def test_names_are_those_of_the_module_and_of_parameters_of_the_function(tmp_path):
    network, inputs = mlp()
    model = written(network, inputs, tmp_path / "mlp.onnx")
    names = {tensor.name for tensor in model.graph.initializer}
    assert {name for name, _ in network.named_parameters()} <= names
    assert [value.name for value in model.graph.input] == ["x"]
    assert [value.name for value in model.graph.output] == ["output"]
    model = written(lambda x: {"x": x + 1, "y": [x, 2 * x]}, inputs, tmp_path / "names.onnx")
    assert [value.name for value in model.graph.output] == ["x.out", "y_0", "y_1"]
    model = written(lambda first, rest: first + rest["b"], [numbers(2), {"b": numbers(2)}], tmp_path / "tree.onnx")
    assert [value.name for value in model.graph.input] == ["first", "rest.b"]


def test_products_convolutions_and_pooling_are_written_as_what_they_are(tmp_path):
    model = written(*lenet(), tmp_path / "lenet.onnx")
    assert {"Conv", "MatMul", "MaxPool", "AveragePool"} <= kinds(model)
    assert not {"Expand", "Gather", "ReduceSum"} & kinds(model)
    assert "Scan" in kinds(written(*gru(), tmp_path / "gru.onnx"))


def test_fewer_windows_than_there_could_be_are_no_convolution(reader, tmp_path):
    def function(x, w):
        graph = x.runtime.graph
        node = graph.expand(graph.reshape(x.node, (1, 1, 9, 1)), (1, 1, 9, 3))
        windows = zyx.Tensor.of(graph.slide(node, 2, 3, 4), x.runtime)  # of 7
        return (windows.reshape((1, 1, 1, 1, 4, 3)) * w.reshape((1, 1, 1, 1, 1, 3))).sum(axis=5)

    inputs = [numbers(1, 1, 9), numbers(3)]
    model = written(function, inputs, tmp_path / "few.onnx")
    assert "Conv" not in kinds(model)
    assert_alike(reader, function, inputs, tmp_path / "few.onnx", model)


def test_writing_twice_gives_the_same_bytes(tmp_path):
    network, inputs = lenet()
    written(network, inputs, tmp_path / "a.onnx")
    written(network, inputs, tmp_path / "b.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_weights_lie_outside_where_there_are_too_many(reader, tmp_path):
    network, inputs, path = nn.Linear(64, 64), [numbers(2, 64)], tmp_path / "net.onnx"
    for _ in range(2):  # the second file replaces the first
        model = written(network, inputs, path, most_bytes_inside=1000)
        assert path.stat().st_size < 64 * 64 * 4
        assert 64 * 64 * 4 <= (tmp_path / "net.onnx.data").stat().st_size < 2 * 64 * 64 * 4
    assert_alike(reader, network, inputs, path, model)


# ---- lengths


@pytest.mark.parametrize(
    ("function", "inputs", "dynamic"),
    [
        (mlp()[0], lambda n, m: [numbers(n, 5)], {"x": {0: "batch"}}),
        (lenet()[0], lambda n, m: [numbers(n, 1, 16, 16)], {"x": {0: "batch"}}),
        (lambda x: (x - x.mean(axis=0)) / x.shape[0], lambda n, m: [numbers(n, 3)], {"x": {0: "n"}}),
        (transformer()[0], lambda n, m: [numbers(n, m, 8)], {"src": {0: "batch", 1: "length"}}),
        (lambda x: x.reshape(-1), lambda n, m: [numbers(n, m, 2)], {"x": {0: "n", 1: "m"}}),
        (lambda x, y: zyx.concat([x, y]), lambda n, m: [numbers(n, 2), numbers(m, 2)], {"x": {0: "n"}, "y": {0: "m"}}),
        (lambda x: x + zyx.arange(x.shape[0])[:, None], lambda n, m: [numbers(n, 2)], {"x": {0: "n"}}),
        (lambda x: zyx.sort(x, axis=0), lambda n, m: [numbers(n, 2)], {"x": {0: "n"}}),
        (nn.Embedding(9, 4), lambda n, m: [np.arange(n * m).reshape(n, m) % 9], {"indices": {0: "n", 1: "m"}}),
        (nn.LSTM(4, 5, batch_first=True), lambda n, m: [numbers(n, 6, 4)], {"x": {0: "batch"}}),
        (
            nn.Conv2d(1, 2, 3),
            lambda n, m: [numbers(1, 1, n + 2, m + 2)],
            {"x": {2: zyx.Dim("h", min=3), 3: zyx.Dim("w", 3, 2000)}},
        ),
    ],
    ids=["mlp", "lenet", "mean", "transformer", "flat", "concat", "arange", "sort", "embedding", "lstm", "conv"],
)
def test_lengths_that_a_call_gives_are_any(function, inputs, dynamic, reader, tmp_path):
    path = tmp_path / "dynamic.onnx"
    model = written(function, inputs(3, 4), path, dynamic=dynamic)
    for sizes in ((3, 4), (2, 2), (5, 17), (97, 8)):
        assert_alike(reader, function, inputs(*sizes), path, model)


def test_lengths_have_their_names_in_the_file(tmp_path):
    dynamic = {"x": {0: "batch", -1: zyx.Dim("width")}}
    written(lambda x: (x + 1, x.reshape(-1)), [numbers(3, 4)], tmp_path / "names.onnx", dynamic=dynamic)
    model = zyx.io.onnx.load(tmp_path / "names.onnx")
    assert [value.shape for value in (*model.inputs, *model.outputs)] == [
        ("batch", "width"),
        ("batch", "width"),
        (None,),
    ]


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (
            lambda x: x.sum() if x.shape[0] < 10 else x.mean(),
            r"for n of 10 and more; say so by zyx.Dim",
        ),
        (lambda x: x.sum() if x.shape[0] == 5 else x.mean(), "it is for other n than 5"),
        (lambda x: sum(x[i] for i in range(x.shape[0])), "looks at the number itself"),
    ],
)
def test_a_function_that_depends_on_a_length_is_refused(function, text, tmp_path):
    with pytest.raises(UnsupportedError, match=text):
        zyx.io.onnx.save(function, [numbers(3, 2)], tmp_path / "no.onnx", dynamic={"x": {0: "n"}})
    assert not (tmp_path / "no.onnx").exists()


# ---- what is refused


def test_all_that_has_no_counterpart_is_listed_once(tmp_path):
    def function(x):
        return zyx.linalg.inv(x) + zyx.linalg.inv(x) @ zyx.linalg.cholesky(x), x.astype("int32") ** x.astype("int32")

    with pytest.raises(UnsupportedError) as error:
        zyx.io.onnx.save(function, [np.eye(3, dtype=np.float32)], tmp_path / "no.onnx")
    lines = str(error.value).splitlines()
    assert len(lines) == len({*lines})
    assert sum("computed by the host" in line for line in lines) >= 2
    assert sum("powers of integers" in line for line in lines) == 1


@pytest.mark.parametrize(
    ("function", "inputs", "settings", "error", "text"),
    [
        (3, [], {}, ArgumentError, "a function or a module, not int"),
        (lambda x: x, [object()], {}, DTypeError, "'x' is of type object"),
        (lambda x: x, [np.ones(2, np.complex64)], {}, DTypeError, "'x' is complex64; give its two parts"),
        (zyx.fft.fft, [numbers(4)], {}, DTypeError, "outputs are complex"),
        (lambda x: 2, [numbers(2)], {}, DTypeError, "returns a int"),
        (lambda x: float(x.sum()), [numbers(2)], {}, TraceError, "read while the function is being traced"),
        (lambda a, b: a + b["x"], [numbers(2), {"x": object}], {}, DTypeError, "'b.x' is of type type"),
        (lambda **k: k, {"a": {"b": numbers(2)}, "a.b": numbers(2)}, {}, ArgumentError, "given twice: a.b"),
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


def test_a_file_that_cannot_be_written_is_said_so(tmp_path):
    with pytest.raises(TransferError, match="cannot be written"):
        zyx.io.onnx.save(lambda x: x + 1, [numbers(2)], tmp_path / "no" / "folder.onnx")
