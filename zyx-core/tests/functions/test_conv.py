"""Convolutions and pooling beside their formulas."""

import math

import numpy as np
import pytest
from meanings.formulas import conv, conv_transpose, pool_windows

import zyx
from zyx.errors import ShapeError

RNG = np.random.default_rng(11)


CASES = [
    # input, filters, stride, padding, dilation, groups
    ((2, 3, 8), (4, 3, 3), (1,), (0,), (1,), 1),
    ((2, 4, 9), (6, 2, 3), (2,), (1,), (2,), 2),
    ((2, 3, 6, 7), (4, 3, 3, 2), (1, 1), (0, 0), (1, 1), 1),
    ((1, 4, 7, 6), (4, 1, 3, 3), (2, 1), (1, 2), (1, 2), 4),
    ((2, 2, 4, 5, 4), (3, 2, 2, 3, 2), (1, 2, 1), (1, 0, 1), (1, 1, 2), 1),
    ((1, 2, 5, 5), (2, 2, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((0, 3, 8), (4, 3, 3), (1,), (0,), (1,), 1),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolutions_agree_with_their_formula(case):
    shape, filters, stride, padding, dilation, groups = case
    x, weight, bias = RNG.standard_normal(shape), RNG.standard_normal(filters), RNG.standard_normal(filters[0])
    wanted = conv(x, weight, stride, [(p, p) for p in padding], dilation, groups)
    wanted = wanted + bias.reshape(1, -1, *[1] * len(stride))
    found = zyx.conv(zyx.Tensor(x), zyx.Tensor(weight), zyx.Tensor(bias), stride, padding, dilation, groups)
    assert found.shape == wanted.shape
    assert np.allclose(found.numpy(), wanted)
    named = getattr(zyx, f"conv{len(stride)}d")
    again = named(zyx.Tensor(x), zyx.Tensor(weight), zyx.Tensor(bias), stride, padding, dilation, groups)
    assert np.array_equal(again.numpy(), found.numpy())


@pytest.mark.parametrize("extent", [1, 2, 3, 4])
@pytest.mark.parametrize("dilation", [1, 2])
def test_same_padding_keeps_the_size_and_puts_the_odd_one_behind(extent, dilation):
    x, weight = RNG.standard_normal((1, 1, 9)), RNG.standard_normal((1, 1, extent))
    total = dilation * (extent - 1)
    wanted = conv(x, weight, (1,), [(total // 2, total - total // 2)], (dilation,), 1)
    found = zyx.conv(zyx.Tensor(x), zyx.Tensor(weight), padding="same", dilation=dilation)
    assert found.shape == (1, 1, 9)
    assert np.allclose(found.numpy(), wanted)
    assert zyx.conv(zyx.Tensor(x), zyx.Tensor(weight), padding="valid", dilation=dilation).shape == (1, 1, 9 - total)


def test_padding_may_differ_before_and_behind_and_the_batch_axis_be_missing():
    x, weight = RNG.standard_normal((2, 5)), RNG.standard_normal((3, 2, 2))
    found = zyx.conv(zyx.Tensor(x), zyx.Tensor(weight), padding=[(2, 0)])
    wanted = conv(x[None], weight, (1,), [(2, 0)], (1,), 1)[0]
    assert np.allclose(found.numpy(), wanted)


@pytest.mark.parametrize(
    ("dtype", "wanted"), [("float16", "float16"), ("bfloat16", "bfloat16"), ("int32", "int32"), ("float64", "float64")]
)
def test_convolutions_keep_the_dtype_and_sum_half_precision_in_single(dtype, wanted):
    found = zyx.conv1d(zyx.ones((1, 64, 64), dtype=dtype), zyx.ones((1, 64, 33), dtype=dtype))
    assert found.dtype.name == wanted
    assert found.numpy().astype(np.float64)[0, 0, 0] == 64 * 33


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (((1, 3, 8), (4, 2, 3)), "has 3 channels, filters .* read 2 in each of 1 groups and make 4"),
        (((1, 3, 2), (4, 3, 3)), r"a window of \(3,\) .* is larger than the padded input \(2,\)"),
        (((3,), (4, 3, 3)), "do not fit"), (((1, 3, 8), (4, 3)), "do not fit"),
    ],
)  # fmt: skip
def test_convolutions_that_do_not_fit_are_named(arguments, text):
    with pytest.raises(ShapeError, match=text):
        zyx.conv(*(zyx.ones(shape) for shape in arguments))


def test_wrong_options_of_convolutions_are_named():
    x, weight = zyx.ones(1, 1, 8), zyx.ones(2, 1, 3)
    for options, text in [
        ({"stride": 0}, "at least 1"), ({"padding": -1}, "negative"),
        ({"padding": "full"}, '"same", "valid" or numbers'),
        ({"padding": "same", "stride": 2}, "goes with stride 1"), ({"stride": (1, 1)}, "2 entries for 1 axes"),
        ({"bias": zyx.ones(3)}, "one element for each of the 2 channels"),
        ({"padding": [(1, 1), (1, 1)]}, "one pair for each"),
    ]:  # fmt: skip
        with pytest.raises(ShapeError, match=text):
            zyx.conv(x, weight, **options)
    with pytest.raises(ShapeError, match="conv2d takes filters with 4 axes"):
        zyx.conv2d(x, weight)


@pytest.mark.parametrize(
    ("shape", "filters", "stride", "padding", "extra", "dilation", "groups"),
    [
        ((2, 3, 5), (3, 4, 3), (1,), (0,), (0,), (1,), 1), ((2, 4, 5), (4, 3, 3), (2,), (1,), (1,), (1,), 2),
        ((1, 2, 4, 3), (2, 3, 3, 2), (2, 3), (1, 0), (0, 2), (1, 2), 1),
        ((1, 2, 1), (2, 1, 4), (1,), (2,), (0,), (1,), 1),
    ],
)  # fmt: skip
def test_transposed_convolutions_spread_what_convolutions_gather(
    shape, filters, stride, padding, extra, dilation, groups
):
    x, weight, bias = RNG.standard_normal(shape), RNG.standard_normal(filters), RNG.standard_normal(filters[1] * groups)
    count = len(stride)
    wanted = conv_transpose(x, weight, stride, padding, dilation, groups, extra) + bias.reshape(1, -1, *[1] * count)
    found = zyx.conv_transpose(
        zyx.Tensor(x), zyx.Tensor(weight), zyx.Tensor(bias), stride, padding, extra, groups, dilation
    )
    assert found.shape == wanted.shape
    assert np.allclose(found.numpy(), wanted)
    named = getattr(zyx, f"conv_transpose{count}d")
    assert (
        named(zyx.Tensor(x), zyx.Tensor(weight), None, stride, padding, extra, groups, dilation).shape == wanted.shape
    )


def test_transposed_convolutions_that_do_not_fit_are_named():
    with pytest.raises(ShapeError, match=r"output_padding .* is not less than"):
        zyx.conv_transpose(zyx.ones(1, 1, 4), zyx.ones(1, 1, 3), output_padding=1)
    with pytest.raises(ShapeError, match="has 2 channels"):
        zyx.conv_transpose(zyx.ones(1, 2, 4), zyx.ones(1, 1, 3))
    with pytest.raises(ShapeError, match="does not fit an output"):
        zyx.conv_transpose(zyx.ones(1, 1, 1), zyx.ones(1, 1, 1), padding=1)


POOLS = [
    ((2, 3, 8), (2,), (2,), (0,), (1,)), ((1, 2, 7, 8), (2, 3), (2, 1), (1, 1), (1, 1)),
    ((1, 1, 9, 7), (3, 2), (2, 2), (1, 0), (2, 1)), ((1, 1, 4, 5, 6), (2, 2, 3), (2, 2, 2), (0, 1, 1), (1, 1, 1)),
]  # fmt: skip


@pytest.mark.parametrize("case", POOLS, ids=str)
@pytest.mark.parametrize("ceil_mode", [False, True])
def test_max_pooling_agrees_with_its_windows(case, ceil_mode):
    shape, size, stride, padding, dilation = case
    x = RNG.standard_normal(shape)
    wanted = pool_windows(x, size, stride, padding, dilation, -np.inf, ceil_mode=ceil_mode).max(-1)
    found = zyx.max_pool(zyx.Tensor(x), size, stride, padding, dilation, ceil_mode=ceil_mode)
    assert np.array_equal(found.numpy(), wanted)
    values, places = zyx.max_pool_with_indices(zyx.Tensor(x), size, stride, padding, dilation, ceil_mode=ceil_mode)
    assert np.array_equal(values.numpy(), wanted)
    flat = x.reshape(*shape[:2], -1)
    picked = np.take_along_axis(flat, places.numpy().reshape(*shape[:2], -1), 2)
    assert np.array_equal(picked.reshape(wanted.shape), wanted)


@pytest.mark.parametrize("case", [case for case in POOLS if set(case[4]) == {1}], ids=str)
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("include", [True, False])
def test_mean_pooling_agrees_with_its_windows(case, ceil_mode, include):
    shape, size, stride, padding, dilation = case
    x = RNG.standard_normal(shape)
    count = len(size)
    total = pool_windows(x, size, stride, padding, dilation, 0.0, ceil_mode=ceil_mode).sum(-1)
    ones = np.ones(shape)
    if include:
        ones = np.pad(ones, [(0, 0)] * (x.ndim - count) + [(p, p) for p in padding], constant_values=1)
        members = pool_windows(ones, size, stride, (0,) * count, dilation, 0.0, ceil_mode=ceil_mode).sum(-1)
        members = members[tuple(slice(n) for n in total.shape)]
    else:
        members = pool_windows(ones, size, stride, padding, dilation, 0.0, ceil_mode=ceil_mode).sum(-1)
    found = zyx.avg_pool(zyx.Tensor(x), size, stride, padding, ceil_mode=ceil_mode, count_include_pad=include)
    assert np.allclose(found.numpy(), total / members)


def test_pooling_by_rank_takes_one_number_and_steps_by_the_window():
    x = RNG.standard_normal((2, 3, 6, 6))
    assert zyx.max_pool2d(zyx.Tensor(x), 2).shape == (2, 3, 3, 3)
    assert zyx.max_pool2d(zyx.Tensor(x), 2, stride=2).shape == (2, 3, 3, 3)
    assert zyx.max_pool(zyx.Tensor(x), 3).shape == (2, 3, 2, 2)
    assert zyx.avg_pool2d(zyx.Tensor(x), 3, 1, 1).shape == (2, 3, 6, 6)
    assert zyx.max_pool1d(zyx.Tensor(x), 2).shape == (2, 3, 6, 3)
    assert zyx.avg_pool1d(zyx.Tensor(x), 2).shape == (2, 3, 6, 3)
    assert zyx.max_pool3d(zyx.Tensor(x), 3).shape == (2, 1, 2, 2)
    assert zyx.avg_pool3d(zyx.Tensor(x), 3).shape == (2, 1, 2, 2)


def test_padding_never_is_the_greatest():
    assert zyx.max_pool1d(zyx.Tensor([[[-5, -7]]], zyx.int8), 2, 1, 1).tolist() == [[[-5, -5, -7]]]
    found = zyx.max_pool1d(zyx.full((1, 1, 2), -math.inf), 2, 1, 1)
    assert found.tolist() == [[[-math.inf] * 3]]
    _, places = zyx.max_pool_with_indices(zyx.full((1, 1, 2), -math.inf), (2,), 1, 1)
    assert places.tolist() == [[[0, 0, 1]]]


def test_pooling_passes_nan_on():
    found = zyx.max_pool1d(zyx.Tensor([[[1.0, math.nan, 2.0, 3.0]]]), 2)
    assert np.isnan(found.numpy()).tolist() == [[[True, False]]]
    _, places = zyx.max_pool_with_indices(zyx.Tensor([[[1.0, math.nan, 2.0, 3.0]]]), (2,))
    assert places.tolist() == [[[1, 3]]]


def test_mean_pooling_of_integers_is_float32():
    assert zyx.avg_pool1d(zyx.Tensor([[[1, 2]]]), 2).tolist() == [[[1.5]]]


def test_pools_that_do_not_fit_are_named():
    x = zyx.ones(1, 1, 4)
    for arguments, text in [
        (((5,),), "larger than the padded input"), (((2,), 1, 2), "more than half of a window"),
        (((2,), 0), "are at least 1"),
        (((2, 2, 2, 2),), "need 4 axes"),
    ]:  # fmt: skip
        with pytest.raises(ShapeError, match=text):
            zyx.max_pool(x, *arguments)
