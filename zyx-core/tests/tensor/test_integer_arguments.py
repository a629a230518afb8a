"""Every integer argument of every public function: given a Python int, others that are one, and what is none."""

from __future__ import annotations

import faulthandler
import inspect
import re

import numpy as np
import pytest

import zyx
from zyx import nn, optim
from zyx.errors import IntegerError
from zyx.nn import functional

zyx.Tensor(0.0).float()  # what tensors have by habit comes with its first use
_CUBE = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
_SQUARE = np.arange(9.0, dtype=np.float32).reshape(3, 3)
_LINE = np.arange(5.0, dtype=np.float32)
_LABELS = np.array([0, 2, 1])


def _x(array):
    return zyx.Tensor(array)


def _images(channels=2, count=2):
    shape = (1, channels, *[6] * count)
    return _x(np.arange(np.prod(shape), dtype=np.float32).reshape(shape))


def _filters(count=2, channels=2):
    return _x(np.ones((2, channels, *[2] * count), np.float32))


def _signal():
    return _x(np.arange(32, dtype=np.float32))


def _spectrum():
    return zyx.stft(_signal(), 8, 2, return_complex=True)


def _reducing(name, **more):
    return name, lambda: {"x": _x(_CUBE), "axis": 1, **more}


def _conv(name, count, **more):
    return name, lambda: {
        "x": _images(2, count), "weight": _filters(count), "stride": 2, "padding": 1, "dilation": 2, "groups": 1, **more
    }  # fmt: skip


def _pool(name, count, **more):
    return name, lambda: {"x": _images(2, count), "kernel_size": 2, "stride": 2, "padding": 1, **more}


def _layer(name, x=None, **arguments):
    return name, lambda: {**arguments, "": x}


def _convolution(name, count, **more):
    sizes = {"kernel_size": 2, "stride": 2, "padding": 1, "dilation": 2, "groups": 1}
    return _layer(name, lambda: _images(2, count), in_channels=2, out_channels=2, **sizes, **more)


def _sequence():
    return _x(_CUBE)


