"""Several optimisers as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.errors import GradientError
from zyx.optim.optimizer import grads_of
from zyx.tensor.loading import LoadReport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.optim.optimizer import Optimizer
    from zyx.tensor.tensor import Tensor


class OptimizerGroup:
    """Optimisers with parameters of their own, stepped together: weights with decay and biases without, for example.

    Parameters have any shape.

    Attributes:
        optimizers: The optimisers.
        params: The parameters of all of them, in order.

    Raises:
        GradientError: No optimisers, or two with a parameter in common.

    >>> w, b = zyx.Tensor([1.0], requires_grad=True), zyx.Tensor([1.0], requires_grad=True)
    >>> optimizer = zyx.optim.OptimizerGroup(zyx.optim.SGD([w], lr=0.5), zyx.optim.SGD([b], lr=0.25))
    >>> (w + b).sum().backward()
    >>> optimizer.step()
    >>> w.item(), b.item()
    (0.5, 0.75)
    """

    def __init__(self, *optimizers: Optimizer) -> None:
        """Put optimisers together.

        Raises:
            GradientError: No optimisers, or two with a parameter in common.
        """
        self.optimizers = optimizers
        self.params: list[Tensor] = [parameter for optimizer in optimizers for parameter in optimizer.params]
        if not self.params or len({id(parameter) for parameter in self.params}) < len(self.params):
            raise GradientError("a group takes at least one optimiser, and no parameter twice")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Let the parameters have no ``.grad``; or, unless `set_to_none`, zeros where they have one."""
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none)

    def step(self, grads: Sequence[Tensor | None] | None = None) -> None:
        """Make a step of each; `grads` are in the order of `params`, None for those that stay.

        Without `grads`, they are what `Tensor.backward` left in ``.grad``.

        Raises:
            GradientError: Another number of gradients; or none are given, and no parameter has a ``.grad``.
            ShapeError: A gradient of another shape than its parameter.
        """
        listed = grads_of(self.params, "OptimizerGroup") if grads is None else list(grads)
        if len(listed) != len(self.params):
            raise GradientError(f"the group has {len(self.params)} parameters and was given {len(listed)} gradients")
        for optimizer in self.optimizers:
            count = len(optimizer.params)
            optimizer.step(listed[:count])
            listed = listed[count:]

    def state_dict(self) -> dict[str, Tensor]:
        """Return the state of all, by names that begin with the number of the optimiser."""
        return {
            f"{number}.{name}": tensor
            for number, optimizer in enumerate(self.optimizers)
            for name, tensor in optimizer.state_dict().items()
        }

    def load_state_dict(self, state: Mapping[str, object], strict: bool = True) -> LoadReport:
        """Take over a saved state; see `Optimizer.load_state_dict`. Optimisers are loaded one after the other."""
        loaded: list[str] = []
        missing: list[str] = []
        unexpected = [name for name in state if not name.partition(".")[0].isdecimal()]
        for number, optimizer in enumerate(self.optimizers):
            own = {name.removeprefix(f"{number}."): v for name, v in state.items() if name.startswith(f"{number}.")}
            report = optimizer.load_state_dict(own, strict=strict)
            for target, names in ((loaded, report.loaded), (missing, report.missing), (unexpected, report.unexpected)):
                target += [f"{number}.{name}" for name in names]
        return LoadReport(tuple(loaded), tuple(missing), tuple(unexpected))
