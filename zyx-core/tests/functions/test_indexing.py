"""Reading and writing ``x[key]`` against NumPy, for keys of all kinds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import zyx
from zyx.errors import DTypeError, IndexRangeError, MaskError, ShapeError

X = np.arange(60.0).reshape(3, 4, 5)
INDEX = np.array([[0, 2], [1, -1]])
ROWS = X[:, 0, 0] > 10

KEYS = [
    0, -1, (1, 2), (1, 2, 3), (..., 0), (0, ...), ..., (), slice(1, None), slice(None, None, 2), slice(None, None, -1),
    (slice(None), slice(4, 0, -2)), (slice(None), slice(None), slice(10, -10, -3)), slice(2, 1), (slice(0, 0), 1), None,
    (None, 0, None, ..., None), (slice(None), None, 1), np.int64(1), (np.int8(-1), slice(1, 3)),
    [0, 2], [[0, 1], [2, -3]], INDEX, (INDEX, 0), (0, INDEX), (slice(None), INDEX), (..., INDEX),
    (INDEX, slice(1, 3), 1),
    (slice(None), [0, 1], [2, 3]), ([0, 1], slice(None), [2, 3]), (0, slice(None), INDEX), ([0, 1], None, [2, 3]),
    (slice(None, None, -1), INDEX, slice(None, None, 2)), ([[0], [1]], [0, 1, 2]), ([0, 1, 2], [0, 1, 2], [0, 1, 2]),
    (INDEX, ..., INDEX), (None, ROWS, ..., 0, 0), (0, ..., 0, [0, 1]), (..., 0, 0, [0, 1]), [], (slice(None), []),
    np.zeros((0, 2), int), (None, [0, 1], 0),
    ROWS, X > 30, (ROWS, 0), (slice(None), X[0, :, 0] > 2), (ROWS, slice(None), [0]), (X[:, :, 0] > 30, 2),
    (X[:, :, 0] > 30,),
    True, False, (True, 0), (0, True), np.array(True), (slice(1, 3), True, [0, 1]), ROWS.tolist(), np.zeros(3, bool),
]  # fmt: skip


def converted(key):
    """Return a key with arrays as tensors."""
    if isinstance(key, tuple):
        return tuple(converted(part) for part in key)
    return zyx.Tensor(key) if isinstance(key, np.ndarray) and key.ndim else key


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_reading_agrees_with_numpy(key):
    wanted = X[key]
    for found in (zyx.Tensor(X)[key], zyx.Tensor(X)[converted(key)]):
        assert found.shape == wanted.shape
        assert np.array_equal(found.numpy(), wanted)


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_writing_a_number_agrees_with_numpy(key):
    for each in (key, converted(key)):
        wanted, found = X.copy(), zyx.Tensor(X)
        wanted[key] = -1
        found[each] = -1
        assert np.array_equal(found.numpy(), wanted)


@pytest.mark.parametrize(
    "key", [key for key in KEYS if not (isinstance(key, np.ndarray) and key.dtype == bool)], ids=str
)
def test_writing_a_value_of_the_shape_that_is_read_agrees_with_numpy(key):
    value = np.random.default_rng(0).standard_normal(X[key].shape)
    wanted, found = X.copy(), zyx.Tensor(X)
    wanted[key] = value
    found[converted(key)] = zyx.Tensor(value)
    if X[key].size == np.unique(np.arange(60).reshape(3, 4, 5)[key]).size:  # else it is open which one stays
        assert np.array_equal(found.numpy(), wanted)


def test_writing_where_a_mask_holds():
    x = zyx.Tensor(X)
    x[x > 30] = zyx.Tensor([7.0])
    assert np.array_equal(x.numpy(), np.where(X > 30, 7.0, X))
    rows = zyx.Tensor(ROWS)
    x[rows] = np.arange(5.0)
    wanted = np.where(X > 30, 7.0, X)
    wanted[ROWS] = np.arange(5.0)
    assert np.array_equal(x.numpy(), wanted)
    x[rows] = np.zeros((int(ROWS.sum()), 4, 5))
    wanted[ROWS] = 0
    assert np.array_equal(x.numpy(), wanted)


@pytest.mark.parametrize(
    ("shape", "mask"), [((3,), (0,)), ((3, 2), (0, 2)), ((3, 2), (3, 0)), ((2, 3), (0,)), ((0, 1), (0, 0))]
)
def test_a_mask_of_no_elements_chooses_none_of_any_axis(shape, mask):
    x, key = np.ones(shape), np.zeros(mask, bool)
    assert zyx.Tensor(x)[zyx.Tensor(key)].shape == x[key].shape
    written = zyx.Tensor(x)
    written[key] = 5.0
    assert np.array_equal(written.numpy(), x)


@pytest.mark.parametrize(("shape", "mask"), [((0, 0), (0, 1)), ((0, 0), (1, 0)), ((3,), (2,)), ((3, 2), (3, 1))])
def test_a_mask_that_does_not_fit_is_an_index_error_as_in_numpy(shape, mask):
    for error in (IndexError, MaskError, ShapeError):
        with pytest.raises(error, match="a mask of shape"):
            zyx.ones(shape)[zyx.zeros(mask, dtype="bool")]


def test_a_tensor_of_rank_0_is_not_iterable_as_python_asks_it():
    with pytest.raises(TypeError, match="rank 0 has nothing to iterate"):
        iter(zyx.Tensor(1.0))
    assert not np.iterable(zyx.Tensor(1.0))
    assert np.iterable(zyx.Tensor([1.0]))


def test_of_several_writes_to_one_place_the_last_stays():
    x = zyx.zeros(3)
    x[zyx.Tensor([1, 1, 2])] = zyx.Tensor([5.0, 6.0, 7.0])
    assert x.tolist() == [0.0, 6.0, 7.0]


def test_writing_casts_and_broadcasts_and_leaves_other_tensors_alone():
    x = zyx.zeros((2, 3), dtype="int32")
    before = x + 0
    alias = x
    x[:, 1:] = np.array([[1.7], [2.2]])
    assert x.tolist() == [[0, 1, 1], [0, 2, 2]]
    assert alias.tolist() == x.tolist()
    assert before.tolist() == [[0, 0, 0], [0, 0, 0]]
    assert x.dtype is zyx.int32
    x[0] = zyx.ones(1, 1, 3)
    assert x.tolist()[0] == [1, 1, 1]


def test_writing_to_part_of_a_row_keeps_what_was_read_before():
    x = zyx.zeros(4)
    row = x[1:3]
    x[1:3] = 5
    assert row.tolist() == [0.0, 0.0]
    assert x.tolist() == [0.0, 5.0, 5.0, 0.0]


def test_augmented_assignment_to_a_part():
    x = zyx.ones(4)
    x[::2] += 1
    assert x.tolist() == [2.0, 1.0, 2.0, 1.0]


def test_assign_replaces_the_whole_value():
    x = zyx.zeros(2)
    assert x.assign([1.0, 2.0]) is x
    assert x.tolist() == [1.0, 2.0]
    with pytest.raises(ShapeError, match=r"a tensor of shape \(2,\) cannot stand for one of shape \(3,\)"):
        x.assign(zyx.zeros(3))
    with pytest.raises(DTypeError, match="a tensor of float32 cannot stand for one of int64"):
        x.assign(zyx.Tensor([1, 2]))


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        (3, IndexRangeError, "index 3 is out of range for axis 0 of size 3"),
        ((0, -5), IndexRangeError, "index -5 is out of range for axis 1 of size 4"),
        ([0, 3], IndexRangeError, "index 3 is out of range for axis 0 of size 3"),
        ((slice(None), [[-5]]), IndexRangeError, "index -5 is out of range for axis 1 of size 4"),
        ((0, 0, 0, 0), IndexRangeError, r"4 indices for the 3 axes of \(3, 4, 5\)"),
        ((..., 0, ...), IndexRangeError, "one ... at most"),
        (np.ones((3, 5), bool), ShapeError, r"a mask of shape \(3, 5\) does not match axes 0 to 1 of shape \(3, 4\)"),
        (([0, 1], [0, 1, 2]), ShapeError, r"indices do not broadcast to one shape: \(2,\), \(3,\)"),
        (slice(None, None, 0), ShapeError, "a step other than 0"),
        (1.5, DTypeError, "an index is an integer, slice, ..., None, array or list, not float"),
        ([0.5], DTypeError, "an array used as an index is of integers or bools, not float64"),
        ("a", DTypeError, "not str"), (slice(0.5, None), DTypeError, "bounds and step of a slice are integers"),
    ],
    ids=str,
)  # fmt: skip
def test_keys_that_mean_nothing_are_refused_with_what_is_wrong(key, error, text):
    with pytest.raises(error, match=text):
        zyx.Tensor(X)[key]
    with pytest.raises(error, match=text):
        zyx.Tensor(X)[key] = 0


def test_values_that_do_not_fit_are_refused():
    with pytest.raises(ShapeError, match=r"a value of shape \(3,\) does not fit the part of shape \(4, 5\)"):
        zyx.Tensor(X)[0] = zyx.ones(3)
    with pytest.raises(DTypeError, match="300 does not fit uint8"):
        zyx.zeros(2, dtype="uint8")[0] = 300
    with pytest.raises(DTypeError, match="of integers or bools, not float32"):
        zyx.Tensor(X)[zyx.ones(2)]


def test_index_tensors_read_zero_outside_and_drop_writes_there():
    x = zyx.Tensor([1.0, 2.0, 3.0])
    outside = zyx.Tensor([0, 3, -4, -1])
    assert x[outside].tolist() == [1.0, 0.0, 0.0, 3.0]
    x[outside] = zyx.Tensor([10.0, 20.0, 30.0, 40.0])
    assert x.tolist() == [10.0, 2.0, 40.0]
    y = zyx.Tensor(X)
    assert y[zyx.Tensor([0, 3]), zyx.Tensor([-1, 0])].tolist() == [X[0, -1].tolist(), [0.0] * 5]
    y[zyx.Tensor([0, 3]), zyx.Tensor([-1, 0])] = -1
    wanted = X.copy()
    wanted[0, -1] = -1
    assert np.array_equal(y.numpy(), wanted)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint64", "int32"])
def test_indices_may_be_of_any_integer_type(dtype):
    index = zyx.Tensor(np.array([2, 0], dtype=dtype))
    assert np.array_equal(zyx.Tensor(X)[index].numpy(), X[[2, 0]])
    assert np.array_equal(zyx.Tensor(X)[index, index].numpy(), X[[2, 0], [2, 0]])


def test_a_huge_unsigned_index_is_outside():
    index = zyx.Tensor(np.array([2**64 - 1], dtype=np.uint64))
    assert zyx.Tensor([1.0, 2.0])[index].tolist() == [0.0]
    assert zyx.Tensor(X)[index, index].tolist() == [[0.0] * 5]


def test_iteration_length_and_membership():
    x = zyx.Tensor([[1.0, 2.0], [3.0, 4.0]])
    assert [row.tolist() for row in x] == [[1.0, 2.0], [3.0, 4.0]]
    assert len(x) == 2
    assert 3.0 in x
    assert 5.0 not in x
    for wrong in (len, iter, list):
        with pytest.raises(ShapeError, match="rank 0"):
            wrong(zyx.Tensor(1.0))


@st.composite
def keys(draw):
    """Return a shape and a key for it."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    batch = draw(st.sampled_from([(), (1,), (3,), (2, 3), (2, 1), (0,)]))
    parts = []
    axis = 0
    while axis < len(shape) and draw(st.integers(0, 5)):
        size = shape[axis]
        kind = draw(st.sampled_from(["int", "slice", "slice", "none", "array", "array", "mask"]))
        if kind == "none":
            parts.append(None)
            continue
        if kind == "int":
            parts.append(draw(st.integers(-size, size - 1)))
        elif kind == "slice":
            bound = st.none() | st.integers(-size - 1, size + 1)
            parts.append(slice(draw(bound), draw(bound), draw(st.sampled_from([None, 1, 2, 3, -1, -2]))))
        elif kind == "array":
            elements = draw(
                st.lists(st.integers(-size, size - 1), min_size=int(np.prod(batch)), max_size=int(np.prod(batch)))
            )
            parts.append(np.array(elements, dtype=np.int64).reshape(batch))
        else:
            held = draw(st.integers(0, 2 ** min(size, 4) - 1))
            mask = np.array([bool(held >> i & 1) for i in range(size)])
            parts.append(mask if mask.sum() in (1, *batch[-1:]) or not batch else slice(None))
        axis += 1
    if draw(st.booleans()):
        parts.insert(draw(st.integers(0, len(parts))), Ellipsis)
    return shape, tuple(parts)


@given(keys())
def test_any_key_reads_and_writes_as_in_numpy(drawn):
    shape, key = drawn
    x = np.arange(float(np.prod(shape))).reshape(shape)
    try:
        wanted = x[key]
    except IndexError:  # an ellipsis has moved indices to other axes
        with pytest.raises((ShapeError, IndexRangeError)):
            zyx.Tensor(x)[key]
        return
    for each in (key, converted(key)):
        found = zyx.Tensor(x)[each]
        assert found.shape == wanted.shape
        assert np.array_equal(found.numpy(), wanted)
    written, target = x.copy(), zyx.Tensor(x)
    written[key] = -5.0
    target[converted(key)] = -5.0
    assert np.array_equal(target.numpy(), written)
