"""Random numbers: what depends on the seed and the order of calls, ranges, distributions, and states that travel."""

import copy
import math
import pickle

import numpy as np
import pytest

import zyx
from zyx.errors import DTypeError, ShapeError
from zyx.functions.term import Term
from zyx.graph.evaluate import threefry2x32
from zyx.tensor.random import _unit

N = 20000


def generator(seed=1):
    return zyx.Generator(seed)


def test_a_seed_gives_the_same_numbers_again():
    first = [zyx.rand(5, generator=generator(3)).tolist(), zyx.randn(2, 2, generator=generator(3)).tolist()]
    again = [zyx.rand(5, generator=generator(3)).tolist(), zyx.randn(2, 2, generator=generator(3)).tolist()]
    assert first == again
    assert first[0] != zyx.rand(5, generator=generator(4)).tolist()


def test_the_default_generator_is_seeded_and_can_be_reset():
    start = zyx.rand(4).tolist()
    assert zyx.rand(4).tolist() != start
    zyx.manual_seed(42069)
    assert zyx.rand(4).tolist() == start
    assert zyx.default_generator().manual_seed(7) is zyx.default_generator()


def test_numbers_do_not_depend_on_when_they_are_computed():
    a = generator()
    early, late = zyx.rand(3, generator=a), zyx.rand(3, generator=a)
    late_values, early_values = late.tolist(), early.tolist()
    b = generator()
    assert zyx.rand(3, generator=b).tolist() == early_values
    assert zyx.rand(3, generator=b).tolist() == late_values


def test_calls_take_consecutive_blocks_of_one_stream():
    a, b = generator(), generator()
    parts = [*zyx.rand(2, generator=a).tolist(), *zyx.rand(3, generator=a).tolist()]
    assert parts == zyx.rand(5, generator=b).tolist()
    assert a.state.tolist() == b.state.tolist() == [1, 0, 5, 0]


def test_the_first_number_is_made_of_the_first_threefry_block():
    x0, x1 = threefry2x32((1, 0), np.zeros(1, np.uint32), np.zeros(1, np.uint32))
    wanted = int(x0[0] ^ x1[0]) >> 8
    assert zyx.rand(1, generator=generator(1)).item() == wanted * 2.0**-24


@pytest.mark.parametrize(
    ("draw", "blocks"),
    [
        (lambda g: zyx.rand(6, generator=g), 6), (lambda g: zyx.rand(6, dtype="float64", generator=g), 6),
        (lambda g: zyx.randn(6, generator=g), 12), (lambda g: zyx.randint(0, 5, (2, 3), generator=g), 6),
        (lambda g: zyx.dropout(zyx.ones(6), 0.5, training=True, generator=g), 6),
        (lambda g: zyx.rand(0, generator=g), 0),
        (lambda g: zyx.bernoulli(zyx.full(6, 0.5), generator=g), 6),
    ],
)  # fmt: skip
def test_the_counter_moves_on_by_the_blocks_used(draw, blocks):
    source = generator()
    draw(source)
    assert source.state.tolist() == [1, 0, blocks, 0]


def test_the_counter_carries_into_its_high_word():
    source = generator()
    source.state.assign(zyx.Tensor([1, 0, 2**32 - 2, 0], zyx.uint32))
    zyx.rand(5, generator=source)
    assert source.state.tolist() == [1, 0, 3, 1]


def test_a_state_that_somebody_assigns_counts():
    source, other = generator(), generator()
    zyx.rand(3, generator=source)
    saved = source.state.tolist()
    wanted = zyx.rand(4, generator=source).tolist()
    source.state.assign(zyx.Tensor(saved, zyx.uint32))
    assert zyx.rand(4, generator=source).tolist() == wanted
    other.state.assign(source.state)
    assert zyx.rand(4, generator=other).tolist() == zyx.rand(4, generator=source).tolist()


def test_numbers_are_the_same_on_every_device_and_made_on_the_default_one(oracle):
    here = zyx.rand(3, generator=generator())
    there = zyx.rand(3, device="other:0", generator=generator())
    assert (here.device, there.device) == ("oracle:0", "other:0")
    assert here.tolist() == there.tolist()
    source = generator()
    assert zyx.rand(3, device="other:0", generator=source).tolist() == here.tolist()
    assert source.state.tolist() == [1, 0, 3, 0]
    assert zyx.rand(3, generator=zyx.Generator(1, device="other:0")).device == "other:0"
    zyx.rand(1)
    type(oracle).default_device, kept = property(lambda self: "new:0"), type(oracle).default_device
    try:
        assert zyx.rand(3).device == "new:0"
    finally:
        type(oracle).default_device = kept


