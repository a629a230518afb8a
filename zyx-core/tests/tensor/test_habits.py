"""Calls as people know them from NumPy and the Array API: each works, or is an error, and none is silently wrong."""

import pickle

import numpy as np
import pytest

import zyx
from zyx.errors import ArgumentError, DTypeError, ShapeError, SharingError
from zyx.functions import sharing

DATA = np.array([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]], np.float32)


@pytest.fixture
def x():
    return zyx.Tensor(DATA)


def test_there_is_nothing_to_write_to(x):
    with pytest.raises(DTypeError, match="mean makes a new tensor; out=ndarray cannot be written to"):
        x.mean(out=np.zeros(()))


@pytest.mark.parametrize("make", [zyx.zeros, zyx.ones, zyx.empty])
def test_a_shape_is_given_in_the_ways_of_all(make):
    for found in (make(2, 3), make((2, 3)), make([2, 3]), make(shape=(2, 3))):
        assert found.shape == (2, 3)
        assert found.dtype == zyx.float32
    for dtype in ("int8", zyx.int8, np.int8, np.dtype("int8")):
        assert make((2, 3), dtype).dtype == zyx.int8
        assert make(4, dtype).shape == (4,)
        assert make(shape=4, dtype=dtype).dtype == zyx.int8
    assert make((2,), bool).dtype == zyx.bool
    assert make(()).shape == make().shape == ()
    with pytest.raises(TypeError, match="multiple values for argument 'shape'"):
        make(2, shape=(2, 3))
    with pytest.raises(ShapeError):
        make((2, 3), 4.5)


@pytest.mark.parametrize("make", [zyx.rand, zyx.randn, zyx.normal, zyx.uniform])
def test_the_shape_of_random_numbers_is_a_keyword_too(make):
    assert make(size=(2, 3)).shape == make(shape=(2, 3)).shape == make((2, 3)).shape == (2, 3)


def test_bounds_and_moments_stand_in_front_of_a_shape_as_in_numpy():
    assert (zyx.uniform(4.0, 5.0, (100,)).floor() == 4).all()
    assert zyx.uniform(low=4, high=5, size=(2, 3)).shape == (2, 3)
    assert (zyx.normal(loc=4.0, scale=0.0, size=(3,)) == 4).all()


def test_old_constructors_take_sizes_as_well():
    assert zyx.IntTensor(2, 3).shape == (2, 3)
    assert zyx.IntTensor(2, 3).dtype == zyx.int32
    assert zyx.BoolTensor().shape == (0,)
    assert zyx.intp is zyx.int_ is zyx.int64


def test_questions_about_tensors_are_functions():
    assert zyx.is_tensor(zyx.ones(2)) and not zyx.is_tensor(np.ones(2))
    assert zyx.is_floating_point(zyx.ones(2)) and not zyx.is_floating_point(zyx.arange(2))
    assert zyx.numel(zyx.ones(2, 3)) == 6


def test_shapes_and_axes_are_keywords_too(x):
    assert zyx.reshape(x, shape=(3, 2)).shape == x.reshape(shape=6).reshape(3, -1).shape == (3, 2)
    assert zyx.permute_dims(x, axes=(1, 0)).shape == x.permute_dims(axes=[1, 0]).shape == (3, 2)
    with pytest.raises(TypeError, match="multiple values for argument 'shape'"):
        x.reshape(6, shape=(3, 2))
    with pytest.raises(TypeError, match="multiple values for argument 'axes'"):
        x.permute_dims(1, 0, axes=(1, 0))


def test_comparisons_with_lists_compare(x):
    row = x[0]
    np.testing.assert_array_equal((row == [3, 1, 0]).numpy(), [True, True, False])
    np.testing.assert_array_equal((row != (3.0, 1.0, 0.0)).numpy(), [False, False, True])
    np.testing.assert_array_equal(([3, 1, 0] == row).numpy(), [True, True, False])  # noqa: SIM300  # the list comes first
    np.testing.assert_array_equal((x == DATA.tolist()).numpy(), np.ones((2, 3), bool))
    np.testing.assert_array_equal((zyx.Tensor(np.array([1, 2], np.uint8)) == [1.0, 2.5]).numpy(), [True, False])
    tenths = zyx.Tensor(np.array([0.1, 0.2]))
    assert (tenths == [0.1, 0.2]).all()  # the numbers take the dtype that they meet
    with pytest.raises(ShapeError, match="nested lists do not make a box"):
        _ = x == [[1, 2], [3]]
    with pytest.raises(ShapeError):
        _ = row == [1, 2]
    with pytest.raises(DTypeError):
        _ = row == ["a", "b", "c"]
    assert (row == None) is False  # noqa: E711  # as is said of all other objects


