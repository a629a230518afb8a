"""Recurrent networks are loops: values and gradients of all lengths, by the same programs."""

import numpy as np
import pytest

import zyx
from zyx import nn

KINDS = [nn.RNN, nn.LSTM, nn.GRU]
LENGTHS = (1, 2, 16, 21)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def cell_of(network, suffix):
    """Return a cell with the parameters of one layer of a network."""
    kind = {"RNN": nn.RNNCell, "LSTM": nn.LSTMCell, "GRU": nn.GRUCell}[type(network).__name__]
    cell = kind(getattr(network, f"weight_ih{suffix}").shape[1], network.hidden_size)
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        setattr(cell, name, getattr(network, name + suffix))
    return cell


def by_steps(network, x, state):
    """Return what a network gives, by its cells, step after step."""
    if network.batch_first:
        x = x.swapaxes(0, 1)
    lasts = []
    for layer in range(network.num_layers):
        ways = []
        for suffix in network._suffixes(layer):
            cell, number = cell_of(network, suffix), len(lasts)
            now = tuple(part[number] for part in state)
            now = now if isinstance(network, nn.LSTM) else now[0]
            places = range(x.shape[0])
            made = {}
            for place in reversed(places) if suffix.endswith("reverse") else places:
                now = cell(x[place], now)
                made[place] = now[0] if isinstance(network, nn.LSTM) else now
            lasts.append(now if isinstance(network, nn.LSTM) else (now,))
            ways.append(zyx.stack([made[place] for place in places]))
        x = ways[0] if len(ways) == 1 else zyx.concat(ways, axis=-1)
    last = [zyx.stack(parts) for parts in zip(*lasts, strict=True)]
    return (x.swapaxes(0, 1) if network.batch_first else x), last


def by_loop(network, x, state):
    outputs, last = network(x, state if isinstance(network, nn.LSTM) else state[0])
    return outputs, list(last) if isinstance(network, nn.LSTM) else [last]


def results(run, network, x, state):
    """Return outputs, last states, and the gradients at everything of a sum of both."""
    sources = [x, *state, *network.parameters()]
    with zyx.Tape() as tape:
        outputs, last = run(network, x, state)
        weights = zyx.Tensor(normal(*outputs.shape, seed=5))
        loss = (outputs * weights).sum() + sum((part * part).sum() for part in last)
    return [outputs, *last, *tape.gradient(loss, sources)]


def same(found, wanted, atol=2e-5):
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=2e-4, atol=atol)


def case(kind, length, batch=2, **options):
    """Return a network, what it is to read, and its first state: the same ones in every runtime."""
    zyx.manual_seed(3)
    network = kind(3, 4, **options)
    shape = (batch, length, 3) if network.batch_first else (length, batch, 3)
    total = network.num_layers * (2 if network.bidirectional else 1)
    state = tuple(zyx.Tensor(normal(total, batch, 4, seed=s)) for s in range(2 if kind is nn.LSTM else 1))
    return network, zyx.Tensor(normal(*shape, seed=9)), state


@pytest.mark.one_in(2)
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_all_lengths_are_their_cells_step_after_step(interpreter, of_oracle, kind, batch_first):
    for length in LENGTHS:

        def found(run, length=length):
            return results(run, *case(kind, length, batch_first=batch_first))

        same(found(by_loop), of_oracle(lambda: found(by_steps)))


@pytest.mark.parametrize("kind", KINDS)
def test_layers_and_both_directions(interpreter, of_oracle, kind):
    def found(run):
        return results(run, *case(kind, 4, num_layers=2, bidirectional=True, batch_first=True))

    same(found(by_loop), of_oracle(lambda: found(by_steps)))


@pytest.mark.parametrize("kind", KINDS)
def test_networks_without_biases(interpreter, kind):
    network, x, state = case(kind, 18)
    plain = kind(3, 4, bias=False)
    plain.load_state_dict({name: getattr(network, name) for name in plain.state_dict()})
    for name in ("bias_ih_l0", "bias_hh_l0"):
        setattr(network, name, zyx.zeros(getattr(network, name).shape[0]))
    same([by_loop(plain, x, state)[0]], [by_loop(network, x, state)[0].numpy()])
    with zyx.Tape() as tape:
        loss = plain(x)[0].sum()
    assert all(bool(np.any(slope.numpy())) for slope in tape.gradient(loss, list(plain.parameters())))


