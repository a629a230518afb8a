"""What NumPy's functions do with tensors: ``np.exp(x)`` is ``zyx.exp(x)``, and ``array + x`` is a tensor.

NumPy asks for this by ``__array_ufunc__`` and ``__array_function__`` (its proposals 13 and 18). Where one of ours
means the same with these arguments, it is called. Where not, or where there is none, tensors become arrays, and so
do results: ``np.median`` is the mean of two numbers, and ours is the lower of them. What writes into an argument takes
arrays only.
"""

from __future__ import annotations

import functools
import inspect
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from zyx.errors import DTypeError
from zyx.functions.ingest import with_arrays
from zyx.functions.operands import is_operand, is_tensor
from zyx.runtime.handle import Handle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from zyx.tensor.tensor import Tensor

#: What functions of NumPy take and give: tensors, arrays, numbers, and several of them.
Value: TypeAlias = Any

_zyx: Final[Value] = sys.modules["zyx"]  # which is above this layer, and loaded before tensors are made

# ---- functions of elements

#: Names of ufuncs, and of our functions of the same meaning where they are called otherwise.
_SAME: Final = """
add subtract multiply divide floor_divide remainder fmod negative positive sign floor ceil trunc exp exp2 expm1 log log2
log10 log1p logaddexp sqrt square reciprocal sin cos tan hypot sinh cosh tanh deg2rad rad2deg equal not_equal less
less_equal greater greater_equal logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_xor
isfinite isinf isnan signbit copysign nextafter maximum minimum matmul vecdot
"""
_OTHERS: Final = {
    "power": "pow", "absolute": "abs", "rint": "round", "conjugate": "conj", "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift", "arcsin": "asin", "arccos": "acos",
    "arctan": "atan", "arctan2": "atan2", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "degrees": "rad2deg", "radians": "deg2rad",
}  # fmt: skip
UFUNCS: Final = {**{name: name for name in _SAME.split() if hasattr(_zyx, name)}, **_OTHERS}
_REDUCTIONS: Final = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any",
}  # fmt: skip
_ACCUMULATIONS: Final = {"add": "cumsum", "multiply": "cumprod"}


def call_ufunc(ufunc: np.ufunc, method: str, inputs: Sequence[Value], options: Mapping[str, Value]) -> Value:
    """Return what a ufunc gives of `inputs`, one of which is a tensor, or which are to be written into.

    Raises:
        DTypeError: Something would be written into a tensor.
    """
    targets = [target for target in options.get("out") or () if target is not None]
    if any(is_tensor(target) for target in targets) or (method == "at" and is_tensor(inputs[0])):
        raise DTypeError(f"np.{ufunc.__name__} cannot write into a tensor; leave out `out`, and name the result")
    if not all(is_operand(operand) or isinstance(operand, list | tuple) for operand in inputs):
        return NotImplemented
    own = None if targets else _own_ufunc(ufunc, method, inputs, options)
    if own is not None:
        return own()
    if len(targets) == 1 and set(options) == {"out"}:
        result = call_ufunc(ufunc, method, inputs, {})
        np.copyto(targets[0], _on_host(result), casting="same_kind")
        return targets[0]
    return getattr(ufunc, method)(*_on_host(tuple(inputs)), **options)


def _own_ufunc(
    ufunc: np.ufunc, method: str, inputs: Sequence[Value], options: Mapping[str, Value]
) -> Callable[[], Value] | None:
    """Return what calls our function of the same meaning, or None."""
    name = ufunc.__name__
    if method == "__call__" and not options:
        if name == "divmod":
            left, right = _operands(inputs, name)
            return lambda: (_zyx.floor_divide(left, right), _zyx.remainder(left, right))
        return functools.partial(_called, UFUNCS[name], inputs) if name in UFUNCS else None
    if method == "reduce" and name in _REDUCTIONS and set(options) <= {"axis", "keepdims"}:
        axis = {"axis": 0, **options} if inputs[0].ndim else dict(options)
        return functools.partial(_called, _REDUCTIONS[name], inputs, **axis)
    if method == "accumulate" and name in _ACCUMULATIONS and set(options) <= {"axis"}:
        return functools.partial(_called, _ACCUMULATIONS[name], inputs, **{"axis": 0, **options})
    return None


