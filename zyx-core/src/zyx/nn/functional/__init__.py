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
from zyx.functions.joining import pad
from zyx.functions.linalg import cosine_similarity, normalize
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
from zyx.functions.selection import one_hot
from zyx.functions.transcendental import tanh
from zyx.nn.functional.attention import scaled_dot_product_attention
from zyx.nn.functional.bags import embedding_bag
from zyx.nn.functional.ctc import ctc_loss
from zyx.nn.functional.distances import pairwise_distance, pdist
from zyx.nn.functional.dropping import alpha_dropout, dropout1d, dropout2d, dropout3d, feature_alpha_dropout
from zyx.nn.functional.embedding import embedding
from zyx.nn.functional.folding import channel_shuffle, fold, pixel_shuffle, pixel_unshuffle, unfold
from zyx.nn.functional.heads import multi_head_attention_forward
from zyx.nn.functional.linear import bilinear, linear
from zyx.nn.functional.margins import (
    cosine_embedding_loss,
    gaussian_nll_loss,
    hinge_embedding_loss,
    linear_cross_entropy,
    margin_ranking_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    poisson_nll_loss,
    soft_margin_loss,
    triplet_margin_with_distance_loss,
)
from zyx.nn.functional.neighbours import local_response_norm
from zyx.nn.functional.normalization import batch_norm, group_norm, instance_norm, layer_norm, rms_norm
from zyx.nn.functional.resizing import (
    adaptive_avg_pool,
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    interpolate,
)
from zyx.nn.functional.rotary import rope, rope_tables
from zyx.nn.functional.sampling import affine_grid, grid_sample
from zyx.nn.functional.shrinking import glu, gumbel_softmax, hardshrink, rrelu, softshrink, tanhshrink, threshold
from zyx.nn.functional.unpooling import (
    adaptive_max_pool,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    fractional_max_pool2d,
    fractional_max_pool3d,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_unpool,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
)
from zyx.tensor.random import dropout

__all__ = [
    "adaptive_avg_pool", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool",
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "affine_grid", "alpha_dropout", "avg_pool",
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "batch_norm", "bilinear", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "celu", "channel_shuffle", "conv", "conv1d", "conv2d", "conv3d",
    "conv_transpose", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cosine_embedding_loss",
    "cosine_similarity", "cross_entropy", "ctc_loss", "dropout", "dropout1d", "dropout2d", "dropout3d", "elu",
    "embedding", "embedding_bag", "feature_alpha_dropout", "fold", "fractional_max_pool2d", "fractional_max_pool3d",
    "gaussian_nll_loss", "gelu", "glu", "grid_sample", "group_norm", "gumbel_softmax", "hardshrink", "hardsigmoid",
    "hardswish", "hardtanh", "hinge_embedding_loss", "huber_loss", "instance_norm", "interpolate", "kl_div", "l1_loss",
    "layer_norm", "leaky_relu", "linear", "linear_cross_entropy", "local_response_norm", "log_softmax", "logsigmoid",
    "lp_pool1d", "lp_pool2d", "lp_pool3d", "margin_ranking_loss", "max_pool", "max_pool1d", "max_pool2d", "max_pool3d",
    "max_pool_with_indices", "max_unpool", "max_unpool1d", "max_unpool2d", "max_unpool3d", "mish", "mse_loss",
    "multi_head_attention_forward", "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss",
    "nll_loss", "normalize", "one_hot", "pad", "pairwise_distance", "pdist", "pixel_shuffle", "pixel_unshuffle",
    "poisson_nll_loss", "prelu", "quick_gelu", "relu", "relu6", "rms_norm", "rope", "rope_tables", "rrelu",
    "scaled_dot_product_attention", "selu", "sigmoid", "silu", "smooth_l1_loss", "soft_margin_loss", "softmax",
    "softmin", "softplus", "softshrink", "softsign", "tanh", "tanhshrink", "threshold", "triplet_margin_loss",
    "triplet_margin_with_distance_loss", "unfold",
]  # fmt: skip

_take_habits(globals(), __all__)
