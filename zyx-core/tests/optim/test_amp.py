"""Mixed precision: which functions change types, what gradients are, and what the scale does."""

import numpy as np
import pytest

import zyx
from zyx import amp, nn, optim
from zyx.errors import ArgumentError, GradientError, NoDeviceError, ShapeError
from zyx.nn import functional as F

SQUARE = np.arange(16, dtype=np.float32).reshape(4, 4) / 8 - 1
LABELS = np.array([0, 3, 1, 2])


def x(dtype="float32"):
    return zyx.Tensor(SQUARE, dtype=dtype)


def image():
    return zyx.Tensor(SQUARE).reshape(1, 1, 4, 4)


#: A call of each function in the table.
CALLS = {
    **{name: (lambda f: f(x(), x())) for name in ("matmul", "vecdot", "mse_loss", "l1_loss")},
    **{name: (lambda f: f(x(), x())) for name in ("huber_loss", "smooth_l1_loss", "kl_div")},
    "linear": lambda f: f(x(), x(), zyx.ones(4)),
    "dot": lambda f: f(x()[0], x()[0]), "outer": lambda f: f(x()[0], x()[0]),
    "tensordot": lambda f: f(x(), x(), axes=1), "einsum": lambda f: f("ij,jk->ik", x(), x()),
    "bilinear": lambda f: f(x(), x(), zyx.ones(2, 4, 4), zyx.ones(2)),
    **{f"conv{t}{n}d": (lambda f, n=n: f(zyx.ones(1, 1, *[4] * n), zyx.ones(1, 1, *[2] * n)))
       for n in (1, 2, 3) for t in ("", "_transpose")},
    **{f"conv{t}": (lambda f: f(image(), zyx.ones(1, 1, 2, 2))) for t in ("", "_transpose")},
    "scaled_dot_product_attention": lambda f: f(x(), x(), x()),
    **{name: (lambda f: f(x("float16"))) for name in (
        "sum", "mean", "prod", "std", "var", "logsumexp", "norm", "softmax", "log_softmax", "softmin", "instance_norm",
    )},
    "cumsum": lambda f: f(x("float16"), 0), "cumprod": lambda f: f(x("float16"), 0),
    "layer_norm": lambda f: f(x("float16"), 4), "rms_norm": lambda f: f(x("float16"), 4),
    "group_norm": lambda f: f(x("float16"), 2), "batch_norm": lambda f: f(x("float16"), training=True),
    "instance_norm": lambda f: f(image().half()),
    "cross_entropy": lambda f: f(x("float16"), zyx.Tensor(LABELS)),
    "nll_loss": lambda f: f(x("float16"), zyx.Tensor(LABELS)),
    "binary_cross_entropy": lambda f: f(x("float16") * 0 + 0.5, x("float16") * 0),
    "binary_cross_entropy_with_logits": lambda f: f(x("float16"), x("float16")),
    "triplet_margin_loss": lambda f: f(x("float16"), x("float16") + 1, x("float16") - 1),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("kind", amp.TABLE)
def test_each_function_of_the_table_gives_its_type(kind, dtype):
    for name in amp.TABLE[kind]:
        function = getattr(zyx, name, None) or getattr(F, name)
        with zyx.autocast(dtype):
            found = CALLS[name](function)
        assert found.dtype == (dtype if kind == "low" else "float32"), name


def test_results_are_near_those_in_float32_and_exact_ones_stay():
    with zyx.autocast("float16"):
        product = x() @ x()
        total = product.sum()
    assert np.allclose(product.numpy(), SQUARE @ SQUARE, rtol=1e-3)
    assert total.dtype == "float32"
    wide = zyx.Tensor(SQUARE, dtype="float64")
    with zyx.autocast("float16"):
        assert (wide @ wide).dtype == "float64"
        assert (zyx.arange(3) @ zyx.arange(3)).dtype == "int64"
        assert (x() + x()).dtype == "float32"


def test_blocks_nest_and_decorate_and_end():
    with zyx.autocast("cuda", dtype=zyx.float16) as outer:
        assert outer.dtype == "float16"
        with zyx.autocast(enabled=False):
            assert not amp.is_autocast_enabled()
            assert (x() @ x()).dtype == "float32"
        assert (x() @ x()).dtype == "float16"
    assert not amp.is_autocast_enabled()
    assert zyx.autocast()(lambda: (x() @ x()).dtype)() == "bfloat16"
    with pytest.raises(ArgumentError, match="float64"):
        zyx.autocast("float64")


def test_traces_of_both_kinds_are_kept_apart():
    product = zyx.jit(lambda a: a @ a)
    assert product(x()).dtype == "float32"
    with zyx.autocast("float16"):
        assert product(x()).dtype == "float16"
    assert product(x()).dtype == "float32"


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Linear(8, 4)),
        lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True),
    ],
    ids=["layers", "attention"],
)
def test_networks_train_with_weights_and_gradients_in_float32(make):
    zyx.manual_seed(0)
    net = make().train()
    with zyx.Tape() as tape, zyx.autocast("bfloat16"):
        loss = (net(x()) ** 2).mean()
    gradients = tape.gradient(loss, net.parameters())
    with zyx.Tape() as tape:
        wanted_loss = (net(x()) ** 2).mean()
    wanted = tape.gradient(wanted_loss, net.parameters())
    assert {g.dtype.name for g in gradients} == {"float32"}
    assert abs(loss.item() / wanted_loss.item() - 1) < 0.05
    for found, exact in zip(gradients, wanted, strict=True):
        scale = max(np.abs(exact.numpy()).max(), 0.05)
        assert np.abs(found.numpy() - exact.numpy()).max() < 0.1 * scale


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_recurrent_networks_stay_in_the_type_of_their_weights(kind):
    net = getattr(nn, kind)(4, 3)
    with zyx.autocast("float16"):
        output, _ = net(zyx.Tensor(SQUARE).reshape(4, 1, 4))
    assert output.dtype == "float32"


