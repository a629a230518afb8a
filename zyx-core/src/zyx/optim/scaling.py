"""Scale losses, so that gradients in float16 neither vanish nor overflow. Micikevicius et al., 2017.

    scaler = zyx.amp.GradScaler()

    @zyx.jit
    def step(x, y):
        with zyx.Tape() as tape, zyx.autocast("float16"):
            loss = scaler.scale(zyx.cross_entropy(net(x), y))
        scaler.step(optimizer, tape.gradient(loss, optimizer.params))
        scaler.update()

The scale lies on the device and all choices are made there, so nothing is read back and a traced function follows them:
a step whose gradients are not finite leaves parameters, moments and the count of steps as they were, and halves the
scale; after many steps without that the scale doubles. All steps are counted, and those that were left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zyx.errors import ArgumentError, GradientError
from zyx.functions.choosing import where
from zyx.functions.elementwise import isfinite
from zyx.functions.operands import is_tensor
from zyx.functions.transcendental import reciprocal
from zyx.optim.check import check_range
from zyx.optim.optimizer import grads_of
from zyx.runtime.runtime import current
from zyx.tensor.loading import LoadReport, load_into
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.optim.optimizer import Optimizer


class GradScaler:
    """Scales losses, and takes the scale out of gradients; see the module.

    Losses and gradients have any shape, which stays.

    Attributes:
        step_count: How many steps were asked for, and updated after: int64.
        skipped_count: How many of them were left out.

    Raises:
        ArgumentError: A factor that is out of its range.

    >>> w = zyx.Tensor([1.0], requires_grad=True)
    >>> optimizer, scaler = zyx.optim.SGD([w], lr=0.5), zyx.amp.GradScaler()
    >>> scaler.scale(w.sum()).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> w.tolist()
    [0.5]
    """

    def __init__(
        self,
        device: str | None = None,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        """Make the scaler.

        Args:
            device: Where the scale lies; of no meaning unless `enabled`.
            init_scale: The scale at first.
            growth_factor: What it is multiplied by after `growth_interval` steps with finite gradients.
            backoff_factor: What it is multiplied by after a step with others.
            growth_interval: See `growth_factor`.
            enabled: Whether to do anything at all; if not, the scale is 1 and no step is left out.

        Raises:
            NoDeviceError: There is no such device.
            ShapeError: A number out of its range.
            ArgumentError: A growth factor that is not above 1.
        """
        check_range("init_scale", init_scale, 1e-38)
        check_range("backoff_factor", backoff_factor, 1e-38, 1.0)
        check_range("growth_interval", growth_interval, 1)
        if not growth_factor > 1.0:
            raise ArgumentError(f"GradScaler: growth_factor is above 1, not {growth_factor}")
        self.growth_factor, self.backoff_factor = growth_factor, backoff_factor
        self.growth_interval, self.enabled = growth_interval, enabled
        runtime = current()
        place = runtime.device_name(device) if device is not None and enabled else runtime.default_device

        def made(value: float, dtype: type) -> Tensor:
            return Tensor.of(runtime.upload(np.array(value, dtype), place), runtime)

        self._scale = made(init_scale if enabled else 1.0, np.float32)
        self._tracker = made(0, np.int32)
        self._found = made(0, np.int32)
        self.step_count, self.skipped_count = made(0, np.int64), made(0, np.int64)

    @property
    def trace_key(self) -> tuple[int, tuple[object, ...]]:
        """What a traced function that uses the scaler depends on."""
        return 0, (self.growth_factor, self.backoff_factor, self.growth_interval, self.enabled)

    def _note_use(self) -> None:
        tracing = self._scale.runtime.tracing
        if tracing is not None:
            tracing.depends_on(self)

    def get_scale(self) -> float:
        """Return the scale, which is read from the device."""
        return float(self._scale.item())

    def scale(self, loss: Tensor) -> Tensor:
        """Return `loss` times the scale, in float32 at least.

        Raises:
            GradientError: It is no tensor of floats.
        """
        if not is_tensor(loss) or not loss.dtype.is_float:
            what = loss.dtype if is_tensor(loss) else type(loss).__name__
            raise GradientError(f"GradScaler.scale takes a loss of floats, not {what}")
        self._note_use()
        return loss * self._scale if self.enabled else loss

    def unscale(self, grads: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Return gradients without the scale, in float32 at least: what may be clipped, and given to `step`.

        Raises:
            GradientError: No gradients.
        """
        self._note_use()
        return self._unscaled(grads)

    def _unscaled(self, grads: Sequence[Tensor | None]) -> list[Tensor | None]:
        if not self.enabled:
            return list(grads)
        factor = reciprocal(self._scale)
        return [None if grad is None else grad * factor.to(grad.device) for grad in grads]

    def step(
        self, optimizer: Optimizer, grads: Sequence[Tensor | None] | None = None, *, is_unscaled: bool = False
    ) -> None:
        """Make a step of an optimiser, unless a gradient is not finite.

        Args:
            optimizer: Whose parameters and state stay as they are in that case.
            grads: In the order of its parameters, as of a scaled loss; None is what `Tensor.backward` left.
            is_unscaled: Whether they come from `unscale`.

        Raises:
            GradientError: No gradients, or another number of them.
            ShapeError: A gradient of another shape than its parameter.
        """
        self._note_use()
        grads = grads_of(optimizer.params, "GradScaler") if grads is None else grads
        given = list(grads) if is_unscaled else self._unscaled(grads)
        own = [grad for grad in given if is_tensor(grad)]
        if not own:
            raise GradientError("GradScaler.step was given no gradients")
        if not self.enabled:
            optimizer.step(given)
            return
        device = self._scale.device
        good = isfinite(own[0]).all().to(device)
        for grad in own[1:]:
            good = good.logical_and(isfinite(grad).all().to(device))
        kept = [*optimizer.params, *(tensor for tensors in optimizer.state.values() for tensor in tensors)]
        kept += [optimizer.step_count, *(group.rate for group in optimizer.param_groups)]
        before = [tensor.detach() for tensor in kept]
        # Steps of what is not finite are computed with zeros, so that nothing but the choice below sees them.
        clean = [None if grad is None else where(good.to(grad.device), grad, 0.0) for grad in given]
        optimizer.step(clean)
        for tensor, old in zip(kept, before, strict=True):
            tensor.assign(where(good.to(tensor.device), tensor, old))
        self._found.assign(where(good, self._found, 1))
        self._scale.runtime.realize([*kept, self._found])

    def update(self) -> None:
        """Change the scale after the steps of all optimisers, and count."""
        self._note_use()
        if not self.enabled:
            return
        bad = self._found != 0
        tracked = where(bad, 0, self._tracker + 1)
        grown = tracked == self.growth_interval
        larger = where(grown, self._scale * self.growth_factor, self._scale)
        larger = where(isfinite(larger), larger, self._scale)
        changes = {
            "scale": where(bad, self._scale * self.backoff_factor, larger),
            "tracker": where(grown, 0, tracked),
            "found": self._found * 0,
            "step": self.step_count + 1,
            "skipped": self.skipped_count + bad.astype("int64"),
        }
        targets = self._named()
        for name, value in changes.items():
            targets[name].assign(value.astype(targets[name].dtype))
        self._scale.runtime.realize(list(targets.values()))

    def _named(self) -> dict[str, Tensor]:
        return {
            "scale": self._scale, "tracker": self._tracker, "found": self._found, "step": self.step_count,
            "skipped": self.skipped_count,
        }  # fmt: skip

    def state_dict(self) -> dict[str, Tensor]:
        """Return the scale and the counts now, by name."""
        return {name: tensor.detach() for name, tensor in self._named().items()}

    def load_state_dict(self, state: Mapping[str, object], strict: bool = True) -> LoadReport:
        """Take over what `state_dict` returned.

        Raises:
            StateError: Shapes differ, or with `strict`, names. Then nothing was changed.
        """
        return load_into(self._named(), state, "GradScaler", strict=strict)
