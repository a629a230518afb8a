"""The loop in which a model learns: batches, losses, gradients, steps.

    tuning = Tuning(network, train, validation, Choices(steps=50))
    for loss in tuning.run():
        print(tuning.step, loss)
    save_checkpoint("adapter.safetensors", tuning)

The loss is the mean cross entropy of each next token that counts, in nats. A step adds up the gradients of several
batches, as if they were one: its mean is over what counts in all of them. It is AdamW's, at a rate that rises evenly
over the first steps, and falls along half a cosine to 0 at the last one.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import zyx
from zyx.errors import InvalidArgumentError, StateError, ZyxError
from zyx.optim import AdamW, CosineAnnealingLR, LinearWarmup, clip_grad_norm
from zyx_llm.model import NoCache
from zyx_llm.tuning.lora import TARGETS, new_adapters
from zyx_llm.tuning.packing import ROW, batch_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zyx_llm.model import Transformer
    from zyx_llm.tuning.packing import Rows

#: What `zyx.cross_entropy` is told in place of a token that does not count.
_IGNORED: Final = -100


class DivergedError(ZyxError, ArithmeticError):
    """A loss or a gradient is no finite number; the text says where, and the step was not made."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What decides what is learned, beside model and texts.

    Attributes:
        steps: How many.
        batch: Sequences at a time.
        accumulate: Batches whose gradients a step adds up, as if they were one.
        rank: Of adapters; None changes all weights instead, which have to be float32.
        alpha: See `new_adapters`; None is `rank`.
        targets: See `new_adapters`.
        rate: The greatest learning rate.
        warmup: Steps in which it rises.
        decay: AdamW's weight decay.
        clip: The greatest norm of all gradients; what is longer is scaled to that.
        seed: Of what adapters begin with, and of the order of sequences.
    """

    steps: int = 100
    batch: int = 1
    accumulate: int = 1
    rank: int | None = 8
    alpha: float | None = None
    targets: tuple[str, ...] = TARGETS
    rate: float = 2e-4
    warmup: int = 10
    decay: float = 0.0
    clip: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("steps", 0), ("batch", 1), ("accumulate", 1), ("warmup", 0)):
            if getattr(self, name) < least:
                raise InvalidArgumentError(f"{name} is at least {least}, not {getattr(self, name)}")
        for name in ("rate", "decay", "clip"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0.0):
                raise InvalidArgumentError(f"{name} is a number of at least 0, not {getattr(self, name)}")
        if self.alpha is None and self.rank is not None:
            object.__setattr__(self, "alpha", float(self.rank))

    @property
    def schedule(self) -> LinearWarmup | CosineAnnealingLR:
        """The learning rate of each step."""
        # The first step has a rate above 0: step s of w has (s + 1) / (w + 1) of it.
        falling = CosineAnnealingLR(self.rate, max(self.steps - self.warmup, 1))
        return LinearWarmup(falling, self.warmup, 1.0 / (self.warmup + 1)) if self.warmup else falling


class Tuning:
    """A network that learns.

    Args:
        network: Its weights stay as they are, unless `choices` say that they are what changes.
        train: ``(n, length + 1)``, tokens to learn from, and which count; see `zyx_llm.tuning.packing`.
        validation: ``(m, length + 1)``; of 0 rows, there is no loss for them.
        choices: What decides the rest.

    Raises:
        InvalidArgumentError: What are no rows of `packed`, or longer than the network's context, or have tokens that it
            has not; or all weights are to change and some are packed or of other floats.
        The errors of `new_adapters`.

    Attributes:
        network: What learns, adapters included.
        adapters: By the names of matrices; none if all weights change.
        params: What changes, by name.
        optimizer: What changes them.
        choices: What was chosen.
        length: Tokens of a sequence that are told.
        step: How many steps were made.
        losses: For each name, "train" and "validation", losses by the number of steps made before.
        data_digest: Of the tokens, and of which count unless all do.
    """

    def __init__(self, network: Transformer, train: Rows, validation: Rows, choices: Choices) -> None:
        if {train.dtype, validation.dtype} != {ROW}:
            raise InvalidArgumentError(f"sequences are {ROW}, as `packed` returns them, not {train.dtype}")
        longest = max(train.shape[1], validation.shape[1]) - 1
        if longest > network.length:
            raise InvalidArgumentError(f"sequences of {longest} tokens are longer than the context of {network.length}")
        greatest = max(rows["token"].max(initial=0) for rows in (train, validation))
        if not len(train) or greatest >= network.config.vocabulary:
            raise InvalidArgumentError(f"there are no tokens to learn from, or some beyond {network.config.vocabulary}")
        self.choices, self.step = choices, 0
        self.losses: dict[str, dict[str, float]] = {"train": {}, "validation": {}}
        self.adapters = {}
        if choices.rank is not None:
            self.adapters = new_adapters(
                network, choices.rank, choices.alpha, targets=choices.targets, seed=choices.seed
            )
            parts = [
                (f"{name}.lora_{part}", getattr(each, part)) for name, each in self.adapters.items() for part in "ab"
            ]
            self.params: dict[str, zyx.Tensor] = dict(parts)
        else:
            self.params = _floats(network)
        self.network = network.adapted(self.adapters)
        self.optimizer = AdamW(self.params, choices.schedule, weight_decay=choices.decay)
        self.length = train.shape[1] - 1
        self._train, self._validation = train, validation
        self.data_digest = _digest(train, validation)
        params, optimizer = [*self.params.values()], self.optimizer

        def gradients(tokens: zyx.Tensor, counts: zyx.Tensor, total: zyx.Tensor) -> tuple[zyx.Tensor, list[zyx.Tensor]]:
            with zyx.Tape() as tape:
                loss = loss_of(self.network, tokens, counts, total)
            return loss, tape.gradient(loss, params)

        @zyx.jit
        def added(sums: list[zyx.Tensor], more: list[zyx.Tensor]) -> list[zyx.Tensor]:
            return [one + other for one, other in zip(sums, more, strict=True)]

        @zyx.jit
        def bounded(sums: list[zyx.Tensor]) -> tuple[list[zyx.Tensor | None], zyx.Tensor]:
            return clip_grad_norm(sums, choices.clip)

        @zyx.jit
        def change(grads: list[zyx.Tensor | None]) -> None:
            optimizer.step(grads)

        self._untraced = gradients
        self._gradients, self._added, self._bounded, self._change = zyx.jit(gradients), added, bounded, change
        self._loss = zyx.jit(lambda tokens, counts, total: loss_of(self.network, tokens, counts, total))

    def load(self, params: Mapping[str, zyx.Tensor], optimizer: Mapping[str, zyx.Tensor]) -> None:
        """Take over what was learned, and the state of the optimiser.

        Raises:
            StateError: Names or shapes differ. Then nothing was changed.
        """
        for name in {*params} ^ {*self.params}:
            raise StateError(f"{name} is in only one of what was saved and what is to go on")
        for name, tensor in self.params.items():
            if params[name].shape != tensor.shape:
                raise StateError(f"{name} was saved as {params[name].shape}, and is {tensor.shape}")
        self.optimizer.load_state_dict(optimizer)
        for name, tensor in self.params.items():
            tensor[...] = params[name]
            tensor.realize()

    def run(self) -> Iterator[float]:
        """Make the steps that are left, and give the loss of each, that before its change.

        Raises:
            DivergedError: A loss or a gradient is no finite number. The step was not made.
        """
        while self.step < self.choices.steps:
            loss = self._make_step()
            self.losses["train"][str(self.step)] = loss
            self.step += 1
            yield loss

    def _make_step(self) -> float:
        size, count = self.choices.batch, self.choices.accumulate
        rows = batch_of(self._train, self.step, size * count, self.choices.seed)
        total = _counted(rows)
        sums: list[zyx.Tensor] = []
        losses = []
        for number in range(count):
            loss, found = self._gradients(*self._given(rows[number * size : (number + 1) * size], total))
            losses.append(self._finite(loss, f"loss of batch {number + 1} of {count}"))
            sums = self._added(sums, found) if sums else found
        grads, norm = self._bounded(sums)
        self._finite(norm, "norm of the gradients")
        self._change(grads)
        return math.fsum(losses)

    def _finite(self, value: zyx.Tensor, what: str) -> float:
        found = float(value.item())
        if not math.isfinite(found):
            raise DivergedError(
                f"the {what} is {found} in step {self.step + 1} of {self.choices.steps}, which was not made: a lower "
                f"rate than {self.choices.rate:g} or more warm-up than {self.choices.warmup} steps may do"
            )
        return found

    def validate(self) -> float | None:
        """Return the mean loss of the sequences to validate with, and note it; None if there are none."""
        if not len(self._validation):
            return None
        total = _counted(self._validation)
        found = self.losses["validation"][str(self.step)] = math.fsum(
            self._loss(*self._given(self._validation[first : first + self.choices.batch], total)).item()
            for first in range(0, len(self._validation), self.choices.batch)
        )
        return found

    def memory_bytes(self) -> dict[str, int]:
        """Return how many bytes a step takes, by what for; kernels are compiled for that, and nothing is run.

        What is computed in between is as the plan of a step has it, where memory is used again.
        """
        loss, found = self._untraced(*self._given(self._train[[0] * self.choices.batch], 1))
        plan = zyx.explain_plan(loss, *found)
        changed = sum(tensor.nbytes for tensor in self.params.values())
        return {
            "weights": self.network.weight_bytes,
            "adapters": changed if self.adapters else 0,
            "state of AdamW": sum(tensor.nbytes for tensor in self.optimizer.state_dict().values()),
            # Of one batch, or their sum with those of the next; and those that were bounded.
            "gradients": (2 if self.choices.accumulate == 1 else 3) * changed,
            "values in between": sum(each["bytes"] for each in plan["temporaries"]),
        }

    def _given(self, rows: Rows, total: int) -> tuple[zyx.Tensor, zyx.Tensor, zyx.Tensor]:
        """Return what `loss_of` takes."""
        parts = (np.ascontiguousarray(rows["token"]), np.ascontiguousarray(rows["counts"]), np.float32(total))
        tokens, counts, divisor = (zyx.Tensor(part, device=self.network.device) for part in parts)
        return tokens, counts, divisor


def loss_of(
    network: Transformer, tokens: zyx.Tensor, counts: zyx.Tensor | None = None, total: zyx.Tensor | None = None
) -> zyx.Tensor:
    """Return the mean cross entropy of each next token that counts, in nats; 0 if none does.

    Args:
        network: What tells them.
        tokens: ``(rows, length + 1)``, integers.
        counts: ``(rows, length + 1)``, bool, of which the first column is not looked at; None is all.
        total: By which number the sum is divided, instead of by how many count here; the losses of parts of a batch
            then add up to that of the batch.
    """
    told = tokens[:, 1:]
    if counts is not None:
        total = counts[:, 1:].sum() if total is None else total
        told = zyx.where(counts[:, 1:], told, _IGNORED)
    elif total is None:
        total = zyx.Tensor(float(told.size), device=network.device)
    start = zyx.zeros((), dtype=zyx.int32, device=network.device)
    logits = network.logits(network.hidden(tokens[:, :-1], start, NoCache(tokens.shape[1] - 1)))
    losses = zyx.cross_entropy(
        logits.reshape((-1, logits.shape[-1])), told.reshape((-1,)), ignore_index=_IGNORED, reduction="sum"
    )
    return losses / zyx.maximum(total.astype(losses.dtype), 1.0)


def _counted(rows: Rows) -> int:
    return int(rows["counts"][:, 1:].sum())


def _digest(train: Rows, validation: Rows) -> str:
    parts = (train, validation)
    fields = ("token",) if all(rows["counts"].all() for rows in parts) else ("token", "counts")
    data = b"|".join(np.ascontiguousarray(rows[field]).tobytes() for field in fields for rows in parts)
    return hashlib.sha256(data).hexdigest()


def _floats(network: Transformer) -> dict[str, zyx.Tensor]:
    """Return all weights, which change in place."""
    found: dict[str, Any] = network.weights
    for name, weight in found.items():
        if not isinstance(weight, zyx.Tensor) or weight.dtype is not zyx.float32:
            kind = weight.dtype if isinstance(weight, zyx.Tensor) else f"packed as {weight.format}"
            raise InvalidArgumentError(
                f"{name} is {kind}, and weights have to be float32 to be changed: load the model with that dtype, or "
                "learn adapters"
            )
    return found