# ---- scaling


def scaled(make_grad, jitted=True, steps=1, **settings):
    """Return parameter, optimiser and scaler after steps along what `make_grad` returns for the number of a step."""
    p = nn.Parameter(np.ones(3, np.float32))
    optimizer = optim.Adam([p], lr=0.1)
    scaler = amp.GradScaler(**settings)

    def step(grad):
        scaler.step(optimizer, [grad])
        scaler.update()

    run = zyx.jit(step) if jitted else step
    for number in range(steps):
        run(zyx.Tensor(np.asarray(make_grad(number), np.float32)))
    return p, optimizer, scaler


@pytest.mark.parametrize("jitted", [False, True])
def test_a_step_that_is_not_finite_is_left_out_and_halves_the_scale(jitted):
    p, optimizer, scaler = scaled(lambda n: [1, np.inf if n == 1 else 2, 3], jitted, 3, init_scale=8.0)
    assert scaler.get_scale() == 4.0
    assert scaler.step_count.item() == 3
    assert scaler.skipped_count.item() == 1
    assert optimizer.step_count.item() == 2
    reference = nn.Parameter(np.ones(3, np.float32))
    plain = optim.Adam([reference], lr=0.1)
    for scale in (8.0, 4.0):
        plain.step([zyx.Tensor([1.0, 2.0, 3.0]) / scale])
    assert np.allclose(p.numpy(), reference.numpy(), rtol=1e-6)
    assert np.isfinite(optimizer.state["exp_avg"][0].numpy()).all()


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_nothing_changes_in_such_a_step(value):
    p, optimizer, _ = scaled(lambda n: [1, value, 3])
    assert p.tolist() == [1, 1, 1]
    assert {name: tensors[0].tolist() for name, tensors in optimizer.state.items()} == {
        "exp_avg": [0, 0, 0], "exp_avg_sq": [0, 0, 0],
    }  # fmt: skip


def test_the_scale_grows_after_enough_good_steps():
    _, _, scaler = scaled(lambda n: [1, 1, np.nan if n == 2 else 1], steps=7, init_scale=16.0, growth_interval=2)
    # 1, 1 -> 32; nan -> 16; 1, 1 -> 32; 1, 1 -> 64
    assert scaler.get_scale() == 64.0
    state = scaler.state_dict()
    other = amp.GradScaler()
    other.load_state_dict(state)
    assert other.get_scale() == 64.0
    assert other.step_count.item() == 7


def test_small_gradients_of_float16_live_through_the_scale():
    w = nn.Parameter(np.full(1, 1e-4, np.float32))
    scaler = amp.GradScaler(init_scale=2.0**14)
    with zyx.Tape() as tape, zyx.autocast("float16"):
        value = (w.reshape(1, 1) @ zyx.Tensor([[1e-4]])).sum() * 1e-4
        loss = scaler.scale(value)
    (found,) = scaler.unscale(tape.gradient(loss, [w]))
    assert found.item() == pytest.approx(1e-8, rel=2e-3)


def test_two_optimisers_share_one_update():
    p, q = (nn.Parameter(np.ones(1, np.float32)) for _ in range(2))
    first, second = optim.SGD([p], lr=1.0), optim.SGD([q], lr=1.0)
    scaler = amp.GradScaler(init_scale=2.0)
    scaler.step(first, [zyx.Tensor([np.inf])])
    scaler.step(second, scaler.unscale([zyx.Tensor([1.0])]), is_unscaled=True)
    scaler.update()
    assert (p.item(), q.item(), scaler.get_scale()) == (1.0, 0.5, 1.0)


def test_a_scaler_that_is_off_does_nothing():
    p, _, scaler = scaled(lambda n: [1, np.inf, 1], enabled=False)
    assert scaler.get_scale() == 1.0
    assert np.isnan(p.numpy()[1])
    assert scaler.skipped_count.item() == 0


def test_the_device_comes_first_and_is_not_looked_for_where_nothing_is_scaled():
    assert amp.GradScaler("interpreter", 8.0).get_scale() == 8.0
    assert amp.GradScaler("no such device", enabled=False).get_scale() == 1.0
    with pytest.raises(NoDeviceError, match="no such device"):
        amp.GradScaler("no such device")


def test_bad_arguments_are_named():
    with pytest.raises(ArgumentError, match="growth_factor"):
        amp.GradScaler(growth_factor=1.0)
    with pytest.raises(ShapeError, match="backoff_factor"):
        amp.GradScaler(backoff_factor=1.5)
    with pytest.raises(GradientError, match="int64"):
        amp.GradScaler().scale(zyx.arange(1))
    with pytest.raises(GradientError, match="no gradients"):
        amp.GradScaler().step(optim.SGD([nn.Parameter(zyx.ones(1))]), [None])
