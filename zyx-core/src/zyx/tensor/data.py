"""What ``x.data`` is: the values of a tensor without their history, by which it can be assigned to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from typing import Self


class Data(Tensor):
    """The values that another tensor had when it was asked for them; what is assigned to it, that tensor has, too.

    So ``w.data.copy_(y)``, ``w.data.mul_(2)`` and ``w.data[0] = 1`` change `w` as in PyTorch, and no history is kept.
    What is assigned to `w` elsewhere it does not see: it is asked for anew each time.
    """

    __slots__ = ("_owner",)
    result_class = Tensor  # results are tensors as all others
    _owner: Tensor

    @classmethod
    def owned_by(cls, owner: Tensor) -> Self:
        """Return the values of `owner`."""
        data: Self = object.__new__(cls)
        super(Tensor, data).__init__(owner.detach().node, owner.runtime)
        data._owner = owner
        return data

    def assign(self, value: object) -> Tensor:
        """Let the owner stand for `value`, of the same shape and dtype; return this."""
        super().assign(value)
        self._owner.assign(self.detach())
        return self

    def __setitem__(self, key: object, value: object) -> None:
        super().__setitem__(key, value)
        self._owner.assign(self.detach())
