"""Layers against their formulas in NumPy."""

import numpy as np
import pytest
from meanings.formulas import conv, standardise

import zyx
from zyx import nn
from zyx.errors import DTypeError, ShapeError
from zyx.nn import functional as F

pytestmark = pytest.mark.usefixtures("interpreter")

RANDOM = np.random.default_rng(3)


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def close(found, wanted, tolerance=1e-5):
    assert found.shape == wanted.shape
    assert np.allclose(found.numpy(), wanted, rtol=tolerance, atol=tolerance)


# ---- linear


@pytest.mark.parametrize("front", [(), (2,), (2, 3)])
def test_linear_is_a_product_with_the_transposed_weight(front):
    layer = nn.Linear(4, 3)
    x = normal(*front, 4)
    close(layer(zyx.Tensor(x)), x @ layer.weight.numpy().T + layer.bias.numpy())
    plain = nn.Linear(4, 3, bias=False)
    close(plain(zyx.Tensor(x)), x @ plain.weight.numpy().T)


def test_layers_name_the_shapes_that_do_not_fit():
    with pytest.raises(ShapeError, match="do not fit weights"):
        nn.Bilinear(3, 4, 2)(zyx.Tensor(normal(5, 4)), zyx.Tensor(normal(5, 3)))
    with pytest.raises(ShapeError, match="axes behind the channels"):
        nn.InstanceNorm(3)(zyx.Tensor(normal(2, 3)))
    with pytest.raises(ShapeError, match=r"\(2, 5\) does not fit weights \(3, 4\)"):
        nn.Linear(4, 3)(zyx.Tensor(normal(2, 5)))
    with pytest.raises(ShapeError, match=r"bias \(2,\) does not fit"):
        F.linear(zyx.Tensor(normal(2, 4)), zyx.Tensor(normal(3, 4)), zyx.Tensor(normal(2)))
    with pytest.raises(DTypeError, match=r"linear takes a zyx\.Tensor, not ndarray"):
        nn.Linear(4, 3)(normal(2, 4))


def test_shape_layers_only_change_shapes():
    x = zyx.Tensor(normal(2, 3, 4))
    assert nn.Flatten()(x).shape == (2, 12)
    assert nn.Flatten(0, 1)(x).shape == (6, 4)
    assert nn.Unflatten(2, (2, 2))(x).shape == (2, 3, 2, 2)
    assert nn.Identity()(x) is x


# ---- convolutions


@pytest.mark.parametrize(("stride", "pad", "dilation", "groups"), [(1, 0, 1, 1), (2, 1, 1, 2), (1, 2, 2, 1)])
def test_convolutions_follow_the_definition(stride, pad, dilation, groups):
    layer = nn.Conv2d(4, 6, 3, stride, pad, dilation, groups)
    x = normal(2, 4, 7, 6)
    wanted = conv(x, layer.weight.numpy(), stride, pad, dilation, groups)
    close(layer(zyx.Tensor(x)), wanted + layer.bias.numpy()[:, None, None], 1e-4)


def test_convolutions_of_one_and_three_axes_are_those_of_two_with_axes_of_one():
    x = normal(2, 3, 8)
    one = nn.Conv1d(3, 4, 3, padding=1)
    close(
        one(zyx.Tensor(x)),
        F.conv2d(zyx.Tensor(x[:, :, None]), one.weight[:, :, None], one.bias, padding=(0, 1)).numpy()[:, :, 0],
    )
    three = nn.Conv3d(3, 4, (1, 1, 3))
    flat = F.conv1d(zyx.Tensor(x), three.weight[:, :, 0, 0], three.bias)
    close(three(zyx.Tensor(x[:, :, None, None])), flat.numpy()[:, :, None, None])


def test_transposed_convolutions_are_the_gradients_of_convolutions():
    layer = nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1, output_padding=1)
    x = zyx.Tensor(normal(1, 3, 4, 4))
    y = layer(x)
    assert y.shape == (1, 2, 8, 8)
    image = zyx.Tensor(normal(1, 2, 8, 8))
    with zyx.Tape() as tape:
        total = (F.conv2d(image, layer.weight, stride=2, padding=1) * x).sum()
    wanted = tape.gradient(total, image).numpy() + layer.bias.numpy()[:, None, None]
    close(y, wanted, 1e-4)


