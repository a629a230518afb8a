"""`Parameter`: a tensor that is trained."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from zyx.dtype import as_dtype
from zyx.functions.ingest import node_from_data
from zyx.functions.operands import is_tensor
from zyx.graph import node as n
from zyx.runtime.leaves import want
from zyx.runtime.runtime import current
from zyx.tensor.convert import numpy
from zyx.tensor.gradients import copy_grad
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from zyx.dtype import DTypeLike


class Parameter(Tensor):
    """A tensor that a module owns and an optimiser trains.

    It differs from other tensors in three things only: `Module.parameters` finds it, it requires a gradient unless it
    is told otherwise (`Tensor.backward`), and its values lie in memory from the beginning, in a place of its own.
    (Equal constants, such as two biases of zeros, are one node of a graph, at which no gradient could tell them apart;
    and random values that are not computed would be computed anew by whatever reads them.) What is computed from
    parameters is made of ordinary tensors.

    Attributes:
        layout: Of what it is a part, where several processes have a parameter together (`zyx.distributed.layouts`);
            else None.

    Raises:
        DTypeError: No numbers, or there is no such dtype.
        NoDeviceError: There is no such device.

    >>> zyx.nn.Parameter(zyx.ones(2)).requires_grad
    True
    """

    __slots__ = ("layout",)
    result_class = Tensor  # results are no parameters

    def __init__(
        self, data: object, dtype: DTypeLike | None = None, device: str | None = None, *, requires_grad: bool = True
    ) -> None:
        """Take what `Tensor` takes; the values of a tensor are taken over, not its history."""
        runtime = data.runtime if is_tensor(data) else current()
        place = None if device is None else runtime.device_name(device)
        node = node_from_data(data, None if dtype is None else as_dtype(dtype), place, runtime)
        if isinstance(node, n.Const):
            node = runtime.upload(np.full(node.shape, node.value, node.dtype.numpy), node.device)
        else:
            node = runtime.graph.alias(runtime.graph.detach(node))
        self.layout: Any = None  # which only those who made it know
        super(Tensor, self).__init__(node, runtime)  # as `Tensor.__init__` does, with another node
        runtime.realize([self])
        if requires_grad and node.dtype.is_inexact:
            want(self)

    def __copy__(self) -> Parameter:
        copied = Parameter(self, requires_grad=self.requires_grad)
        copied.layout = self.layout
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        copied = memo[id(self)] = copy(self)  # one that two modules share is one in the copy, too
        copy_grad(self, copied)
        return copied

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return _parameter, (numpy(self), self.requires_grad)


def _parameter(array: np.ndarray, requires_grad: bool) -> Parameter:
    """Return one of values that were pickled."""
    return Parameter(array, requires_grad=requires_grad)
