"""zyx: lazy, differentiable tensors that run on every device through plugins.

    import zyx

    x = zyx.randn(64, 784)
    w = zyx.Tensor(array)
    y = (x @ w).softmax(axis=-1)
    print(y.numpy())

Names are the Array API's first, then NumPy's, then PyTorch's; most functions are methods of tensors, too. Importing zyx
opens no device and loads no driver; `amp`, `compute`, `cuda`, `data`, `distributed`, `fft`, `linalg`, `nn`, `optim`,
`io`, `quantize`, `random`, `tree` and `utils` are imported when they are first used.
"""

from __future__ import annotations

import importlib
import math
import sys
from typing import TYPE_CHECKING, Final

from zyx import errors
from zyx import modes as _modes
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
from zyx.functions import activations as _activations
from zyx.functions import arithmetic as _arithmetic
from zyx.functions import choosing as _choosing
from zyx.functions import complex_numbers as _complex_numbers
from zyx.functions import cumulative as _cumulative
from zyx.functions import elementwise as _elementwise
from zyx.functions import info as _info
from zyx.functions import joining as _joining
from zyx.functions import linalg as _linalg
from zyx.functions import logic as _logic
from zyx.functions import movement as _movement
from zyx.functions import reduction as _reduction
from zyx.functions import selection as _selection
from zyx.functions import sorting as _sorting
from zyx.functions import transcendental as _transcendental
from zyx.functions.activations import *
from zyx.functions.arithmetic import *
from zyx.functions.choosing import *
from zyx.functions.complex_numbers import *
from zyx.functions.cumulative import *
from zyx.functions.elementwise import *
from zyx.functions.info import *
from zyx.functions.info import API_VERSIONS
from zyx.functions.info import array_namespace_info as __array_namespace_info__
from zyx.functions.joining import *
from zyx.functions.linalg import *
from zyx.functions.logic import *
from zyx.functions.movement import *
from zyx.functions.reduction import *
from zyx.functions.selection import *
from zyx.functions.sorting import *
from zyx.functions.transcendental import *
from zyx.jit import jit
from zyx.lazy_import import lazy_import as _lazy_import
from zyx.modes import *
from zyx.tensor import creation as _creation
from zyx.tensor import devices as _devices
from zyx.tensor.creation import *
from zyx.tensor.devices import *
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from zyx import amp as amp
    from zyx import compute as compute
    from zyx import cuda as cuda
    from zyx import data as data
    from zyx import distributed as distributed
    from zyx import fft as fft
    from zyx import io as io
    from zyx import linalg as linalg
    from zyx import nn as nn
    from zyx import optim as optim
    from zyx import quantize as quantize
    from zyx import random as random
    from zyx import tree as tree
    from zyx import utils as utils
    from zyx.autograd import Tape as Tape
    from zyx.autograd import grad as grad
    from zyx.autograd import value_and_grad as value_and_grad
    from zyx.autograd.custom import *
    from zyx.autograd.switches import *
    from zyx.distributed.sharding import *
    from zyx.fft import istft as istft
    from zyx.fft import stft as stft
    from zyx.functions.conv import *
    from zyx.functions.counting import *
    from zyx.functions.derivatives import *
    from zyx.functions.einsum import einsum as einsum
    from zyx.functions.losses import *
    from zyx.functions.mapping import vmap as vmap
    from zyx.functions.nan_reductions import *
    from zyx.functions.parts import *
    from zyx.functions.polynomials import *
    from zyx.functions.pooling import *
    from zyx.functions.rearranging import *
    from zyx.functions.sets import *
    from zyx.functions.signals import *
    from zyx.functions.special import *
    from zyx.functions.stacking import *
    from zyx.functions.statistics import *
    from zyx.functions.updates import *
    from zyx.io import load as load
    from zyx.io import save as save
    from zyx.jit.dims import Dim as Dim
    from zyx.linalg.fitting import *
    from zyx.tensor import habits as _habits
    from zyx.tensor.autocast import autocast as autocast
    from zyx.tensor.by_index import *
    from zyx.tensor.control import *
    from zyx.tensor.generator import Generator as Generator
    from zyx.tensor.generator import default_generator as default_generator
    from zyx.tensor.generator import manual_seed as manual_seed
    from zyx.tensor.random import *
    from zyx.tensor.ranges import *
    from zyx.tensor.weights import *
    from zyx.version import __version__ as __version__