def _operands(inputs: Sequence[Value], what: str) -> list[Value]:
    """Return `inputs` with lists as arrays."""
    return with_arrays(inputs, what) if any(is_tensor(operand) for operand in inputs) else list(inputs)


def _called(name: str, inputs: Sequence[Value], **options: Value) -> Value:
    return _named(name)(*_operands(inputs, name), **options)


@functools.cache
def _named(path: str) -> Callable[..., Value]:
    """Return a function of ours, such as ``linalg.inv``."""
    found = _zyx
    for name in path.split("."):
        found = getattr(found, name)
    return found  # type: ignore[no-any-return]


# ---- all other functions


class _Same(NamedTuple):
    """A function of ours that means the same.

    Attributes:
        name: Its name within zyx.
        first: NumPy's names of the arguments that are given to it by position.
        then: NumPy's names of the arguments that are given to it by name, in NumPy's order. ``k=offset`` has another
            name here, ``-out`` none: it may be None.
        computes: Whether it takes operands, of which NumPy takes lists as well.
    """

    name: str
    first: str = "a"
    then: str = ""
    computes: bool = False


_STATISTIC: Final = "axis dtype -out ddof keepdims correction"
_TRANSFORM: Final = "n axis -norm -out"
_TRANSFORMS: Final = "s axes -norm -out"
_SIMILAR: Final = "dtype"

_TABLE: Final[dict[str, _Same]] = {
    "sum": _Same("sum", "a", "axis dtype -out keepdims"),
    "prod": _Same("prod", "a", "axis dtype -out keepdims"),
    **{f"{a}{name}": _Same(name, "a", "axis -out keepdims") for name in ("max", "min") for a in ("", "a")},
    "any": _Same("any", "a", "axis -out keepdims"),
    "all": _Same("all", "a", "axis -out keepdims"),
    "mean": _Same("mean", "a", "axis dtype -out keepdims"),
    "std": _Same("std", "a", _STATISTIC),
    "var": _Same("var", "a", _STATISTIC),
    "argmax": _Same("argmax", "a", "axis -out keepdims"),
    "argmin": _Same("argmin", "a", "axis -out keepdims"),
    "count_nonzero": _Same("count_nonzero", "a", "axis keepdims"),
    "cumsum": _Same("cumsum", "a", "axis dtype -out"),
    "cumprod": _Same("cumprod", "a", "axis dtype -out"),
    "diff": _Same("diff", "a", "n axis"),
    "squeeze": _Same("squeeze", "a", "axis"),
    "expand_dims": _Same("expand_dims", "a axis"),
    "ravel": _Same("ravel"),
    "moveaxis": _Same("moveaxis", "a source destination"),
    "swapaxes": _Same("swapaxes", "a axis1 axis2"),
    "flip": _Same("flip", "m", "axis"),
    "roll": _Same("roll", "a shift", "axis"),
    "repeat": _Same("repeat", "a repeats", "axis"),
    "take_along_axis": _Same("take_along_axis", "arr indices", "axis"),
    "broadcast_to": _Same("broadcast_to", "array shape"),
    "concatenate": _Same("concat", "arrays", "axis -out"),
    "stack": _Same("stack", "arrays", "axis -out"),
    "diag": _Same("diag", "v", "k=offset"),
    "tril": _Same("tril", "m", "k"),
    "triu": _Same("triu", "m", "k"),
    "matrix_transpose": _Same("matrix_transpose", "x"),
    "nonzero": _Same("nonzero", "a"),
    "round": _Same("round", "a", "decimals -out"),
    "clip": _Same("clip", "a", "a_min=min a_max=max -out min max"),
    "real": _Same("real", "val"),
    "imag": _Same("imag", "val"),
    "nan_to_num": _Same("nan_to_num", "x", "-copy nan posinf neginf"),
    "isclose": _Same("isclose", "a b", "rtol atol equal_nan", computes=True),
    "allclose": _Same("allclose", "a b", "rtol atol equal_nan", computes=True),
    "array_equal": _Same("array_equal", "a1 a2", "equal_nan", computes=True),
    "tensordot": _Same("tensordot", "a b", "axes", computes=True),
    "zeros_like": _Same("zeros_like", "a", _SIMILAR),
    "ones_like": _Same("ones_like", "a", _SIMILAR),
    "empty_like": _Same("empty_like", "prototype", _SIMILAR),
    "full_like": _Same("full_like", "a fill_value", _SIMILAR),
    "linalg.det": _Same("linalg.det"),
    "linalg.inv": _Same("linalg.inv"),
    "linalg.solve": _Same("linalg.solve", "a b", computes=True),
    "linalg.cholesky": _Same("linalg.cholesky", "a", "upper"),
    "linalg.eigvalsh": _Same("linalg.eigvalsh"),
    "linalg.eigh": _Same("linalg.eigh"),
    "linalg.slogdet": _Same("linalg.slogdet"),
    "linalg.svd": _Same("linalg.svd", "a", "full_matrices"),
    "linalg.svdvals": _Same("linalg.svdvals", "x"),
    "linalg.qr": _Same("linalg.qr"),
    "linalg.matrix_power": _Same("linalg.matrix_power", "a n"),
    **{f"fft.{way}{kind}": _Same(f"fft.{way}{kind}", "a", _TRANSFORM) for way in ("", "i") for kind in ("fft", "hfft")},
    **{f"fft.{kind}": _Same(f"fft.{kind}", "a", _TRANSFORM) for kind in ("rfft", "irfft")},
    **{f"fft.{kind}fft{many}": _Same(f"fft.{kind}fft{many}", "a", _TRANSFORMS)
       for kind in ("", "i", "r", "ir") for many in ("n", "2")},
    "fft.fftshift": _Same("fft.fftshift", "x", "axes"),
    "fft.ifftshift": _Same("fft.ifftshift", "x", "axes"),
}  # fmt: skip