#: By name, the arguments of a call by theirs; `*` is what is given by position, and "" makes the input of a layer.
TABLE = dict(
    [
        *(_reducing(f"zyx.{name}") for name in (
            "aminmax", "argmax", "argmin", "all", "any", "argsort", "count_nonzero", "cummax", "cummin", "cumprod",
            "cumsum", "cumulative_prod", "cumulative_sum", "flip", "log_softmax", "logsumexp", "max", "mean", "median",
            "min", "norm", "normalize", "prod", "softmax", "softmin", "sort", "std", "std_mean", "sum", "unstack",
            "var", "var_mean",
        )),
        *(_reducing(f"zyx.{name}") for name in (
            "logcumsumexp", "mode", "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax",
            "nanmean", "nanmedian", "nanmin", "nanprod", "nanstd", "nansum", "nanvar", "amax", "amin", "average",
            "ptp", "unwrap",
            "unique", "unique_consecutive",
        )),
        *((f"zyx.{name}", lambda: {"x": _x(_CUBE), "q": 0.5, "axis": 1})
          for name in ("quantile", "percentile", "nanquantile", "nanpercentile")),
        *((f"zyx.{name}", lambda: {"y": _x(_CUBE), "axis": 1}) for name in ("trapezoid", "cumulative_trapezoid")),
        *((f"zyx.{name}", lambda: {"x": _x(_CUBE), "kth": 1, "axis": 2}) for name in ("partition", "argpartition")),
        *((f"zyx.{name}", lambda: {"x": _x(_CUBE), "parts": 2, "axis": 2}) for name in ("array_split", "tensor_split")),
        *((f"zyx.{name}", lambda: {"x": _x(_CUBE[:, :2]), "parts": 2}) for name in ("hsplit", "vsplit", "dsplit")),
        ("zyx.append", lambda: {"x": _x(_CUBE), "values": _x(_CUBE), "axis": 1}),
        ("zyx.apply_along_axis", lambda: {"function": lambda line: line * 2, "axis": 1, "x": _x(_CUBE)}),
        ("zyx.bincount", lambda: {"x": _x(_LABELS), "minlength": 5}),
        ("zyx.combinations", lambda: {"x": _x(_LINE), "r": 3}),
        ("zyx.compress", lambda: {"condition": [True, False, True], "x": _x(_CUBE), "axis": 1}),
        ("zyx.delete", lambda: {"x": _x(_CUBE), "places": 1, "axis": 1}),
        ("zyx.insert", lambda: {"x": _x(_CUBE), "places": 1, "values": 9.0, "axis": 1}),
        ("zyx.diag_embed", lambda: {"x": _x(_CUBE), "offset": 1, "axis1": 0, "axis2": 2}),
        ("zyx.diagflat", lambda: {"x": _x(_LINE), "offset": 1}),
        ("zyx.diagonal_scatter",
         lambda: {"x": _x(_SQUARE), "source": _x(_LINE[:2]), "offset": 1, "axis1": 0, "axis2": 1}),
        ("zyx.gradient", lambda: {"x": _x(_CUBE), "axis": 1, "edge_order": 1}),
        *((f"zyx.{name}", lambda: {"x": _x(_LINE), "bins": 3})
          for name in ("histc", "histogram", "histogram_bin_edges")),
        *((f"zyx.{name}", lambda: {"x": _x(_SQUARE), "axis": 1, "index": _x(_LABELS), "source": _x(_SQUARE)})
          for name in ("index_add", "index_copy")),
        ("zyx.index_fill", lambda: {"x": _x(_SQUARE), "axis": 1, "index": _x(_LABELS[:2]), "value": 9.0}),
        ("zyx.index_reduce",
         lambda: {"x": _x(_SQUARE), "axis": 1, "index": _x(_LABELS), "source": _x(_SQUARE), "reduce": "amax"}),
        ("zyx.kthvalue", lambda: {"x": _x(_CUBE), "k": 2, "axis": 1}),
        ("zyx.lexsort", lambda: {"keys": [_x(_CUBE), _x(_CUBE)], "axis": 1}),
        ("zyx.polyder", lambda: {"p": _x(_LINE), "m": 2}),
        ("zyx.polyint", lambda: {"p": _x(_LINE), "m": 2}),
        ("zyx.polyfit", lambda: {"x": _x(_LINE), "y": _x(_LINE), "deg": 2}),
        ("zyx.ravel_multi_index", lambda: {"multi_index": [_x(_LABELS), _x(_LABELS)], "shape": (3, 3)}),
        ("zyx.unravel_index", lambda: {"indices": _x(_LABELS), "shape": (3, 3)}),
        ("zyx.renorm", lambda: {"x": _x(_CUBE), "p": 2.0, "axis": 1, "maxnorm": 1.0}),
        ("zyx.rot90", lambda: {"x": _x(_CUBE), "k": 1, "axes": (1, 2)}),
        ("zyx.select_scatter", lambda: {"x": _x(_SQUARE), "source": _x(_LINE[:3]), "axis": 1, "index": 2}),
        ("zyx.slice_scatter",
         lambda: {"x": _x(_SQUARE), "source": _x(_SQUARE[:, :1]), "axis": 1, "start": 1, "end": 3, "step": 2}),
        ("zyx.take_along_dim", lambda: {"x": _x(_SQUARE), "axis": 1, "indices": _x(_LABELS[:, None])}),
        ("zyx.vander", lambda: {"x": _x(_LINE), "n": 3}),
        *((f"zyx.{name}", lambda: {"n": 5}) for name in (
            "bartlett", "bartlett_window", "blackman", "blackman_window", "hamming", "hamming_window", "hann_window",
            "hanning", "identity", "kaiser_window",
        )),
        ("zyx.kaiser", lambda: {"n": 5, "beta": 2.0}),
        ("zyx.diag_indices", lambda: {"n": 3, "ndim": 2}),
        ("zyx.fromfunction", lambda: {"function": lambda i, j: i + j, "shape": (2, 3)}),
        ("zyx.indices", lambda: {"dimensions": (2, 3)}),
        ("zyx.geomspace", lambda: {"start": 1.0, "stop": 8.0, "num": 4}),
        ("zyx.logspace", lambda: {"start": 1.0, "stop": 2.0, "num": 4}),
        *((f"zyx.{name}", lambda: {"n": 3, "k": 1, "m": 4}) for name in ("tril_indices", "triu_indices")),
        *((f"zyx.{name}", lambda: {"x": _x(_SQUARE), "k": 1}) for name in ("tril_indices_from", "triu_indices_from")),
        ("zyx.chunk", lambda: {"x": _x(_CUBE), "count": 2, "axis": 1}),
        ("zyx.broadcast_to", lambda: {"x": _x(_LINE), "shape": (2, 5)}),
        ("zyx.concat", lambda: {"tensors": [_x(_CUBE), _x(_CUBE)], "axis": 1}),
        ("zyx.stack", lambda: {"tensors": [_x(_CUBE), _x(_CUBE)], "axis": 1}),
        ("zyx.cosine_similarity", lambda: {"x": _x(_CUBE), "y": _x(_CUBE), "axis": 1}),
        ("zyx.vecdot", lambda: {"x": _x(_CUBE), "y": _x(_CUBE), "axis": 1}),
        ("zyx.cross", lambda: {"x": _x(_CUBE), "y": _x(_CUBE), "axis": 1}),
        ("zyx.cross_entropy", lambda: {"x": _x(_SQUARE), "target": _x(_LABELS), "ignore_index": 1}),
        ("zyx.nll_loss", lambda: {"x": _x(_SQUARE), "target": _x(_LABELS), "ignore_index": 1}),
        ("zyx.stft", lambda: {"input": _signal(), "n_fft": 8, "hop_length": 2, "win_length": 8}),
        ("zyx.istft", lambda: {"input": _spectrum(), "n_fft": 8, "hop_length": 2, "win_length": 8, "length": 30}),
        ("zyx.diag", lambda: {"x": _x(_LINE), "offset": 1}),
        ("zyx.diagonal", lambda: {"x": _x(_CUBE), "offset": 1, "axis1": 0, "axis2": 2}),
        ("zyx.diff", lambda: {"x": _x(_CUBE), "axis": 1, "n": 1}),
        ("zyx.expand_dims", lambda: {"x": _x(_LINE), "axis": 1}),
        ("Tensor.unsqueeze", lambda: {"*": (_x(_LINE),), "axis": 1}),
        ("zyx.eye", lambda: {"n_rows": 3, "n_cols": 4, "k": 1}),
        ("zyx.tri", lambda: {"n_rows": 3, "n_cols": 4, "k": 1}),
        ("zyx.flatten", lambda: {"x": _x(_CUBE), "start_axis": 1, "end_axis": 2}),
        ("zyx.full", lambda: {"shape": 3, "fill_value": 2.0}),
        *((f"zyx.{name}", lambda: {"shape": 3}) for name in ("empty", "ones", "zeros")),
        ("zyx.gather", lambda: {"x": _x(_LINE), "axis": 0, "index": _x(_LABELS)}),
        ("zyx.index_select", lambda: {"x": _x(_SQUARE), "axis": 1, "index": _x(_LABELS)}),
        ("zyx.take", lambda: {"x": _x(_SQUARE), "axis": 1, "indices": _x(_LABELS)}),
        ("zyx.take_along_axis", lambda: {"x": _x(_SQUARE), "axis": 1, "indices": _x(_LABELS[:, None])}),
        ("zyx.put_along_axis", lambda: {"x": _x(_SQUARE), "axis": 1, "indices": _x(_LABELS[:, None]), "values": 7.0}),
        *((f"zyx.{name}", lambda: {"x": _x(_LINE), "axis": 0, "index": _x(_LABELS), "source": _x(_LINE)})
          for name in ("scatter", "scatter_add")),
        ("zyx.scatter_reduce",
         lambda: {"x": _x(_LINE), "axis": 0, "index": _x(_LABELS), "source": _x(_LINE), "reduce": "mean"}),
        *((f"zyx.{name}", lambda: {"*": (3, 2)}) for name in ("rand", "randn", "normal", "uniform")),
        *((f"zyx.{name}", lambda: {"*": (3, 2)}) for name in ("glorot_uniform", "kaiming_normal", "kaiming_uniform")),
        ("zyx.randint", lambda: {"low": 1, "high": 5, "shape": 3}),
        ("zyx.randperm", lambda: {"n": 4}),
        ("zyx.multinomial", lambda: {"x": _x(_LINE), "num_samples": 2}),
        ("zyx.manual_seed", lambda: {"seed": 3}),
        ("zyx.Generator", lambda: {"seed": 3}),
        ("zyx.linspace", lambda: {"start": 0.0, "stop": 1.0, "num": 3}),
        ("zyx.matrix_power", lambda: {"x": _x(_SQUARE), "n": 2}),
        ("zyx.moveaxis", lambda: {"x": _x(_CUBE), "source": 0, "destination": 2}),
        ("zyx.narrow", lambda: {"x": _x(_LINE), "axis": 0, "start": 1, "length": 2}),
        ("zyx.one_hot", lambda: {"x": _x(_LABELS), "num_classes": 4, "axis": 1}),
        ("zyx.pad", lambda: {"x": _x(_SQUARE), "widths": 1}),
        ("zyx.permute_dims", lambda: {"x": _x(_SQUARE), "axes": (1, 0)}),
        ("Tensor.permute", lambda: {"*": (_x(_SQUARE), 1, 0)}),
        ("zyx.transpose", lambda: {"*": (_x(_SQUARE), 1, 0)}),
        ("zyx.repeat", lambda: {"x": _x(_LINE), "repeats": 2, "axis": 0}),
        ("zyx.reshape", lambda: {"x": _x(_CUBE), "shape": (6, 4)}),
        (
            "zyx.unshard",
            lambda: {"x": _x(_LINE), "mesh": zyx.distributed.Mesh({"data": -1}), "axes": ("data",), "shape": (5,)},
        ),
        ("Tensor.view", lambda: {"*": (_x(_CUBE), 6, 4)}),
        ("Tensor.expand", lambda: {"*": (_x(_LINE), 2, 5)}),
        ("Tensor.shrink", lambda: {"*": (_x(_LINE),), "bounds": ((1, 3),)}),
        ("zyx.roll", lambda: {"x": _x(_CUBE), "shift": 1, "axis": 1}),
        ("zyx.round", lambda: {"x": _x(_LINE), "decimals": 1}),
        ("zyx.split", lambda: {"x": _x(_CUBE), "sizes": 2, "axis": 2}),
        ("zyx.squeeze", lambda: {"x": _x(_CUBE[:, :1]), "axis": 1}),
        ("zyx.swapaxes", lambda: {"x": _x(_CUBE), "axis0": 0, "axis1": 2}),
        ("zyx.tensordot", lambda: {"x": _x(_SQUARE), "y": _x(_SQUARE), "axes": 1}),
        ("zyx.tile", lambda: {"*": (_x(_LINE), 2)}),
        ("zyx.topk", lambda: {"x": _x(_CUBE), "k": 2, "axis": 1}),
        ("zyx.trace", lambda: {"x": _x(_SQUARE), "offset": 1}),
        ("zyx.tril", lambda: {"x": _x(_SQUARE), "k": 1}),
        ("zyx.triu", lambda: {"x": _x(_SQUARE), "k": 1}),
        ("zyx.unflatten", lambda: {"x": _x(_CUBE), "axis": 2, "sizes": (2, 2)}),
        ("zyx.unfold", lambda: {"x": _x(_CUBE), "axis": 2, "size": 2, "step": 1}),
        ("zyx.windows", lambda: {"x": _x(_CUBE), "size": (2,), "stride": 2, "dilation": 1}),
        *((f"zyx.{name}", lambda: {"f": lambda x: (x * x).sum(), "argnums": 0}) for name in (
            "grad", "hessian", "jacobian", "value_and_grad",
        )),
        ("zyx.vmap", lambda: {"f": lambda x: x * 2, "in_axes": 0, "out_axes": 0, "axis_size": 2, "chunk_size": 1}),
        ("Tensor.select", lambda: {"x": _x(_CUBE), "axis": 1, "index": 1}),
        *(_conv(name, count) for name, count in
          (("zyx.conv", 2), ("zyx.conv1d", 1), ("zyx.conv2d", 2), ("zyx.conv3d", 3))),
        *(_conv(name, count, output_padding=1) for name, count in
          (("zyx.conv_transpose", 2), ("zyx.conv_transpose1d", 1), ("zyx.conv_transpose2d", 2),
           ("zyx.conv_transpose3d", 3))),
        *(_pool(f"zyx.avg_pool{n or ''}{'d' if n else ''}", n or 2, divisor_override=3) for n in (0, 1, 2, 3)),
        *(_pool(f"zyx.max_pool{n or ''}{'d' if n else ''}", n or 2, dilation=1) for n in (0, 1, 2, 3)),
        _pool("zyx.max_pool_with_indices", 2, dilation=1),
        ("F.adaptive_avg_pool", lambda: {"x": _images(), "output_size": (2, 3)}),
        *((f"F.adaptive_avg_pool{n}d", lambda n=n: {"x": _images(2, n), "output_size": 2}) for n in (1, 2, 3)),
        ("F.embedding", lambda: {"indices": _x(_LABELS), "weight": _x(_SQUARE), "padding_idx": 1}),
        ("F.group_norm", lambda: {"x": _images(), "num_groups": 2}),
        ("F.interpolate", lambda: {"x": _images(), "size": 3}),
        ("F.layer_norm", lambda: {"x": _x(_CUBE), "normalized_shape": 4}),
        ("F.rms_norm", lambda: {"x": _x(_CUBE), "normalized_shape": 4}),
        ("F.rope_tables", lambda: {"length": 3, "width": 4}),
        *(_layer(f"nn.AdaptiveAvgPool{n}d", lambda n=n: _images(2, n), output_size=2) for n in (1, 2, 3)),
        *(_layer(f"nn.AvgPool{n}d", lambda n=n: _images(2, n), kernel_size=2, stride=2, padding=1) for n in (1, 2, 3)),
        *(_layer(f"nn.MaxPool{n}d", lambda n=n: _images(2, n), kernel_size=2, stride=2, padding=1, dilation=1)
          for n in (1, 2, 3)),
        *(_layer(f"nn.BatchNorm{n or ''}{'d' if n else ''}", lambda n=n: _images(2, n or 2), num_features=2)
          for n in (0, 1, 2, 3)),
        *(_convolution(f"nn.Conv{n}d", n) for n in (1, 2, 3)),
        *(_convolution(f"nn.ConvTranspose{n}d", n, output_padding=1) for n in (1, 2, 3)),
        _layer("nn.Bilinear", in1_features=2, in2_features=3, out_features=4),
        _layer("nn.CrossEntropyLoss", lambda: (_x(_SQUARE), _x(_LABELS)), ignore_index=1),
        _layer("nn.NLLLoss", lambda: (_x(_SQUARE), _x(_LABELS)), ignore_index=1),
        _layer("nn.Embedding", lambda: _x(_LABELS), num_embeddings=3, embedding_dim=2, padding_idx=1),
        _layer("nn.Flatten", _sequence, start_dim=1, end_dim=2),
        *(_layer(f"nn.{name}", _sequence, input_size=4, hidden_size=3, num_layers=2)
          for name in ("GRU", "LSTM", "RNN")),
        *(_layer(f"nn.{name}Cell", input_size=4, hidden_size=3) for name in ("GRU", "LSTM", "RNN")),
        _layer("nn.GroupNorm", _images, num_groups=1, num_channels=2),
        _layer("nn.InstanceNorm", _images, num_features=2),
        _layer("nn.LayerNorm", _sequence, normalized_shape=4),
        _layer("nn.RMSNorm", _sequence, normalized_shape=4),
        _layer("nn.Linear", _sequence, in_features=4, out_features=3),
        *(_layer(f"nn.{name}", _sequence, axis=1) for name in ("Softmax", "Softmin", "LogSoftmax")),
        _layer("nn.MultiheadAttention", embed_dim=4, num_heads=2, kdim=3, vdim=3),
        _layer("nn.PReLU", _images, num_parameters=2),
        _layer("nn.PositionalEncoding", _sequence, max_len=5, dim=4),
        _layer("nn.TransformerEncoder", encoder_layer=nn.Identity(), num_layers=2),
        _layer("nn.TransformerDecoder", decoder_layer=nn.Identity(), num_layers=2),
        _layer("nn.TransformerEncoderLayer", d_model=4, nhead=2, dim_feedforward=3),
        _layer("nn.TransformerDecoderLayer", d_model=4, nhead=2, dim_feedforward=3),
        _layer("nn.Unflatten", _sequence, dim=2, sizes=(2, 2)),
        _layer("nn.Upsample", _images, size=3),
        ("optim.CosineAnnealingLR", lambda: {"lr": 0.1, "T_max": 3}),
        ("optim.OneCycleLR", lambda: {"max_lr": 0.1, "total_steps": 6, "epochs": 3, "steps_per_epoch": 2}),
        ("optim.LinearWarmup", lambda: {"then": 0.1, "warmup_steps": 3}),
        ("optim.MultiStepLR", lambda: {"lr": 0.1, "milestones": (1, 3)}),
        ("optim.StepLR", lambda: {"lr": 0.1, "step_size": 3}),
    ]
)  # fmt: skip


