"""`Tensor`: what users hold. The class is a table: each method is a function of `zyx.functions`.

    x.exp()          transcendental.exp(x)          zyx.exp(x)
    x + y            arithmetic.add(x, y)           zyx.add(x, y)
    x[key]           indexing.getitem(x, key)

A tensor is lazy, and immutable but for assignment: an operation makes a node of the graph, and values are computed when
somebody reads them, or calls `realize`. ``==`` compares element by element; tensors hash by identity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from zyx.dtype import DType, as_dtype
from zyx.errors import ArgumentError, ShapeError
from zyx.functions import (
    activations,
    arithmetic,
    choosing,
    complex_numbers,
    cumulative,
    elementwise,
    indexing,
    info,
    joining,
    linalg,
    logic,
    movement,
    reduction,
    selection,
    sorting,
    transcendental,
)
from zyx.functions.ingest import node_from_data
from zyx.lazy_import import lazy_import
from zyx.ops import BinaryOp
from zyx.runtime.handle import Handle
from zyx.runtime.lazy import file_of, leaf_of_file, leaf_of_function
from zyx.runtime.runtime import current
from zyx.shape import as_shape
from zyx.tensor import convert, gradients

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from zyx.dtype import DTypeLike
    from zyx.runtime.placement import DeviceLike
    from zyx.tensor import habits
else:
    habits = lazy_import("zyx.tensor.habits", globals())


class Tensor(Handle):
    """An array of numbers on a device, computed when needed.

    ``Tensor(data)`` has the shape of `data`: numbers, nested lists, NumPy arrays, tensors, and objects with
    ``__array__`` or ``__dlpack__``. Python's floats become float32, integers int64. `dtype` converts, `device` places;
    with `requires_grad` values are taken over without their history, and gradients are kept (`backward`).

    Raises:
        DTypeError: No numbers, numbers that do not fit the dtype, or there is no such dtype.
        ShapeError: Lists of different lengths.
        NoDeviceError: There is no such device.
        GradientError: `requires_grad` of integers or bools.

    >>> zyx.Tensor([[1, 2], [3, 4]]).shape
    (2, 2)
    """

    __slots__ = ()

    def __init__(
        self, data: object, dtype: DTypeLike | None = None, device: str | None = None, *, requires_grad: bool = False
    ) -> None:
        runtime = current()
        place = None if device is None else runtime.device_name(device)
        super().__init__(node_from_data(data, None if dtype is None else as_dtype(dtype), place, runtime), runtime)
        if requires_grad:
            self.requires_grad_()

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        dtype: DTypeLike = "uint8",
        shape: int | Sequence[int] | None = None,
        offset: int = 0,
        device: str | None = None,
    ) -> Self:
        """Return a tensor of the numbers in a file, without reading them; see `zyx.io.from_file`."""
        runtime = current()
        place = runtime.default_device if device is None else runtime.device_name(device)
        sizes = None if shape is None else as_shape(shape)
        return cls.of(leaf_of_file(runtime, file_of(runtime, path), offset, sizes, as_dtype(dtype), place), runtime)

    @classmethod
    def from_callback(
        cls, shape: int | Sequence[int], dtype: DTypeLike, read: Callable[[], object], device: str | None = None
    ) -> Self:
        """Return a tensor of what `read` gives once, when needed: bytes, or a contiguous array, in row-major order.

        Raises:
            ArgumentError: `read` is no function.
            FormatError: When the values are needed: `read` gave another number of bytes, or no bytes.
        """
        if not callable(read):
            raise ArgumentError(f"from_callback: read is a function that gives bytes, not {type(read).__name__}")
        runtime = current()
        place = runtime.default_device if device is None else runtime.device_name(device)
        return cls.of(leaf_of_function(runtime, read, as_shape(shape), as_dtype(dtype), place), runtime)

    # ---- what it is, beside what every handle says of its node

    @property
    def T(self) -> Tensor:  # the Array API's name
        """The transpose of a matrix; of other ranks an error says what to use."""
        shape = self.node.shape
        if len(shape) != 2:
            raise ShapeError(f".T is of matrices; for shape {shape} use .mT, .permute_dims(...) or .transpose()")
        return movement.matrix_transpose(self)

    @property
    def mT(self) -> Tensor:  # the Array API's name
        """The tensor with its last two axes exchanged."""
        return movement.matrix_transpose(self)

    # ---- gradients as in PyTorch

    requires_grad = property(gradients.requires_grad, gradients.set_requires_grad)
    grad = property(gradients.grad_of, gradients.set_grad)
    is_leaf = property(gradients.is_leaf)
    data = property(gradients.detached, gradients.set_data)
    requires_grad_ = gradients.requires_grad_
    retain_grad = gradients.retain_grad
    backward = gradients.backward

    # ---- computing, placing, assigning

    def realize(self) -> Self:
        """Compute the values; returns before the work is done."""
        self.runtime.realize_one(self)
        return self

    def contiguous(self) -> Tensor:
        """Return the same values in a buffer of their own, in row-major order."""
        return self.of(self.runtime.graph.contiguous(self.node), self.runtime)

    def clone(self) -> Tensor:
        """Return the same values in a buffer of their own."""
        return self.contiguous()

    def detach(self) -> Tensor:
        """Return the same values, at which gradients end."""
        return self.of(self.runtime.graph.detach(self.node), self.runtime)

    def to(self, device: DeviceLike | DType | None = None, *more: object, **keywords: object) -> Tensor:
        """Return the same values on `device`, which is named as in `zyx.device`; or as PyTorch's ``to`` takes them."""
        if more or keywords or type(device) is not str:
            if more or keywords or habits.is_not_device(device):
                return habits.to(self, device, *more, **keywords)
        place = self.runtime.device_name(device)  # type: ignore[arg-type]  # no dtype, see above
        return self.of(self.runtime.graph.to_device(self.node, place), self.runtime)

    def to_device(self, device: str, /, *, stream: object = None) -> Tensor:
        """Return the same values on `device`; work is ordered without streams, so `stream` is not used."""
        return self.to(device)

    def cpu(self) -> Tensor:
        """Return the same values on the fastest processor."""
        return self.to("cpu")

    # ---- assignment and conversion

    assign = indexing.assign
    astype = info.astype
    bitcast = info.bitcast
    numpy = convert.numpy
    item = convert.item
    tolist = convert.tolist
    __bytes__ = convert.to_bytes
    __format__ = convert.formatted

    # ---- arithmetic

    add = arithmetic.add
    subtract = arithmetic.subtract
    multiply = arithmetic.multiply
    divide = arithmetic.divide
    remainder = arithmetic.remainder
    fmod = arithmetic.fmod
    floor_divide = arithmetic.floor_divide
    pow = arithmetic.pow
    maximum = arithmetic.maximum
    minimum = arithmetic.minimum
    equal = logic.equal
    not_equal = logic.not_equal
    less = logic.less
    less_equal = logic.less_equal
    greater = logic.greater
    greater_equal = logic.greater_equal
    bitwise_and = logic.bitwise_and
    bitwise_or = logic.bitwise_or
    bitwise_xor = logic.bitwise_xor
    bitwise_left_shift = logic.bitwise_left_shift
    bitwise_right_shift = logic.bitwise_right_shift
    bitwise_invert = logic.bitwise_invert
    logical_and = logic.logical_and
    logical_or = logic.logical_or
    logical_xor = logic.logical_xor
    logical_not = logic.logical_not

    # ---- elementwise

    exp = transcendental.exp
    exp2 = transcendental.exp2
    expm1 = transcendental.expm1
    log = transcendental.log
    log2 = transcendental.log2
    log10 = transcendental.log10
    log1p = transcendental.log1p
    sqrt = transcendental.sqrt
    rsqrt = transcendental.rsqrt
    reciprocal = transcendental.reciprocal
    square = elementwise.square
    logaddexp = transcendental.logaddexp
    sin = transcendental.sin
    cos = transcendental.cos
    tan = transcendental.tan
    asin = transcendental.asin
    acos = transcendental.acos
    atan = transcendental.atan
    atan2 = transcendental.atan2
    sinh = transcendental.sinh
    cosh = transcendental.cosh
    tanh = transcendental.tanh
    asinh = transcendental.asinh
    acosh = transcendental.acosh
    atanh = transcendental.atanh
    hypot = elementwise.hypot
    deg2rad = elementwise.deg2rad
    rad2deg = elementwise.rad2deg
    erf = transcendental.erf
    erfinv = transcendental.erfinv
    abs = elementwise.abs
    negative = elementwise.negative
    positive = elementwise.positive
    sign = elementwise.sign
    signbit = elementwise.signbit
    copysign = elementwise.copysign
    frac = elementwise.frac
    nextafter = elementwise.nextafter
    floor = elementwise.floor
    ceil = elementwise.ceil
    trunc = elementwise.trunc
    round = elementwise.round
    isnan = elementwise.isnan
    isinf = elementwise.isinf
    isfinite = elementwise.isfinite

    # ---- complex numbers

    real = property(complex_numbers.real)
    imag = property(complex_numbers.imag)
    conj = complex_numbers.conj
    angle = complex_numbers.angle
    is_complex = complex_numbers.is_complex

    # ---- choosing

    where = choosing.where
    masked_fill = choosing.masked_fill
    clip = choosing.clip
    lerp = choosing.lerp
    nan_to_num = choosing.nan_to_num
    isclose = choosing.isclose

    # ---- activations

    relu = activations.relu
    relu6 = activations.relu6
    leaky_relu = activations.leaky_relu
    prelu = activations.prelu
    elu = activations.elu
    celu = activations.celu
    selu = activations.selu
    gelu = activations.gelu
    quick_gelu = activations.quick_gelu
    sigmoid = activations.sigmoid
    hardsigmoid = activations.hardsigmoid
    silu = activations.silu
    hardswish = activations.hardswish
    hardtanh = activations.hardtanh
    mish = activations.mish
    softplus = activations.softplus
    softsign = activations.softsign
    logsigmoid = activations.logsigmoid
    softmax = activations.softmax
    log_softmax = activations.log_softmax
    softmin = activations.softmin

    # ---- movement

    reshape = movement.reshape
    flatten = movement.flatten
    ravel = movement.ravel
    unflatten = movement.unflatten
    expand_dims = movement.expand_dims
    squeeze = movement.squeeze
    broadcast_to = movement.broadcast_to
    expand = movement.expand
    permute_dims = movement.permute_dims
    transpose = movement.transpose
    swapaxes = movement.swapaxes
    matrix_transpose = movement.matrix_transpose
    t = movement.t
    moveaxis = movement.moveaxis
    flip = movement.flip
    shrink = movement.shrink
    narrow = movement.narrow
    diagonal = movement.diagonal
    diag = movement.diag
    triu = movement.triu
    tril = movement.tril
    windows = movement.windows
    unfold = movement.unfold

    # ---- joining

    unstack = joining.unstack
    split = joining.split
    chunk = joining.chunk
    tile = joining.tile
    repeat = joining.repeat
    roll = joining.roll
    pad = joining.pad

    # ---- selection

    take = selection.take
    index_select = selection.index_select
    take_along_axis = selection.take_along_axis
    gather = selection.gather
    scatter = selection.scatter
    scatter_add = selection.scatter_add
    scatter_reduce = selection.scatter_reduce
    put = selection.put
    put_along_axis = selection.put_along_axis
    one_hot = selection.one_hot
    nonzero = selection.nonzero
    masked_select = selection.masked_select

    # ---- reduction

    sum = reduction.sum
    prod = reduction.prod
    max = reduction.max
    min = reduction.min
    any = reduction.any
    all = reduction.all
    count_nonzero = reduction.count_nonzero
    aminmax = reduction.aminmax
    argmax = reduction.argmax
    argmin = reduction.argmin
    mean = reduction.mean
    var = reduction.var
    std = reduction.std
    var_mean = reduction.var_mean
    std_mean = reduction.std_mean
    logsumexp = reduction.logsumexp
    norm = linalg.norm
    normalize = linalg.normalize
    cosine_similarity = linalg.cosine_similarity

    # ---- cumulative

    cumulative_sum = cumulative.cumulative_sum
    cumulative_prod = cumulative.cumulative_prod
    cumsum = cumulative.cumsum
    cumprod = cumulative.cumprod
    cummax = cumulative.cummax
    cummin = cumulative.cummin
    diff = cumulative.diff

    # ---- linalg

    matmul = linalg.matmul
    vecdot = linalg.vecdot
    dot = linalg.dot
    outer = linalg.outer
    tensordot = linalg.tensordot
    trace = linalg.trace
    cross = linalg.cross
    matrix_power = linalg.matrix_power

    # ---- sorting

    argsort = sorting.argsort
    sort = sorting.sort
    topk = sorting.topk
    median = sorting.median
    searchsorted = sorting.searchsorted
    unique_all = sorting.unique_all
    unique_counts = sorting.unique_counts
    unique_inverse = sorting.unique_inverse
    unique_values = sorting.unique_values

    # ---- other libraries' names

    cast = info.astype
    view = info.view
    permute = permute_dims
    unsqueeze = expand_dims
    clamp = clip

    # ---- operators

    __add__ = arithmetic.operator(BinaryOp.ADD)
    __radd__ = arithmetic.reflected(arithmetic.add)
    __sub__ = arithmetic.operator(BinaryOp.SUB)
    __rsub__ = arithmetic.reflected(arithmetic.subtract)
    __mul__ = arithmetic.operator(BinaryOp.MUL)
    __rmul__ = arithmetic.reflected(arithmetic.multiply)
    __truediv__ = arithmetic.forward(arithmetic.divide)
    __rtruediv__ = arithmetic.reflected(arithmetic.divide)
    __floordiv__ = arithmetic.forward(arithmetic.floor_divide)
    __rfloordiv__ = arithmetic.reflected(arithmetic.floor_divide)
    __mod__ = arithmetic.forward(arithmetic.remainder)
    __rmod__ = arithmetic.reflected(arithmetic.remainder)
    __divmod__ = arithmetic.quotients_and_remainders
    __pow__ = arithmetic.forward(arithmetic.pow)
    __rpow__ = arithmetic.reflected(arithmetic.pow)
    __matmul__ = arithmetic.forward(linalg.matmul)
    __rmatmul__ = arithmetic.reflected(linalg.matmul)
    __and__ = arithmetic.forward(logic.bitwise_and)
    __rand__ = arithmetic.reflected(logic.bitwise_and)
    __or__ = arithmetic.forward(logic.bitwise_or)
    __ror__ = arithmetic.reflected(logic.bitwise_or)
    __xor__ = arithmetic.forward(logic.bitwise_xor)
    __rxor__ = arithmetic.reflected(logic.bitwise_xor)
    __lshift__ = arithmetic.forward(logic.bitwise_left_shift)
    __rlshift__ = arithmetic.reflected(logic.bitwise_left_shift)
    __rshift__ = arithmetic.forward(logic.bitwise_right_shift)
    __rrshift__ = arithmetic.reflected(logic.bitwise_right_shift)
    __lt__ = arithmetic.forward(logic.less)
    __le__ = arithmetic.forward(logic.less_equal)
    __gt__ = arithmetic.forward(logic.greater)
    __ge__ = arithmetic.forward(logic.greater_equal)
    __eq__ = arithmetic.comparison(logic.equal)  # type: ignore[assignment]  # a tensor, not a bool
    __ne__ = arithmetic.comparison(logic.not_equal)  # type: ignore[assignment]  # a tensor, not a bool
    __hash__ = object.__hash__
    __neg__ = elementwise.negative
    __pos__ = elementwise.positive
    __abs__ = elementwise.abs
    __invert__ = logic.bitwise_invert
    __round__ = elementwise.round

    # ---- containers, numbers, other libraries

    __getitem__ = indexing.getitem
    __setitem__ = indexing.setitem
    __iter__ = indexing.iterate
    __bool__ = convert.to_bool
    __int__ = convert.to_int
    __float__ = convert.to_float
    __complex__ = convert.to_complex
    __index__ = convert.to_index
    __array__ = convert.to_array
    __dlpack__ = convert.to_dlpack
    __dlpack_device__ = convert.dlpack_device
    __cuda_array_interface__ = property(convert.cuda_array_interface)
    __repr__ = convert.to_text
    __array_ufunc__ = convert.call_ufunc
    __array_function__ = convert.call_function
    __copy__ = gradients.copied
    __deepcopy__ = gradients.deeply_copied

    def __len__(self) -> int:
        """Return the size of the first axis."""
        if not self.node.shape:
            raise ShapeError("a tensor of rank 0 has no length; .size is its number of elements")
        return self.node.shape[0]

    def __contains__(self, value: object) -> bool:
        """Tell whether an element equals `value`; reads."""
        return convert.to_bool(reduction.any(logic.equal(self, value)))  # type: ignore[arg-type]  # it is checked there

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        values = convert.numpy(self)  # by value, to the default device
        return (gradients.leaf_of, (Tensor, values)) if gradients.is_wanted(self) else (Tensor, (values,))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Return what a name of another library means; see `zyx.tensor.habits`."""
            return habits.attribute_of(self, name)

    __array_namespace__ = info.array_namespace