def test_graphs_of_two_calls_differ_in_their_leaf_only():
    source = generator()
    depths = {zyx.rand(3, generator=source).node.depth for _ in range(5)}
    assert len(depths) == 1
    assert source.state.node.depth == 0


@pytest.mark.parametrize(("dtype", "digits"), [("float16", 11), ("bfloat16", 8), ("float32", 24), ("float64", 53)])
def test_floats_are_multiples_of_a_power_of_two_in_a_half_open_range(dtype, digits):
    values = zyx.rand(N, dtype=dtype, generator=generator()).numpy().astype(np.float64)
    assert values.min() >= 0.0
    assert values.max() < 1.0
    assert np.array_equal(values * 2.0**digits, np.round(values * 2.0**digits))
    assert abs(values.mean() - 0.5) < 0.01
    word = np.array([0, 2**64 - 1 if dtype == "float64" else 2**32 - 1], np.uint64 if dtype == "float64" else np.uint32)
    x = zyx.Tensor(word)
    ends = x.of(_unit(Term(x.runtime.graph, x.node), zyx.result_type(dtype)).node, x.runtime).numpy()
    assert ends[0] == 0.0
    assert ends[1] < 1.0


def test_uniform_stays_below_its_upper_bound_even_after_rounding():
    values = zyx.uniform(N, low=1e6, high=1e6 + 1, generator=generator()).numpy()
    assert values.min() >= 1e6
    assert values.max() < 1e6 + 1
    assert abs(zyx.uniform(N, low=-3, high=1, generator=generator()).numpy().mean() + 1) < 0.05
    half = zyx.uniform(N, high=2.0, dtype="float16", generator=generator()).numpy()
    assert half.max() < 2.0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal_numbers_have_the_right_moments_and_are_finite(dtype):
    values = zyx.randn(N, dtype=dtype, generator=generator()).numpy().astype(np.float64)
    assert np.isfinite(values).all()
    assert abs(values.mean()) < 0.03
    assert abs(values.std() - 1) < 0.03
    assert abs((values**3).mean()) < 0.1
    assert abs((values**4).mean() - 3) < 0.25
    other = zyx.normal(N, mean=5.0, std=0.1, dtype=dtype, generator=generator()).numpy()
    assert np.allclose(other, values * 0.1 + 5.0, rtol=1e-5)
    assert zyx.normal(3, std=0.0).tolist() == [0.0, 0.0, 0.0]


def test_double_precision_normal_numbers_are_not_rounded_to_single():
    values = zyx.randn(100, dtype="float64", generator=generator()).numpy()
    assert (values != values.astype(np.float32)).mean() > 0.9


@pytest.mark.parametrize(("low", "high"), [(0, 8), (-5, 6), (0, 1), (10, 1000003), (-(2**63), 2**63), (2**40, 2**41)])
def test_integers_lie_in_their_range(low, high):
    values = zyx.randint(low, high, (2000,), generator=generator()).numpy().astype(object)
    assert min(values) >= low
    assert max(values) < high
    if high - low < 20:
        assert set(values) == set(range(low, high))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint64", "int32"])
def test_integers_have_the_dtype_asked_for(dtype):
    found = zyx.randint(0, 100, (50,), dtype=dtype, generator=generator())
    assert found.dtype.name == dtype
    assert zyx.randint(5, dtype=dtype).item() in range(5)
    whole = zyx.randint(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, (10,), dtype=dtype, generator=generator())
    assert len(set(whole.tolist())) > 5


def test_integers_are_drawn_evenly():
    counts = np.bincount(zyx.randint(0, 7, (70000,), generator=generator()).numpy(), minlength=7)
    assert np.abs(counts - 10000).max() < 400


def test_bernoulli_draws_with_the_given_probabilities():
    p = np.repeat([0.0, 0.25, 1.0], N).reshape(3, N)
    found = zyx.bernoulli(zyx.Tensor(p), generator=generator())
    assert found.dtype is zyx.float64
    means = found.numpy().mean(1)
    assert means[0] == 0.0
    assert abs(means[1] - 0.25) < 0.02
    assert means[2] == 1.0


def test_dropout_scales_what_it_keeps_in_training_and_else_does_nothing():
    x = zyx.ones(N)
    kept = zyx.dropout(x, 0.25, training=True, generator=generator()).numpy()
    assert set(np.unique(kept)) == {np.float32(0.0), np.float32(1 / 0.75)}
    assert abs((kept == 0).mean() - 0.25) < 0.02
    assert (zyx.dropout(x, 0.5).numpy() == 0).any()
    assert zyx.dropout(x, 0.5, training=False) is x
    assert zyx.dropout(x, 0.0, training=True) is x
    assert zyx.dropout(zyx.full(3, math.inf), 1.0, training=True).tolist() == [0.0, 0.0, 0.0]
    assert zyx.dropout(x.astype(zyx.bfloat16), 0.5, training=True).dtype is zyx.bfloat16


