"""Dropout of whole channels, and dropout that keeps mean and variance, as modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.nn.dropout import Dropout
from zyx.nn.functional import dropping

if TYPE_CHECKING:
    from zyx.tensor.tensor import Tensor


class Dropout1d(Dropout):
    """`zyx.nn.functional.dropout1d`, in training."""

    def forward(self, x: Tensor) -> Tensor:
        return dropping.dropout1d(x, self.p, self.training)


class Dropout2d(Dropout):
    """`zyx.nn.functional.dropout2d`, in training."""

    def forward(self, x: Tensor) -> Tensor:
        return dropping.dropout2d(x, self.p, self.training)


class Dropout3d(Dropout):
    """`zyx.nn.functional.dropout3d`, in training."""

    def forward(self, x: Tensor) -> Tensor:
        return dropping.dropout3d(x, self.p, self.training)


class AlphaDropout(Dropout):
    """`zyx.nn.functional.alpha_dropout`, in training."""

    def forward(self, x: Tensor) -> Tensor:
        return dropping.alpha_dropout(x, self.p, self.training)


class FeatureAlphaDropout(Dropout):
    """`zyx.nn.functional.feature_alpha_dropout`, in training."""

    def forward(self, x: Tensor) -> Tensor:
        return dropping.feature_alpha_dropout(x, self.p, self.training)