def _ctc():
    logits = zyx.log_softmax(_x(np.arange(40, dtype=np.float32).reshape(4, 2, 5) % 7), -1)
    return {"log_probs": logits, "targets": _x(np.array([[1, 2], [3, 1]]))}


def _columns():
    return _x(np.arange(2 * 8 * 9, dtype=np.float32).reshape(2, 8, 9))


def _unpooled(count):
    return {"x": _x(np.ones((1, 1, *[2] * count), np.float32)), "indices": _x(np.zeros((1, 1, *[2] * count), np.int64))}


def _samples(count):
    return _x(np.full((1, 2, count), 0.5, np.float32))


def _heads():
    x = _x(np.ones((3, 1, 4), np.float32))
    weights = {"in_proj_weight": _x(np.ones((12, 4), np.float32)), "out_proj_weight": _x(np.eye(4, dtype=np.float32))}
    rest = dict.fromkeys(("in_proj_bias", "bias_k", "bias_v", "out_proj_bias"))
    return {"query": x, "key": x, "value": x, "add_zero_attn": False, "dropout_p": 0.0, **weights, **rest}


#: Those that PyTorch's other layers, losses and schedules are made of.
TABLE |= dict(
    [
        ("F.adaptive_max_pool", lambda: {"x": _images(), "output_size": (2, 3), "count": 2}),
        *((f"F.adaptive_max_pool{n}d", lambda n=n: {"x": _images(2, n), "output_size": 2}) for n in (1, 2, 3)),
        ("F.affine_grid", lambda: {"theta": _x(np.ones((2, 2, 3), np.float32)), "size": (2, 1, 3, 4)}),
        ("F.channel_shuffle", lambda: {"x": _images(), "groups": 2}),
        ("F.ctc_loss", lambda: {**_ctc(), "input_lengths": (4, 3), "target_lengths": (2, 1), "blank": 0}),
        ("F.embedding_bag", lambda: {"indices": _x(_LABELS[None]), "weight": _x(_SQUARE), "padding_idx": 1}),
        ("F.fold", lambda: {
            "x": _columns(), "output_size": 4, "kernel_size": 2, "dilation": 1, "padding": 0, "stride": 1,
        }),
        *((f"F.fractional_max_pool{n}d",
           lambda n=n: {"x": _images(2, n), "kernel_size": 2, "output_size": 3, "_random_samples": _samples(n)})
          for n in (2, 3)),
        ("F.glu", lambda: {"x": _x(_CUBE), "axis": 2}),
        ("F.gumbel_softmax", lambda: {"x": _x(_CUBE), "axis": 1}),
        ("F.linear_cross_entropy", lambda: {
            "x": _x(_SQUARE), "linear_weight": _x(_SQUARE), "target": _x(_LABELS), "ignore_index": 1,
        }),
        ("F.local_response_norm", lambda: {"x": _images(), "size": 2}),
        *((f"F.lp_pool{n}d", lambda n=n: {"x": _images(2, n), "norm_type": 2.0, "kernel_size": 2, "stride": 2})
          for n in (1, 2, 3)),
        ("F.max_unpool", lambda: {
            **_unpooled(2), "kernel_size": 2, "stride": 2, "padding": 0, "output_size": (4, 5), "count": 2,
        }),
        *((f"F.max_unpool{n}d",
           lambda n=n: {**_unpooled(n), "kernel_size": 2, "stride": 2, "padding": 0, "output_size": (5, 4, 4)[:n]})
          for n in (1, 2, 3)),
        ("F.multi_head_attention_forward", lambda: {**_heads(), "embed_dim_to_check": 4, "num_heads": 2}),
        ("F.multi_margin_loss", lambda: {"x": _x(_SQUARE), "target": _x(_LABELS), "p": 2}),
        ("F.pixel_shuffle", lambda: {"x": _images(4), "upscale_factor": 2}),
        ("F.pixel_unshuffle", lambda: {"x": _images(), "downscale_factor": 2}),
        ("F.unfold", lambda: {"x": _images(), "kernel_size": 2, "dilation": 1, "padding": 1, "stride": 2}),
        _layer("nn.GLU", _sequence, axis=2),
        _layer("nn.AdaptiveLogSoftmaxWithLoss", in_features=4, n_classes=5, cutoffs=(2, 3)),
        *(_layer(f"nn.AdaptiveMaxPool{n}d", lambda n=n: _images(2, n), output_size=2) for n in (1, 2, 3)),
        _layer("nn.CTCLoss", lambda: (*_ctc().values(), (4, 3), (2, 1)), blank=0),
        _layer("nn.ChannelShuffle", _images, groups=2),
        *(_layer(f"nn.{kind}Pad{n}d", lambda n=n: _images(2, n), padding=1, **more)
          for kind, more in (
              ("Circular", {}), ("Constant", {"value": 2.0}), ("Reflection", {}), ("Replication", {}), ("Zero", {}),
          ) for n in (1, 2, 3)),
        _layer("nn.CosineSimilarity", lambda: (_x(_SQUARE), _x(_SQUARE)), axis=1),
        _layer("nn.EmbeddingBag", lambda: _x(_LABELS[None]), num_embeddings=3, embedding_dim=2, padding_idx=1),
        _layer("nn.Fold", _columns, output_size=4, kernel_size=2, dilation=1, padding=0, stride=1),
        *((f"nn.FractionalMaxPool{n}d", lambda n=n: {
            "kernel_size": 2, "output_size": 3, "_random_samples": _samples(n), "": lambda: _images(2, n),
        }) for n in (2, 3)),
        *(_layer(f"nn.InstanceNorm{n}d", lambda n=n: _images(2, n), num_features=2) for n in (1, 2, 3)),
        *(_layer(f"nn.LPPool{n}d", lambda n=n: _images(2, n), norm_type=2.0, kernel_size=2, stride=2)
          for n in (1, 2, 3)),
        _layer("nn.LinearCrossEntropyLoss", in_features=4, num_classes=3, out_features=(2,), ignore_index=1),
        _layer("nn.LocalResponseNorm", _images, size=2),
        *(_layer(f"nn.MaxUnpool{n}d", lambda n=n: tuple(_unpooled(n).values()), kernel_size=2, stride=2, padding=0)
          for n in (1, 2, 3)),
        _layer("nn.MultiMarginLoss", lambda: (_x(_SQUARE), _x(_LABELS)), p=2),
        _layer("nn.PixelShuffle", lambda: _images(4), upscale_factor=2),
        _layer("nn.PixelUnshuffle", _images, downscale_factor=2),
        _layer("nn.Transformer", d_model=4, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=3),
        _layer("nn.Unfold", _images, kernel_size=2, dilation=1, padding=1, stride=2),
        *(_layer(f"nn.Upsampling{kind}2d", _images, size=3) for kind in ("Bilinear", "Nearest")),
        *((f"optim.{name}LR", lambda: {"lr": 0.1, "total_iters": 3}) for name in ("Constant", "Linear", "Polynomial")),
        ("optim.CosineAnnealingWarmRestarts", lambda: {"lr": 0.1, "T_0": 2, "T_mult": 2}),
        ("optim.CyclicLR", lambda: {"base_lr": 0.1, "max_lr": 0.2, "step_size_up": 2, "step_size_down": 3}),
        ("optim.MultiplicativeLR", lambda: {"lr": 0.1, "lr_lambda": float, "total_steps": 3}),
        ("optim.SequentialLR", lambda: {
            "schedulers": (optim.StepLR(0.1, 3), optim.StepLR(0.2, 3)), "milestones": (2,),
        }),
    ]
)  # fmt: skip
#: What makes types, says a choice of bits, or is tried with a file elsewhere; or takes a parameter or an optimiser.
OTHERS = {
    "optim.LBFGS",
    "optim.Muon",
    "optim.ReduceLROnPlateau",
    "zyx.DType",
    "zyx.Dim",
    "zyx.broadcast_shapes",
    "zyx.debug",
    "Tensor.cuda",
    "Tensor.from_callback",
    "Tensor.from_file",
}
_PLACES = {"zyx": zyx, "F": functional, "nn": nn, "Tensor": zyx.Tensor, "optim": optim}
_INTEGER = re.compile(r"\bint\b|AxisLike|Sizes|Padding")


