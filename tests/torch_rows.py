"""What is compared with PyTorch, row by row: layers and losses with their inputs; and what is not, and why.

A layer or loss is made by the same function from our `nn` and theirs. Inputs are shapes, of which normal numbers are
drawn, or arrays.
"""

from __future__ import annotations

import numpy as np

F32 = np.float32
IMAGE, SOUND, VOLUME = (2, 4, 6, 8), (2, 4, 10), (1, 2, 4, 6, 5)
LABELS = np.array([1, 3, 0, 2, 2])
SIGNS = np.array([1, -1, 1, 1, -1], F32)
BITS = (np.arange(20).reshape(5, 4) % 3 == 0).astype(F32)
TOKENS = np.array([[1, 5, 2], [0, 9, 5]])
HIDDEN_KEYS = np.array([[0, 0, 1, 1], [0, 1, 0, 0]], bool)
IGNORED = np.array([1, 3, -100, 0, 2])
WEIGHTS = np.array([1, 2, 0.5, 3], F32)


#: By the name of the class: rows of how to make the layer, its inputs, and options: "training" is the mode, "keywords"
#: are arguments of the call.
LAYERS = {
    "Linear": [(lambda of: of.Linear(5, 7), [(3, 5)], {}), (lambda of: of.Linear(5, 7, bias=False), [(2, 3, 5)], {})],
    "Bilinear": [(lambda of: of.Bilinear(5, 4, 3), [(2, 3, 5), (2, 3, 4)], {})],
    "Identity": [(lambda of: of.Identity(), [(2, 3)], {})],
    "Flatten": [(lambda of: of.Flatten(), [IMAGE], {})],
    "Unflatten": [(lambda of: of.Unflatten(1, (2, 2)), [SOUND], {})],
    "Conv1d": [(lambda of: of.Conv1d(4, 6, 3, padding=1, groups=2), [SOUND], {})],
    "Conv2d": [
        (lambda of: of.Conv2d(4, 6, 3, stride=2, padding=1, bias=False), [IMAGE], {}),
        (lambda of: of.Conv2d(4, 4, (3, 5), dilation=(2, 1), padding="same"), [IMAGE], {}),
        (lambda of: of.Conv2d(4, 4, 3, padding=1, padding_mode="reflect"), [IMAGE], {}),
    ],
    "Conv3d": [(lambda of: of.Conv3d(2, 3, 2, padding=1), [VOLUME], {})],
    "ConvTranspose1d": [(lambda of: of.ConvTranspose1d(4, 3, 3, stride=2), [SOUND], {})],
    "ConvTranspose2d": [
        (lambda of: of.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), [IMAGE], {})
    ],
    "ConvTranspose3d": [(lambda of: of.ConvTranspose3d(2, 3, 2, stride=2), [VOLUME], {})],
    "BatchNorm1d": [
        (lambda of: of.BatchNorm1d(4), [(5, 4)], {"training": True}),
        (lambda of: of.BatchNorm1d(4), [SOUND], {}),
        (lambda of: of.BatchNorm1d(4, momentum=None), [SOUND], {"training": True}),
    ],
    "BatchNorm2d": [
        (lambda of: of.BatchNorm2d(4, momentum=None), [IMAGE], {"training": True}),
        (lambda of: of.BatchNorm2d(4, affine=False), [IMAGE], {}),
    ],
    "BatchNorm3d": [(lambda of: of.BatchNorm3d(2, track_running_stats=False), [VOLUME], {})],
    "InstanceNorm1d": [
        (lambda of: of.InstanceNorm1d(4), [SOUND], {}),
        (lambda of: of.InstanceNorm1d(4, affine=True, track_running_stats=True), [SOUND], {"training": True}),
    ],
    "InstanceNorm2d": [(lambda of: of.InstanceNorm2d(4, affine=True), [IMAGE], {})],
    "InstanceNorm3d": [(lambda of: of.InstanceNorm3d(2, track_running_stats=True), [VOLUME], {})],
    "LayerNorm": [
        (lambda of: of.LayerNorm((6, 8)), [IMAGE], {}),
        (lambda of: of.LayerNorm(8, elementwise_affine=False), [IMAGE], {}),
    ],
    "RMSNorm": [(lambda of: of.RMSNorm(8), [IMAGE], {})],
    "GroupNorm": [(lambda of: of.GroupNorm(2, 4), [IMAGE], {})],
    "LocalResponseNorm": [
        (lambda of: of.LocalResponseNorm(3, alpha=0.1), [IMAGE], {}),
        (lambda of: of.LocalResponseNorm(2, k=2.0), [SOUND], {}),
    ],
    "Embedding": [(lambda of: of.Embedding(10, 3, padding_idx=5), [TOKENS], {})],
    "EmbeddingBag": [
        (lambda of: of.EmbeddingBag(10, 3), [TOKENS], {}),
        (lambda of: of.EmbeddingBag(10, 3, mode="max", padding_idx=5), [TOKENS], {}),
        (lambda of: of.EmbeddingBag(10, 3, mode="mean", padding_idx=5), [TOKENS.ravel(), np.array([0, 2, 2])], {}),
        (lambda of: of.EmbeddingBag(10, 3, mode="max"), [TOKENS.ravel(), np.array([0, 4])], {}),
        (
            lambda of: of.EmbeddingBag(10, 3, mode="sum", include_last_offset=True),
            [TOKENS.ravel(), np.array([0, 1, 6]), (6,)],
            {},
        ),
    ],
    "MultiheadAttention": [
        (lambda of: of.MultiheadAttention(8, 2), [(3, 2, 8), (4, 2, 8), (4, 2, 8)], {}),
        (
            lambda of: of.MultiheadAttention(8, 2, batch_first=True, add_bias_kv=True, kdim=5, vdim=6),
            [(2, 3, 8), (2, 4, 5), (2, 4, 6)],
            {"keywords": {"key_padding_mask": HIDDEN_KEYS}},
        ),
        (
            lambda of: of.MultiheadAttention(8, 2, batch_first=True, add_bias_kv=True, add_zero_attn=True),
            [(2, 3, 8), (2, 4, 8), (2, 4, 8)],
            {"keywords": {"key_padding_mask": HIDDEN_KEYS, "attn_mask": np.triu(np.ones((3, 4), bool), 2)}},
        ),
        (
            lambda of: of.MultiheadAttention(8, 2, batch_first=True),
            [(2, 3, 8), (2, 4, 8), (2, 4, 8)],
            {"keywords": {"attn_mask": np.linspace(-1, 1, 48, dtype=F32).reshape(4, 3, 4)}},
        ),
    ],
    "RNNCell": [(lambda of: of.RNNCell(4, 5, nonlinearity="relu"), [(3, 4), (3, 5)], {})],
    "GRUCell": [
        (lambda of: of.GRUCell(4, 5, bias=False), [(3, 4), (3, 5)], {}),
        (lambda of: of.GRUCell(4, 5), [(3, 4), (3, 5)], {}),
    ],
    "LSTMCell": [(lambda of: of.LSTMCell(4, 5), [(3, 4)], {})],
    "RNN": [(lambda of: of.RNN(4, 5, 2, bidirectional=True), [(3, 2, 4)], {})],
    "GRU": [
        (lambda of: of.GRU(4, 5, 2, batch_first=True), [(2, 3, 4)], {}),
        (lambda of: of.GRU(4, 5, 2, bidirectional=True), [(3, 4)], {}),
    ],
    "LSTM": [
        (lambda of: of.LSTM(4, 5, 2, dropout=0.1, bidirectional=True), [(3, 2, 4)], {}),
        (lambda of: of.LSTM(4, 5, batch_first=True, bidirectional=True), [(3, 4, 4)], {}),
    ],
    "TransformerEncoderLayer": [
        (lambda of: of.TransformerEncoderLayer(8, 2, 16), [(3, 2, 8)], {}),
        (lambda of: of.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True), [(2, 3, 8)], {}),
        (
            lambda of: of.TransformerEncoderLayer(8, 2, 16, dropout=0.0, norm_first=True), [(3, 2, 8)],
            {"training": True},
        ),
    ],
    "TransformerDecoderLayer": [
        (lambda of: of.TransformerDecoderLayer(8, 2, 16), [(3, 2, 8), (4, 2, 8)], {}),
        (lambda of: of.TransformerDecoderLayer(8, 2, 16, dropout=0.0), [(3, 2, 8), (4, 2, 8)], {"training": True}),
    ],
    "TransformerEncoder": [
        (lambda of: of.TransformerEncoder(of.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2), [(2, 3, 8)], {})
    ],
    "TransformerDecoder": [
        (lambda of: of.TransformerDecoder(of.TransformerDecoderLayer(8, 2, 16), 2), [(3, 2, 8), (4, 2, 8)], {})
    ],
    "Transformer": [(lambda of: of.Transformer(8, 2, 1, 2, 16, batch_first=True), [(2, 3, 8), (2, 4, 8)], {})],
    **{
        f"MaxPool{n}d": [(lambda of, n=n: getattr(of, f"MaxPool{n}d")(3, 2, 1, ceil_mode=True), [shape], {})]
        for n, shape in ((1, SOUND), (2, IMAGE), (3, VOLUME))
    },
    **{
        f"AvgPool{n}d": [
            (lambda of, n=n: getattr(of, f"AvgPool{n}d")(2), [shape], {}),
            (lambda of, n=n: getattr(of, f"AvgPool{n}d")(3, 2, 1, count_include_pad=False), [shape], {}),
        ]
        for n, shape in ((1, SOUND), (2, IMAGE), (3, VOLUME))
    },
    **{
        f"Adaptive{kind}Pool{n}d": [
            (lambda of, n=n, kind=kind: getattr(of, f"Adaptive{kind}Pool{n}d")(3), [shape], {}),
            *(
                [(lambda of, kind=kind: getattr(of, f"Adaptive{kind}Pool2d")((5, None)), [IMAGE], {})]
                if n == 2
                else []
            ),
        ]
        for kind in ("Avg", "Max")
        for n, shape in ((1, SOUND), (2, IMAGE), (3, VOLUME))
    },
    **{
        f"LPPool{n}d": [(lambda of, n=n: getattr(of, f"LPPool{n}d")(2, 2, stride=1), [shape], {})]
        for n, shape in ((1, SOUND), (2, IMAGE), (3, VOLUME))
    },
    **{
        f"MaxUnpool{n}d": [
            (
                lambda of, n=n: getattr(of, f"MaxUnpool{n}d")(2),
                [(1, 2, *[2] * n), np.tile(np.arange(2**n).reshape(1, 1, *[2] * n) * (2**n + 1), (1, 2, *[1] * n))],
                {},
            )
        ]
        for n in (1, 2, 3)
    },
    "Upsample": [
        (lambda of: of.Upsample(scale_factor=2, mode="bilinear"), [IMAGE], {}),
        (lambda of: of.Upsample((7, 3)), [IMAGE], {}),
        (lambda of: of.Upsample((7, 3), mode="bilinear", align_corners=True), [IMAGE], {}),
    ],
    "UpsamplingNearest2d": [(lambda of: of.UpsamplingNearest2d(scale_factor=2), [IMAGE], {})],
    "UpsamplingBilinear2d": [(lambda of: of.UpsamplingBilinear2d((7, 3)), [IMAGE], {})],
    "PixelShuffle": [(lambda of: of.PixelShuffle(2), [IMAGE], {})],
    "PixelUnshuffle": [(lambda of: of.PixelUnshuffle(2), [IMAGE], {})],
    "ChannelShuffle": [(lambda of: of.ChannelShuffle(2), [IMAGE], {})],
    "Unfold": [(lambda of: of.Unfold((2, 3), dilation=2, padding=1, stride=(1, 2)), [IMAGE], {})],
    "Fold": [(lambda of: of.Fold((6, 8), (2, 3), dilation=2, padding=1, stride=(1, 2)), [(2, 12, 18)], {})],
    **{
        f"{kind}Pad{n}d": [
            (
                lambda of, n=n, kind=kind: getattr(of, f"{kind}Pad{n}d")(*((2, 1.5) if kind == "Constant" else (2,))),
                [shape],
                {},
            ),
            (
                lambda of, n=n, kind=kind: getattr(of, f"{kind}Pad{n}d")(
                    tuple(range(2 * n)) if n < 3 else (1, 0, 1, 2, 0, 1), *((1.5,) if kind == "Constant" else ())
                ),
                [shape],
                {},
            ),
        ]
        for kind in ("Constant", "Zero", "Reflection", "Replication", "Circular")
        for n, shape in ((1, SOUND), (2, IMAGE), (3, VOLUME))
    },
    **{
        name: [(lambda of, name=name: getattr(of, name)(), [(5, 6)], {})]
        for name in (
            "CELU", "ELU", "GELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid",
            "Mish", "ReLU", "ReLU6", "RReLU", "SELU", "SiLU", "Sigmoid", "Softplus", "Softshrink", "Softsign", "Tanh",
            "Tanhshrink",
        )
    },
    **{
        name: [(lambda of, name=name: getattr(of, name)(dim=1), [(2, 4, 3)], {})]
        for name in ("Softmax", "LogSoftmax", "Softmin", "GLU")

    },
    "Softmax2d": [(lambda of: of.Softmax2d(), [IMAGE], {})],
    "Threshold": [(lambda of: of.Threshold(0.1, -2.0), [(5, 6)], {})],
    "PReLU": [(lambda of: of.PReLU(4), [IMAGE], {})],
    "CosineSimilarity": [(lambda of: of.CosineSimilarity(dim=1), [(4, 5), (4, 5)], {})],
    "PairwiseDistance": [(lambda of: of.PairwiseDistance(3.0, keepdim=True), [(4, 5), (4, 5)], {})],
    **{
        name: [(lambda of, name=name: getattr(of, name)(0.4), [shape], {})]
        for name, shape in (
            ("Dropout", IMAGE), ("Dropout1d", SOUND), ("Dropout2d", IMAGE), ("Dropout3d", VOLUME),
            ("AlphaDropout", IMAGE), ("FeatureAlphaDropout", IMAGE),
        )
    },
    "Sequential": [(lambda of: of.Sequential(of.Linear(3, 4), of.ReLU(), of.Linear(4, 2)), [(5, 3)], {})],
    "AdaptiveLogSoftmaxWithLoss": [
        (
            lambda of: of.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], div_value=2.0, head_bias=True),
            [(5, 8), np.array([0, 4, 11, 2, 6])],
            {},
        )
    ],
    "LazyLinear": [(lambda of: of.LazyLinear(3), [(4, 5)], {"lazy": True})],
    **{
        f"Lazy{kind}{n}d": [
            (lambda of, n=n, kind=kind: getattr(of, f"Lazy{kind}{n}d")(3, 2), [shape], {"lazy": True})
        ]
        for kind in ("Conv", "ConvTranspose")
        for n, shape in ((1, SOUND), (2, IMAGE), (3, VOLUME))
    },
    **{
        f"Lazy{kind}Norm{n}d": [
            (lambda of, n=n, kind=kind: getattr(of, f"Lazy{kind}Norm{n}d")(), [shape], {"lazy": True, "training": True})
        ]
        for kind in ("Batch", "Instance")
        for n, shape in ((1, SOUND), (2, IMAGE), (3, VOLUME))
    },
}  # fmt: skip

