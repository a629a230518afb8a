"""How many kernels are compiled, launched and called for what networks do most, on the default device."""

import math

import numpy as np
import pytest

import zyx
from zyx import nn, optim
from zyx.backend import SupportsCapture
from zyx.nn import functional as F

pytestmark = pytest.mark.usefixtures("runtime")

RANDOM = np.random.default_rng(0)


def normal(*shape):
    return zyx.Tensor(RANDOM.standard_normal(shape).astype(np.float32))


def planned(function, *arguments):
    """Return the plan of a traced function."""
    traced = zyx.jit(function)
    traced(*arguments)
    (trace,) = traced.traces
    return trace.plan


def launches(function, *arguments):
    """Return how many kernels a traced function launches."""
    return planned(function, *arguments).launches


SHAPES = [(64, 128), (512, 100)]


@pytest.mark.parametrize("shape", SHAPES)
def test_softmax_is_one_kernel_forward_and_one_backward(shape):
    def backward(x, upstream):
        with zyx.Tape() as tape:
            y = x.softmax()
        return tape.gradient(y, x, upstream)

    assert launches(lambda x: x.softmax(), normal(*shape)) == 1
    assert launches(lambda x: x.log_softmax(), normal(*shape)) == 1
    assert launches(backward, normal(*shape), normal(*shape)) == 1


@pytest.mark.parametrize("shape", SHAPES)
def test_layer_norm_is_one_kernel_forward_and_at_most_three_backward(shape):
    weight, bias = normal(shape[1]), normal(shape[1])

    def forward(x):
        return F.layer_norm(x, shape[1], weight, bias)

    def backward(x, upstream):
        with zyx.Tape() as tape:
            y = forward(x)
        return tape.gradient(y, [x, weight, bias], upstream)

    assert launches(forward, normal(*shape)) == 1
    assert launches(lambda x: F.rms_norm(x, shape[1], weight), normal(*shape)) == 1
    assert launches(backward, normal(*shape), normal(*shape)) <= 3


@pytest.mark.parametrize(("shape", "count"), [((64, 10), 1), ((2048, 256), 2), ((8192, 32), 2)])
def test_cross_entropy_is_a_kernel_over_rows_and_one_over_their_losses(shape, count):
    def backward(x, target):
        with zyx.Tape() as tape:
            loss = zyx.cross_entropy(x, target)
        return tape.gradient(loss, x)

    x, target, weight = normal(*shape), zyx.Tensor(RANDOM.integers(0, shape[1], shape[0])), normal(shape[1])
    assert launches(lambda x, t: zyx.cross_entropy(x, t, reduction="none"), x, target) == 1
    assert launches(zyx.cross_entropy, x, target) == count
    assert launches(lambda x, t: zyx.cross_entropy(x, t, weight), x, target) == count
    assert launches(lambda x, t: zyx.cross_entropy(x, t, label_smoothing=0.1), x, target) == count
    assert launches(lambda x, t: zyx.nll_loss(x.log_softmax(1), t), x, target) == count
    assert launches(backward, x, target) == count


@pytest.mark.parametrize("shape", [(20_000,), (4, 10_000), (2, 3, 5_000)])
def test_a_reduction_takes_what_follows_it_along_however_few_its_results(shape):
    assert launches(lambda x: x.sum(axis=-1) * 2.0 + 1.0, normal(*shape)) == 1
    assert launches(lambda x: x.mean(axis=-1) + x.max(axis=-1), normal(*shape)) == 1


def test_a_chain_of_elementwise_operations_is_one_kernel():
    assert launches(lambda x, y: ((x * 0.7 + y).tanh().abs() + 1).sqrt().exp() - x, normal(64, 64), normal(64)) == 1


def test_functions_of_one_example_have_no_more_kernels_for_many():
    assert launches(zyx.vmap(lambda x: ((x * 0.7 + 1).tanh().abs() + 1).sqrt().exp() - x), normal(64, 64)) == 1
    assert launches(zyx.vmap(lambda x, w: x @ w), normal(8, 64, 32), normal(8, 32, 16)) == 1
    assert launches(zyx.vmap(lambda x, w: w @ x, (0, None)), normal(64, 32), normal(16, 32)) == 1
    assert (
        launches(
            zyx.vmap(zyx.vmap(lambda x, y: ((x - y) ** 2).sum(), (None, 0)), (0, None)), normal(20, 3), normal(30, 3)
        )
        == 1
    )
    assert launches(zyx.vmap(lambda x: zyx.softmax(x, axis=-1)), normal(64, 128)) == 1


def test_the_gradients_of_a_convolution_write_no_windows():
    x, weight, upstream = normal(8, 4, 12, 12), normal(6, 4, 3, 3), normal(8, 6, 12, 12)

    def at(source):
        def backward(x, weight, upstream):
            with zyx.Tape() as tape:
                y = zyx.conv2d(x, weight, padding=1)
            return tape.gradient(y, x if source == "x" else weight, upstream)

        return planned(backward, x, weight, upstream)

    assert at("x").launches == 1
    for source in ("x", "weight"):
        assert sum(slice_.nbytes for slice_ in at(source).temporaries) <= 2 * x.nbytes
    strided = planned(lambda x, weight: zyx.conv_transpose2d(x, weight, stride=2), x, normal(4, 6, 3, 3))
    assert sum(slice_.nbytes for slice_ in strided.temporaries) <= 2 * 8 * 6 * 26 * 26 * 4


def test_a_linear_layer_takes_its_bias_and_activation_along():
    layer = nn.Linear(64, 32)
    assert launches(lambda x: F.gelu(layer(x)), normal(16, 64)) == 1


