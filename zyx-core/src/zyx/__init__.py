"""zyx: lazy, differentiable tensors that run on every device through plugins.

    import zyx

    x = zyx.randn(64, 784)
    w = zyx.Tensor(array)
    y = (x @ w).softmax(axis=-1)
    print(y.numpy())

Names are the Array API's first, then NumPy's, then PyTorch's; most functions are methods of tensors, too. Importing zyx
opens no device and loads no driver; `fft`, `linalg`, `nn`, `optim` and `io` are imported when they are first used.
"""

from __future__ import annotations

import importlib
import math
from typing import TYPE_CHECKING, Final

from zyx import errors
from zyx import settings as _settings  # noqa: F401  # the package, which must not take the place of the function later
from zyx.dtype import (
    DType,
    bfloat16,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from zyx.dtype import bool_ as bool
from zyx.functions.activations import (
    celu,
    elu,
    gelu,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    log_softmax,
    logsigmoid,
    mish,
    prelu,
    quick_gelu,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    softmax,
    softmin,
    softplus,
    softsign,
)
from zyx.functions.arithmetic import (
    add,
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    divide,
    equal,
    floor_divide,
    fmod,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    not_equal,
    pow,
    remainder,
    subtract,
)
from zyx.functions.choosing import allclose, array_equal, clip, isclose, lerp, masked_fill, nan_to_num, where
from zyx.functions.complex_numbers import (
    angle,
    complex,
    conj,
    imag,
    is_complex,
    real,
    view_as_complex,
    view_as_real,
)
from zyx.functions.cumulative import cummax, cummin, cumprod, cumsum, cumulative_prod, cumulative_sum, diff
from zyx.functions.elementwise import (
    abs,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    ceil,
    copysign,
    cos,
    cosh,
    deg2rad,
    erf,
    erfinv,
    exp,
    exp2,
    expm1,
    floor,
    frac,
    hypot,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    negative,
    nextafter,
    positive,
    rad2deg,
    reciprocal,
    round,
    rsqrt,
    sign,
    signbit,
    sin,
    sinh,
    sqrt,
    square,
    tan,
    tanh,
    trunc,
)
from zyx.functions.info import API_VERSIONS, astype, can_cast, finfo, iinfo, isdtype, result_type
from zyx.functions.info import array_namespace_info as __array_namespace_info__
from zyx.functions.joining import chunk, concat, meshgrid, pad, repeat, roll, split, stack, tile, unstack
from zyx.functions.linalg import cross, dot, matmul, matrix_power, outer, tensordot, trace, vecdot
from zyx.functions.movement import (
    broadcast_arrays,
    broadcast_shapes,
    broadcast_to,
    diag,
    diagonal,
    expand_dims,
    flatten,
    flip,
    matrix_transpose,
    moveaxis,
    narrow,
    permute_dims,
    ravel,
    reshape,
    squeeze,
    swapaxes,
    transpose,
    tril,
    triu,
    unflatten,
    unfold,
    windows,
)
from zyx.functions.reduction import (
    all,
    aminmax,
    any,
    argmax,
    argmin,
    cosine_similarity,
    count_nonzero,
    logsumexp,
    max,
    mean,
    min,
    norm,
    normalize,
    prod,
    std,
    std_mean,
    sum,
    var,
    var_mean,
)
from zyx.functions.selection import (
    gather,
    index_select,
    masked_select,
    nonzero,
    one_hot,
    put,
    put_along_axis,
    scatter,
    scatter_add,
    scatter_reduce,
    take,
    take_along_axis,
)
from zyx.functions.sorting import (
    argsort,
    isin,
    median,
    searchsorted,
    sort,
    topk,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
)
from zyx.jit import jit
from zyx.modes import implicit_casts, set_implicit_casts, set_training, training
from zyx.tensor.creation import (
    arange,
    asarray,
    empty,
    empty_like,
    eye,
    from_dlpack,
    from_numpy,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    tri,
    zeros,
    zeros_like,
)
from zyx.tensor.devices import (
    backends,
    default_device,
    device,
    device_info,
    devices,
    explain_device,
    realize,
    settings,
    synchronize,
)
from zyx.tensor.tensor import Tensor
from zyx.version import __version__

if TYPE_CHECKING:
    from zyx import fft as fft
    from zyx import io as io
    from zyx import linalg as linalg
    from zyx import nn as nn
    from zyx import optim as optim
    from zyx.autograd import Tape, grad, value_and_grad
    from zyx.fft import istft, stft
    from zyx.functions.conv import (
        conv,
        conv1d,
        conv2d,
        conv3d,
        conv_transpose,
        conv_transpose1d,
        conv_transpose2d,
        conv_transpose3d,
    )
    from zyx.functions.einsum import einsum
    from zyx.functions.losses import (
        binary_cross_entropy,
        binary_cross_entropy_with_logits,
        cross_entropy,
        huber_loss,
        kl_div,
        l1_loss,
        mse_loss,
        nll_loss,
        smooth_l1_loss,
        triplet_margin_loss,
    )
    from zyx.functions.pooling import (
        avg_pool,
        avg_pool1d,
        avg_pool2d,
        avg_pool3d,
        max_pool,
        max_pool1d,
        max_pool2d,
        max_pool3d,
        max_pool_with_indices,
    )
    from zyx.io import load, save
    from zyx.jit.dims import Dim
    from zyx.tensor.control import (
        debug,
        empty_cache,
        explain_plan,
        memory_stats,
        plot_dot_graph,
        plot_dot_plan,
        profile,
    )
    from zyx.tensor.generator import Generator, default_generator, manual_seed
    from zyx.tensor.random import (
        bernoulli,
        dropout,
        multinomial,
        normal,
        rand,
        rand_like,
        randint,
        randn,
        randn_like,
        randperm,
        uniform,
    )
    from zyx.tensor.weights import glorot_uniform, kaiming_normal, kaiming_uniform

__all__ = [
    "DType", "Dim", "Generator", "Tape", "Tensor", "__array_api_version__", "__array_namespace_info__", "__version__",
    "abs", "acos", "acosh", "add", "all", "allclose", "aminmax", "angle", "any", "arange", "argmax", "argmin",
    "argsort", "array_equal", "asarray", "asin", "asinh", "astype", "atan", "atan2", "atanh", "avg_pool", "avg_pool1d",
    "avg_pool2d", "avg_pool3d", "backends", "bernoulli", "bfloat16", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or",
    "bitwise_right_shift", "bitwise_xor", "bool", "broadcast_arrays", "broadcast_shapes", "broadcast_to", "can_cast",
    "ceil", "celu", "chunk", "clip", "complex", "complex64", "complex128", "concat", "conj", "conv", "conv1d", "conv2d",
    "conv3d", "conv_transpose", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "copysign", "cos", "cosh",
    "cosine_similarity", "count_nonzero", "cross", "cross_entropy", "cummax", "cummin", "cumprod", "cumsum",
    "cumulative_prod", "cumulative_sum", "debug", "default_device", "default_generator", "deg2rad", "device",
    "device_info", "devices", "diag", "diagonal", "diff", "divide", "dot", "dropout", "e", "einsum", "elu", "empty",
    "empty_cache", "empty_like", "equal", "erf", "erfinv", "errors", "exp", "exp2", "expand_dims", "explain_device",
    "explain_plan", "expm1", "eye", "finfo", "flatten", "flip", "float16", "float32", "float64", "floor",
    "floor_divide", "fmod", "frac", "from_dlpack", "from_numpy", "full", "full_like", "gather", "gelu",
    "glorot_uniform", "grad", "greater", "greater_equal", "hardsigmoid", "hardswish", "hardtanh", "huber_loss", "hypot",
    "iinfo", "imag", "implicit_casts", "index_select", "inf", "int8", "int16", "int32", "int64", "is_complex",
    "isclose", "isdtype", "isfinite", "isin", "isinf", "isnan", "istft", "jit", "kaiming_normal", "kaiming_uniform",
    "kl_div", "l1_loss", "leaky_relu", "lerp", "less", "less_equal", "linspace", "load", "log", "log1p", "log2",
    "log10", "log_softmax", "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor", "logsigmoid",
    "logsumexp", "manual_seed", "masked_fill", "masked_select", "matmul", "matrix_power", "matrix_transpose", "max",
    "max_pool", "max_pool1d", "max_pool2d", "max_pool3d", "max_pool_with_indices", "maximum", "mean", "median",
    "memory_stats", "meshgrid", "min", "minimum", "mish", "moveaxis", "mse_loss", "multinomial", "multiply", "nan",
    "nan_to_num", "narrow", "negative", "newaxis", "nextafter", "nll_loss", "nonzero", "norm", "normal", "normalize",
    "not_equal", "one_hot", "ones", "ones_like", "outer", "pad", "permute_dims", "pi", "plot_dot_graph",
    "plot_dot_plan", "positive", "pow", "prelu", "prod", "profile", "put", "put_along_axis", "quick_gelu", "rad2deg",
    "rand", "rand_like", "randint", "randn", "randn_like", "randperm", "ravel", "real", "realize", "reciprocal", "relu",
    "relu6", "remainder", "repeat", "reshape", "result_type", "roll", "round", "rsqrt", "save", "scatter",
    "scatter_add", "scatter_reduce", "searchsorted", "selu", "set_implicit_casts", "set_training", "settings",
    "sigmoid", "sign", "signbit", "silu", "sin", "sinh", "smooth_l1_loss", "softmax", "softmin", "softplus", "softsign",
    "sort", "split", "sqrt", "square", "squeeze", "stack", "std", "std_mean", "stft", "subtract", "sum", "swapaxes",
    "synchronize", "take", "take_along_axis", "tan", "tanh", "tensordot", "tile", "topk", "trace", "training",
    "transpose", "tri", "tril", "triplet_margin_loss", "triu", "trunc", "uint8", "uint16", "uint32", "uint64",
    "unflatten", "unfold", "uniform", "unique_all", "unique_counts", "unique_inverse", "unique_values", "unstack",
    "value_and_grad", "var", "var_mean", "vecdot", "view_as_complex", "view_as_real", "where", "windows", "zeros",
    "zeros_like",
]  # fmt: skip

e: Final = math.e
inf: Final = math.inf
nan: Final = math.nan
newaxis: Final = None
pi: Final = math.pi

__array_api_version__: Final = API_VERSIONS[-1]

_LAZY: Final = {
    "binary_cross_entropy": "zyx.functions.losses",
    "binary_cross_entropy_with_logits": "zyx.functions.losses",
    "cross_entropy": "zyx.functions.losses",
    "huber_loss": "zyx.functions.losses",
    "istft": "zyx.fft",
    "kl_div": "zyx.functions.losses",
    "l1_loss": "zyx.functions.losses",
    "mse_loss": "zyx.functions.losses",
    "nll_loss": "zyx.functions.losses",
    "smooth_l1_loss": "zyx.functions.losses",
    "stft": "zyx.fft",
    "triplet_margin_loss": "zyx.functions.losses",
    "avg_pool": "zyx.functions.pooling",
    "avg_pool1d": "zyx.functions.pooling",
    "avg_pool2d": "zyx.functions.pooling",
    "avg_pool3d": "zyx.functions.pooling",
    "max_pool": "zyx.functions.pooling",
    "max_pool1d": "zyx.functions.pooling",
    "max_pool2d": "zyx.functions.pooling",
    "max_pool3d": "zyx.functions.pooling",
    "max_pool_with_indices": "zyx.functions.pooling",
    "Dim": "zyx.jit.dims",
    "Tape": "zyx.autograd",
    "debug": "zyx.tensor.control",
    "conv": "zyx.functions.conv",
    "conv1d": "zyx.functions.conv",
    "conv2d": "zyx.functions.conv",
    "conv3d": "zyx.functions.conv",
    "conv_transpose": "zyx.functions.conv",
    "conv_transpose1d": "zyx.functions.conv",
    "conv_transpose2d": "zyx.functions.conv",
    "conv_transpose3d": "zyx.functions.conv",
    "bernoulli": "zyx.tensor.random",
    "dropout": "zyx.tensor.random",
    "multinomial": "zyx.tensor.random",
    "normal": "zyx.tensor.random",
    "rand": "zyx.tensor.random",
    "rand_like": "zyx.tensor.random",
    "randint": "zyx.tensor.random",
    "randn": "zyx.tensor.random",
    "randn_like": "zyx.tensor.random",
    "randperm": "zyx.tensor.random",
    "uniform": "zyx.tensor.random",
    "Generator": "zyx.tensor.generator",
    "default_generator": "zyx.tensor.generator",
    "manual_seed": "zyx.tensor.generator",
    "einsum": "zyx.functions.einsum",
    "empty_cache": "zyx.tensor.control",
    "explain_plan": "zyx.tensor.control",
    "glorot_uniform": "zyx.tensor.weights",
    "grad": "zyx.autograd",
    "kaiming_normal": "zyx.tensor.weights",
    "kaiming_uniform": "zyx.tensor.weights",
    "load": "zyx.io",
    "memory_stats": "zyx.tensor.control",
    "plot_dot_graph": "zyx.tensor.control",
    "plot_dot_plan": "zyx.tensor.control",
    "profile": "zyx.tensor.control",
    "save": "zyx.io",
    "value_and_grad": "zyx.autograd",
}
"""Names that are imported when they are first used, and where from."""
_MODULES: Final = ("fft", "io", "linalg", "nn", "optim")


def __getattr__(name: str) -> object:
    """Import what is used for the first time."""
    if name in _LAZY:
        value: object = getattr(importlib.import_module(_LAZY[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"zyx.{name}")
    else:
        raise AttributeError(f"module 'zyx' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_MODULES})
