"""Methods and names as people know them from PyTorch and NumPy, each of them by one of ours.

`Tensor.__getattr__`, which Python calls for what a tensor lacks, puts `METHODS` into the class the first time; a module
asks `NAMES` for what it lacks. So they cost nothing before somebody writes one. What ends in an underscore, such as
``x.mul_(2)``, assigns the result of the method without it, converted to the dtype of the tensor.
"""

from __future__ import annotations

import difflib
import html
import importlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zyx.dtype import BY_NAME, DType
from zyx.errors import ArgumentError
from zyx.functions import (
    activations,
    arithmetic,
    choosing,
    complex_numbers,
    elementwise,
    info,
    joining,
    linalg,
    logic,
    movement,
    selection,
    sorting,
    transcendental,
)
from zyx.integers import as_integer
from zyx.tensor import creation, random

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zyx.tensor.generator import Generator
    from zyx.tensor.tensor import Tensor

#: What PyTorch's old constructors begin with, and their dtypes.
TYPED_DTYPES: Final = {
    "BFloat16": "bfloat16", "Bool": "bool", "Byte": "uint8", "Char": "int8", "Double": "float64", "Float": "float32",
    "Half": "float16", "Int": "int32", "Long": "int64", "Short": "int16",
}  # fmt: skip
#: What a name of another library is in `zyx`.
NAMES: Final = {
    # PyTorch
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin",
    "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh", "as_tensor": "asarray",
    "bitwise_not": "bitwise_invert", "bmm": "matmul", "broadcast_tensors": "broadcast_arrays", "cat": "concat",
    "clamp": "clip", "div": "divide", "eq": "equal", "ge": "greater_equal", "gt": "greater", "le": "less_equal",
    "lt": "less", "mm": "matmul", "movedim": "moveaxis", "mul": "multiply", "mv": "matmul", "ne": "not_equal",
    "neg": "negative", "permute": "permute_dims", "repeat_interleave": "repeat", "sub": "subtract",
    "swapdims": "swapaxes", "true_divide": "divide", "unbind": "unstack", "unsqueeze": "expand_dims",
    # NumPy
    "array": "asarray", "concatenate": "concat", "conjugate": "conj", "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift", "mod": "remainder", "power": "pow", "right_shift": "bitwise_right_shift",
    "from_numpy": "asarray",
    "degrees": "rad2deg", "radians": "deg2rad", "fabs": "abs", "around": "round", "asanyarray": "asarray",
    "ascontiguousarray": "asarray", "row_stack": "vstack", "trapz": "trapezoid",
    # of linear algebra, in PyTorch's main namespace
    **{name: f"linalg.{name}" for name in ("cholesky", "cholesky_solve", "det", "lstsq", "matrix_norm", "matrix_rank",
                                           "qr", "slogdet")},
    # of networks, likewise
    **{name: f"nn.functional.{name}" for name in (
        "adaptive_avg_pool1d", "adaptive_max_pool1d", "alpha_dropout", "batch_norm", "bilinear", "channel_shuffle",
        "cosine_embedding_loss", "ctc_loss", "embedding", "embedding_bag", "feature_alpha_dropout", "group_norm",
        "hardshrink", "hinge_embedding_loss", "instance_norm", "layer_norm", "margin_ranking_loss",
        "pairwise_distance", "pdist", "pixel_shuffle", "pixel_unshuffle", "poisson_nll_loss", "rms_norm", "rrelu",
        "threshold",
    )},
    "inverse": "linalg.inv", "matrix_exp": "linalg.expm", "pinverse": "linalg.pinv", "ger": "outer",
    "clamp_max": "minimum", "clamp_min": "maximum",
    # dtypes
    "bool_": "bool", "cdouble": "complex128", "cfloat": "complex64", "double": "float64", "float": "float32",
    "half": "float16", "long": "int64", "short": "int16",
    "int_": "int64", "intc": "int32", "intp": "int64", "longlong": "int64", "single": "float32", "ubyte": "uint8",
    "uintc": "uint32", "ulonglong": "uint64", "ushort": "uint16",
    # methods here, and functions there
    "clone": "Tensor.clone", "copy": "Tensor.clone", "detach": "Tensor.detach", "numel": "Tensor.numel",
    "promote_types": "result_type", "t": "Tensor.t",
    # PyTorch's old constructors
    **{f"{kind}Tensor": f"tensor.habits.TYPED.{kind}Tensor" for kind in TYPED_DTYPES},
}  # fmt: skip
#: Names with two meanings, and what these are.
TWO_MEANINGS: Final = {"int": "int32 in PyTorch and int64 in NumPy"}