def test_other_paddings_are_put_around_before():
    layer = nn.Conv2d(1, 1, 3, padding=1, padding_mode="circular")
    x = normal(1, 1, 4, 4)
    wanted = conv(np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], "wrap"), layer.weight.numpy())
    close(layer(zyx.Tensor(x)), wanted + layer.bias.numpy())
    assert nn.Conv2d(1, 1, 4, padding="same")(zyx.Tensor(x)).shape == x.shape


def test_channels_that_do_not_fall_into_groups_are_refused():
    for kind in (nn.Conv2d, nn.ConvTranspose2d):
        with pytest.raises(ShapeError, match="3 and 4 channels do not fall into 2 groups"):
            kind(3, 4, 3, groups=2)
    with pytest.raises(ShapeError, match="padding_mode is one of zeros"):
        nn.Conv2d(1, 1, 3, padding_mode="none")


# ---- embedding


def test_embedding_looks_rows_up_and_the_padding_row_stays_0():
    layer = nn.Embedding(5, 3, padding_idx=-4)
    table = layer.weight.numpy()
    assert not table[1].any()
    assert table[0].all()
    indices = np.array([[0, 1], [4, -4]])
    with zyx.Tape() as tape:
        rows = layer(zyx.Tensor(indices))
        total = (rows * 2.0).sum()
    close(rows, table[indices])
    gradient = tape.gradient(total, layer.weight).numpy()
    assert np.array_equal(gradient, np.array([2, 0, 0, 0, 2], np.float32)[:, None] * np.ones(3, np.float32))


def test_rows_that_are_looked_up_twice_get_both_gradients():
    layer = nn.Embedding(3, 2)
    with zyx.Tape() as tape:
        total = layer(zyx.Tensor([1, 1, 2])).sum()
    assert tape.gradient(total, layer.weight).tolist() == [[0, 0], [2, 2], [1, 1]]


def test_embedding_refuses_what_is_no_index():
    with pytest.raises(DTypeError, match="indices are integers, not float32"):
        nn.Embedding(3, 2)(zyx.Tensor([1.0]))
    with pytest.raises(ShapeError, match="padding_idx 3 is no row of 3"):
        nn.Embedding(3, 2, padding_idx=3)


# ---- normalisation

EPS = 1e-5


def test_layer_norm_normalises_the_last_axes():
    x = normal(3, 4, 5) * 3 + 2
    layer = nn.LayerNorm((4, 5))
    layer.weight.assign(zyx.Tensor(normal(4, 5)))
    layer.bias.assign(zyx.Tensor(normal(4, 5)))
    close(layer(zyx.Tensor(x)), standardise(x, (1, 2), EPS) * layer.weight.numpy() + layer.bias.numpy())
    close(nn.LayerNorm(5, elementwise_affine=False)(zyx.Tensor(x)), standardise(x, 2, EPS))
    with pytest.raises(ShapeError, match=r"the last axes of \(3, 4, 5\) are not \(4,\)"):
        nn.LayerNorm(4)(zyx.Tensor(x))
    with pytest.raises(DTypeError, match="layer_norm takes floats, not int64"):
        nn.LayerNorm(4)(zyx.arange(4))


def test_rms_norm_of_nothing_is_nothing():
    close(nn.RMSNorm(5)(zyx.zeros(2, 5)), np.zeros((2, 5)))


def test_channels_that_do_not_fall_into_groups_are_not_normalised():
    with pytest.raises(ShapeError, match="6 channels do not fall into 4 groups"):
        nn.GroupNorm(4, 6)


@pytest.mark.parametrize("shape", [(8, 3), (4, 3, 5), (2, 3, 4, 5), (2, 3, 2, 3, 4)])
def test_batch_norm_in_training_uses_the_batch_and_moves_the_running_values(shape):
    x = normal(*shape) * 2 + 1
    axes = (0, *range(2, len(shape)))
    layer = nn.BatchNorm(3).train()
    close(layer(zyx.Tensor(x)), standardise(x, axes, EPS))
    close(layer.running_mean, 0.1 * x.mean(axes))
    close(layer.running_var, 0.9 + 0.1 * x.var(axes, ddof=1))
    assert layer.num_batches_tracked.item() == 1


