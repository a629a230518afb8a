"""From tensors to the host: arrays, numbers, text, and what other libraries read.

All values leave through `numpy`, which computes them first and waits. While a function is being traced, that is an
error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zyx import dtype as dtypes
from zyx.errors import DTypeError, ShapeError, SharingError
from zyx.functions import sharing
from zyx.functions.joining import join_terms
from zyx.functions.operands import Array, require, require_real, term_of, wrap
from zyx.lazy_import import lazy_import

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

    from zyx.tensor import numpy_functions
    from zyx.tensor.tensor import Tensor
else:
    numpy_functions = lazy_import("zyx.tensor.numpy_functions", globals())

_PRINTED_WHOLE = 1000
"""Tensors of more elements are printed with gaps."""
_EDGE = 3


def to_bytes(x: Tensor) -> bytes:
    """Return the values as they lie in memory, in row-major order; reads."""
    return numpy(x).tobytes()


def numpy(x: Tensor, *, out: Array | None = None) -> Array:
    """Return the values as a new array, or in `out`, of the same shape and dtype, which is returned then.

    A part goes into an array of its size by ``x[:n].numpy(out=array)``.

    Raises:
        ShapeError: `out` has another shape.
        DTypeError: `out` has another dtype, is no array or cannot be written to.
    """
    tensor = require(x, "numpy")
    if out is None:
        return tensor.runtime.download(tensor)
    node = tensor.node
    if not isinstance(out, np.ndarray) or out.dtype != node.dtype.numpy or not out.flags.writeable:
        what = f"one of {out.dtype}" if isinstance(out, np.ndarray) else type(out).__name__
        raise DTypeError(f"numpy: out is an array of {node.dtype} that can be written to, not {what}")
    if out.shape != node.shape:
        raise ShapeError(f"numpy: out has shape {out.shape}, and the tensor {node.shape}")
    np.copyto(out, tensor.runtime.download(tensor))
    return out


def formatted(x: Tensor, spec: str) -> str:
    """Write one element as a number if a format is given, else the text of `repr`."""
    return format(item(x), spec) if spec else repr(x)


def item(x: Tensor) -> Any:  # noqa: ANN401  # a `zyx.dtype.Number`, of the kind that the dtype says
    """Return the one element as a Python bool, int, float or complex.

    Raises:
        ShapeError: More or fewer elements than one.
    """
    shape = require(x, "item").node.shape
    if any(size != 1 for size in shape):
        raise ShapeError(f"only a tensor of one element is a number; the shape is {shape}")
    value = numpy(x).reshape(())[()]
    dtype = x.node.dtype
    if dtype.is_bool:
        return bool(value)
    if dtype.is_complex:
        return complex(value)
    return float(value) if dtype.is_float else int(value)


def tolist(x: Tensor) -> Any:  # noqa: ANN401  # lists of lists, or a number
    """Return the values as nested lists of Python numbers; rank 0 gives a number."""
    values = numpy(x)
    return (values.astype(np.float32) if x.node.dtype is dtypes.bfloat16 else values).tolist()


def to_bool(x: Tensor) -> bool:
    """Return whether the one element is not 0."""
    return bool(item(x))


def to_int(x: Tensor) -> int:
    """Return the one element, truncated."""
    return int(item(x))


def to_float(x: Tensor) -> float:
    """Return the one element.

    Raises:
        DTypeError: It is complex.
    """
    require_real(require(x, "float").node.dtype, "float")
    return float(item(x))


def to_complex(x: Tensor) -> complex:
    """Return the one element."""
    return complex(item(x))


def to_index(x: Tensor) -> int:
    """Return the one element of an integer tensor of rank 0.

    Raises:
        DTypeError: Not an integer of rank 0.
    """
    tensor = require(x, "an index")
    if not tensor.node.dtype.is_integer or tensor.node.shape:
        raise DTypeError(f"an index is an integer of rank 0, not {tensor.node.dtype}{list(tensor.node.shape)}")
    return int(item(x))


def to_array(x: Tensor, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:  # NumPy's protocol
    """Return the values for ``numpy.asarray``.

    They are a copy, unless `copy` is False and the device computes in host memory: then it is what the tensor has, and
    cannot be written to.

    Raises:
        SharingError: `copy` is False, and the device has memory of its own, or `dtype` is another.
    """
    if copy is False:
        view = sharing.host_view(require(x, "__array__"), "numpy.asarray")
        if dtype is not None and view.dtype != dtype:
            raise SharingError(f"numpy.asarray: values of {view.dtype} cannot become {dtype} as copy=False asks")
        return view
    values = numpy(x)
    return values if dtype is None else values.astype(dtype, copy=False)


def to_dlpack(
    x: Tensor,
    *,
    stream: object = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> object:
    """Return a DLPack capsule of the values: where they are if other libraries can use that memory, else on the host.

    Memory of a device is not copied, and must not be written to. The values are there when this returns, whatever
    `stream` is.

    Raises:
        SharingError: Another device is asked for than the tensor's or the host; or `copy` is False, and the device does
            not compute in host memory, or who asks does not know of memory that cannot be written to.
    """
    pool = sharing.shared_pool(x)
    if pool is not None and dl_device in (None, pool.dlpack_device):
        return sharing.to_capsule(x, copy=bool(copy))
    if dl_device not in (None, sharing.HOST):
        raise SharingError(f"tensors are exported to host memory {sharing.HOST}, not to device {dl_device}")
    if copy is False:
        return _host_capsule(x, max_version)
    values = numpy(x)
    if x.node.dtype is dtypes.bfloat16:  # which NumPy's capsules do not know
        return sharing.host_capsule(values, x.node.dtype)
    return values.__dlpack__(max_version=max_version) if max_version is not None else values.__dlpack__()


def _host_capsule(x: Tensor, max_version: tuple[int, int] | None) -> object:
    """Return a capsule of the values where they lie in host memory; see `to_dlpack`."""
    view = sharing.host_view(x, "__dlpack__")
    try:
        return view.__dlpack__(max_version=max_version)
    except BufferError as error:
        raise SharingError(f"__dlpack__: copy=False cannot be kept: {error}") from error


def dlpack_device(x: Tensor) -> tuple[int, int]:
    """Return the kind and number of the device that `to_dlpack` exports to."""
    require(x, "__dlpack_device__")
    pool = sharing.shared_pool(x)
    return sharing.HOST if pool is None else pool.dlpack_device


def cuda_array_interface(x: Tensor) -> dict[str, object]:
    """Return ``__cuda_array_interface__``. Raises `AttributeError` if the values are not on a CUDA device."""
    return sharing.cuda_array_interface(require(x, "__cuda_array_interface__"))


def call_ufunc(x: Tensor, ufunc: np.ufunc, method: str, *inputs: object, **options: Any) -> Any:  # noqa: ANN401
    """Return what a function of elements of NumPy gives; see `zyx.tensor.numpy_functions`."""
    return numpy_functions.call_ufunc(ufunc, method, inputs, options)


def call_function(
    x: Tensor, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:  # noqa: ANN401
    """Return what another function of NumPy gives; see `zyx.tensor.numpy_functions`."""
    return numpy_functions.call_function(func, types, args, kwargs)


# ---- text


def to_text(x: Tensor) -> str:
    """Return the values as text, with gaps if there are many; while a function is traced, only what is known."""
    node = require(x, "repr").node
    details = f"dtype={node.dtype}, device={node.device}"
    if x.runtime.tracing is not None or x.tracing is not None:
        return f"Tensor(<not computed: being traced>, shape={node.shape}, {details})"
    shown, large = _corners(x)
    values = numpy(shown)
    if node.dtype is dtypes.bfloat16:
        values = values.astype(np.float32)
    if not values.size:
        return f"Tensor([], shape={node.shape}, {details})"
    text = np.array2string(
        values, separator=", ", prefix="Tensor(", threshold=0 if large else values.size, edgeitems=_EDGE
    )
    shape = f"shape={node.shape}, " if large else ""
    return f"Tensor({text}, {shape}{details})"


def _corners(x: Tensor) -> tuple[Tensor, bool]:
    """Return of a large tensor what is printed of it, and one position between, in whose place dots are printed."""
    term = term_of(x, "repr")
    count = 1
    for size in term.shape:
        count *= size
    if count <= _PRINTED_WHOLE:
        return x, False
    for axis, size in enumerate(term.shape):
        if size > 2 * _EDGE + 1:
            term = join_terms([term.narrow(axis, 0, _EDGE + 1), term.narrow(axis, size - _EDGE, size)], axis)
    return wrap(term.node, x), True