def test_lists_are_compared_within_a_tolerance_and_as_wholes(x):
    row = x[0]
    assert zyx.array_equal(row, [3, 1, 2])
    assert zyx.array_equal([3.0, 1.0, 2.0], row)
    assert not zyx.array_equal(row, [3, 1])
    assert not zyx.array_equal(row, [3, 1, 4])
    assert zyx.allclose(row, [3.0, 1.0, 2.0000001])
    assert not zyx.allclose([3.0, 1.0, 2.1], row)
    np.testing.assert_array_equal(row.isclose([3, 1, 0]).numpy(), [True, True, False])


class Foreign:
    """An array of another library in host memory that NumPy cannot read, as PyTorch's bfloat16."""

    def __init__(self, values, dtype):
        self.values, self.dtype = values, dtype

    def __dlpack__(self, **_):
        return sharing.host_capsule(self.values, self.dtype)

    def __dlpack_device__(self):
        return sharing.HOST


class Refusing(Foreign):
    def __array__(self, dtype=None, copy=None):
        raise TypeError("Got unsupported ScalarType BFloat16")


@pytest.mark.parametrize("kind", [Foreign, Refusing])
@pytest.mark.parametrize("dtype", [zyx.bfloat16, zyx.float32, zyx.int8, zyx.bool], ids=str)
def test_arrays_of_other_libraries_on_the_host_come_in_also_in_bfloat16(kind, dtype):
    values = np.array([[0, 1, 2], [3, 4, 5]]).astype(dtype.numpy)
    found = zyx.Tensor(kind(values, dtype))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.numpy(), values)
    empty = zyx.asarray(kind(values[:0].copy(), dtype))
    assert (empty.shape, empty.dtype) == ((0, 3), dtype)


def test_bfloat16_goes_out_by_dlpack_and_in_again():
    x = zyx.Tensor([1.0, 2.5, -3.0], dtype=zyx.bfloat16)
    for found in (zyx.from_dlpack(Foreign(x.numpy(), x.dtype)), zyx.Tensor(Foreign(x.numpy(), x.dtype))):
        assert found.dtype == zyx.bfloat16
        assert found.tolist() == [1.0, 2.5, -3.0]


def test_what_nobody_takes_is_given_back_with_the_next_one():
    x = zyx.Tensor([1.0, 2.5, -3.0], dtype=zyx.bfloat16)
    kept = x.__dlpack__()
    exported = len(sharing._exported)
    for _ in range(5):
        x.__dlpack__()
    assert len(sharing._exported) <= exported + 1
    sharing.host_array(type("Taker", (), {"__dlpack__": lambda self: kept, "__dlpack_device__": lambda self: (1, 0)})())
    x.__dlpack__()
    assert len(sharing._exported) <= exported


def test_arrays_on_other_devices_are_refused_before_their_memory_is_read():
    class Elsewhere(Refusing):
        def __dlpack_device__(self):
            return (2, 0)

    with pytest.raises(SharingError, match=r"is on device \(2, 0\)"):
        zyx.Tensor(Elsewhere(np.ones(2, np.float32), zyx.float32))


def test_bytes_are_those_of_the_values(x):
    assert bytes(x) == DATA.tobytes()


@pytest.mark.parametrize(("function", "name"), [(zyx.huber_loss, "delta"), (zyx.smooth_l1_loss, "beta")])
def test_a_reduction_in_the_place_of_a_number_is_an_error_that_says_so(x, function, name):
    with pytest.raises(DTypeError, match=f"{name} is a number, not 'sum'; give the reduction by name"):
        function(x, x, "sum")


def test_to_takes_dtypes_devices_and_tensors(x):
    other = zyx.Tensor([1], dtype="int8")
    assert x.to(zyx.float16).dtype == x.to(np.float16).dtype == x.to(dtype="float16").dtype == zyx.float16
    assert x.to(other).dtype == x.to(x.device, zyx.int8).dtype == zyx.int8
    assert x.to(x.device, non_blocking=True).device == x.device
    with pytest.raises(TypeError, match="to: no argument is called dtipe"):
        x.to(dtipe="int8")


