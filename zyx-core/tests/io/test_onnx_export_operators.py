"""Each operation on each dtype, written to ONNX: what the file gives is what the operation gives, at the edges, too."""

import numpy as np
import pytest

import zyx
from zyx import dtype as dtypes
from zyx.errors import UnsupportedError
from zyx.ops import BinaryOp, ReduceOp, UnaryOp, binary_ops, reduce_ops, unary_ops

onnx = pytest.importorskip("onnx", reason="onnx, whose files these tests make, is not installed")

import zyx.io.onnx  # noqa: E402

#: All but bfloat16, which ONNX Runtime has few operators of.
DTYPES = [dtype for dtype in dtypes.ALL if dtype is not dtypes.bfloat16]
#: Reductions of ONNX Runtime skip NaN, and do not wrap.
TAME = {"sum", "prod", "max", "min"}


def first(dtype):
    if dtype.is_bool:
        return np.array([True, True, False, False, True, False, False, True])
    if dtype.is_float:
        return np.array([0, 1.5, -2.25, np.inf, -np.inf, np.nan, 0.3, -0.7], dtype.numpy)
    return np.array([dtype.min, dtype.max, 0, 1, 5, dtype.min, 100, 3], dtype.numpy)


def second(dtype):
    if dtype.is_bool:
        return np.array([True, False] * 4)
    if dtype.is_float:
        return np.array([2, -1.5, 0.5, 1, 2, 3, np.nan, -2], dtype.numpy)
    less = 1 if dtype.is_unsigned else -1
    return np.array([dtype.max, dtype.min, 0, 3, dtype.bits - 1, less, dtype.bits, 0], dtype.numpy)


def tame(values):
    if values.dtype.kind == "f":
        return np.nan_to_num(values, nan=2, posinf=3, neginf=1)
    return values % np.array(11, values.dtype) if values.dtype.itemsize >= 4 else values


def assert_written(reader, function, inputs, path):
    """Whether a function of tensors by name, by name, is what its file gives."""
    model = zyx.io.onnx.save(function, inputs, path)
    onnx.checker.check_model(str(path), full_check=True)
    given = dict(zip([value.name for value in model.graph.input], zyx.tree.leaves(inputs), strict=True))
    expected = function(**zyx.tree.map(lambda array: zyx.asarray(array, device="interpreter"), inputs))
    found = reader(path, given, "interpreter")  # which has nothing to compile
    for (name, value), other in zip(expected.items(), found.values(), strict=True):
        near = {"rtol": 2e-3, "atol": 1e-3} if name == "float16" else {"rtol": 3e-6, "atol": 1e-6}
        array = value.numpy()
        assert array.dtype == other.dtype
        np.testing.assert_allclose(other, array, err_msg=name, **near)


def each(make):
    """Return a function that makes a node of the sources under each name."""

    def function(**by_name):
        found = {}
        for name, sources in by_name.items():
            x, *rest = sources if isinstance(sources, list) else [sources]
            found[name] = zyx.Tensor.of(make(x.runtime.graph, x.node, *[y.node for y in rest]), x.runtime)
        return found

    return function


@pytest.mark.parametrize("op", UnaryOp, ids=lambda op: op.value)
def test_one_operand(op, reader, tmp_path):
    is_left_out = {dtypes.float64} if op in (UnaryOp.ATAN, UnaryOp.ERF) else set()  # ONNX Runtime lacks them
    inputs = {dtype.name: first(dtype) for dtype in DTYPES if op in unary_ops(dtype) and dtype not in is_left_out}
    assert_written(reader, each(lambda graph, x: graph.unary(op, x)), inputs, tmp_path / "unary.onnx")


@pytest.mark.parametrize("op", BinaryOp, ids=lambda op: op.value)
def test_two_operands(op, reader, tmp_path):
    known = [dtype for dtype in DTYPES if op in binary_ops(dtype) and (dtype.is_float or op is not BinaryOp.POW)]
    inputs = {dtype.name: [first(dtype), second(dtype)] for dtype in known}
    assert_written(reader, each(lambda graph, x, y: graph.binary(op, x, y)), inputs, tmp_path / "binary.onnx")


def test_powers_of_integers_with_a_known_exponent(reader, tmp_path):
    inputs = {dtype.name: first(dtype) for dtype in DTYPES if dtype.is_integer}

    def cubed(graph, x):
        return graph.binary(BinaryOp.POW, x, graph.const(3, x.dtype, x.device, x.shape))

    assert_written(reader, each(cubed), inputs, tmp_path / "power.onnx")


@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_conversions(source, reader, tmp_path):
    def function(x):
        return {f"to_{dtype}": x.astype(dtype) for dtype in DTYPES}

    values = first(source)
    if source.is_float:
        far = [300, -129.5, 6e4, *([] if source is dtypes.float16 else [1e9, -3e9, 1e19, -1e20])]
        values = np.concatenate([values, np.array(far, source.numpy)])
    assert_written(reader, function, {"x": values}, tmp_path / "cast.onnx")


