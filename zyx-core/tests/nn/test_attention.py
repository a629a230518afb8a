"""Attention against NumPy: masks, causal order, groups of heads, dropout, the layer with several heads."""

import numpy as np
import pytest

import zyx
from zyx import nn
from zyx.errors import ArgumentError, DTypeError, ShapeError
from zyx.nn.functional import scaled_dot_product_attention as attention

pytestmark = pytest.mark.usefixtures("interpreter")

RANDOM = np.random.default_rng(5)


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def formula(q, k, v, seen=None, added=0.0, scale=None):
    """Return the attention by its definition, with 0 for queries that see nothing."""
    scores = q @ np.swapaxes(k, -1, -2) * (1 / np.sqrt(q.shape[-1]) if scale is None else scale) + added
    scores = scores if seen is None else np.where(seen, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = powers.sum(-1, keepdims=True)
    return powers / np.where(total == 0, 1, total) @ v


def close(found, wanted):
    assert found.shape == wanted.shape
    assert np.allclose(found.numpy(), wanted, atol=1e-5)


QUERY, KEY, VALUE = normal(2, 3, 4, 8), normal(2, 3, 5, 8), normal(2, 3, 5, 6)


def tensors(*arrays):
    return [zyx.Tensor(array) for array in arrays]


def test_attention_is_a_mean_of_values():
    close(attention(*tensors(QUERY, KEY, VALUE)), formula(QUERY, KEY, VALUE))
    close(attention(*tensors(QUERY, KEY, VALUE), scale=0.3), formula(QUERY, KEY, VALUE, scale=0.3))
    close(attention(*tensors(QUERY[0, 0], KEY[0, 0], VALUE[0, 0])), formula(QUERY[0, 0], KEY[0, 0], VALUE[0, 0]))


def test_masks_of_bools_tell_what_is_seen_and_floats_are_added():
    seen = RANDOM.random((3, 4, 5)) < 0.5
    seen[..., 0] = True
    close(attention(*tensors(QUERY, KEY, VALUE), zyx.Tensor(seen)), formula(QUERY, KEY, VALUE, seen))
    added = normal(4, 5)
    close(attention(*tensors(QUERY, KEY, VALUE), zyx.Tensor(added)), formula(QUERY, KEY, VALUE, added=added))
    with pytest.raises(DTypeError, match="a mask is of bools or floats, not int64"):
        attention(*tensors(QUERY, KEY, VALUE), zyx.ones(4, 5, dtype="int64"))


def test_a_query_that_sees_nothing_gives_0_and_finite_gradients():
    seen = np.ones((4, 5), bool)
    seen[1] = False
    inputs = tensors(QUERY, KEY, VALUE)
    with zyx.Tape() as tape:
        found = attention(*inputs, zyx.Tensor(seen))
        total = (found * found).sum()
    close(found, formula(QUERY, KEY, VALUE, seen))
    assert not found.numpy()[:, :, 1].any()
    assert all(np.isfinite(gradient.numpy()).all() for gradient in tape.gradient(total, inputs))


@pytest.mark.parametrize(("n_q", "n_k"), [(4, 4), (2, 5), (1, 4), (5, 3)])
def test_the_last_query_sees_the_last_key(n_q, n_k):
    q, k, v = normal(n_q, 8), normal(n_k, 8), normal(n_k, 6)
    seen = np.arange(n_k) <= np.arange(n_q)[:, None] + n_k - n_q
    close(attention(*tensors(q, k, v), causal_lower_right=True), formula(q, k, v, seen))


@pytest.mark.parametrize(("n_q", "n_k"), [(2, 5), (1, 4), (5, 3)])
def test_the_first_query_sees_the_first_key_and_a_warning_says_that_it_was_otherwise(n_q, n_k):
    q, k, v = normal(n_q, 8), normal(n_k, 8), normal(n_k, 6)
    seen = np.arange(n_k) <= np.arange(n_q)[:, None]
    with pytest.warns(FutureWarning, match="causal_lower_right=True") as caught:
        found = attention(*tensors(q, k, v), is_causal=True)
    assert caught[0].filename == __file__
    close(found, formula(q, k, v, seen))
    with pytest.raises(ArgumentError, match="not both"):
        attention(*tensors(q, k, v), is_causal=True, causal_lower_right=True)


def test_of_one_length_both_are_the_same_and_nothing_is_said():
    q, k, v = normal(4, 8), normal(4, 8), normal(4, 6)
    found = [attention(*tensors(q, k, v), **{name: True}).numpy() for name in ("is_causal", "causal_lower_right")]
    assert np.array_equal(*found)


def test_queries_that_come_later_find_what_they_would_have_found_at_once():
    q, k, v = normal(2, 6, 8), normal(2, 6, 8), normal(2, 6, 8)
    whole = attention(*tensors(q, k, v), is_causal=True).numpy()
    for place in range(6):
        step = attention(
            *tensors(q[:, place : place + 1], k[:, : place + 1], v[:, : place + 1]), causal_lower_right=True
        )
        assert np.allclose(step.numpy()[:, 0], whole[:, place], atol=1e-5)


def test_heads_of_keys_may_serve_several_heads_of_queries():
    q, k, v = normal(2, 6, 4, 8), normal(2, 2, 5, 8), normal(2, 2, 5, 8)
    wanted = formula(q, k.repeat(3, 1), v.repeat(3, 1))
    close(attention(*tensors(q, k, v), enable_gqa=True), wanted)
    with pytest.raises(ShapeError, match="heads a multiple"):
        attention(*tensors(q[:, :5], k, v), enable_gqa=True)


def test_attention_names_the_shapes_that_do_not_fit():
    with pytest.raises(ShapeError, match=r"queries \(4, 8\), keys \(5, 7\) and values \(5, 6\) do not fit"):
        attention(*tensors(normal(4, 8), normal(5, 7), normal(5, 6)))
    with pytest.raises(DTypeError, match="floats of one dtype, not float32, float64 and float32"):
        attention(*tensors(normal(4, 8), normal(5, 8).astype(np.float64), normal(5, 6)))


def test_dropped_weights_are_made_up_for_by_the_others():
    zyx.manual_seed(0)
    ones = zyx.ones(64, 200, 1)
    found = attention(zyx.zeros(64, 1, 4), zyx.zeros(64, 200, 4), ones, dropout_p=0.5).numpy()
    assert abs(found.mean() - 1.0) < 0.05
    assert found.std() > 0.01


# ---- positions as rotations


def test_rope_rotates_pairs_of_elements():
    cos, sin = zyx.nn.functional.rope_tables(5, 6)
    x = normal(2, 5, 6)
    angles = np.arange(5)[:, None] / 10000.0 ** (np.arange(0, 6, 2) / 6)
    turned = (x[..., :3] + 1j * x[..., 3:]) * np.exp(1j * angles)
    close(zyx.nn.functional.rope(zyx.Tensor(x), cos, sin), np.concatenate([turned.real, turned.imag], -1))
    with pytest.raises(ShapeError, match="of an even width"):
        zyx.nn.functional.rope(zyx.zeros(2, 3), cos, sin)
    with pytest.raises(ShapeError, match="a width of 3 is odd"):
        zyx.nn.functional.rope_tables(5, 3)


def test_rotated_queries_and_keys_meet_by_their_distance():
    cos, sin = zyx.nn.functional.rope_tables(8, 4)
    q, k = np.ones((8, 4), np.float32), np.ones((8, 4), np.float32)
    turned = [zyx.nn.functional.rope(zyx.Tensor(t), cos, sin) for t in (q, k)]
    scores = (turned[0] @ turned[1].mT).numpy()
    for distance in range(-7, 8):
        assert np.allclose(np.diagonal(scores, distance), np.diagonal(scores, distance)[0], atol=1e-4)


# ---- several heads


def by_hand(layer, query, key, value, seen):
    """Return what a layer with one projection of all three should: results and weights."""
    width, heads = layer.embed_dim, layer.num_heads
    weights, biases = layer.in_proj_weight.numpy(), layer.in_proj_bias.numpy()
    q, k, v = (
        (x @ weights[i * width : (i + 1) * width].T + biases[i * width : (i + 1) * width])
        .reshape(x.shape[0], x.shape[1], heads, -1)
        .swapaxes(1, 2)
        for i, x in enumerate((query, key, value))
    )
    found = formula(q, k, v, seen).swapaxes(1, 2).reshape(query.shape)
    shares = formula(q, k, np.broadcast_to(np.eye(k.shape[2]), (*k.shape[:3], k.shape[2])), seen)
    return found @ layer.out_proj.weight.numpy().T + layer.out_proj.bias.numpy(), shares


@pytest.mark.parametrize("same", [True, False])
def test_each_head_attends_to_its_part(same):
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    query = normal(3, 4, 8)
    key, value = (query, query) if same else (normal(3, 5, 8), normal(3, 5, 8))
    hidden = RANDOM.random((4, key.shape[1])) < 0.3
    hidden[:, 0] = False
    padding = np.zeros((3, key.shape[1]), bool)
    padding[1, 2:] = True
    x = zyx.Tensor(query)
    given = (x, x, x) if same else tensors(query, key, value)
    found, weights = layer(*given, zyx.Tensor(padding), attn_mask=zyx.Tensor(hidden))
    wanted, shares = by_hand(layer, query, key, value, ~(hidden | padding[:, None, None]))
    close(found, wanted)
    close(weights, shares.mean(1))
    _, each = layer(*given, zyx.Tensor(padding), True, zyx.Tensor(hidden), average_attn_weights=False)
    close(each, shares)


def test_length_comes_first_unless_told_otherwise_and_a_batch_may_be_missing():
    layer = nn.MultiheadAttention(8, 2)
    x = normal(4, 3, 8)
    wanted, _ = by_hand(layer, *[x.swapaxes(0, 1)] * 3, None)
    found, none = layer(*[zyx.Tensor(x)] * 3, need_weights=False)
    close(found, wanted.swapaxes(0, 1))
    assert none is None
    one, weights = layer(*[zyx.Tensor(x[:, 1])] * 3)
    close(one, wanted[1])
    assert weights.shape == (4, 4)


def test_keys_that_are_added_are_seen_by_all():
    layer = nn.MultiheadAttention(4, 2, add_bias_kv=True, add_zero_attn=True, batch_first=True)
    x = zyx.Tensor(normal(2, 3, 4))
    hidden = zyx.ones(3, 3, dtype="bool")
    _, weights = layer(x, x, x, attn_mask=hidden)
    assert weights.shape == (2, 3, 5)
    assert not weights.numpy()[..., :3].any()
    assert np.allclose(weights.numpy().sum(-1), 1.0)
    _, weights = layer(x, x, x, is_causal=True)
    assert not np.triu(weights.numpy()[..., :3], 1).any()
    assert (weights.numpy()[..., 3:] > 0).all()


def test_masks_of_both_kinds_go_together():
    layer = nn.MultiheadAttention(4, 2, batch_first=True)
    x = zyx.Tensor(normal(2, 3, 4))
    padding = np.array([[False, False, True], [False, True, False]])
    _, weights = layer(x, x, x, zyx.Tensor(padding), attn_mask=zyx.Tensor(normal(4, 3, 3)))
    assert not weights.numpy()[np.broadcast_to(padding[:, None], (2, 3, 3))].any()
    assert np.allclose(weights.numpy().sum(-1), 1.0)


def test_keys_and_values_may_have_widths_of_their_own():
    layer = nn.MultiheadAttention(8, 2, kdim=3, vdim=5, batch_first=True)
    assert [name for name, _ in layer.named_parameters()][:3] == ["q_proj_weight", "k_proj_weight", "v_proj_weight"]
    found, _ = layer(*tensors(normal(2, 4, 8), normal(2, 6, 3), normal(2, 6, 5)))
    assert found.shape == (2, 4, 8)


def test_heads_must_divide_the_width_and_ranks_must_agree():
    with pytest.raises(ShapeError, match="a width of 9 does not fall into 2 heads"):
        nn.MultiheadAttention(9, 2)
    layer = nn.MultiheadAttention(4, 2)
    with pytest.raises(ShapeError, match="three tensors of rank 3, or 2"):
        layer(*tensors(normal(3, 2, 4), normal(3, 4), normal(3, 4)))