@pytest.mark.parametrize(
    ("call", "own"),
    [
        (lambda x: x.sum(dim=1, keepdim=True), lambda x: x.sum(axis=1, keepdims=True)),
        (lambda x: x.mean(dim=(0, 1)), lambda x: x.mean()), (lambda x: x.logsumexp(1, True).flatten(), lambda x:
        x.logsumexp(1)), (lambda x: x.softmax(dim=0), lambda x: x.softmax(0)),
        (lambda x: x.softmax(1, dtype="float64"), lambda x: x.astype("float64").softmax(1)),
        (lambda x: zyx.cat([x, x], dim=1), lambda x: zyx.concat([x, x], axis=1)),
        (lambda x: x.std(dim=1, unbiased=True), lambda x: x.std(axis=1, correction=1)),
        (lambda x: x.flatten(start_dim=0), lambda x: x.flatten()), (lambda x: x.argsort(1, True), lambda x:
        x.argsort(1, descending=True)), (zyx.nn.Softmax(dim=1), lambda x: x.softmax(1)),
        (zyx.nn.ReLU(inplace=True), lambda x: x.relu()), (zyx.nn.ReLU(True), lambda x:
        x.relu()), (lambda x: zyx.nn.functional.relu(x, inplace=True), lambda x: x.relu()),
        (lambda x: zyx.fft.fft(x, dim=0).real, lambda x: zyx.fft.fft(x, axis=0).real),
        (lambda x: x.half().float(), lambda x: x), (lambda x: x.double().cpu(), lambda x: x.astype("float64")),
        (lambda x: x.movedim(0, 1), lambda x: x.T), (lambda x: x.unsqueeze(dim=0), lambda x: x[None]),
        (lambda x: zyx.tensor([1.0, 2.0]).mul(2), lambda x: zyx.Tensor([2.0, 4.0])),
        (lambda x: zyx.nn.functional.pad(x, (1, 0, 0, 2)), lambda x: x.pad(((0, 2), (1, 0)))),
        (lambda x: zyx.array([1]), lambda x: zyx.asarray([1])),
        (lambda x: x.nonzero(as_tuple=False)[:, 1], lambda x: x.nonzero()[1]),
        (lambda x: zyx.LongTensor([1, 2]), lambda x: zyx.Tensor([1, 2])), (lambda x: x.type(zyx.ByteTensor), lambda x:
        x.astype("uint8")), (lambda x: x.type("float64"), lambda x: x.double()), (zyx.clone, lambda x: x),
        (lambda x: zyx.FloatTensor(DATA.tolist()), lambda x: x), (zyx.copy, lambda x: x),
        (zyx.t, lambda x: x.T), (lambda x: x.topk(2).indices, lambda x: x.topk(2)[1]),
        (lambda x: divmod(x, 2)[0], lambda x: x // 2), (lambda x: divmod(x, x + 1)[1], lambda x: x % (x + 1)),
    ],
)  # fmt: skip
def test_names_of_other_libraries_mean_ours(x, call, own):
    found, wanted = call(x), own(x)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_array_equal(found.numpy(), wanted.numpy())


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: x.max(dim=1), "max: dim=1 means different things: PyTorch gives values and places, NumPy values"),
        (lambda x: x.std(dim=1), "std: dim=1 alone means different things: PyTorch divides by n - 1, NumPy by n"),
        (lambda x: x.sum(keepdms=True), "sum: no argument is called keepdms; did you mean keepdims"),
        (lambda x: x.cumsum(axes=1, axs=2), "no argument is called axs; did you mean axis"),
        (lambda x: x.sum(axis=1, dim=1), "sum: dim is axis, which is given, too"),
        (lambda x: zyx.nn.Linear(2, 3, bais=False), "Linear: no argument is called bais; did you mean bias"),
        (lambda x: x.argmax(1, 2), "keepdims in PyTorch and dtype in NumPy; 2 needs its name"),
        (lambda x: x.type(), "type: give a dtype; that of the tensor is x.dtype, float32"),
        (lambda x: x.sum(shape=3), "sum: no argument is called shape"),
        (lambda x: x.sum(requires_grad=True), "requires_grad is of functions that make tensors"),
    ],
)
def test_what_has_two_meanings_or_none_is_an_error_that_says_so(x, call, text):
    with pytest.raises(ArgumentError, match=text):
        call(x)


