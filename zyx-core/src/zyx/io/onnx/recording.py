"""A network is traced at its first call, and replayed from then on.

It is a function of its inputs and its weights, so `zyx.jit` makes one plan of it for each kind of inputs, and one for
many sizes where these change from call to call (`zyx.jit.lengths`). Weights are read anew by every call. What
gradients are kept of is computed node by node, since `zyx.Tape` and ``backward`` want its history.

A network that reads values of tensors while it is computed has no such plan: it branches by them, or sizes follow from
them. All its calls are computed node by node; ``ZYX_DEBUG=plan`` says why.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from zyx.errors import TraceError
from zyx.functions.operands import is_tensor
from zyx.jit.function import Jit
from zyx.modes import is_grad_enabled
from zyx.runtime.runtime import current

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from zyx.io.onnx.values import Value
    from zyx.tensor.tensor import Tensor


class Recording:
    """What computes the outputs of a network of its inputs, both in order.

    Args:
        compute: A method that computes them node by node, of names of inputs and of these; its object is not kept
            alive.
        names: Of the inputs that calls give.
    """

    def __init__(self, compute: Callable[..., tuple[Value, ...]], names: tuple[str, ...]) -> None:
        method = weakref.WeakMethod(compute)

        def network(*given: object) -> Any:  # noqa: ANN401  # what it gives
            now = method()
            assert now is not None, "who calls it has it"
            return now(names, [_arriving(value) for value in given])

        self._eager = compute.__func__  # type: ignore[attr-defined]  # it is a method
        self._names = names
        self._jit = Jit(network)
        self._reads_values = False
        self._latest: tuple[tuple[Any, Any], ...] = ()

    def knows(self, inputs: Sequence[Value]) -> bool:
        """Whether inputs are of the dtypes and shapes of the call before."""
        latest = self._latest
        if not latest or len(latest) != len(inputs) or current().traces:  # sizes that vary are not to be compared
            return False
        for value, (dtype, shape) in zip(inputs, latest, strict=True):
            if not is_tensor(value) or value.shape != shape or value.dtype != dtype:
                return False
        return True

    def learn(self, inputs: Sequence[Value]) -> None:
        """Note what `knows` compares with, if all of them are tensors."""
        are_tensors = not current().traces and all(map(is_tensor, inputs))
        self._latest = tuple([(value.dtype, value.shape) for value in inputs]) if are_tensors else ()

    def __call__(self, model: object, inputs: Sequence[Value], weights: Iterable[Tensor]) -> tuple[Value, ...]:
        """Compute the outputs; `model` is the object of the method."""
        given = None if self._reads_values else [_leaving(value) for value in inputs]
        if given is None or not all(map(_is_taken, given)) or _has_gradients(inputs, weights):
            return self._eager(model, self._names, inputs)  # type: ignore[no-any-return]
        try:
            return self._jit(*given)  # type: ignore[no-any-return]
        except TraceError as error:
            runtime = current()
            if runtime.tracing is not None:  # a trace of the caller, who is told
                raise
            runtime.trace.not_recorded(error)
            self._reads_values = True
            return self._eager(model, self._names, inputs)  # type: ignore[no-any-return]


def _is_taken(given: object) -> bool:
    """Whether a trace takes it: no array of the host."""
    return all(map(_is_taken, given)) if isinstance(given, list) else not isinstance(given, np.ndarray)


def _tensors_in(values: Sequence[Value]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, list):
            yield from _tensors_in(value)
        elif is_tensor(value):
            yield value


def _has_gradients(inputs: Sequence[Value], weights: Iterable[Tensor]) -> bool:
    """Whether `backward` is to pass what is computed of these, which needs its history."""
    observers = current().observers
    if not observers.leaves or not is_grad_enabled():
        return False
    return bool(observers.marks_of([*_tensors_in(inputs), *weights]))


def _leaving(value: Value) -> object:
    """Return what a trace is given for an input: one number of the host by its bytes, which count by their values."""
    if value is None or is_tensor(value):
        return value
    if isinstance(value, list):
        return [_leaving(item) for item in value]
    if value.ndim or value.dtype.hasobject:
        return value
    return (value.dtype.name, value.tobytes())


def _arriving(given: object) -> Value:
    if isinstance(given, list):
        return [_arriving(item) for item in given]
    if isinstance(given, tuple):
        name, raw = given
        return np.frombuffer(raw, np.dtype(name)).reshape(())
    return given
