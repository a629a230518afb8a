"""Networks give what PyTorch gives: results, gradients of everything, and steps; test_beside_torch.py has the parts.

PyTorch is needed for these tests alone. They run on the default device (``ZYX_DEVICE``), and the whole networks on the
interpreter as well.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch_rows as rows

import zyx
from zyx import nn, optim
from zyx.errors import SharingError

torch = pytest.importorskip("torch", reason="PyTorch, which these tests compare with, is not installed")

TOLERANCE = 1e-4


@pytest.fixture
def random():
    torch.manual_seed(0)
    zyx.manual_seed(0)
    return np.random.default_rng(0)


def normal(random, *shape):
    return random.standard_normal(shape).astype(np.float32)


def flat(value):
    """Return the tensors in nested tuples."""
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in flat(item)]
    return [] if value is None else [value]


def made(tensor, options):
    """Return `options` with tensors in place of arrays."""
    return {name: tensor(value) if isinstance(value, np.ndarray) else value for name, value in options.items()}


def close(what, found, wanted):
    """Assert that the greatest difference is small beside the greatest value."""
    found, wanted = found.numpy(), wanted.detach().numpy()
    assert found.shape == wanted.shape, what
    scale = max(float(np.abs(wanted).max(initial=0.0)), 0.05)  # what should be 0 is rounding of greater values
    assert float(np.abs(found - wanted).max(initial=0.0)) <= TOLERANCE * scale, what


def compare(ours, theirs, inputs, random, training=False, **options):
    """Run both on the same inputs and weights; compare results, all gradients and buffers; return our gradients."""
    ours.load_state_dict({name: tensor.detach().numpy() for name, tensor in theirs.state_dict().items()})
    ours.train(training)
    theirs.train(training)
    given = [zyx.Tensor(array) for array in inputs]
    taken = [torch.tensor(array, requires_grad=array.dtype.kind == "f") for array in inputs]
    wanted = flat(
        theirs(*taken, **{k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()})
    )
    weights = [normal(random, *result.shape) for result in wanted]
    sum((result * torch.tensor(weight)).sum() for result, weight in zip(wanted, weights, strict=True)).backward()
    parameters = dict(ours.named_parameters())
    sources = [x for x in given if x.dtype.is_float] + list(parameters.values())
    with zyx.Tape() as tape:
        found = flat(ours(*given, **made(zyx.Tensor, options)))
        loss = sum((result * weight).sum() for result, weight in zip(found, weights, strict=True))
    gradients = tape.gradient(loss, sources)
    zyx.realize(*found, *gradients)
    for number, (a, b) in enumerate(zip(found, wanted, strict=True)):
        close(f"result {number}", a, b)
    named = {f"input {number}": x.grad for number, x in enumerate(taken) if x.requires_grad}
    named |= {name: dict(theirs.named_parameters())[name].grad for name in parameters}
    for (name, wanted_gradient), gradient in zip(named.items(), gradients, strict=True):
        close(f"gradient of {name}", gradient, wanted_gradient)
    for name, buffer in theirs.named_buffers():
        close(f"buffer {name}", dict(ours.named_buffers())[name], buffer)
    return gradients[len(sources) - len(parameters) :]


# ---- whole networks: forward, gradients, one step


class Block(nn.Module):
    """A transformer block with attention, the way GPT has it."""

    def __init__(self, width, heads):
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False, is_causal=True)[0]
        return x + self.mlp(self.norm2(x))


def torch_block(width, heads):
    class TorchBlock(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
            self.attention = torch.nn.MultiheadAttention(width, heads, batch_first=True)
            self.mlp = torch.nn.Sequential(
                torch.nn.Linear(width, 4 * width), torch.nn.GELU("tanh"), torch.nn.Linear(4 * width, width)
            )

        def forward(self, x):
            y = self.norm1(x)
            hidden = torch.nn.Transformer.generate_square_subsequent_mask(x.shape[1])
            x = x + self.attention(y, y, y, need_weights=False, attn_mask=hidden, is_causal=True)[0]
            return x + self.mlp(self.norm2(x))

    return TorchBlock()


def convolutional(of, flatten):
    return of.Sequential(
        of.Conv2d(3, 8, 3, padding=1),
        of.BatchNorm2d(8),
        of.ReLU(),
        of.MaxPool2d(2),
        of.Conv2d(8, 12, 3, stride=2, groups=2),
        of.LeakyReLU(),
        flatten,
        of.Linear(12 * 2 * 2, 5),
    )


NETWORKS = {
    "transformer block": (lambda: Block(32, 2), lambda: torch_block(32, 2), (2, 48, 32), False),
    "CNN": (
        lambda: convolutional(nn, nn.Flatten()),
        lambda: convolutional(torch.nn, torch.nn.Flatten()),
        (4, 3, 10, 10),
        True,
    ),
    "LSTM": (lambda: nn.LSTM(6, 8, num_layers=2), lambda: torch.nn.LSTM(6, 8, num_layers=2), (5, 3, 6), False),
}


@pytest.mark.parametrize("device", [None, "interpreter"], ids=["default device", "interpreter"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_its_gradients_and_a_step_agree(name, device, random):
    make, make_theirs, shape, training = NETWORKS[name]
    with zyx.device(device or zyx.default_device()):
        ours, theirs = make(), make_theirs()
        gradients = compare(ours, theirs, [normal(random, *shape)], random, training)
        # Some gradients are 0 but for rounding; a large eps keeps Adam from making steps of them.
        optim.AdamW(ours.parameters(), 1e-2, eps=1e-2).step(gradients)
        torch.optim.AdamW(theirs.parameters(), 1e-2, eps=1e-2).step()
        for parameter_name, parameter in ours.named_parameters():
            close(f"{parameter_name} after a step", parameter, dict(theirs.named_parameters())[parameter_name])


# ---- layers and losses of many examples


#: Layers that are run for many examples, all but those that draw numbers or keep statistics of a batch.
OF_EXAMPLES = (
    "Linear", "Bilinear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose2d", "LayerNorm", "RMSNorm", "GroupNorm",
    "BatchNorm2d", "MultiheadAttention", "RNNCell", "GRUCell", "LSTMCell", "RNN", "GRU", "LSTM",
    "TransformerEncoderLayer", "TransformerDecoderLayer", "PReLU", "Upsample", "AdaptiveAvgPool2d", "MaxPool2d",
    "AvgPool2d",
)  # fmt: skip
EXAMPLES = [
    (name, place)
    for name in OF_EXAMPLES
    for place, (*_, options) in enumerate(rows.LAYERS[name])
    if not ("Norm" in name and options.get("training"))
]


@pytest.mark.parametrize(("name", "place"), EXAMPLES)
def test_a_layer_and_its_gradients_of_each_example_are_those_of_a_loop(name, place, random):
    make, shapes, options = rows.LAYERS[name][place]
    layer = make(nn)
    layer.train(options.get("training", False))
    others = made(zyx.Tensor, options.get("keywords", {}))
    names, parameters = zip(*layer.named_parameters(), strict=True) if list(layer.named_parameters()) else ((), ())

    def of_one(*inputs):
        with zyx.Tape() as tape:
            results = flat(layer(*inputs, **others))
            loss = sum((result * result).sum() for result in results)
        return results, tape.gradient(loss, [*inputs, *parameters])

    examples = [zyx.Tensor(normal(random, 3, *shape)) for shape in shapes]
    found = zyx.vmap(of_one)(*examples)
    zyx.realize(*found[0], *found[1])
    for example in range(3):
        wanted = of_one(*[x[example].realize() for x in examples])
        for what, theirs, ours in zip(("result", "gradient"), wanted, found, strict=True):
            for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
                close(f"{what} {number} of example {example}, {names}", a[example], torch.tensor(b.numpy()))


@pytest.mark.parametrize(
    "name", ["CrossEntropyLoss", "NLLLoss", "MSELoss", "L1Loss", "HuberLoss", "SmoothL1Loss", "BCEWithLogitsLoss"]
)
def test_losses_of_each_example_and_their_gradients_are_those_of_a_loop(name, random):
    make, (shape, target) = rows.LOSSES[name][-1]
    target = normal(random, *target) if isinstance(target, tuple) else target
    loss = make(nn, zyx.Tensor)
    x = zyx.Tensor(normal(random, 3, *shape))
    targets = zyx.stack([zyx.Tensor(target), zyx.Tensor(target[::-1].copy()), zyx.Tensor(target)])
    both = zyx.value_and_grad(loss)
    values, gradients = zyx.vmap(both)(x, targets)
    for example in range(3):
        value, gradient = both(x[example], targets[example])
        close("loss", values[example], torch.tensor(value.numpy()))
        close("gradient", gradients[example], torch.tensor(gradient.numpy()))


# ---- what else is as in PyTorch


def test_clipped_gradients_agree(random):
    gradients = [normal(random, 4, 5), normal(random, 3)]
    clipped, norm = optim.clip_grad_norm([zyx.Tensor(g) for g in gradients], 0.5)
    theirs = [torch.zeros(g.shape, requires_grad=True) for g in gradients]
    for parameter, gradient in zip(theirs, gradients, strict=True):
        parameter.grad = torch.tensor(gradient)
    close("norm", norm, torch.nn.utils.clip_grad_norm_(theirs, 0.5))
    for a, b in zip(clipped, theirs, strict=True):
        close("clipped", a, b.grad)


def test_bfloat16_comes_from_pytorch_and_goes_there():
    given = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3).T
    for found in (zyx.Tensor(given), zyx.asarray(given), zyx.from_dlpack(given)):
        assert found.dtype == zyx.bfloat16
        assert found.tolist() == given.tolist()
    back = torch.from_dlpack(zyx.Tensor(given))
    assert back.dtype == torch.bfloat16
    assert torch.equal(back.cpu(), given)
    layer = nn.Linear(3, 2)
    assert not layer.load_state_dict(torch.nn.Linear(3, 2).to(torch.bfloat16).state_dict()).missing
    with pytest.raises(SharingError, match="require gradient"):
        zyx.Tensor(torch.nn.Parameter(torch.ones(2)))


@pytest.mark.parametrize(
    ("mode", "shape"),
    [
        ("nearest", (7,)), ("nearest-exact", (7,)), ("linear", (7,)), ("area", (7,)), ("nearest", (5, 4)),
        ("bilinear", (7, 5)), ("bicubic", (7, 5)), ("trilinear", (3, 4, 5)),
    ],
)  # fmt: skip
def test_interpolate_has_the_places_that_pytorch_has(mode, shape, random):
    x = normal(random, 1, 2, *shape)
    corners = ({}, {"align_corners": True}) if "linear" in mode or mode == "bicubic" else ({},)
    for options in ({"scale_factor": s} for s in (0.5, 1.3, 1.5, 2.0)):
        for more in ({}, {"recompute_scale_factor": True}):
            for last in corners:
                given = {**options, **more, **last, "mode": mode}
                found = zyx.nn.functional.interpolate(zyx.Tensor(x), **given)
                close(str(given), found, torch.nn.functional.interpolate(torch.tensor(x), **given))
    found = zyx.nn.functional.interpolate(zyx.Tensor(x), size=[n + 3 for n in shape], mode=mode)
    close(mode, found, torch.nn.functional.interpolate(torch.tensor(x), size=[n + 3 for n in shape], mode=mode))


def test_pooling_divides_by_what_it_is_told_and_gives_places(random):
    x = normal(random, 2, 3, 6, 7)
    theirs = torch.nn.functional
    ours = zyx.nn.functional
    options = {"stride": 2, "padding": 1, "divisor_override": 3}
    close("avg", ours.avg_pool2d(zyx.Tensor(x), 3, **options), theirs.avg_pool2d(torch.tensor(x), 3, **options))
    found = ours.max_pool2d(zyx.Tensor(x), 2, return_indices=True)
    for mine, wanted in zip(found, theirs.max_pool2d(torch.tensor(x), 2, return_indices=True), strict=True):
        close("max", mine, wanted)


def test_instance_norm_follows_running_values(random):
    x = normal(random, 2, 3, 5)
    running = [np.zeros(3, np.float32), np.ones(3, np.float32)]
    for uses in (True, False):
        mine, his = [zyx.Tensor(a) for a in running], [torch.tensor(a) for a in running]
        found = zyx.nn.functional.instance_norm(
            zyx.Tensor(x), running_mean=mine[0], running_var=mine[1], use_input_stats=uses
        )
        close("result", found, torch.nn.functional.instance_norm(torch.tensor(x), *his, use_input_stats=uses))
        for a, b in zip(mine, his, strict=True):
            close("running", a, b)