def _apply(same: _Same, args: Sequence[Value], options: Mapping[str, Value]) -> Value:
    """Return what our function gives; NotImplemented where an argument has no meaning for it."""
    first, then = same.first.split(), same.then.split()
    names = {name.lstrip("-").partition("=")[0]: name.partition("=")[2] or name for name in then}
    order = [*first, *names]
    given = {**dict(zip(order, args, strict=False)), **options}
    if len(args) > len(order) or not set(first) <= set(given) <= set(order):
        return NotImplemented
    values = [given.pop(name) for name in first]
    for name, value in given.items():
        if names[name].startswith("-") and value is not None:
            if is_tensor(value):
                raise DTypeError(f"{same.name} makes a new tensor; {name} cannot be one, leave it out")
            return NotImplemented
    if same.computes:
        if not all(is_operand(value) or isinstance(value, list | tuple) for value in values):
            return NotImplemented
        values = with_arrays(values, same.name)
    elif not is_tensor(values[0]) and not isinstance(values[0], list | tuple):
        return NotImplemented  # it is another argument that is a tensor
    named = {names[name]: value for name, value in given.items() if not names[name].startswith("-")}
    return _named(same.name)(*values, **named)


def _transpose(a: Tensor, axes: Sequence[int] | None = None) -> Value:
    return _zyx.permute_dims(a, axes=tuple(reversed(range(a.ndim))) if axes is None else axes)


def _reshape(a: Tensor, shape: int | Sequence[int]) -> Value:
    return _zyx.reshape(a, shape=shape)


def _tile(A: Tensor, reps: int | Sequence[int]) -> Value:  # NumPy's name
    return _zyx.tile(A, reps)


def _take(a: Tensor, indices: Value, axis: int | None = None) -> Value:
    return _zyx.take(_zyx.ravel(a), indices, 0) if axis is None else _zyx.take(a, indices, axis)


def _sort(a: Tensor, axis: int | None = -1) -> Value:
    return NotImplemented if axis is None else _zyx.sort(a, axis)


def _argsort(a: Tensor, axis: int | None = -1) -> Value:
    return NotImplemented if axis is None else _zyx.argsort(a, axis)