#: By the name of the class: rows of how to make the loss (with `of` and a function that makes tensors), and its inputs.
LOSSES = {
    "MSELoss": [(lambda of, t: of.MSELoss(), [(5, 4), (5, 4)])],
    "L1Loss": [(lambda of, t: of.L1Loss(reduction="sum"), [(5, 4), (5, 4)])],
    "HuberLoss": [(lambda of, t: of.HuberLoss(delta=0.5), [(5, 4), (5, 4)])],
    "SmoothL1Loss": [(lambda of, t: of.SmoothL1Loss(beta=0.5), [(5, 4), (5, 4)])],
    "BCELoss": [(lambda of, t: of.BCELoss(), [np.linspace(0.05, 0.95, 20, dtype=F32).reshape(5, 4), BITS])],
    "BCEWithLogitsLoss": [(lambda of, t: of.BCEWithLogitsLoss(pos_weight=t(WEIGHTS)), [(5, 4), BITS])],
    "CrossEntropyLoss": [
        (lambda of, t: of.CrossEntropyLoss(t(WEIGHTS), label_smoothing=0.1), [(5, 4), LABELS]),
        (lambda of, t: of.CrossEntropyLoss(t(WEIGHTS), label_smoothing=0.1), [(5, 4), IGNORED]),
        (lambda of, t: of.CrossEntropyLoss(reduction="sum"), [(5, 4), np.full((5, 4), 0.25, F32)]),
    ],
    "NLLLoss": [
        (lambda of, t: of.NLLLoss(ignore_index=2), [(5, 4), LABELS]),
        (lambda of, t: of.NLLLoss(t(WEIGHTS), reduction="sum"), [(5, 4), IGNORED]),
    ],
    "LinearCrossEntropyLoss": [
        (lambda of, t: of.LinearCrossEntropyLoss(6, 4, bias=True), [(5, 6), LABELS]),
        (lambda of, t: of.LinearCrossEntropyLoss(6, 4, out_features=(2,)), [(5, 6), np.array([[0, 1]] * 5)]),
    ],
    "KLDivLoss": [
        (lambda of, t: of.KLDivLoss(reduction="batchmean"), [(5, 4), np.full((5, 4), 0.25, F32)]),
        (lambda of, t: of.KLDivLoss(reduction="sum", log_target=True), [(5, 4), (5, 4)]),
    ],
    "PoissonNLLLoss": [
        (lambda of, t: of.PoissonNLLLoss(full=True), [(5, 4), np.arange(20, dtype=F32).reshape(5, 4)]),
        (lambda of, t: of.PoissonNLLLoss(False), [np.full((5, 4), 0.5, F32), np.ones((5, 4), F32)]),
    ],
    "GaussianNLLLoss": [
        (lambda of, t: of.GaussianNLLLoss(full=True), [(5, 4), (5, 4), np.full((5, 4), 0.7, F32)]),
        (lambda of, t: of.GaussianNLLLoss(eps=0.5), [(5, 4), (5, 4), np.linspace(0.1, 1, 5, dtype=F32)]),
    ],
    "MarginRankingLoss": [(lambda of, t: of.MarginRankingLoss(0.3), [(5,), (5,), SIGNS])],
    "HingeEmbeddingLoss": [(lambda of, t: of.HingeEmbeddingLoss(0.7), [(5,), SIGNS])],
    "SoftMarginLoss": [(lambda of, t: of.SoftMarginLoss(reduction="none"), [(5,), SIGNS])],
    "CosineEmbeddingLoss": [(lambda of, t: of.CosineEmbeddingLoss(-0.2), [(5, 4), (5, 4), SIGNS])],
    "MultiMarginLoss": [
        (lambda of, t: of.MultiMarginLoss(), [(5, 4), LABELS]),
        (lambda of, t: of.MultiMarginLoss(2, 0.7, t(WEIGHTS)), [(5, 4), LABELS]),
    ],
    "MultiLabelMarginLoss": [
        (lambda of, t: of.MultiLabelMarginLoss(), [(3, 4), np.array([[3, 0, -1, 1], [-1, 2, 1, 0], [0, 1, 2, 3]])])
    ],
    "MultiLabelSoftMarginLoss": [(lambda of, t: of.MultiLabelSoftMarginLoss(t(WEIGHTS)), [(5, 4), BITS])],
    "TripletMarginLoss": [(lambda of, t: of.TripletMarginLoss(swap=True), [(5, 4), (5, 4), (5, 4)])],
    "TripletMarginWithDistanceLoss": [
        (lambda of, t: of.TripletMarginWithDistanceLoss(swap=True), [(5, 4), (5, 4), (5, 4)]),
        (
            lambda of, t: of.TripletMarginWithDistanceLoss(distance_function=lambda a, b: abs(a - b).sum(-1)),
            [(5, 4), (5, 4), (5, 4)],
        ),
    ],
    "CTCLoss": [
        (
            lambda of, t: CtcOf(of, of.CTCLoss()),
            [(9, 3, 5), np.array([[1, 2, 2], [4, 3, 1], [1, 1, 1]]), np.array([9, 8, 7]), np.array([3, 2, 3])],
        ),
        (
            lambda of, t: CtcOf(of, of.CTCLoss(blank=2, reduction="sum", zero_infinity=True)),
            [(4, 3, 5), np.array([1, 1, 1, 3, 3, 4]), np.array([4, 4, 3]), np.array([3, 2, 1])],
        ),
    ],
}


