"""Transformer layers: their order of operations, what sees what, copies, positions."""

import numpy as np
import pytest

import zyx
from zyx import nn
from zyx.errors import ShapeError

pytestmark = pytest.mark.usefixtures("interpreter")

RANDOM = np.random.default_rng(8)


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("norm_first", [True, False])
def test_an_encoder_layer_adds_attention_then_linear_layers(norm_first):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first).eval()
    x = zyx.Tensor(normal(2, 3, 8))

    def attention(t):
        return layer.self_attn(t, t, t)[0]

    def feed_forward(t):
        return layer.linear2(layer.linear1(t).relu())

    if norm_first:
        y = x + attention(layer.norm1(x))
        wanted = y + feed_forward(layer.norm2(y))
    else:
        y = layer.norm1(x + attention(x))
        wanted = layer.norm2(y + feed_forward(y))
    assert np.allclose(layer(x).numpy(), wanted.numpy(), atol=1e-5)


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_decoder_layer_looks_at_itself_then_at_the_memory(norm_first):
    layer = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first, activation=zyx.silu).eval()
    x, memory = zyx.Tensor(normal(2, 3, 8)), zyx.Tensor(normal(2, 5, 8))
    parts = [
        lambda t: layer.self_attn(t, t, t)[0],
        lambda t: layer.multihead_attn(t, memory, memory)[0],
        lambda t: layer.linear2(layer.linear1(t).silu()),
    ]
    wanted = x
    for norm, part in zip((layer.norm1, layer.norm2, layer.norm3), parts, strict=True):
        wanted = wanted + part(norm(wanted)) if norm_first else norm(wanted + part(wanted))
    assert np.allclose(layer(x, memory).numpy(), wanted.numpy(), atol=1e-5)


def test_what_comes_later_changes_nothing_before_it():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = normal(1, 5, 8)
    before = layer(zyx.Tensor(x), is_causal=True).numpy()
    x[:, 3] += 1.0
    after = layer(zyx.Tensor(x), is_causal=True).numpy()
    assert np.array_equal(before[:, :3], after[:, :3])
    assert not np.allclose(before[:, 3:], after[:, 3:])


def test_padding_is_not_seen():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = normal(1, 5, 8)
    padding = np.array([[False, False, False, True, True]])
    found = layer(zyx.Tensor(x), None, zyx.Tensor(padding)).numpy()
    assert np.allclose(found[:, :3], layer(zyx.Tensor(x[:, :3])).numpy(), atol=1e-5)


def test_stacks_are_copies_one_after_the_other():
    layer = nn.TransformerEncoderLayer(8, 2, 16).eval()
    stack = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8)).eval()
    x = zyx.Tensor(normal(3, 2, 8))
    assert np.allclose(stack(x).numpy(), stack.norm(layer(layer(x))).numpy(), atol=1e-5)
    assert len({id(parameter) for parameter in stack.parameters()}) == 2 * len(layer.parameters()) + 2
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 2).eval()
    assert decoder(x, x, tgt_is_causal=True).shape == (3, 2, 8)


def test_dropout_is_active_in_training_only():
    zyx.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5)
    x = zyx.Tensor(normal(3, 2, 8))
    assert not np.allclose(layer(x).numpy(), layer(x).numpy())
    layer.eval()
    assert np.array_equal(layer(x).numpy(), layer(x).numpy())


def test_positions_are_sines_and_cosines():
    layer = nn.PositionalEncoding(10, 6)
    found = layer(zyx.zeros(2, 4, 6)).numpy()
    for place in range(4):
        for i in range(3):
            angle = place / 10000 ** (2 * i / 6)
            assert np.allclose(found[:, place, 2 * i], np.sin(angle), atol=1e-6)
            assert np.allclose(found[:, place, 2 * i + 1], np.cos(angle), atol=1e-6)
    assert np.array_equal(nn.PositionalEncoding(10, 6, batch_first=False)(zyx.zeros(4, 2, 6)).numpy()[:, 0], found[0])
    assert nn.PositionalEncoding(4, 5)(zyx.zeros(3, 5)).shape == (3, 5)
    assert not layer.state_dict()
    with pytest.raises(ShapeError, match="has 10 places, fewer than 11"):
        layer(zyx.zeros(1, 11, 6))


def test_unknown_activations_are_refused():
    with pytest.raises(ShapeError, match="activation is a function or one of relu, gelu"):
        nn.TransformerEncoderLayer(8, 2, activation="sine")