def name_of(name: str, known: list[str]) -> str:
    """Return what `name` is called here.

    Raises:
        AttributeError: Nothing is; the text has the nearest of `known`, or both meanings of what has two.
    """
    if name in NAMES:
        return NAMES[name]
    if name in TWO_MEANINGS:
        raise AttributeError(f"zyx.{name} would be {TWO_MEANINGS[name]}; write which")
    near = difflib.get_close_matches(name, [*known, *NAMES], 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise AttributeError(f"module 'zyx' has no attribute {name!r}{hint}")


# ---- methods


def is_not_device(given: object) -> bool:
    """Tell whether an argument of ``to`` is a dtype, or a tensor whose dtype and place are meant."""
    return given is None or hasattr(given, "node") or isinstance(given, DType | type | np.dtype)


def to(x: Tensor, *given: Any, dtype: Any = None, device: Any = None, **rest: Any) -> Tensor:  # noqa: ANN401
    """Return `x` in another dtype, on another device, or both, as PyTorch's ``to`` takes them: also those of a tensor.

    ``non_blocking``, ``copy`` and ``memory_format`` change nothing.

    Raises:
        ArgumentError: Something else.
    """
    device, dtype = place_and_dtype(given, device, dtype, rest)
    result = x if dtype is None else x.astype(dtype)
    return result if device is None else result.to(device)


def place_and_dtype(given: Iterable[Any], device: Any, dtype: Any, rest: dict[str, Any]) -> tuple[Any, Any]:  # noqa: ANN401
    """Return the device and the dtype that arguments of ``to`` name, each None if they name none.

    Raises:
        ArgumentError: Something else.
    """
    unknown = rest.keys() - {"copy", "memory_format", "non_blocking"}
    if unknown:
        raise ArgumentError(f"to: no argument is called {min(unknown)}; it has dtype, device, non_blocking and copy")
    for each in given:
        if hasattr(each, "node"):
            dtype, device = each.node.dtype, each.node.device
        elif is_not_device(each) or (isinstance(each, str) and each in BY_NAME):
            dtype = dtype if each is None else each
        elif not isinstance(each, bool):
            device = each
    return device, dtype


def _cast(dtype: str) -> Callable[[Tensor], Tensor]:
    def cast(x: Tensor, memory_format: object = None) -> Tensor:
        return x.astype(dtype)

    cast.__doc__ = f"Return `x` as {dtype}."
    return cast


def _new(make: str) -> Callable[..., Tensor]:
    def new(x: Tensor, *shape: Any, dtype: Any = None, device: Any = None) -> Tensor:  # noqa: ANN401
        maker: Callable[..., Tensor] = getattr(creation, make)
        return maker(*shape, dtype=dtype or x.node.dtype, device=device or x.node.device)

    new.__doc__ = f"Return `zyx.{make}` in the dtype and place of `x`."
    return new


def cuda(x: Tensor, device: int | None = None, non_blocking: bool = False) -> Tensor:
    """Return `x` on a CUDA device: `device` is its number."""
    return x.to(cuda_name(device))


def cuda_name(device: int | str | None) -> str:
    """Return the name of a CUDA device that is given as PyTorch has it: by its number, by name, or None."""
    if isinstance(device, str):
        return device
    return "cuda" if device is None else f"cuda:{as_integer(device, 'device')}"


def expand_as(x: Tensor, other: Tensor) -> Tensor:
    """Return `x` broadcast to the shape of `other`."""
    return movement.broadcast_to(x, other.node.shape)


def view_as(x: Tensor, other: Tensor) -> Tensor:
    """Return the elements of `x` in the shape of `other`."""
    return movement.reshape(x, other.node.shape)


def select(x: Tensor, axis: int, index: int) -> Tensor:
    """Return the slice of `x` at `index` along `axis`, without that axis."""
    return selection.take(x, as_integer(index, "index"), axis)


def type_as(x: Tensor, other: Tensor) -> Tensor:
    """Return `x` in the dtype of `other`."""
    return x.astype(other.node.dtype)


def type_(x: Tensor, dtype: Any = None) -> Tensor:  # noqa: ANN401  # whatever says a dtype
    """Return `x` in a dtype, which may also be one of PyTorch's old constructors, such as `zyx.FloatTensor`.

    Raises:
        ArgumentError: None is given, of which PyTorch makes a text.
    """
    if dtype is None:
        raise ArgumentError(f"type: give a dtype; that of the tensor is x.dtype, {x.node.dtype}")
    return x.astype(getattr(dtype, "of_dtype", dtype))


def _constructor(name: str, dtype: str) -> Callable[..., Tensor]:
    def make(*given: Any) -> Tensor:  # noqa: ANN401  # data, or sizes
        if len(given) == 1 and not isinstance(given[0], int):
            return creation.asarray(given[0], dtype=dtype)
        return creation.empty(given or (0,), dtype=dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"Return a tensor of {dtype}: of data, or of sizes, of which nothing is known what it holds."
    make.of_dtype = dtype  # type: ignore[attr-defined]  # for `type_`
    return make


#: PyTorch's old constructors.
TYPED: Final = SimpleNamespace(
    **{f"{kind}Tensor": _constructor(f"{kind}Tensor", dtype) for kind, dtype in TYPED_DTYPES.items()}
)


def is_contiguous(x: Tensor) -> bool:
    """Tell that values lie in row-major order: they do, once they are computed."""
    return True


def fill_(x: Tensor, value: float) -> Tensor:
    """Assign `value` to all elements."""
    return x.assign(x * 0 + value) if hasattr(value, "node") else x.assign(_full(x, value))


def _full(x: Tensor, value: float) -> Tensor:
    return creation.full_like(x, value)


def zero_(x: Tensor) -> Tensor:
    """Assign 0 to all elements."""
    return fill_(x, 0)


def copy_(x: Tensor, other: Tensor, non_blocking: bool = False) -> Tensor:
    """Assign the values of `other`, broadcast and converted."""
    return x.assign(movement.broadcast_to(other, x.node.shape).astype(x.node.dtype))


def normal_(x: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Assign floats drawn from the normal distribution; see `zyx.normal`."""
    node = x.node
    return x.assign(
        random.normal(node.shape, mean=mean, std=std, dtype=node.dtype, device=node.device, generator=generator)
    )


def uniform_(
    x: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None, **bounds: float
) -> Tensor:
    """Assign floats drawn evenly from [`from_`, `to`); the first may be given as ``from``, too. See `zyx.uniform`.

    Raises:
        ArgumentError: Another argument.
    """
    low = bounds.pop("from", from_)
    if bounds:
        raise ArgumentError(f"uniform_: no argument is called {min(bounds)}; it has from, to and generator")
    node = x.node
    return x.assign(
        random.uniform(node.shape, low=low, high=to, dtype=node.dtype, device=node.device, generator=generator)
    )


def _html(x: Tensor) -> str:
    """Return the text of `x` for notebooks."""
    return f"<pre>{html.escape(repr(x))}</pre>"


def copy(x: Tensor) -> Tensor:
    """Return the same values in memory of their own."""
    return x.clone()


def dim(x: Tensor) -> int:
    """Return the number of axes."""
    return x.node.ndim


def numel(x: Tensor) -> int:
    """Return the number of elements."""
    return x.numel()


def element_size(x: Tensor) -> int:
    """Return the bytes of an element."""
    return x.itemsize


def is_cuda(x: Tensor) -> bool:
    """Whether it is on a device of the backend cuda."""
    return x.node.device.startswith("cuda")


METHODS: Final[dict[str, Any]] = {
    "bfloat16": _cast("bfloat16"), "bool": _cast("bool"), "byte": _cast("uint8"), "char": _cast("int8"),
    "double": _cast("float64"), "float": _cast("float32"), "half": _cast("float16"), "int": _cast("int32"),
    "long": _cast("int64"), "short": _cast("int16"), "cfloat": _cast("complex64"), "cdouble": _cast("complex128"),
    "new_zeros": _new("zeros"), "new_ones": _new("ones"), "new_empty": _new("empty"), "new_full": _new("full"),
    "absolute": elementwise.abs,
    "arccos": transcendental.acos, "arcsin": transcendental.asin, "arctan": transcendental.atan,
    "bitwise_not": logic.bitwise_invert, "bmm": linalg.matmul, "mm": linalg.matmul, "mv": linalg.matmul,
    "div": arithmetic.divide, "mul": arithmetic.multiply, "sub": arithmetic.subtract, "neg": elementwise.negative,
    "true_divide": arithmetic.divide, "mod": arithmetic.remainder,
    "eq": logic.equal, "ne": logic.not_equal, "lt": logic.less, "le": logic.less_equal,
    "gt": logic.greater, "ge": logic.greater_equal,
    "movedim": movement.moveaxis, "swapdims": movement.swapaxes, "unbind": joining.unstack,
    "repeat_interleave": joining.repeat, "logical_invert": logic.logical_not, "allclose": choosing.allclose,
    "copy": copy, "conjugate": complex_numbers.conj, "cuda": cuda, "expand_as": expand_as,
    "view_as": view_as, "reshape_as": view_as, "select": select, "type_as": type_as, "isin": sorting.isin,
    "dim": dim, "ndimension": dim, "numel": numel, "nelement": numel, "element_size": element_size,
    "is_floating_point": info.is_floating_point, "is_contiguous": is_contiguous,
    "_repr_html_": _html, "fill_": fill_, "zero_": zero_, "copy_": copy_,
    "normal_": normal_, "uniform_": uniform_,
    "is_cuda": property(is_cuda), "type": type_,
    "swish": activations.silu, "ln": transcendental.log,
}  # fmt: skip
#: Methods that are functions of `zyx` by the same name, or by one of `NAMES`.
FUNCTIONS: Final = frozenset((
    "addbmm", "addcdiv", "addcmul", "addmm", "addmv", "addr", "amax", "amin", "arccosh", "arcsinh", "arctan2",
    "arctanh", "argpartition", "argwhere", "baddbmm", "bernoulli", "bincount", "cholesky", "cholesky_inverse",
    "cholesky_solve", "choose", "clamp_max", "clamp_min", "compress", "corrcoef", "cov", "det", "diag_embed",
    "diagflat", "diagonal_scatter", "digamma", "dist", "dsplit", "erfc", "fix", "fliplr", "flipud", "float_power",
    "fmax", "fmin", "frexp", "gcd", "ger", "heaviside", "histc", "histogram", "hsplit", "index_add", "index_copy",
    "index_fill", "index_put", "index_reduce", "inner", "inverse", "isneginf", "isposinf", "isreal", "istft",
    "kron", "kthvalue", "lcm", "ldexp", "lgamma", "logaddexp2", "logcumsumexp", "logdet", "logit", "lstsq",
    "masked_scatter", "matrix_exp", "mode", "msort", "multinomial", "nanmean", "nanmedian", "nanquantile",
    "nansum", "partition", "pinverse", "qr", "quantile", "renorm", "rot90", "select_scatter", "sgn", "sinc",
    "slice_scatter", "slogdet", "stft", "take_along_dim", "tensor_split", "unique", "unique_consecutive", "vdot",
    "vsplit", "xlogy",
))  # fmt: skip
#: What begins so belongs to Python's protocols and other libraries', which find out so that it is not there.
_PRIVATE: Final = "_"


def attribute_of(x: Tensor, name: str) -> Any:  # noqa: ANN401  # whatever it is
    """Return an attribute that `x` has by a name of another library.

    Raises:
        AttributeError: There is none; the text has the nearest.
    """
    kind = type(x)
    if hasattr(kind, name):  # a property that raised this: it says why again
        return object.__getattribute__(x, name)
    if name in METHODS:
        for each, method in METHODS.items():
            if not hasattr(kind, each):
                setattr(kind, each, method)
        return getattr(x, name)
    if name in FUNCTIONS:
        setattr(kind, name, getattr(importlib.import_module("zyx"), name))
        return getattr(x, name)
    plain = name[:-1]
    is_method = callable(getattr(kind, plain, None)) or plain in METHODS or plain in FUNCTIONS
    if name.endswith("_") and not name.startswith(_PRIVATE) and is_method:
        method = getattr(x, plain)

        def in_place(*args: Any, **keywords: Any) -> Tensor:  # noqa: ANN401  # those of the method
            return x.assign(method(*args, **keywords).astype(x.node.dtype))

        return in_place
    near = [] if name.startswith(_PRIVATE) else difflib.get_close_matches(name, [*dir(kind), *METHODS, *FUNCTIONS], 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}{hint}")
