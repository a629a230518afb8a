"""The operations on tensors, one file a family; `zyx` and the class `Tensor` have them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zyx.tensor.tensor import Tensor as Tensor  # the type that the families take and give, which stands above them