def test_an_optimiser_step_over_ten_parameters_is_at_most_two_kernels(runtime):
    """Or, where a device binds few buffers, as many as it takes with seven for each parameter beside four scalars."""
    shapes = [(16, 1, 3, 3), (16,), (32, 16, 3, 3), (32,), (32,), (32,), (64, 128), (64,), (10, 64), (10,)]
    parameters_at_once = (runtime.device(runtime.default_device).info.max_params - 4) // 7
    most = max(2, 1 + math.ceil(len(shapes) / parameters_at_once))
    for make in (optim.AdamW, optim.SGD, lambda ps: optim.AdamW(ps, optim.OneCycleLR(1e-3, 100))):
        optimizer = make([normal(*shape) for shape in shapes])
        assert launches(optimizer.step, [normal(*shape) for shape in shapes]) <= most


def training_step():
    """Return a traced step of a small network, and its arguments."""
    net = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 4)).train()
    optimizer = optim.AdamW(net.parameters(), 0.05)

    @zyx.jit
    def step(x, y):
        with zyx.Tape() as tape:
            loss = zyx.cross_entropy(net(x), y)
        optimizer.step(tape.gradient(loss, optimizer.params))
        return loss

    return step, normal(32, 8), zyx.Tensor(RANDOM.integers(0, 4, 32))


def test_a_replayed_step_compiles_nothing(runtime):
    step, x, y = training_step()
    step(x, y)
    compiled = runtime.compiler.compiled
    losses = [step(x, y).item() for _ in range(10)]
    assert runtime.compiler.compiled == compiled
    assert losses[-1] < losses[0]


def test_a_replayed_step_is_one_call_of_the_device(runtime):
    device = runtime.device(runtime.default_device)
    if not isinstance(device, SupportsCapture):
        pytest.skip(f"{device.name} does not capture plans")
    step, x, y = training_step()
    step(x, y)
    original, calls, depth = device.launch, [], []

    def launch(program, args, events=()):
        if not depth:  # the interpreter runs a captured program by launching its parts
            calls.append(program)
        depth.append(None)
        try:
            return original(program, args, events)
        finally:
            depth.pop()

    device.launch = launch
    try:
        step(x, y)
    finally:
        del device.launch
    assert len(calls) == 1
    assert step.traces[0].plan.launches > 1


def test_a_replayed_step_is_one_native_call(runtime):
    device = runtime.device(runtime.default_device)
    if device.name.partition(":")[0] != "c":
        pytest.skip("only the device of zyx-backend-c counts native calls")
    step, x, y = training_step()
    step(x, y)
    before = device.workers.counters.calls
    step(x, y)
    assert device.workers.counters.calls == before + 1


def test_a_replayed_step_allocates_what_it_returns_and_no_more(runtime):
    step, x, y = training_step()
    for _ in range(3):
        loss = step(x, y)
    runtime.synchronize()
    before = runtime.memory.live_bytes
    for _ in range(5):
        loss = step(x, y)
    runtime.synchronize()
    assert runtime.memory.live_bytes == before
    assert loss.shape == ()


def test_the_same_structure_is_compiled_once(runtime):
    def value():
        x = normal(8, 8)
        return ((x + 1.0).exp().sum(axis=1) * 2.0).realize()

    value()
    compiled = runtime.compiler.compiled
    value()
    assert runtime.compiler.compiled == compiled


def test_steps_outside_of_a_traced_function_compile_once_too(runtime):
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU()).train()
    optimizer = optim.Adam(net.parameters())
    compiled = []
    for _ in range(4):
        with zyx.Tape() as tape:
            loss = (net(normal(8, 4)) ** 2).mean()
        optimizer.step(tape.gradient(loss, optimizer.params))
        compiled.append(runtime.compiler.compiled)
    assert compiled[-1] == compiled[0]


PACKED = [*zyx.quantize.GGUF, "int8", "int4/64"]


def packed(form, rows, count):
    """Return packed weights of random bytes, the scales among them too."""
    layout = zyx.quantize.layout_for(form, count)
    data = RANDOM.integers(0, 60, (rows, count // layout.count * layout.nbytes), dtype=np.uint8)
    return zyx.quantize.QuantizedTensor(zyx.Tensor(data), form)


@pytest.mark.parametrize("form", PACKED)
def test_a_layer_of_packed_weights_is_one_kernel_that_reads_the_packed_bytes(form):
    layer = nn.Linear(512, 96)
    layer.weight = packed(form, 96, 512)
    plan = planned(lambda x: layer(x).relu(), normal(1, 512))
    (step,) = plan.steps
    assert step.bytes_moved == layer.weight.nbytes + 4 * (512 + 96 + 96)
    assert not plan.temporaries


@pytest.mark.parametrize("form", PACKED)
def test_rows_of_packed_embeddings_are_unpacked_without_the_rest_of_the_table(form):
    table = packed(form, 4096, 512)
    tokens = zyx.Tensor([1, 2, 3])
    plan = planned(lambda tokens: zyx.quantize.take(table, tokens), tokens)
    # Scales may be computed once for their blocks, before the numbers.
    assert sum(each.nbytes for each in plan.temporaries) <= 12 * 512 * 4
    assert plan.launches <= 5


@pytest.mark.parametrize("form", PACKED)
def test_the_gradient_of_a_packed_product_is_a_product_with_the_numbers(form):
    weight = packed(form, 96, 512)

    def backward(x, upstream):
        return zyx.vjp(lambda x: zyx.quantize.matmul(x, weight), x)[1](upstream)

    assert launches(backward, normal(1, 512), normal(1, 96)) <= 2