@pytest.mark.parametrize("kind", KINDS)
def test_second_derivatives(interpreter, of_oracle, kind):
    def penalty(run, length):
        network, x, state = case(kind, length)
        weights = list(network.parameters())
        with zyx.Tape() as outer:
            with zyx.Tape() as inner:
                loss = (run(network, x, state)[0] ** 2).sum()
            (slope,) = inner.gradient(loss, [x])
            total = (slope * slope).sum()
        return [slope, *outer.gradient(total, [x, *state, *weights])]

    for length in (2, 17):
        same(penalty(by_loop, length), of_oracle(lambda length=length: penalty(by_steps, length)), atol=2e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_jitted_and_replayed(interpreter, of_oracle, kind):
    network, x, state = case(kind, 19, batch_first=True)
    step = zyx.jit(lambda x, *state: results(by_loop, network, x, state))
    for seed in range(3):
        values = normal(*x.shape, seed=seed)

        def by_cells(values=values):
            network, _, state = case(kind, 19, batch_first=True)
            return results(by_steps, network, zyx.Tensor(values), state)

        same(step(zyx.Tensor(values), *state), of_oracle(by_cells))


def test_what_is_computed_before_a_gradient_is_asked_for(interpreter, of_oracle):
    network, x, state = case(nn.LSTM, 20)
    with zyx.Tape() as tape:
        outputs, _ = by_loop(network, x, state)
        outputs.realize()
        loss = (outputs * outputs).sum()
        loss.realize()

    def by_cells():
        network, x, state = case(nn.LSTM, 20)
        with zyx.Tape() as tape:
            outputs, _ = by_steps(network, x, state)
            loss = (outputs * outputs).sum()
        return tape.gradient(loss, [x, *network.parameters()])

    same(tape.gradient(loss, [x, *network.parameters()]), of_oracle(by_cells))


def test_nothing_to_read_or_to_keep(interpreter):
    outputs, (h, c) = nn.LSTM(3, 4)(zyx.zeros(5, 0, 3))
    assert outputs.numpy().shape == (5, 0, 4)
    assert h.numpy().shape == c.numpy().shape == (1, 0, 4)
    outputs, h = nn.GRU(0, 4)(zyx.zeros(5, 2, 0))
    assert outputs.numpy().shape == (5, 2, 4)
    assert np.isfinite(h.numpy()).all()


def test_types_are_those_that_promotion_gives(interpreter):
    network = nn.RNN(3, 4)
    x = normal(5, 2, 3)
    assert network(zyx.Tensor(x.astype(np.float16)))[0].dtype is zyx.float32
    half = nn.LSTM(3, 4, dtype=zyx.float16)
    found = half(zyx.Tensor(x.astype(np.float16)))[0]
    assert found.dtype is zyx.float16
    wide = nn.LSTM(3, 4)
    wide.load_state_dict({name: value.astype(zyx.float32) for name, value in half.state_dict().items()})
    np.testing.assert_allclose(found.numpy(), wide(zyx.Tensor(x))[0].numpy(), atol=5e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_lengths_share_their_programs(interpreter, kind):
    compiled = 0
    for batch_first in (False, True):
        network = kind(8, 8, batch_first=batch_first)
        parameters = list(network.parameters())
        zyx.realize(*parameters)
        before = interpreter.compiler.compiled
        for length in (31, 32, 33, 64, 100):
            shape = (4, length, 8) if batch_first else (length, 4, 8)
            x, upstream = (zyx.Tensor(normal(*shape, seed=seed)) for seed in range(2))
            with zyx.Tape() as tape:
                outputs, _ = network(x)
            zyx.realize(outputs, *tape.gradient(outputs, parameters, upstream=upstream))
        compiled += interpreter.compiler.compiled - before
    assert compiled <= 10