class CtcOf:
    """The loss of logits, by which gradients agree: PyTorch's are of what `log_softmax` was given."""

    def __init__(self, of, loss):
        self.of, self.loss = of, loss

    def __call__(self, x, targets, ends, lengths):
        return self.loss(self.of.functional.log_softmax(x, dim=-1), targets, ends, lengths)


#: Classes of `torch.nn` without a row, and why.
NO_ROW = {
    "Container": "deprecated in PyTorch, and does nothing",
    "CrossMapLRN2d": "PyTorch's older form of LocalResponseNorm",
    "DataParallel": "is of several devices",
    "FractionalMaxPool2d": "draws places; compared with given ones in test_functions_with_given_choices_agree",
    "FractionalMaxPool3d": "draws places; compared with given ones in test_functions_with_given_choices_agree",
    "Module": "is what layers are made of",
    "ModuleDict": "computes nothing; compared as text and state",
    "ModuleList": "computes nothing; compared as text and state",
    "NLLLoss2d": "deprecated in PyTorch: NLLLoss takes pictures",
    "ParameterDict": "computes nothing; tested by itself",
    "ParameterList": "computes nothing; tested by itself",
    "RNNBase": "what RNN, GRU and LSTM have in common in PyTorch",
    "RNNCellBase": "what the cells have in common in PyTorch",
    "SyncBatchNorm": "is of several devices",
}
#: Those of them that zyx does not have.
ABSENT = {
    "Container", "CrossMapLRN2d", "DataParallel", "NLLLoss2d", "RNNBase", "RNNCellBase", "SyncBatchNorm",
}  # fmt: skip
#: Functions of `torch.nn.functional` that zyx does not have, and why.
ABSENT_FUNCTIONS = {
    "assert_int_or_pair": "of PyTorch's inside", "boolean_dispatch": "of PyTorch's inside",
    "handle_torch_function": "of PyTorch's inside", "has_torch_function": "of PyTorch's inside",
    "has_torch_function_unary": "of PyTorch's inside", "has_torch_function_variadic": "of PyTorch's inside",
    "native_channel_shuffle": "of PyTorch's inside: channel_shuffle",
    "celu_": "nothing is computed in place", "elu_": "nothing is computed in place",
    "hardtanh_": "nothing is computed in place", "leaky_relu_": "nothing is computed in place",
    "relu_": "nothing is computed in place", "rrelu_": "nothing is computed in place",
    "selu_": "nothing is computed in place", "threshold_": "nothing is computed in place",
    **{f"{kind}_max_pool{n}d_with_indices": "return_indices=True gives them" for kind in ("adaptive", "fractional")
       for n in (1, 2, 3)},
    **{f"max_pool{n}d_with_indices": "max_pool_with_indices, or return_indices=True" for n in (1, 2, 3)},
    "conv_tbc": "convolution of (T, N, C): conv1d of a permuted sequence",
    "grouped_mm": "a product of parts of different lengths for mixtures of experts, on one GPU's low formats",
    "scaled_grouped_mm": "as grouped_mm, with scales of float8", "scaled_mm": "a product of float8, which zyx has not",
    "upsample": "deprecated in PyTorch: interpolate", "upsample_bilinear": "deprecated in PyTorch: interpolate",
    "upsample_nearest": "deprecated in PyTorch: interpolate",
}  # fmt: skip