def test_what_is_not_there_has_a_neighbour(x):
    with pytest.raises(AttributeError, match="did you mean 'shape'"):
        _ = x.shap
    with pytest.raises(AttributeError, match="did you mean 'softmax'"):
        _ = zyx.sofmax
    with pytest.raises(AttributeError, match="int32 in PyTorch and int64 in NumPy"):
        _ = zyx.int
    assert not hasattr(x, "__array_interface__")


def test_what_ends_in_an_underscore_assigns():
    x = zyx.Tensor([1.0, 2.0])
    kept = x
    assert x.mul_(3).add_(1) is kept
    assert kept.tolist() == [4, 7]
    assert x.copy_(zyx.Tensor(5)).fill_(2.5).tolist() == [2.5, 2.5]
    assert x.zero_().tolist() == [0, 0]


def test_the_axis_of_a_number_is_0_or_its_last():
    x = zyx.Tensor(3.0)
    assert x.sum(0).item() == x.mean(-1).item() == x.cumsum(0).item() == x.max(axis=0).item() == 3
    assert x.argmax(0).item() == 0
    with pytest.raises(ShapeError):
        x.sum(1)


# ---- places where programs for PyTorch look


def test_a_size_is_a_number_and_can_be_called_for_sizes(x):
    assert x.size == x.size * 1 == len(x.tolist()) * 3 == 6
    assert x.size() == x.shape == (2, 3)
    assert x.size(0) == x.size(dim=-2) == 2
    with pytest.raises(ShapeError, match="dim"):
        x.size(2)
    assert type(pickle.loads(pickle.dumps(x.size))) is int
    assert zyx.zeros(x.size).shape == (6,)
    assert (x.sum() / x.size).item() == 2.5


def test_what_is_assigned_to_data_the_tensor_has():
    w = zyx.tensor([1.0, 2.0], requires_grad=True)
    y = w * 3
    w.data.copy_(zyx.from_numpy(np.array([4.0, 5.0])))
    assert w.tolist() == [4, 5]
    w.data.mul_(2).add_(1)
    w.data[0] = 7
    assert w.tolist() == [7, 11]
    w.data -= 1
    zyx.nn.init.constant_(w.data[:1], 9)  # a slice is a value
    assert w.tolist() == [6, 10]
    zyx.nn.init.constant_(w.data, 3)
    assert w.tolist() == [3, 3]
    assert w.requires_grad
    assert w.is_leaf
    assert not w.data.requires_grad
    assert type(w.data + 1) is type(w.data.detach()) is zyx.Tensor
    y.sum().backward()
    assert w.grad.tolist() == [3, 3]
    with pytest.raises(ShapeError, match="assign"):
        w.data.assign(zyx.ones(3))
    assert w.tolist() == [3, 3]


def test_random_numbers_are_assigned_in_place():
    w = zyx.zeros(2000, dtype=zyx.float64)
    zyx.manual_seed(1)
    assert w.normal_(3.0, 0.5) is w
    assert w.dtype == "float64"
    assert abs(w.mean().item() - 3) < 0.05
    assert abs(w.std().item() - 0.5) < 0.05
    for _ in range(2):
        w.uniform_(2, to=4)
        assert 2 <= w.min().item() < 2.1
        assert 3.9 < w.max().item() < 4
    assert w.uniform_(**{"from": -2, "to": -1}).max().item() < -1
    with pytest.raises(ArgumentError, match="high"):
        w.uniform_(high=3)


def test_utils_have_the_data_and_the_checkpoints():
    import zyx.utils.data

    assert zyx.utils.data.DataLoader is zyx.data.DataLoader
    assert set(zyx.data.__all__) | {"default_collate"} == set(zyx.utils.data.__all__)
    assert zyx.utils.checkpoint.checkpoint is zyx.checkpoint


def test_parameters_are_one_vector_and_come_back():
    net = zyx.nn.Linear(2, 3)
    vector = zyx.nn.utils.parameters_to_vector(net.parameters())
    assert vector.tolist() == [*net.weight.reshape(-1).tolist(), *net.bias.tolist()]
    zyx.nn.utils.vector_to_parameters(zyx.arange(9, dtype=zyx.float32), net.parameters())
    assert net.weight.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert net.bias.tolist() == [6, 7, 8]
    assert net.bias.requires_grad
    with pytest.raises(ShapeError, match="vector_to_parameters: vec has shape \\(8,\\), and the parameters 9 elements"):
        zyx.nn.utils.vector_to_parameters(zyx.ones(8), net.parameters())
