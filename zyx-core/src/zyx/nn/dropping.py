"""Dropout of whole channels, and dropout that keeps mean and variance, as modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.nn.dropout import Dropout
from zyx.nn.functional import dropping

if TYPE_CHECKING:
    from zyx.tensor.tensor import Tensor


class Dropout1d(Dropout):
    """`zyx.nn.functional.dropout1d`, in training.

    The result has the shape of the input; in evaluation it is the input.

    Raises:
        ShapeError: `p` is not from 0 to 1.

    >>> zyx.nn.Dropout1d(0.5).eval()(zyx.ones(1, 2, 2)).sum().item()
    4.0
    """

    def forward(self, x: Tensor) -> Tensor:
        return dropping.dropout1d(x, self.p, self.training)


class Dropout2d(Dropout):
    """`zyx.nn.functional.dropout2d`, in training.

    The result has the shape of the input; in evaluation it is the input.

    Raises:
        ShapeError: `p` is not from 0 to 1.

    >>> zyx.nn.Dropout2d(0.5).eval()(zyx.ones(1, 2, 2, 2)).sum().item()
    8.0
    """

    def forward(self, x: Tensor) -> Tensor:
        return dropping.dropout2d(x, self.p, self.training)


class Dropout3d(Dropout):
    """`zyx.nn.functional.dropout3d`, in training.

    The result has the shape of the input; in evaluation it is the input.

    Raises:
        ShapeError: `p` is not from 0 to 1.

    >>> zyx.nn.Dropout3d(0.5).eval()(zyx.ones(1, 2, 2, 2, 2)).sum().item()
    16.0
    """

    def forward(self, x: Tensor) -> Tensor:
        return dropping.dropout3d(x, self.p, self.training)


class AlphaDropout(Dropout):
    """`zyx.nn.functional.alpha_dropout`, in training.

    Elementwise; the result has the shape of the input. In evaluation it is the input.

    Raises:
        ShapeError: `p` is not from 0 to 1.

    >>> zyx.nn.AlphaDropout(0.5).eval()(zyx.ones(2)).tolist()
    [1.0, 1.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        return dropping.alpha_dropout(x, self.p, self.training)


class FeatureAlphaDropout(Dropout):
    """`zyx.nn.functional.feature_alpha_dropout`, in training.

    The result has the shape of the input; in evaluation it is the input.

    Raises:
        ShapeError: `p` is not from 0 to 1.

    >>> zyx.nn.FeatureAlphaDropout(0.5).eval()(zyx.ones(1, 2, 2)).tolist()
    [[[1.0, 1.0], [1.0, 1.0]]]
    """

    def forward(self, x: Tensor) -> Tensor:
        return dropping.feature_alpha_dropout(x, self.p, self.training)