def _diagonal(a: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    return _zyx.diagonal(a, offset, axis1, axis2)


def _trace(a: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    return _zyx.sum(_zyx.diagonal(a, offset, axis1, axis2), -1)


def _dot(a: Value, b: Value) -> Value:
    a, b = with_arrays((a, b), "dot")
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return _zyx.multiply(a, b)
    return _zyx.matmul(a, b) if np.ndim(b) <= 2 else NotImplemented


def _outer(a: Value, b: Value) -> Value:
    a, b = with_arrays((a, b), "outer")
    return _zyx.multiply(a.reshape((-1, 1)), b.reshape((1, -1)))


def _where(condition: Value, x: Value = None, y: Value = None) -> Value:
    if x is None and y is None:
        return _zyx.nonzero(condition)
    return _zyx.where(*with_arrays((condition, x, y), "where"))


def _einsum(subscripts: object, *operands: Value, optimize: object = False) -> Value:
    return _zyx.einsum(subscripts, *operands) if isinstance(subscripts, str) else NotImplemented


def _vstack(tup: Iterable[Value]) -> Value:
    return _zyx.concat([row if row.ndim > 1 else row.reshape((1, -1)) for row in map(_array_like, tup)], 0)


def _hstack(tup: Iterable[Value]) -> Value:
    parts = [part if part.ndim else part.reshape((1,)) for part in map(_array_like, tup)]
    return _zyx.concat(parts, 0 if parts[0].ndim == 1 else 1)


def _array_like(part: Value) -> Value:
    return part if is_tensor(part) else np.asarray(part)


def _norm(x: Tensor, ord: float | None = None, axis: Value = None, keepdims: bool = False) -> Value:
    return _zyx.norm(x, 2.0, axis, keepdims=keepdims) if ord is None else NotImplemented


def _size(a: Tensor, axis: int | None = None) -> int:
    return a.numel() if axis is None else a.shape[axis]


_ADAPTED: Final[dict[str, Callable[..., Value]]] = {
    "transpose": _transpose, "reshape": _reshape, "tile": _tile, "take": _take, "sort": _sort, "argsort": _argsort,
    "diagonal": _diagonal, "trace": _trace, "dot": _dot, "outer": _outer, "where": _where, "einsum": _einsum,
    "vstack": _vstack, "hstack": _hstack, "linalg.norm": _norm, "size": _size,
    "shape": lambda a: a.shape, "ndim": lambda a: a.ndim,
    "iscomplexobj": lambda x: x.dtype.is_complex, "isrealobj": lambda x: not x.dtype.is_complex,
}  # fmt: skip
_WRITING: Final = ("copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis")


def _bind(adapted: Callable[..., Value], args: Sequence[Value], options: Mapping[str, Value]) -> Value:
    """Return what `adapted` gives; NotImplemented where it does not take the arguments."""
    try:
        _signature(adapted).bind(*args, **options)
    except TypeError:
        return NotImplemented
    return adapted(*args, **options)


_signature: Final = functools.cache(inspect.signature)


def _numpy(path: str) -> Callable[..., Value] | None:
    """Return a function of NumPy, unless this one is too old for it."""
    found: Value = np
    for name in path.split("."):
        found = getattr(found, name, None)
    return found  # type: ignore[no-any-return]


_FUNCTIONS: Final[dict[Callable[..., Value] | None, Callable[..., Value]]] = {
    **{_numpy(path): functools.partial(_apply, same) for path, same in _TABLE.items()},
    **{_numpy(path): functools.partial(_bind, adapted) for path, adapted in _ADAPTED.items()},
}


def call_function(
    function: Callable[..., Value],
    types: Iterable[type],
    args: tuple[Value, ...],
    options: Mapping[str, Value],
) -> Value:
    """Return what a function of NumPy gives of arguments among which there are tensors.

    Raises:
        DTypeError: It would write into a tensor.
    """
    if not all(issubclass(kind, np.ndarray | Handle) for kind in types):
        return NotImplemented
    writes = function.__name__ in _WRITING and args and is_tensor(args[0])
    if writes or is_tensor(options.get("out")):
        raise DTypeError(f"np.{function.__name__} cannot write into a tensor; assign to x[...], or name the result")
    if function in _FUNCTIONS:
        result = _FUNCTIONS[function](args, options)
        if result is not NotImplemented:
            return result
    return function(*_on_host(args), **_on_host(dict(options)))


def _on_host(value: Value) -> Value:
    """Return `value` with arrays in the place of tensors."""
    if is_tensor(value):
        return value.numpy()
    if type(value) in (list, tuple):
        return type(value)(_on_host(part) for part in value)
    if type(value) is dict:
        return {name: _on_host(part) for name, part in value.items()}
    return value