def test_bits_read_as_other_numbers(reader, tmp_path):
    def signed(graph, x):
        return graph.bitcast(x, dtypes.int32)

    def unsigned(graph, x):
        return graph.bitcast(signed(graph, x), dtypes.uint32)

    for make in (signed, unsigned):
        assert_written(reader, each(make), {"x": first(dtypes.float32)}, tmp_path / "bits.onnx")


@pytest.mark.parametrize("op", ReduceOp, ids=lambda op: op.value)
def test_many_combined(op, reader, tmp_path):
    known = [dtype for dtype in DTYPES if op in reduce_ops(dtype)]
    change = tame if op.value in TAME else lambda values: values
    inputs = {dtype.name: change(np.stack([second(dtype), first(dtype), second(dtype)])) for dtype in known}
    for axes in ((0,), (1,), (0, 1)):
        function = each(lambda graph, x, axes=axes: graph.reduce(op, x, axes))
        assert_written(reader, function, inputs, tmp_path / "reduce.onnx")
    assert_written(reader, each(lambda graph, x: graph.scan(op, x, 1)), inputs, tmp_path / "scan.onnx")


def test_choices_margins_boxes_and_turns(reader, tmp_path):
    inputs = {dtype.name: [first(dtype), second(dtype)] for dtype in DTYPES}

    def chosen(graph, x, y):
        return graph.where(graph.binary(BinaryOp.EQ, x, y), y, x)

    assert_written(reader, each(chosen), inputs, tmp_path / "where.onnx")
    single = {name: x for name, (x, _) in inputs.items()}
    assert_written(reader, each(lambda graph, x: graph.pad(x, [(1, 2)], 1)), single, tmp_path / "pad.onnx")
    moved = each(lambda graph, x: graph.flip(graph.shrink(graph.reshape(x, (4, 2)), [(1, 4), (0, 2)]), (0,)))
    assert_written(reader, moved, single, tmp_path / "moved.onnx")


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dilation", [1, 3])
@pytest.mark.parametrize("axes", [(0, 1), (1, 0), (0, 2), (2, 0)])
def test_windows_and_back(stride, dilation, axes, reader, tmp_path):
    axis, window = axes
    shape = [1, 1, 1]
    shape[axis], shape[window] = 12, 3
    (other,) = {0, 1, 2} - {axis, window}
    shape[other] = 2
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)

    def slid(graph, x):
        return graph.slide(x, axis, window, 3, stride, dilation)

    def repeated(graph, x):
        one = graph.shrink(x, [(0, 1) if i == window else (0, size) for i, size in enumerate(x.shape)])
        return slid(graph, graph.expand(one, x.shape))

    def back(graph, x):
        return graph.unslide(slid(graph, x), axis, window, 13, stride, dilation)

    for make in (slid, repeated, back):
        assert_written(reader, each(make), {"x": x}, tmp_path / "windows.onnx")


INDEX = np.array([1, -1, 20, 0, -8, -9, 3])


def test_reads_outside_are_0(reader, tmp_path):
    inputs = {dtype.name: [first(dtype), INDEX] for dtype in DTYPES}
    assert_written(reader, each(lambda graph, x, i: graph.gather(x, i, 0)), inputs, tmp_path / "gather.onnx")
    whole = {"x": [np.arange(12.0).reshape(3, 4), np.array([[0, -1, 2, 3], [5, 1, 1, -7]])]}
    assert_written(reader, each(lambda graph, x, i: graph.gather(x, i, 0)), whole, tmp_path / "elements.onnx")


@pytest.mark.parametrize("op", [None, *ReduceOp], ids=lambda op: "replace" if op is None else op.value)
def test_writes_outside_are_dropped(op, reader, tmp_path):
    is_logic = op in (ReduceOp.OR, ReduceOp.AND, ReduceOp.XOR)
    known = [dtype for dtype in DTYPES if op is None or (op in reduce_ops(dtype) and (dtype.is_bool or not is_logic))]
    inputs = {dtype.name: [tame(first(dtype)), INDEX, tame(second(dtype)[:7])] for dtype in known}
    function = each(lambda graph, x, i, y: graph.scatter(x, i, y, 0, op))
    if op is ReduceOp.XOR:
        with pytest.raises(UnsupportedError, match="sum, product, greatest and least"):
            zyx.io.onnx.save(function, inputs, tmp_path / "no.onnx")
        return
    assert_written(reader, function, inputs, tmp_path / "scatter.onnx")


@pytest.mark.parametrize(("dtype", "bits"), [(np.uint32, 32), (np.uint64, 64), (np.uint64, 40)])
def test_sorting_keeps_equal_ones_in_order(dtype, bits, reader, tmp_path):
    values = np.random.default_rng(0).integers(0, 5, (3, 20)).astype(dtype)
    values[0, :4] = [0, (1 << bits) - 1, 1, (1 << bits) - 1]
    function = each(lambda graph, x: graph.sort(x, 1, bits, 15))
    assert_written(reader, function, {"x": values}, tmp_path / "sort.onnx")