@pytest.fixture(autouse=True)
def end_if_it_hangs():
    faulthandler.dump_traceback_later(300, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def _function(name):
    place, _, rest = name.partition(".")
    return getattr(_PLACES[place], rest)


def _call(name, arguments):
    given = dict(arguments)
    made = given.pop("", None)
    zyx.manual_seed(1)
    result = _function(name)(*given.pop("*", ()), **given)
    if isinstance(result, nn.Module):
        shapes = {key: value.shape for key, value in result.state_dict().items()}
        inputs = () if made is None else made()
        return shapes, _values(result(*(inputs if isinstance(inputs, tuple) else (inputs,)))) if made else None
    if isinstance(result, zyx.Generator):
        return _values(zyx.rand(3, generator=result))
    if isinstance(result, optim.Schedule):
        return _values(result(zyx.Tensor(2)))
    if callable(result) and not isinstance(result, zyx.Tensor):
        return _values(result(zyx.Tensor([1.0, 2.0])))
    return _values(result)


def _values(result):
    return [_values(part) for part in result] if isinstance(result, tuple | list) else result.numpy().tolist()


def _numbers(arguments):
    """Return the places of integers among arguments: the name, and where in it."""
    found = []
    for name, value in arguments.items():
        if type(value) is int:
            found.append((name, ()))
        elif isinstance(value, tuple):
            for i, part in enumerate(value):
                if type(part) is int:
                    found.append((name, (i,)))
                elif isinstance(part, tuple):
                    found += [(name, (i, j)) for j, inner in enumerate(part) if type(inner) is int]
    return found


def _changed(value, path, change):
    if not path:
        return change(value)
    return tuple(_changed(part, path[1:], change) if i == path[0] else part for i, part in enumerate(value))


def _with(arguments, place, change):
    name, path = place
    return {**arguments, name: _changed(arguments[name], path, change)}


@pytest.mark.parametrize("name", TABLE)
def test_what_is_an_integer_is_taken_as_one(name):
    arguments = TABLE[name]()
    expected = _call(name, arguments)
    numbers = _numbers(arguments)
    assert numbers
    for change in (np.int64, np.int8, zyx.Tensor, lambda n: np.array(n, np.int32)):
        changed = arguments
        for place in numbers:
            changed = _with(changed, place, change)
        assert str(_call(name, changed)) == str(expected)  # NaN is NaN


@pytest.mark.parametrize("name", TABLE)
def test_what_is_no_integer_is_refused_by_name(name):
    arguments = TABLE[name]()
    for place in _numbers(arguments):
        texts = () if place[0] == "padding" else (str,)  # of which there are some that say how to pad
        for change in (float, lambda n: n == 1, lambda n: zyx.Tensor(float(n)), np.float32, *texts):
            if name in ("zyx.max", "zyx.min") and isinstance(change(1), zyx.Tensor):
                continue  # their second operand, in PyTorch
            with pytest.raises(IntegerError, match=r"^\w+(\.\w+)?: .*(an integer|a count)") as caught:
                _call(name, _with(arguments, place, change))
            assert isinstance(caught.value, TypeError)


def test_the_table_has_every_function_with_an_integer_argument():
    lacking = []
    for prefix, place in _PLACES.items():
        for name in getattr(place, "__all__", None) or [n for n in dir(place) if not n.startswith("_")]:
            function = getattr(place, name)
            full = f"{prefix}.{name}"
            if inspect.ismodule(function) or not callable(function) or full in OTHERS:
                continue
            if prefix in ("F", "Tensor") and getattr(zyx, name, None) is function:
                continue
            try:
                signature = inspect.signature(function)
            except ValueError:
                continue  # of a type that has none
            wanted = {p.name: p.kind for p in signature.parameters.values() if _INTEGER.search(str(p.annotation))}
            wanted.pop("lr_lambda", None)  # a function of an integer
            if not wanted:
                continue
            given = set(TABLE[full]()) if full in TABLE else set()
            by_position = "*" in given or "shape" in given
            lacking += [
                f"{full}({argument})"
                for argument, kind in wanted.items()
                if argument not in given and not by_position and kind is not inspect.Parameter.VAR_POSITIONAL
            ]
            lacking += [full] if not given else []
    assert lacking == []
