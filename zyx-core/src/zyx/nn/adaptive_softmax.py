"""Softmax over many classes of which few are frequent.

Grave, Joulin, Cisse, Grangier and Jegou, "Efficient softmax approximation for GPUs", 2016. Frequent classes and groups
of rare ones compete in one softmax, the members of a group among themselves in another, of fewer features.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zyx.dtype import float32
from zyx.errors import DTypeError, ShapeError
from zyx.functions.activations import log_softmax
from zyx.functions.joining import concat
from zyx.functions.operands import require
from zyx.functions.selection import take_along_axis
from zyx.integers import as_index, as_integers
from zyx.nn.containers import ModuleList, Sequential
from zyx.nn.linear import Linear
from zyx.nn.module import Module, call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DTypeLike
    from zyx.tensor.tensor import Tensor


class ASMOutput(NamedTuple):
    """What the layer gives.

    Attributes:
        output: Logarithms of the probabilities of the targets, ``(N,)``.
        loss: Minus their mean.
    """

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """The loss of classes ordered by how frequent they are; see the module.

    All groups are computed for all examples, so that shapes do not depend on targets: the loss is that of PyTorch, what
    is saved are the features of rare classes.

    Raises:
        ShapeError: `cutoffs` do not ascend, or are no classes.

    >>> zyx.nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2])(zyx.ones(3, 4), zyx.Tensor([0, 1, 5])).output.shape
    (3,)
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        dtype: DTypeLike = float32,
        device: str | None = None,
    ) -> None:
        """Make the layer.

        Args:
            in_features: Width of the input.
            n_classes: How many classes there are.
            cutoffs: Where groups of rarer classes begin, ascending, 1 to ``n_classes - 1``.
            div_value: Group i has ``in_features / div_value ** (i + 1)`` features.
            head_bias: Whether the first softmax has a bias.
            dtype: Of the parameters.
            device: Where they lie.

        Raises:
            ShapeError: Cutoffs that are not ascending between 1 and ``n_classes - 1``.
        """
        self.in_features, self.n_classes = as_index(in_features, "in_features"), as_index(n_classes, "n_classes")
        edges = as_integers(cutoffs, "cutoffs")
        if not edges or list(edges) != sorted(set(edges)) or edges[0] < 1 or edges[-1] > self.n_classes - 1:
            raise ShapeError(f"cutoffs ascend from 1 on to at most {self.n_classes - 1}, not {cutoffs}")
        self.cutoffs = [*edges, self.n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        groups = len(edges)
        self.head = Linear(self.in_features, edges[0] + groups, head_bias, dtype, device)
        self.tail = ModuleList()
        for i in range(groups):
            width = int(self.in_features // div_value ** (i + 1))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            inner, outer = (Linear(a, b, False, dtype, device) for a, b in ((self.in_features, width), (width, size)))
            self.tail.append(Sequential(inner, outer))

    def log_prob(self, x: Tensor) -> Tensor:
        """Return the logarithms of the probabilities of all classes, ``(N, n_classes)``."""
        head = log_softmax(call(self.head, x), -1)
        first = self.cutoffs[0]
        parts = [head[..., :first]]
        for i, group in enumerate(self.tail):
            parts.append(log_softmax(call(group, x), -1) + head[..., first + i : first + i + 1])
        return concat(parts, axis=-1)

    def predict(self, x: Tensor) -> Tensor:
        """Return the likeliest class of each example, ``(N,)``."""
        return self.log_prob(x).argmax(-1)

    def forward(self, x: Tensor, target: Tensor) -> ASMOutput:
        """Return the logarithms of the probabilities of the targets, and minus their mean.

        Args:
            x: ``(N, in_features)``, or ``(in_features,)``.
            target: Classes ``(N,)``, or ``()``.

        Raises:
            ShapeError: Shapes that do not fit.
            DTypeError: Targets that are no integers.
        """
        shape, classes = require(x, "AdaptiveLogSoftmaxWithLoss").node.shape, require(target, "target").node
        if shape[-1:] != (self.in_features,) or classes.shape != shape[:-1]:
            raise ShapeError(f"AdaptiveLogSoftmaxWithLoss: targets {classes.shape} for inputs {shape}")
        if not classes.dtype.is_integer:
            raise DTypeError(f"AdaptiveLogSoftmaxWithLoss: targets are integers, not {classes.dtype}")
        output = take_along_axis(self.log_prob(x), target.expand_dims(-1), -1).squeeze(-1)
        return ASMOutput(output, -output.mean())
