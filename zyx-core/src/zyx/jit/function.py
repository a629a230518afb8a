"""``@zyx.jit``: trace a function once for each signature, replay it from then on.

    @zyx.jit
    def step(x, y):
        with zyx.Tape() as tape:
            loss = cross_entropy(model(x), y)
        optimizer.step(tape.gradient(loss, model.parameters()))
        return loss

The signature is the structure of the arguments, the shapes, dtypes and devices of the tensors in them, every other
argument's value, the default device, and the switches of `zyx.modes`. Tensors that the function reads or assigns
without being given them (parameters, moments of an optimiser, states of random generators) are found by itself: every
call reads their present values and stores the new ones.

What is frozen at the first call of a signature: everything that is not a tensor, that is Python numbers and objects
that the function finds outside, the course of its ifs and loops, and arrays that it makes tensors of. Modules,
optimisers and other objects that implement `zyx.runtime.tracing.SupportsTraceKey` are watched: when one that the
function used has changed since, it is traced again. Reading the values of a tensor inside is an error that names the
line.

While a `Tape` records, in whatever thread, a call runs the function itself, untraced, so that gradients pass through it
to arguments and to everything that it finds outside. That is right and slow: take gradients inside, as above.
"""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Final, Generic, ParamSpec, TypeVar

from zyx import modes
from zyx.jit.entry import Entry
from zyx.jit.structure import take_apart
from zyx.runtime.runtime import current
from zyx.runtime.tracing import Tracing

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.jit.structure import Structure
    from zyx.runtime.handle import Handle
    from zyx.runtime.runtime import Runtime

P = ParamSpec("P")
R = TypeVar("R")

#: Most traces that are kept of one signature, for different states of the objects that it uses.
_MOST_TRACES: Final = 4


class Jit(Generic[P, R]):
    """A function that is traced and replayed; see the module."""

    def __init__(self, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function, updated=())  # a module is a function, too, and its attributes its own
        self._function = function
        self._entries: dict[tuple[Runtime, Structure, Structure, str], list[Entry]] = {}

    @property
    def traces(self) -> list[Entry]:
        """The traces there are: for each signature seen, one for each state of the objects it uses."""
        return [entry for entries in self._entries.values() for entry in entries]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        runtime = current()
        if runtime.traces and runtime.tracing is not None:  # part of the function that is being traced
            return self._function(*args, **kwargs)
        if runtime.observers.references and runtime.observers.are_recording:  # what it computes has to have a history
            return self._function(*args, **kwargs)
        tensors: list[Handle] = []
        structure = take_apart((args, kwargs), tensors) if kwargs else take_apart(args, tensors)
        key = (runtime, structure, modes.state(), runtime.default_device)
        traced: Entry | None = None
        while True:
            with runtime.lock:
                for entry in self._entries.get(key, ()):
                    outside = entry.found(tensors)
                    if outside is not None:
                        if traced is not None:  # another thread was first
                            traced.close()
                        return entry.run(tensors, outside)  # type: ignore[no-any-return]
                if traced is not None:
                    self._keep(key, traced)
                    outside = traced.found_tensors()
                    if outside is not None:  # or another thread has changed one meanwhile
                        return traced.run(tensors, outside)  # type: ignore[no-any-return]
            tracing = Tracing(runtime)  # kept here, since it keeps what was found until the first run
            traced = Entry(self._function, args, kwargs, tensors, tracing, runtime)

    def _keep(self, key: tuple[Runtime, Structure, Structure, str], traced: Entry) -> None:
        """Keep a new trace, and forget those of its signature that will not be used again."""
        kept = [entry for entry in self._entries.get(key, ()) if not entry.is_stale()][1 - _MOST_TRACES :]
        for entry in self._entries.get(key, ()):
            if entry not in kept:
                entry.close()
        self._entries[key] = [*kept, traced]

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., R]:
        """Bind to an object, as a method does."""
        return self if instance is None else types.MethodType(self, instance)

    def clear(self) -> None:
        """Forget all traces."""
        for entry in self.traces:
            entry.close()
        self._entries.clear()


def jit(function: Callable[P, R]) -> Jit[P, R]:
    """Return `function` as one that is traced once a signature and replayed from then on; see `zyx.jit.function`.

    Raises (when called):
        TraceError: The function reads the values of a tensor, or was given a NumPy array.
    """
    return Jit(function)
