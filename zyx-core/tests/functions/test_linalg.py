"""Products of vectors and matrices against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import zyx
from zyx.errors import ShapeError

RNG = np.random.default_rng(3)


def data(*shape, dtype=np.float64):
    return RNG.standard_normal(shape).astype(dtype)


def check(found, wanted, tolerance=1e-12):
    assert found.shape == np.shape(wanted)
    assert np.allclose(found.numpy(), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)),
        ((5, 1, 2, 3), (6, 3, 4)), ((5, 2, 3), (3,)), ((3,), (5, 3, 4)), ((0, 3), (3, 4)), ((2, 0), (0, 4)),
        ((0, 2, 3), (3, 1)), ((1, 1), (1, 1)),
    ],
)  # fmt: skip
def test_matmul_agrees_with_numpy_for_all_ranks(first, second):
    x, y = data(*first), data(*second)
    for found in (
        zyx.Tensor(x) @ zyx.Tensor(y),
        zyx.matmul(zyx.Tensor(x), zyx.Tensor(y)),
        zyx.dot(zyx.Tensor(x), zyx.Tensor(y)),
    ):
        check(found, x @ y)


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        ("float32", "float32", "float32"), ("float16", "float16", "float16"), ("bfloat16", "bfloat16", "bfloat16"),
        ("float16", "float32", "float32"), ("int8", "int8", "int8"), ("int32", "float32", "float32"),
        ("bool", "bool", "int64"),
        ("uint8", "int8", "int16"), ("float16", "bfloat16", "float32"),
    ],
)  # fmt: skip
def test_matmul_promotes(first, second, wanted):
    found = zyx.ones((2, 3), dtype=first) @ zyx.ones((3, 2), dtype=second)
    assert found.dtype.name == wanted
    assert found.tolist() == [[3, 3], [3, 3]]


def test_half_precision_is_multiplied_and_summed_in_single():
    x = zyx.ones((1, 4096), dtype="float16")
    assert (x @ x.mT).item() == 4096.0
    assert (x @ x.mT).dtype is zyx.float16
    y = zyx.full((1, 64), 300.0, dtype="float16")
    assert zyx.matmul(y, y.mT, dtype="float32").item() == 64 * 90000.0


def test_shapes_that_do_not_fit_are_named():
    with pytest.raises(ShapeError, match=r"\(2, 3\) @ \(4, 5\): 3 columns on the left, 4 rows on the right"):
        zyx.ones(2, 3) @ zyx.ones(4, 5)
    with pytest.raises(ShapeError, match="the axes in front do not broadcast"):
        zyx.ones(2, 2, 3) @ zyx.ones(5, 3, 4)
    with pytest.raises(ShapeError, match="at least one axis on each side"):
        zyx.Tensor(1.0) @ zyx.ones(3)


def test_dot_of_numbers_is_a_product():
    assert zyx.dot(zyx.Tensor(2.0), zyx.ones(3)).tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_vecdot_agrees_with_numpy(axis):
    x, y = data(4, 4, 4), data(4, 4, 4)
    check(zyx.vecdot(zyx.Tensor(x), zyx.Tensor(y), axis=axis), (x * y).sum(axis))
    check(zyx.vecdot(zyx.Tensor(x), zyx.Tensor(y[0, 0])), (x * y[0, 0]).sum(-1))
    with pytest.raises(ShapeError, match="have sizes 3 and 4 along axis -1"):
        zyx.vecdot(zyx.ones(3), zyx.ones(4))


def test_outer_trace_and_cross_agree_with_numpy():
    x, y = data(3), data(4)
    check(zyx.outer(zyx.Tensor(x), zyx.Tensor(y)), np.outer(x, y))
    m = data(2, 3, 4)
    check(zyx.trace(zyx.Tensor(m), 1), np.trace(m, 1, -2, -1))
    assert zyx.trace(zyx.ones((3, 3), dtype="int8")).dtype is zyx.int64
    a, b = data(2, 3), data(2, 3)
    check(zyx.cross(zyx.Tensor(a), zyx.Tensor(b)), np.cross(a, b))
    check(zyx.cross(zyx.Tensor(a.T), zyx.Tensor(b.T), axis=0), np.cross(a, b).T)
    with pytest.raises(ShapeError, match="vectors have 3 elements"):
        zyx.cross(zyx.ones(2), zyx.ones(2))


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_matrix_powers_agree_with_numpy(n):
    x = data(2, 3, 3)
    check(zyx.matrix_power(zyx.Tensor(x), n), np.linalg.matrix_power(x, n))
    with pytest.raises(ShapeError, match="square matrices"):
        zyx.matrix_power(zyx.ones(2, 3), n)


@pytest.mark.parametrize("axes", [0, 1, 2, ([0, 1], [1, 0]), ([-1], [-2]), ([], [])])
def test_tensordot_agrees_with_numpy(axes):
    x, y = (data(3, 3, 3), data(3, 3, 3))
    check(zyx.tensordot(zyx.Tensor(x), zyx.Tensor(y), axes=axes), np.tensordot(x, y, axes))


def test_tensordot_says_what_does_not_match():
    with pytest.raises(ShapeError, match=r"axes \(1,\) of \(2, 3\) and \(0,\) of \(2, 3\) do not match"):
        zyx.tensordot(zyx.ones(2, 3), zyx.ones(2, 3), axes=1)
    with pytest.raises(ShapeError, match="3 axes of"):
        zyx.tensordot(zyx.ones(2, 3), zyx.ones(2, 3), axes=3)


SUBSCRIPTS = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)), ("ij,jk", (2, 3), (3, 4)),
    ("ij->ji", (2, 3)),
    ("ij->", (2, 3)), ("ii->i", (3, 3)), ("ii", (3, 3)), ("i,j->ij", (2,), (3,)), ("i,i", (3,), (3,)),
    ("...ij,...jk->...ik", (2, 5, 2, 3), (5, 3, 4)), ("ij,kj,kl->il", (2, 3), (4, 3), (4, 5)), ("iij->j", (3, 3, 2)),
    ("ba", (2, 3)), ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)), ("...i->...", (2, 3)), ("ij,j->i", (2, 3), (3,)),
    ("ij, ij -> i", (2, 3), (2, 3)), ("i...,i...->...", (2, 3), (2, 3)), (",ij->ij", (), (2, 3)), ("iji->j", (3, 2, 3)),
]  # fmt: skip


@pytest.mark.parametrize("case", SUBSCRIPTS, ids=[case[0] for case in SUBSCRIPTS])
def test_einsum_agrees_with_numpy(case):
    subscripts, *given_shapes = case
    operands = [np.asarray(data(*shape)) for shape in given_shapes]
    check(zyx.einsum(subscripts, *(zyx.Tensor(x) for x in operands)), np.einsum(subscripts, *operands))


@pytest.mark.parametrize(
    ("subscripts", "text"),
    [
        ("ij,jk->ik", "names 2 operands, and there are 1"), ("i->i", "does not fit an operand of rank 2"),
        ("ij->ii", "named once"), ("ij->k", "is one of an operand"), ("i1->i", "an axis is a letter"),
        ("ii->i", "sizes 2 and 3"),
    ],
)  # fmt: skip
def test_einsum_says_what_cannot_be_read(subscripts, text):
    with pytest.raises(ShapeError, match=text):
        zyx.einsum(subscripts, zyx.ones(2, 3))


def test_einsum_of_sizes_that_differ_names_the_axis():
    with pytest.raises(ShapeError, match="axis 'j' has sizes 3 and 4"):
        zyx.einsum("ij,jk->ik", zyx.ones(2, 3), zyx.ones(4, 5))


@given(st.data())
def test_any_einsum_of_two_operands_agrees_with_numpy(drawn):
    sizes = {letter: drawn.draw(st.integers(1, 3)) for letter in "abcd"}
    first, second = ("".join(drawn.draw(st.lists(st.sampled_from("abcd"), max_size=3, unique=True))) for _ in range(2))
    present = sorted(set(first + second))
    output = "".join(drawn.draw(st.permutations(present))[: drawn.draw(st.integers(0, len(present)))])
    x, y = (np.asarray(data(*(sizes[letter] for letter in letters))) for letters in (first, second))
    subscripts = f"{first},{second}->{output}"
    check(zyx.einsum(subscripts, zyx.Tensor(x), zyx.Tensor(y)), np.einsum(subscripts, x, y))
