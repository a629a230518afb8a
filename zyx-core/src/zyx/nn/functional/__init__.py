"""Layers as functions: what they compute, with weights as arguments.

Names and meanings are PyTorch's, but for ``axis`` in place of ``dim``, and for causal attention between sequences of
different lengths; see `scaled_dot_product_attention`.
"""

from zyx.functions import take_habits as _take_habits
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
from zyx.functions.elementwise import tanh
from zyx.functions.joining import pad
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
from zyx.functions.reduction import cosine_similarity, normalize
from zyx.functions.selection import one_hot
from zyx.nn.functional.attention import scaled_dot_product_attention
from zyx.nn.functional.embedding import embedding
from zyx.nn.functional.linear import bilinear, linear
from zyx.nn.functional.normalization import batch_norm, group_norm, instance_norm, layer_norm, rms_norm
from zyx.nn.functional.resizing import (
    adaptive_avg_pool,
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    interpolate,
)
from zyx.nn.functional.rotary import rope, rope_tables
from zyx.tensor.random import dropout

__all__ = [
    "adaptive_avg_pool", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool",
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "batch_norm", "bilinear", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "celu", "conv", "conv1d", "conv2d", "conv3d", "conv_transpose",
    "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cosine_similarity", "cross_entropy", "dropout",
    "elu", "embedding", "gelu", "group_norm", "hardsigmoid", "hardswish", "hardtanh", "huber_loss", "instance_norm",
    "interpolate", "kl_div", "l1_loss", "layer_norm", "leaky_relu", "linear", "log_softmax", "logsigmoid",
    "max_pool", "max_pool1d", "max_pool2d", "max_pool3d", "max_pool_with_indices", "mish", "mse_loss", "nll_loss",
    "normalize", "one_hot", "pad", "prelu", "quick_gelu", "relu", "relu6", "rms_norm", "rope", "rope_tables",
    "scaled_dot_product_attention", "selu", "sigmoid", "silu", "smooth_l1_loss", "softmax", "softmin", "softplus",
    "softsign", "tanh", "triplet_margin_loss",
]  # fmt: skip

_take_habits(globals(), __all__)