def test_batch_norm_outside_of_training_uses_the_running_values_and_leaves_them():
    layer = nn.BatchNorm(2).eval()
    layer.load_state_dict({"running_mean": np.array([1, 2]), "running_var": np.array([4, 9])}, strict=False)
    x = normal(5, 2)
    close(layer(zyx.Tensor(x)), (x - [1, 2]) / np.sqrt(np.array([4, 9]) + 1e-5))
    assert layer.running_mean.tolist() == [1, 2]


def test_batch_norm_without_momentum_averages_all_batches():
    layer = nn.BatchNorm(2, momentum=None).train()
    batches = [normal(6, 2) for _ in range(3)]
    for batch in batches:
        layer(zyx.Tensor(batch))
    close(layer.running_mean, np.mean([b.mean(0) for b in batches], 0))
    close(layer.running_var, np.mean([b.var(0, ddof=1) for b in batches], 0))


def test_batch_norm_without_tracking_always_uses_the_batch():
    layer = nn.BatchNorm(2, track_running_stats=False).eval()
    x = normal(6, 2) + 5
    close(layer(zyx.Tensor(x)), standardise(x, 0, EPS))
    assert not layer.buffers()


def test_running_values_are_computed_together_with_the_step():
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).train()
    optimizer = zyx.optim.SGD(net.parameters(), lr=0.1)
    with zyx.Tape() as tape:
        loss = (net(zyx.Tensor(normal(4, 2))) ** 2).sum()
    optimizer.step(tape.gradient(loss, optimizer.params))
    assert all(buffer.is_realized for buffer in net.buffers())


def test_batch_norm_refuses_what_it_cannot_normalise():
    with pytest.raises(ShapeError, match="more than the one value"):
        nn.BatchNorm(2).train()(zyx.Tensor(normal(1, 2)))
    with pytest.raises(ShapeError, match=r"BatchNorm2d takes rank 4, not \(4, 2\)"):
        nn.BatchNorm2d(2)(zyx.Tensor(normal(4, 2)))
    with pytest.raises(ShapeError, match="for the 3 channels"):
        nn.BatchNorm(2).eval()(zyx.Tensor(normal(4, 3)))


def test_half_precision_is_normalised_in_single_precision():
    x = (normal(4, 64) * 100).astype(np.float16)
    found = F.layer_norm(zyx.Tensor(x), 64)
    assert found.dtype is zyx.float16
    assert np.array_equal(found.numpy(), F.layer_norm(zyx.Tensor(x.astype(np.float32)), 64).numpy().astype(np.float16))


# ---- dropout


