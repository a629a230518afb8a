"""Neural networks: modules, layers, and what layers compute as functions (`zyx.nn.functional`).

Names, arguments, names of parameters and first values are PyTorch's, so that saved weights fit. Start reading at
`zyx.nn.module`.
"""

from zyx.functions import taking_habits
from zyx.nn import functional, init
from zyx.nn.activation import (
    CELU,
    ELU,
    GELU,
    SELU,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softmin,
    Softplus,
    Softsign,
    Tanh,
)
from zyx.nn.attention import MultiheadAttention
from zyx.nn.batch_norm import BatchNorm, BatchNorm1d, BatchNorm2d, BatchNorm3d
from zyx.nn.cells import GRUCell, LSTMCell, RNNCell
from zyx.nn.containers import ModuleDict, ModuleList, Sequential
from zyx.nn.convolution import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from zyx.nn.dropout import ChannelDropout, Dropout
from zyx.nn.embedding import Embedding
from zyx.nn.linear import Bilinear, Flatten, Identity, Linear, Unflatten
from zyx.nn.losses import (
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    HuberLoss,
    L1Loss,
    MSELoss,
    NLLLoss,
    SmoothL1Loss,
)
from zyx.nn.module import Module
from zyx.nn.normalization import GroupNorm, InstanceNorm, LayerNorm, RMSNorm
from zyx.nn.parameter import Parameter
from zyx.nn.pooling import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
    Upsample,
)
from zyx.nn.recurrent import GRU, LSTM, RNN
from zyx.nn.transformer import (
    PositionalEncoding,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from zyx.tensor.loading import LoadReport

__all__ = [
    "CELU", "ELU", "GELU", "GRU", "LSTM", "RNN", "SELU", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "BCELoss", "BCEWithLogitsLoss", "BatchNorm",
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "Bilinear", "ChannelDropout", "Conv1d", "Conv2d", "Conv3d",
    "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "CrossEntropyLoss", "Dropout", "Embedding", "Flatten",
    "GRUCell", "GroupNorm", "Hardsigmoid", "Hardswish", "Hardtanh", "HuberLoss", "Identity", "InstanceNorm",
    "L1Loss", "LSTMCell", "LayerNorm", "LeakyReLU", "Linear", "LoadReport", "LogSigmoid", "LogSoftmax", "MSELoss",
    "MaxPool1d", "MaxPool2d", "MaxPool3d", "Mish", "Module", "ModuleDict", "ModuleList", "MultiheadAttention",
    "NLLLoss", "PReLU", "Parameter", "PositionalEncoding", "RMSNorm", "RNNCell", "ReLU", "ReLU6", "Sequential",
    "SiLU", "Sigmoid", "SmoothL1Loss", "Softmax", "Softmin", "Softplus", "Softsign", "Tanh", "TransformerDecoder",
    "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer", "Unflatten", "Upsample",
    "functional", "init",
]  # fmt: skip

for _layer in [globals()[name] for name in __all__ if name != "LoadReport"]:
    for _base in _layer.__mro__ if isinstance(_layer, type) and issubclass(_layer, Module) else ():
        _make = vars(_base).get("__init__")
        if _make is not None and _base is not object and not hasattr(_make, "__wrapped__"):
            setattr(_base, "__init__", taking_habits(_make))  # noqa: B010  # to assign to it is unsound of instances
