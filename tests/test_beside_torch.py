"""Every layer, loss, optimiser and schedule beside PyTorch's: from the same weights forward, gradients, ten steps.

The rows are in `torch_rows` and `torch_optimisers`; a class of PyTorch has a row or a reason not to. At the end the
table of the greatest differences is printed, each over the greatest value of what is compared.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch_optimisers as optimisers
import torch_rows as rows

import zyx
from zyx import nn
from zyx.nn import functional as F

torch = pytest.importorskip("torch", reason="PyTorch, which these tests compare with, is not installed")

TOLERANCE = 1e-4
STEPS = 10
#: Text that PyTorch's modules have for settings that change nothing here, and its class of one inner layer.
SAID_OTHERWISE = {
    ", inplace=False": "",
    "(inplace=False)": "()",
    ", options=None": "",
    "NonDynamicallyQuantizableLinear": "Linear",
}
TABLE: dict[str, list[float | None]] = {}


@pytest.fixture(scope="module", autouse=True)
def _printed(request):
    """Print the table when all rows were measured."""
    yield
    manager = request.config.pluginmanager.getplugin("capturemanager")
    with manager.global_and_fixture_disabled():
        print("\n" + table_text())


def table_text():
    lines = [f"{'row':40} {'forward':>10} {'gradient':>10} {'ten steps':>10}"]
    for name, found in sorted(TABLE.items()):
        cells = ["-" if value is None else f"{value:.1e}" for value in (*found, None, None)[:3]]
        lines.append(f"{name:40} " + " ".join(f"{cell:>10}" for cell in cells))
    worst = [max((v[i] for v in TABLE.values() if len(v) > i and v[i] is not None), default=0.0) for i in range(3)]
    return "\n".join([*lines, f"{'worst of ' + str(len(TABLE)):40} " + " ".join(f"{value:10.1e}" for value in worst)])


def flat(value):
    """Return the tensors in nested tuples."""
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in flat(item)]
    return [] if value is None else [value]


def apart(found, wanted):
    """Return the greatest difference over the greatest value; what should be 0 is rounding of greater values."""
    found, wanted = np.asarray(found.numpy(), np.float64), np.asarray(wanted.detach().numpy(), np.float64)
    assert found.shape == wanted.shape
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))  # infinities as well
    scale = max(float(np.abs(np.where(np.isfinite(wanted), wanted, 0)).max(initial=0.0)), 0.05)
    return float(np.abs(np.where(same, 0.0, found) - np.where(same, 0.0, wanted)).max(initial=0.0)) / scale


def worst(pairs):
    return max((apart(a, b) for a, b in pairs), default=0.0)


def drawn(inputs, seed):
    random = np.random.default_rng(seed)
    return [random.standard_normal(each).astype(np.float32) if isinstance(each, tuple) else each for each in inputs]


def numbered(table):
    return [(name, place) for name, group in table.items() for place in range(len(group))]


def label(name, place):
    return name if not place else f"{name} {place + 1}"


# ---- what is compared


@pytest.mark.parametrize(("name", "place"), numbered(rows.LAYERS))
def test_a_layer_agrees(name, place):
    make, inputs, options = rows.LAYERS[name][place]
    torch.manual_seed(0)
    zyx.manual_seed(0)
    ours, theirs = make(nn), make(torch.nn)
    arrays = drawn(inputs, 1)
    if options.get("lazy"):
        ours(zyx.Tensor(arrays[0]))
        theirs(torch.tensor(arrays[0]))
    check_text_and_state(name, ours, theirs)
    loaded = ours.load_state_dict(theirs.state_dict())
    assert not loaded.missing_keys
    assert not loaded.unexpected_keys
    training = options.get("training", False)
    ours.train(training)
    theirs.train(training)
    keywords = options.get("keywords", {})
    run = functools.partial(compare_module, ours, theirs, arrays, keywords)
    TABLE[label(name, place)] = found = [*run(), ten_steps(ours, theirs, arrays, keywords)]
    assert max(value for value in found if value is not None) <= TOLERANCE, found


def check_text_and_state(name, ours, theirs):
    text = repr(theirs)
    for there, here in SAID_OTHERWISE.items():
        text = text.replace(there, here)
    assert repr(ours).replace("axis=", "dim=") == text
    found = [(key, tuple(value.shape), value.dtype.name) for key, value in ours.state_dict().items()]
    wanted = [(key, tuple(v.shape), str(v.dtype).removeprefix("torch.")) for key, v in theirs.state_dict().items()]
    assert found == wanted


def called(module, given, keywords, tensor):
    return flat(module(*given, **{name: tensor(value) for name, value in keywords.items()}))


def weighted(results, tensor):
    """Return one number of all results, no two elements of which count the same."""
    total = 0.0
    for number, result in enumerate(results):
        weights = np.random.default_rng(10 + number).standard_normal(tuple(result.shape)).astype(np.float32)
        total = total + (result * tensor(weights)).sum()
    return total


def compare_module(ours, theirs, arrays, keywords):
    """Return how far results, and gradients at inputs and parameters, are apart; buffers count as results."""
    taken = [torch.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
    wanted = called(theirs, taken, keywords, torch.tensor)
    weighted(wanted, torch.tensor).backward()
    given = [zyx.Tensor(a) for a in arrays]
    named = dict(ours.named_parameters())
    sources = [x for x in given if x.dtype.is_float] + list(named.values())
    with zyx.Tape() as tape:
        found = called(ours, given, keywords, zyx.Tensor)
        loss = weighted(found, zyx.Tensor)
    gradients = tape.gradient(loss, sources) if sources else []
    zyx.realize(*found, *gradients)
    theirs_named = dict(theirs.named_parameters())
    expected = [x.grad for x in taken if x.requires_grad] + [theirs_named[key].grad for key in named]
    buffers = dict(ours.named_buffers())
    forward = [*zip(found, wanted, strict=True), *((buffers[key], b) for key, b in theirs.named_buffers())]
    pairs = [(g, torch.zeros(g.shape) if w is None else w) for g, w in zip(gradients, expected, strict=True)]
    return worst(forward), worst(pairs)


def ten_steps(ours, theirs, arrays, keywords):
    """Return how far parameters are apart after ten steps of descent; None if there are none."""
    parameters = ours.parameters()
    if not parameters:
        return None
    optimizer = zyx.optim.SGD(parameters, lr=0.01)
    reference = torch.optim.SGD(theirs.parameters(), lr=0.01)
    given = [zyx.Tensor(a) for a in arrays]

    @zyx.jit
    def step():
        with zyx.Tape() as tape:
            loss = weighted(called(ours, given, keywords, zyx.Tensor), zyx.Tensor)
        optimizer.step(tape.gradient(loss, parameters))

    for _ in range(STEPS):
        step()
        reference.zero_grad()
        weighted(called(theirs, [torch.tensor(a) for a in arrays], keywords, torch.tensor), torch.tensor).backward()
        reference.step()
    named = dict(theirs.named_parameters())
    return worst((parameter, named[key]) for key, parameter in ours.named_parameters())


@pytest.mark.parametrize(("name", "place"), numbered(rows.LOSSES))
def test_a_loss_agrees(name, place):
    make, inputs = rows.LOSSES[name][place]
    torch.manual_seed(0)
    ours, theirs = make(nn, zyx.Tensor), make(torch.nn, torch.tensor)
    arrays = drawn(inputs, 2)
    if isinstance(theirs, torch.nn.Module):
        check_text_and_state(name, ours, theirs)
        ours.load_state_dict(theirs.state_dict())
    slopes = [a.dtype.kind == "f" and a is not rows.SIGNS for a in arrays]
    taken = [torch.tensor(a, requires_grad=slope) for a, slope in zip(arrays, slopes, strict=True)]
    wanted = theirs(*taken)
    wanted.sum().backward()
    given = [zyx.Tensor(a) for a in arrays]
    floats = [x for x, slope in zip(given, slopes, strict=True) if slope]
    with zyx.Tape() as tape:
        found = ours(*given)
        total = found.sum()
    gradients = tape.gradient(total, floats)
    expected = [torch.zeros(x.shape) if x.grad is None else x.grad for x in taken if x.requires_grad]
    TABLE[label(name, place)] = measured = [
        apart(found, wanted),
        worst(zip(gradients, expected, strict=True)),
        descended(ours, theirs, arrays),
    ]
    assert max(measured) <= TOLERANCE, measured


def descended(ours, theirs, arrays):
    """Return how far the first input is apart after ten steps down the loss."""
    x, y = zyx.Tensor(arrays[0]), torch.tensor(arrays[0], requires_grad=True)
    rest = [zyx.Tensor(a) for a in arrays[1:]], [torch.tensor(a) for a in arrays[1:]]
    rate = 0.001 if np.all(arrays[0] > 0) else 0.05  # probabilities and the like stay what they are

    @zyx.jit
    def step(x):
        with zyx.Tape() as tape:
            loss = ours(x, *rest[0]).sum()
        return x - tape.gradient(loss, x) * rate

    for _ in range(STEPS):
        x = step(x)
        (slope,) = torch.autograd.grad(theirs(y, *rest[1]).sum(), y)
        y = (y - slope * rate).detach().requires_grad_()
    return apart(x, y)


# ---- what is there


def test_every_layer_and_loss_of_pytorch_has_a_row_or_a_reason():
    classes = {
        name for name, value in vars(torch.nn).items() if isinstance(value, type) and issubclass(value, torch.nn.Module)
    }
    covered = rows.LAYERS.keys() | rows.LOSSES.keys()
    assert covered | rows.NO_ROW.keys() == classes
    assert not covered & rows.NO_ROW.keys()
    assert {name for name in classes if not hasattr(nn, name)} == rows.ABSENT


def test_every_function_of_pytorch_is_there_or_has_a_reason():
    functions = {
        name
        for name, value in vars(torch.nn.functional).items()
        if callable(value)
        and name[0].islower()
        and getattr(value, "__module__", "").startswith(("torch.nn", "torch._C._nn", "torch.func", "torch._jit"))
    }
    assert {name for name in functions if not hasattr(F, name)} <= rows.ABSENT_FUNCTIONS.keys()


def test_lists_and_dicts_of_modules_have_the_text_and_state_of_pytorch():
    for make in (
        lambda of: of.ModuleList([of.Linear(2, 3), of.Linear(2, 3), of.ReLU()]),
        lambda of: of.ModuleDict({"a": of.ReLU(), "b": of.BatchNorm1d(3)}),
    ):
        check_text_and_state("", make(nn), make(torch.nn))


def test_functions_with_given_choices_agree():
    (x, volume, samples, more) = drawn([(2, 3, 9, 11), (2, 3, 7, 8, 9)], 3) + [
        np.random.default_rng(4).random((2, 3, n), np.float32) for n in (2, 3)
    ]
    pairs = []
    for name, array, given, options in (
        ("fractional_max_pool2d", x, samples, {"kernel_size": 2, "output_size": (4, 5)}),
        ("fractional_max_pool2d", x, samples, {"kernel_size": (3, 2), "output_ratio": (0.5, 0.4)}),
        ("fractional_max_pool3d", volume, more, {"kernel_size": 2, "output_size": (3, 4, 5)}),
    ):
        ours = getattr(F, name)(zyx.Tensor(array), return_indices=True, _random_samples=zyx.Tensor(given), **options)
        theirs = getattr(torch.nn.functional, name)(
            torch.tensor(array), return_indices=True, _random_samples=torch.tensor(given), **options
        )
        pairs += zip(ours, theirs, strict=True)
    found = F.adaptive_max_pool2d(zyx.Tensor(x), (4, 5), return_indices=True)
    pairs += zip(found, torch.nn.functional.adaptive_max_pool2d(torch.tensor(x), (4, 5), True), strict=True)
    assert worst(pairs) == 0.0


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_pictures_read_at_places_agree(mode, padding, corners):
    (x, theta, volume, affine) = drawn([(2, 3, 5, 7), (2, 2, 3), (1, 2, 3, 4, 5), (1, 3, 4)], 5)
    cases = [(x, theta, (2, 3, 6, 4))] + ([(volume, affine, (1, 2, 3, 3, 4))] if mode != "bicubic" else [])
    for picture, maps, size in cases:
        ours, theirs = (
            [zyx.Tensor(a) for a in (picture, maps)],
            [torch.tensor(a, requires_grad=True) for a in (picture, maps)],
        )
        options = {"mode": mode, "padding_mode": padding, "align_corners": corners}
        wanted = torch.nn.functional.grid_sample(
            theirs[0], torch.nn.functional.affine_grid(theirs[1], size, corners), **options
        )
        weighted([wanted], torch.tensor).backward()
        with zyx.Tape() as tape:
            found = F.grid_sample(ours[0], F.affine_grid(ours[1], size, corners), **options)
            loss = weighted([found], zyx.Tensor)
        gradients = tape.gradient(loss, ours)
        assert apart(found, wanted) <= TOLERANCE
        assert worst((a, b.grad) for a, b in zip(gradients, theirs, strict=True)) <= 10 * TOLERANCE


def test_attention_by_a_function_agrees():
    layer = torch.nn.MultiheadAttention(8, 2, add_bias_kv=True)
    (q, k) = drawn([(3, 2, 8), (4, 2, 8)], 6)
    names = ("in_proj_weight", "in_proj_bias", "bias_k", "bias_v")
    arguments = [getattr(layer, name) for name in names] + [True, 0.0, layer.out_proj.weight, layer.out_proj.bias]
    wanted = torch.nn.functional.multi_head_attention_forward(
        *(torch.tensor(a) for a in (q, k, k)), 8, 2, *arguments, training=False
    )
    own = [zyx.Tensor(a.detach().numpy()) if isinstance(a, torch.Tensor) else a for a in arguments]
    found = F.multi_head_attention_forward(*(zyx.Tensor(a) for a in (q, k, k)), 8, 2, *own, training=False)
    assert worst(zip(found, wanted, strict=True)) <= TOLERANCE


# ---- optimisers and schedules


def followed(optimizer, reference, ours, theirs, scheduler=None):
    """Make the same ten steps with both, traced with ours; return how far parameters are apart at most."""
    random = np.random.default_rng(8)
    step = zyx.jit(optimizer.step)
    found = []
    for _ in range(STEPS):
        gradients = [random.standard_normal(p.shape).astype(np.float32) for p in ours]
        step([zyx.Tensor(gradient) for gradient in gradients])
        for parameter, gradient in zip(theirs, gradients, strict=True):
            parameter.grad = torch.tensor(gradient)
        reference.step()
        if scheduler is not None:
            scheduler.step()
        found.append(worst(zip(ours, theirs, strict=True)))
    return max(found)


def parameters_of(shapes):
    arrays = drawn(shapes, 7)
    return [zyx.Tensor(a) for a in arrays], [torch.tensor(a, requires_grad=True) for a in arrays]


@pytest.mark.parametrize(("name", "place"), numbered(optimisers.OPTIMISERS))
def test_an_optimiser_agrees(name, place):
    settings = optimisers.OPTIMISERS[name][place]
    ours, theirs = parameters_of([(5, 7), (4, 3)] if name == "Muon" else [(5, 7), (7,), (3, 4, 2), ()])
    optimizer = getattr(zyx.optim, name)(ours, **settings)
    reference = getattr(torch.optim, name)(theirs, **settings)
    TABLE[label(f"optim.{name}", place)] = found = [None, None, followed(optimizer, reference, ours, theirs)]
    assert found[2] <= optimisers.LOOSE.get(name, (TOLERANCE, ""))[0]


@pytest.mark.parametrize(("name", "place"), numbered(optimisers.CLOSURES))
def test_an_optimiser_that_takes_a_closure_agrees(name, place):
    settings = optimisers.CLOSURES[name][place]
    arrays = [a.astype(np.float64) for a in drawn([(30, 4), (30,), (4,), ()], 9)]  # in float32, rounding turns searches
    losses, ends = [], []
    for module, make in ((zyx, zyx.Tensor), (torch, torch.tensor)):
        x, y, weights, bias = (make(a) for a in arrays)
        optimizer = getattr(module.optim, name)([weights.requires_grad_(), bias.requires_grad_()], **settings)

        def loss_of(x=x, y=y, weights=weights, bias=bias):
            apart = x @ weights + bias - y
            return (apart * apart).mean() + ((weights * weights).sum() - 1.0) ** 2

        losses.append(descent(optimizer, loss_of))
        ends.append([weights, bias])
    TABLE[label(f"optim.{name}", place)] = found = [None, None, worst(zip(*ends, strict=True))]
    assert losses[0] == pytest.approx(losses[1], rel=1e-9)
    assert found[2] <= TOLERANCE


def descent(optimizer, loss_of):
    """Return the losses at all places that an optimiser looks at in ten steps."""
    seen = []

    def closure():
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        seen.append(loss.item())
        return loss

    for _ in range(STEPS):
        optimizer.step(closure)
    return seen


@pytest.mark.parametrize("name", optimisers.SCHEDULES)
def test_a_schedule_agrees(name):
    schedule, make = optimisers.SCHEDULES[name]
    ours, theirs = parameters_of([(5, 7)])
    reference = torch.optim.SGD(theirs, 0.1)
    scheduler = make(torch.optim.lr_scheduler, reference)
    found = followed(zyx.optim.SGD(ours, schedule), reference, ours, theirs, scheduler)
    TABLE[f"optim.{name}"] = [None, None, found]
    assert found <= TOLERANCE


@pytest.mark.parametrize("name", optimisers.SCHEDULES)
def test_a_scheduler_that_is_told_of_epochs_agrees(name):
    _, make = optimisers.SCHEDULES[name]
    rates = []
    for module, parameters in zip((zyx.optim, torch.optim), parameters_of([(2,), (3,)]), strict=True):
        optimizer = module.SGD([{"params": parameters[:1]}, {"params": parameters[1:], "lr": 0.7}], lr=0.1)
        first, then = make(module.lr_scheduler, optimizer), module.lr_scheduler.ExponentialLR(optimizer, 0.9)
        parameters[0].requires_grad_().sum().backward()
        rates.append([])
        for epoch in range(STEPS - 1 if name.startswith("OneCycleLR") else 15):  # then PyTorch's ends, below 0
            optimizer.step()
            first.step()
            then.step()
            if epoch == 5 and name != "CosineAnnealingWarmRestarts":  # which starts from the rate it finds
                optimizer.param_groups[0]["lr"] *= 0.5
            rates[-1].append([group["lr"] for group in optimizer.param_groups])
    np.testing.assert_allclose(*rates, rtol=1e-9, atol=1e-12)


def test_every_optimiser_and_schedule_of_pytorch_has_a_row_or_a_reason():
    there = {name for name, value in vars(torch.optim).items() if isinstance(value, type)}
    assert there == optimisers.OPTIMISERS.keys() | optimisers.CLOSURES.keys() | optimisers.NO_ROW.keys()
    module = torch.optim.lr_scheduler
    there = {
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__ and not name.startswith("_")
    }
    assert there == {name.split()[0] for name in optimisers.SCHEDULES} | optimisers.NO_SCHEDULE.keys()
    assert there <= vars(zyx.optim.lr_scheduler).keys()


@pytest.mark.parametrize(("name", "place"), numbered(optimisers.MOMENTA))
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_a_momentum_that_goes_against_the_rate_agrees(kind, name, place):
    settings = optimisers.MOMENTA[name][place]
    ours, theirs = parameters_of([(5,), (3,)])
    shared = {"momentum": 0.9} if kind == "SGD" else {}
    pairs = []
    for module, (first, second) in ((zyx.optim, ours), (torch.optim, theirs)):
        optimizer = getattr(module, kind)([{"params": [first]}, {"params": [second]}], lr=0.1, **shared)
        pairs.append((optimizer, getattr(module.lr_scheduler, name)(optimizer, **settings)))
    random = np.random.default_rng(8)
    for _ in range(STEPS):
        gradients = [random.standard_normal(p.shape).astype(np.float32) for p in ours]
        pairs[0][0].step([zyx.Tensor(gradient) for gradient in gradients])
        for parameter, gradient in zip(theirs, gradients, strict=True):
            parameter.grad = torch.tensor(gradient)
        pairs[1][0].step()
        for _, scheduler in pairs:
            scheduler.step()
        key = "momentum" if kind == "SGD" else "betas"
        found, wanted = (
            [np.ravel([group["lr"], *np.ravel(group[key])]) for group in optimizer.param_groups]
            for optimizer, _ in pairs
        )
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert worst(zip(ours, theirs, strict=True)) <= TOLERANCE


def test_groups_of_parameters_agree():
    ours, theirs = parameters_of([(5, 7), (7,), (3, 4)])

    def groups(p):
        return [{"params": p[:1]}, {"params": p[1:2], "lr": 0.3, "momentum": 0.5}]

    optimizer = zyx.optim.SGD(groups(ours), lr=0.1, weight_decay=0.1)
    reference = torch.optim.SGD(groups(theirs), lr=0.1, weight_decay=0.1)
    for each, parameters in ((optimizer, ours), (reference, theirs)):
        each.add_param_group({"params": parameters[2:], "weight_decay": 0.0, "nesterov": True, "momentum": 0.9})
        each.param_groups[0]["lr"] = 0.05
    assert [group["lr"] for group in optimizer.param_groups] == [group["lr"] for group in reference.param_groups]
    TABLE["parameter groups"] = found = [None, None, followed(optimizer, reference, ours, theirs)]
    assert found[2] <= TOLERANCE


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("threshold_mode", ["rel", "abs"])
def test_a_rate_falls_on_a_plateau_as_in_pytorch(mode, threshold_mode):
    ours, theirs = parameters_of([(2,)])
    optimizer, reference = zyx.optim.SGD(ours, lr=0.1), torch.optim.SGD(theirs, lr=0.1)
    settings = {"mode": mode, "factor": 0.5, "patience": 1, "threshold": 0.1, "cooldown": 2, "min_lr": 0.02}
    plateau = zyx.optim.ReduceLROnPlateau(optimizer, threshold_mode=threshold_mode, **settings)
    their_plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(reference, threshold_mode=threshold_mode, **settings)
    for measure in (1.0, 0.95, 0.7, 0.8, 0.69, 0.68, 0.9, 1.2, 1.25, 1.3, 0.2, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3):
        plateau.step(zyx.Tensor(measure))
        their_plateau.step(measure)
        assert optimizer.lr == optimizer.param_groups[0]["lr"] == pytest.approx(reference.param_groups[0]["lr"])


def test_functions_that_draw_have_the_moments_and_zeros_that_pytorch_says():
    zyx.manual_seed(0)
    x = zyx.ones(200, 50, 4)
    assert (F.dropout1d(x, 0.3, training=False).numpy() == 1).all()
    channels = F.dropout1d(x, 0.3).numpy()
    assert (channels == channels[..., :1]).all()
    assert abs((channels == 0).mean() - 0.3) < 0.02
    assert np.allclose(channels[channels != 0], 1 / 0.7)
    noise = zyx.randn(400, 250)
    for function in (F.alpha_dropout, F.feature_alpha_dropout):
        dropped = function(noise, 0.2, training=True).numpy()
        assert abs(dropped.mean()) < 0.02
        assert abs(dropped.std() - 1) < 0.02
        assert function(noise, 0.2) is noise
    slopes = F.rrelu(-x, 0.2, 0.6, training=True).numpy()
    assert -0.6 <= slopes.min() < -0.59
    assert -0.21 < slopes.max() <= -0.2
    logits = zyx.Tensor(np.tile(np.log(np.array([0.2, 0.5, 0.3], np.float32)), (20000, 1)))
    hard = F.gumbel_softmax(logits, hard=True).numpy()
    assert set(np.unique(hard)) == {0.0, 1.0}
    assert np.abs(hard.mean(0) - [0.2, 0.5, 0.3]).max() < 0.02
    soft = F.gumbel_softmax(logits, tau=0.5).numpy()
    assert np.allclose(soft.sum(1), 1, atol=1e-5)


def test_a_distance_of_all_pairs_agrees():
    (x,) = drawn([(5, 3)], 9)
    for p in (1.0, 2.0, 3.0):
        assert apart(F.pdist(zyx.Tensor(x), p), torch.pdist(torch.tensor(x), p)) <= TOLERANCE