def test_permutations_hold_each_number_once():
    found = zyx.randperm(100, generator=generator())
    assert found.dtype is zyx.int64
    assert sorted(found.tolist()) == list(range(100))
    assert found.tolist() != list(range(100))
    assert zyx.randperm(0).shape == (0,)


def test_places_are_drawn_with_their_weights():
    weights = zyx.Tensor([1.0, 0.0, 3.0])
    counts = np.bincount(zyx.multinomial(weights, N, generator=generator()).numpy(), minlength=3) / N
    assert counts[1] == 0.0
    assert abs(counts[2] - 0.75) < 0.02
    rows = zyx.multinomial(zyx.Tensor([[0.0, 1.0], [1.0, 0.0]]), 4, generator=generator())
    assert rows.tolist() == [[1] * 4, [0] * 4]


def test_places_are_drawn_once_each_without_replacement():
    weights = zyx.Tensor(np.tile([0.1, 1.0, 3.0, 0.0], (4000, 1)))
    found = zyx.multinomial(weights, 3, replacement=False, generator=generator()).numpy()
    assert all(sorted(row) == [0, 1, 2] for row in found.tolist())
    assert abs((found[:, 0] == 2).mean() - 3.0 / 4.1) < 0.03


def test_weights_are_spread_by_their_fans():
    shape = (64, 32, 3, 3)
    bound = math.sqrt(6 / (32 * 9 + 64 * 9))
    values = zyx.glorot_uniform(shape, generator=generator()).numpy()
    assert bound * 0.95 < np.abs(values).max() <= bound
    bound = math.sqrt(6 / (32 * 9))
    values = zyx.kaiming_uniform(shape, generator=generator()).numpy()
    assert bound * 0.95 < np.abs(values).max() <= bound
    assert zyx.kaiming_normal(shape, generator=generator()).numpy().std() == pytest.approx(math.sqrt(2 / 288), rel=0.03)
    with pytest.raises(ShapeError, match="at least two axes"):
        zyx.glorot_uniform(3)


def test_like_functions_take_shape_and_dtype():
    x = zyx.zeros((2, 3), dtype="float64")
    assert zyx.rand_like(x).dtype is zyx.randn_like(x).dtype is zyx.float64
    assert zyx.rand_like(x).shape == zyx.randn_like(x, dtype="float32").shape == (2, 3)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: zyx.rand(3, dtype="int32"), DTypeError, "floating-point numbers, not int32"),
        (lambda: zyx.randint(0, 5, dtype="float32"), DTypeError, "integers, not float32"),
        (lambda: zyx.randint(5, 5), ShapeError, "no integer from 5 on below 5"),
        (lambda: zyx.randint(0, 300, dtype="uint8"), DTypeError, "0 .. 299 does not fit uint8"),
        (lambda: zyx.uniform(3, low=1, high=1), ShapeError, "low 1 is not below high 1"),
        (lambda: zyx.normal(3, std=-1), ShapeError, "std is at least 0"),
        (lambda: zyx.dropout(zyx.ones(3), 1.5), ShapeError, "p is 0 to 1"),
        (lambda: zyx.dropout(zyx.ones(3, dtype="int8"), 0.5), DTypeError, "floats, not int8"),
        (lambda: zyx.bernoulli(zyx.ones(3, dtype="int8")), DTypeError, "floats, not int8"),
        (lambda: zyx.rand(-1), ShapeError, "negative size"), (lambda: zyx.randperm(-1), ShapeError, "at least 0"),
        (lambda: zyx.multinomial(zyx.ones(2), 3, replacement=False), ShapeError, "3 samples of 2 places"),
        (lambda: zyx.multinomial(zyx.ones(2, 2, 2), 3), ShapeError, r"\(n,\) or \(rows, n\)"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_named(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, lambda generator: pickle.loads(pickle.dumps(generator))])
def test_a_copied_generator_goes_on_where_the_other_is(make):
    generator = zyx.Generator(7)
    zyx.rand(5, generator=generator)
    again = make(generator)
    first, second = (zyx.rand(3, generator=each).tolist() for each in (generator, again))
    assert first == second
    assert zyx.rand(3, generator=generator).tolist() == zyx.rand(3, generator=again).tolist()
    generator.manual_seed(8)
    assert zyx.rand(3, generator=generator).tolist() != zyx.rand(3, generator=again).tolist()
