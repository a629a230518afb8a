"""Recurrent cells against NumPy, and networks against their cells."""

import numpy as np
import pytest
from meanings.formulas import sigmoid

import zyx
from zyx import nn
from zyx.errors import ShapeError

pytestmark = pytest.mark.usefixtures("interpreter")

RANDOM = np.random.default_rng(6)


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def gates(cell, x, h):
    """Return what input and state give to the gates, each as columns of gates."""
    given = x @ cell.weight_ih.numpy().T + (0 if cell.bias_ih is None else cell.bias_ih.numpy())
    kept = h @ cell.weight_hh.numpy().T + (0 if cell.bias_hh is None else cell.bias_hh.numpy())
    return np.split(given, cell.gates, -1), np.split(kept, cell.gates, -1)


@pytest.mark.parametrize("bias", [True, False])
def test_cells_follow_their_formulas(bias):
    x, h, c = normal(3, 4), normal(3, 5), normal(3, 5)
    tensors = [zyx.Tensor(a) for a in (x, h, c)]

    rnn = nn.RNNCell(4, 5, bias, "relu")
    (given,), (kept,) = gates(rnn, x, h)
    assert np.allclose(rnn(*tensors[:2]).numpy(), np.maximum(given + kept, 0), atol=1e-5)

    lstm = nn.LSTMCell(4, 5, bias)
    i, f, g, o = (a + b for a, b in zip(*gates(lstm, x, h), strict=True))
    cell = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    new_h, new_c = lstm(tensors[0], (tensors[1], tensors[2]))
    assert np.allclose(new_c.numpy(), cell, atol=1e-5)
    assert np.allclose(new_h.numpy(), sigmoid(o) * np.tanh(cell), atol=1e-5)

    gru = nn.GRUCell(4, 5, bias)
    (r1, z1, n1), (r2, z2, n2) = gates(gru, x, h)
    r, z = sigmoid(r1 + r2), sigmoid(z1 + z2)
    assert np.allclose(gru(*tensors[:2]).numpy(), (1 - z) * np.tanh(n1 + r * n2) + z * h, atol=1e-5)


def test_states_that_are_not_given_are_0():
    x = zyx.Tensor(normal(3, 4))
    for cell in (nn.RNNCell(4, 5), nn.GRUCell(4, 5)):
        assert np.array_equal(cell(x).numpy(), cell(x, zyx.zeros(3, 5)).numpy())
    lstm = nn.LSTMCell(4, 5)
    zeros = zyx.zeros(3, 5)
    assert np.array_equal(lstm(x)[0].numpy(), lstm(x, (zeros, zeros))[0].numpy())


def cell_of(network, suffix):
    """Return a cell with the parameters of one layer of a network."""
    kind = {"RNN": nn.RNNCell, "LSTM": nn.LSTMCell, "GRU": nn.GRUCell}[type(network).__name__]
    width = getattr(network, f"weight_ih{suffix}").shape[1]
    cell = kind(width, network.hidden_size)
    cell.load_state_dict({name: getattr(network, name + suffix) for name in cell.state_dict()})
    return cell


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_a_network_is_its_cells_step_after_step_and_layer_after_layer(kind):
    network = kind(3, 4, num_layers=2, bidirectional=True)
    x = normal(3, 2, 3)
    outputs, last = network(zyx.Tensor(x))
    states = last if kind is nn.LSTM else (last,)
    sequence = [zyx.Tensor(row) for row in x]
    number = 0
    for layer in range(2):
        ways = []
        for suffix in (f"_l{layer}", f"_l{layer}_reverse"):
            cell, state, made = cell_of(network, suffix), None, {}
            order = reversed(range(3)) if suffix.endswith("reverse") else range(3)
            for place in order:
                state = cell(sequence[place], state)
                made[place] = state[0] if kind is nn.LSTM else state
            ways.append(made)
            for found, wanted in zip(states, state if kind is nn.LSTM else (state,), strict=True):
                assert np.allclose(found.numpy()[number], wanted.numpy(), atol=1e-5)
            number += 1
        sequence = [zyx.concat([ways[0][place], ways[1][place]], axis=-1) for place in range(3)]
    assert outputs.shape == (3, 2, 8)
    assert np.allclose(outputs.numpy(), np.stack([s.numpy() for s in sequence]), atol=1e-5)


def test_batches_may_come_first_or_be_missing():
    network = nn.LSTM(3, 4)
    x = normal(5, 2, 3)
    outputs, (h, c) = network(zyx.Tensor(x))
    first = nn.LSTM(3, 4, batch_first=True)
    first.load_state_dict(network.state_dict())
    turned, (h_turned, _) = first(zyx.Tensor(x.swapaxes(0, 1)))
    assert np.allclose(turned.numpy(), outputs.numpy().swapaxes(0, 1), atol=1e-6)
    assert np.allclose(h_turned.numpy(), h.numpy(), atol=1e-6)
    one, (h_one, c_one) = network(zyx.Tensor(x[:, 0]))
    assert np.allclose(one.numpy(), outputs.numpy()[:, 0], atol=1e-6)
    assert h_one.shape == c_one.shape == (1, 4)
    assert np.allclose(c_one.numpy(), c.numpy()[:, 0], atol=1e-6)


def test_a_sequence_may_be_read_in_two_parts():
    network = nn.GRU(3, 4)
    x = zyx.Tensor(normal(6, 2, 3))
    whole, last = network(x)
    first, state = network(x[:4])
    second, end = network(x[4:], state)
    assert np.allclose(np.concatenate([first.numpy(), second.numpy()]), whole.numpy(), atol=1e-6)
    assert np.allclose(end.numpy(), last.numpy(), atol=1e-6)


def test_dropout_lies_between_layers_in_training_only():
    zyx.manual_seed(1)
    network = nn.RNN(3, 16, num_layers=2, dropout=0.9)
    x = zyx.Tensor(normal(2, 1, 3))
    calm = network.eval()(x)[0].numpy()
    assert np.array_equal(network(x)[0].numpy(), calm)
    assert not np.allclose(network.train()(x)[0].numpy(), calm)
    shallow = nn.RNN(3, 16, dropout=0.9).train()
    assert np.array_equal(shallow(x)[0].numpy(), shallow(x)[0].numpy())


def test_wrong_shapes_are_named():
    network = nn.RNN(3, 4)
    with pytest.raises(ShapeError, match=r"RNN takes \(length, N, 3\) or \(length, 3\), not \(2, 5\)"):
        network(zyx.zeros(2, 5))
    with pytest.raises(ShapeError, match=r"first state of shape \(1, 1, 4\) should be \(1, 2, 4\)"):
        network(zyx.zeros(5, 2, 3), zyx.zeros(1, 1, 4))
    with pytest.raises(ShapeError, match="at least one element"):
        network(zyx.zeros(0, 2, 3))
    with pytest.raises(ShapeError, match="nonlinearity is one of tanh, relu"):
        nn.RNN(3, 4, nonlinearity="sin")
    with pytest.raises(ShapeError, match="at least one layer"):
        nn.GRU(3, 4, num_layers=0)