def test_dropout_scales_in_training_and_does_nothing_otherwise():
    zyx.manual_seed(0)
    x = zyx.ones(10000)
    layer = nn.Dropout(0.25)
    assert layer.eval()(x) is x
    kept = layer.train()(x).numpy()
    assert set(np.unique(kept)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((kept > 0).mean() - 0.75) < 0.02
    with pytest.raises(ShapeError, match="p is 0 to 1"):
        nn.Dropout(1.5)


def test_channel_dropout_drops_whole_channels():
    zyx.manual_seed(0)
    kept = nn.ChannelDropout(0.5).train()(zyx.ones(50, 4, 3, 3)).numpy()
    assert set(np.unique(kept.sum((2, 3)))) == {np.float32(0), np.float32(18)}


# ---- activations, pooling, sizes


@pytest.mark.parametrize(
    ("layer", "function"),
    [
        (nn.ReLU(), F.relu), (nn.LeakyReLU(0.2), lambda x: F.leaky_relu(x, 0.2)),
        (nn.ELU(2.0), lambda x: F.elu(x, 2.0)),
        (nn.GELU("tanh"), lambda x: F.gelu(x, "tanh")), (nn.Sigmoid(), F.sigmoid), (nn.SiLU(), F.silu),
        (nn.Tanh(), zyx.tanh), (nn.Hardtanh(-0.5, 0.5), lambda x: F.hardtanh(x, -0.5, 0.5)),
        (nn.Softplus(), F.softplus), (nn.Softmax(), F.softmax), (nn.LogSoftmax(0), lambda x: F.log_softmax(x, 0)),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_activations_are_their_functions(layer, function):
    x = zyx.Tensor(normal(3, 5))
    assert np.array_equal(layer(x).numpy(), function(x).numpy())


def test_prelu_has_a_slope_for_each_channel():
    x = normal(3, 5)
    close(nn.PReLU()(zyx.Tensor(x)), np.where(x > 0, x, 0.25 * x))
    layer = nn.PReLU(2)
    layer.weight.assign(zyx.Tensor(np.array([0.5, 2], np.float32)))
    x = -np.ones((1, 2, 3), np.float32)
    assert layer(zyx.Tensor(x)).tolist() == [[[-0.5] * 3, [-2] * 3]]


def test_pooling_layers_pool_the_last_axes():
    x = normal(2, 3, 4, 6)
    blocks = x.reshape(2, 3, 2, 2, 3, 2)
    close(nn.MaxPool2d(2)(zyx.Tensor(x)), blocks.max((3, 5)))
    close(nn.AvgPool2d(2)(zyx.Tensor(x)), blocks.mean((3, 5)))
    close(nn.AdaptiveAvgPool2d((2, 3))(zyx.Tensor(x)), blocks.mean((3, 5)))
    close(nn.AdaptiveAvgPool2d(1)(zyx.Tensor(x)), x.mean((2, 3), keepdims=True))
    uneven = nn.AdaptiveAvgPool1d(4)(zyx.Tensor(x)).numpy()
    assert np.allclose(uneven[..., 1], x[..., 1:3].mean(-1), atol=1e-6)
    assert nn.AdaptiveAvgPool2d((None, 2))(zyx.Tensor(x)).shape == (2, 3, 4, 2)


def test_interpolation_to_the_nearest_repeats_elements():
    x = normal(1, 2, 2, 3)
    close(F.interpolate(zyx.Tensor(x), scale_factor=2), x.repeat(2, 2).repeat(2, 3))
    close(F.interpolate(zyx.Tensor(x), size=(1, 2)), x[:, :, :1, :][..., [0, 1]])


def test_linear_interpolation_weighs_the_neighbours():
    x = zyx.Tensor(np.array([[[0, 4]]], np.float32))
    assert F.interpolate(x, size=4, mode="linear").tolist() == [[[0, 1, 3, 4]]]
    assert F.interpolate(x, size=5, mode="linear", align_corners=True).tolist() == [[[0, 1, 2, 3, 4]]]
    grid = zyx.Tensor(np.array([[[[0, 2], [4, 6]]]], np.float32))
    found = F.interpolate(grid, size=(3, 3), mode="bilinear", align_corners=True)
    assert found.tolist() == [[[[0, 1, 2], [2, 3, 4], [4, 5, 6]]]]
    with pytest.raises(ShapeError, match="mode 'bilinear' does not fit"):
        F.interpolate(x, size=4, mode="bilinear")
    with pytest.raises(ShapeError, match="either size or scale_factor"):
        F.interpolate(x)


# ---- first values


@pytest.mark.parametrize(
    ("make", "bound"),
    [
        (lambda: nn.Linear(100, 50), 0.1),
        (lambda: nn.Conv2d(4, 30, 5), 0.1),
        (lambda: nn.ConvTranspose2d(20, 4, 5), 0.1),
        (lambda: nn.LSTM(20, 25), 0.2),
        (lambda: nn.GRUCell(20, 100), 0.1),
    ],
)
def test_first_values_lie_within_the_root_of_the_inputs(make, bound):
    for name, parameter in make().named_parameters():
        values = parameter.numpy()
        assert np.abs(values).max() <= bound, name
        assert np.abs(values).max() > 0.8 * bound, name
        assert values.size < 100 or abs(values.mean()) < 0.2 * bound, name


def test_the_same_seed_gives_the_same_network():
    def made():
        zyx.manual_seed(7)
        return nn.Sequential(nn.Linear(3, 4), nn.Embedding(5, 6))

    for a, b in zip(made().parameters(), made().parameters(), strict=True):
        assert np.array_equal(a.numpy(), b.numpy())


def test_layers_take_a_dtype_and_a_device():
    for layer in (nn.Linear(2, 3, dtype="float64", device="interpreter"), nn.LSTM(2, 3, dtype="float64")):
        assert {p.dtype.name for p in layer.parameters()} == {"float64"}
        assert {p.device for p in layer.parameters()} == {"interpreter:0"}