else:
    _habits = _lazy_import("zyx.tensor.habits", globals())

_LAZY: Final = {
    "zyx.autograd": ("Tape", "grad", "value_and_grad"),
    "zyx.autograd.custom": ("checkpoint", "custom_gradient"),
    "zyx.autograd.switches": ("enable_grad", "inference_mode", "no_grad", "set_grad_enabled"),
    "zyx.distributed.sharding": ("shard", "unshard"),
    "zyx.fft": ("istft", "stft"),
    "zyx.functions.conv": (
        "conv", "conv1d", "conv2d", "conv3d", "conv_transpose", "conv_transpose1d", "conv_transpose2d",
        "conv_transpose3d",
    ),
    "zyx.functions.derivatives": ("hessian", "jacobian", "jvp", "vjp"),
    "zyx.functions.einsum": ("einsum",),
    "zyx.functions.mapping": ("vmap",),
    "zyx.functions.losses": (
        "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "huber_loss", "kl_div",
        "l1_loss", "mse_loss", "nll_loss", "smooth_l1_loss", "triplet_margin_loss",
    ),
    "zyx.functions.pooling": (
        "avg_pool", "avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool", "max_pool1d", "max_pool2d",
        "max_pool3d", "max_pool_with_indices",
    ),
    "zyx.functions.rearranging": (
        "append", "apply_along_axis", "array_split", "cartesian_prod", "combinations", "delete", "diag_embed",
        "diagflat", "dsplit", "fliplr", "flipud", "hsplit", "insert", "kron", "rot90", "take_along_dim",
        "tensor_split", "vsplit",
    ),
    "zyx.functions.stacking": (
        "atleast_1d", "atleast_2d", "atleast_3d", "block", "block_diag", "column_stack", "dstack", "hstack", "vstack",
    ),
    "zyx.functions.nan_reductions": (
        "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmedian", "nanmin",
        "nanpercentile", "nanprod", "nanquantile", "nanstd", "nansum", "nanvar", "percentile", "quantile",
    ),
    "zyx.functions.statistics": (
        "amax", "amin", "argpartition", "average", "corrcoef", "cov", "kthvalue", "lexsort", "mode", "msort",
        "partition", "ptp",
    ),
    "zyx.functions.counting": (
        "bincount", "bucketize", "digitize", "histc", "histogram", "histogram_bin_edges",
    ),
    "zyx.functions.sets": (
        "argwhere", "choose", "compress", "extract", "flatnonzero", "intersect1d", "ix_", "ravel_multi_index",
        "select", "setdiff1d", "setxor1d", "union1d", "unique", "unique_consecutive", "unravel_index",
    ),
    "zyx.functions.special": (
        "cbrt", "digamma", "erfc", "float_power", "lgamma", "logaddexp2", "logcumsumexp", "logit", "sinc", "xlogy",
    ),
    "zyx.functions.parts": (
        "bitwise_count", "divmod", "fix", "fmax", "fmin", "frexp", "gcd", "heaviside", "iscomplex", "isneginf",
        "isposinf", "isreal", "lcm", "ldexp", "modf", "rint", "rsub", "sgn",
    ),
    "zyx.functions.signals": (
        "convolve", "correlate", "cumulative_trapezoid", "ediff1d", "gradient", "inner", "interp", "matvec",
        "trapezoid", "unwrap", "vdot", "vecmat",
    ),
    "zyx.functions.polynomials": ("polyadd", "polyder", "polyint", "polymul", "polysub", "polyval", "vander"),
    "zyx.functions.updates": (
        "addbmm", "addcdiv", "addcmul", "addmm", "addmv", "addr", "baddbmm", "cdist", "diagonal_scatter",
        "dist", "index_add", "index_copy", "index_fill", "index_put", "index_reduce", "masked_scatter",
        "renorm", "select_scatter", "slice_scatter",
    ),
    "zyx.linalg.fitting": ("chain_matmul", "cholesky_inverse", "logdet", "poly", "polyfit", "roots"),
    "zyx.tensor.ranges": (
        "bartlett", "bartlett_window", "blackman", "blackman_window", "diag_indices", "fromfunction",
        "geomspace", "hamming", "hamming_window", "hann_window", "hanning", "identity", "indices", "kaiser",
        "kaiser_window", "logspace", "tril_indices", "tril_indices_from", "triu_indices", "triu_indices_from",
    ),
    "zyx.tensor.by_index": ("c_", "mgrid", "ogrid", "r_"),
    "zyx.io": ("load", "save"),
    "zyx.jit.dims": ("Dim",),
    "zyx.tensor.autocast": ("autocast",),
    "zyx.tensor.control": (
        "close", "debug", "empty_cache", "explain_plan", "memory_stats", "plot_dot_graph", "plot_dot_plan",
        "print_graph", "profile", "realize_all", "supports_dtype", "tune",
    ),
    "zyx.tensor.generator": ("Generator", "default_generator", "manual_seed"),
    "zyx.tensor.random": (
        "bernoulli", "dropout", "multinomial", "normal", "rand", "rand_like", "randint", "randn", "randn_like",
        "randperm", "uniform",
    ),
    "zyx.version": ("__version__",),
    "zyx.tensor.weights": ("glorot_uniform", "kaiming_normal", "kaiming_uniform"),
}  # fmt: skip
"""What is imported when it is first used: modules, and their names here, which their own `__all__` has as well."""
_HOMES: Final = {name: module for module, names in _LAZY.items() for name in names}
_MODULES: Final = (
    "amp", "compute", "cuda", "data", "distributed", "fft", "io", "linalg", "nn", "optim", "quantize", "random", "tree",
    "utils",
)  # fmt: skip

__all__ = [
    "DType", "Tensor", "__array_api_version__", "__array_namespace_info__", "bfloat16", "bool",
    "complex64", "complex128", "e", "errors", "float16", "float32", "float64", "inf", "int8", "int16", "int32",
    "int64", "jit", "nan", "newaxis", "pi", "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip
__all__ += _activations.__all__
__all__ += _arithmetic.__all__
__all__ += _choosing.__all__
__all__ += _complex_numbers.__all__
__all__ += _cumulative.__all__
__all__ += _elementwise.__all__
__all__ += _info.__all__
__all__ += _joining.__all__
__all__ += _linalg.__all__
__all__ += _logic.__all__
__all__ += _movement.__all__
__all__ += _reduction.__all__
__all__ += _selection.__all__
__all__ += _sorting.__all__
__all__ += _transcendental.__all__
__all__ += _modes.__all__
__all__ += _creation.__all__
__all__ += _devices.__all__
__all__ += [name for names in _LAZY.values() for name in names]

e: Final = math.e
inf: Final = math.inf
nan: Final = math.nan
newaxis: Final = None
pi: Final = math.pi

__array_api_version__: Final = API_VERSIONS[-1]


def __getattr__(name: str) -> object:
    """Import what is used for the first time."""
    if name in _HOMES:
        value: object = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"zyx.{name}")
    elif name.startswith("_"):
        raise AttributeError(f"module 'zyx' has no attribute {name!r}")
    else:
        value = importlib.import_module("zyx")
        for part in _habits.name_of(name, [*globals(), *_HOMES]).split("."):
            value = getattr(value, part)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})


if hasattr(sys.modules.get("einops._backends"), "AbstractBackend"):
    importlib.import_module("zyx.einops")  # it can only be told of tensors once it is imported
