"""``@zyx.jit``: trace a function once for each signature, replay it from then on.

    @zyx.jit
    def step(x, y):
        with zyx.Tape() as tape:
            loss = cross_entropy(model(x), y)
        optimizer.step(tape.gradient(loss, model.parameters()))
        return loss

What a call depends on, and how that is noticed:

1. Arguments. Tensors count by shape, dtype and device; their values may change. Lists, tuples, dicts, deques,
   dataclasses and classes derived from them are looked into, to any depth, for tensors and for all the rest, and
   results come back as what they were. Floats and ints that change, and that only tensors and other numbers are
   computed with, or that are indices of tensors, are given to one trace for all of them (`zyx.jit.numbers`); a number
   that the function looks at, by a comparison, counts by its value, as do those of the parameters that are `static`.
   Every other argument, the object of a method among them, counts by its type, its exact value (1 is not 1.0, 0.0 is
   not -0.0) and what it holds now: items, attributes, what these hold, and so on (`zyx.jit.exact_key`). So does the
   default device, and so do the switches of `zyx.modes`. For each of these signatures, the function is traced at the
   first call, and once more where it turns out to look at numbers. ``ZYX_DEBUG=plan`` says when it is, and why. Sizes
   of tensors that change, ints that are sizes among them, and that follow one length, or two, are given to one trace
   for all lengths from the third or fourth one on, as far as the function does the same at these
   (`zyx.jit.lengths`); from the first one on where they are declared as of a `zyx.Dim` (`zyx.jit.dims`).
2. Tensors that the function reads or assigns without being given them (parameters, moments of an optimiser, states of
   random generators). They are found by themselves: every call reads their present values and stores the new ones. If
   one has another shape, dtype or device by then, or is gone, the function is traced again.
3. Modules, optimisers, and other objects that implement `zyx.runtime.tracing.SupportsTraceKey`, if the function was
   given or used them. They are watched: when one has changed since, the function is traced again.
4. Everything else is frozen at the trace: numbers and objects that the function finds outside, in globals, closures
   and attributes of classes, the course of its ifs and loops, what its code does besides (printing), and NumPy arrays
   that it makes tensors of, also those in attributes of arguments.

Assignments to tensors, given or found, take effect at each call; so does one tensor given twice, or given and found.
What cannot be replayed is an error: reading the values of a tensor inside (the text names the line), NumPy arrays and
iterators as arguments, changing a list, dict or dataclass that is an argument, and tensors returned in iterators, sets
and objects of other classes.

A trace is of the thread that makes it: others go on meanwhile, and what they compute, read or assign is no part of it.
The handler of a signal that comes while the main thread makes one is in the middle of it, and cannot read values.

While a `Tape` records, in whatever thread, a call runs the function itself, untraced, so that gradients pass through it
to arguments and to everything that it finds outside. That is right and slow: take gradients inside, as above.

A function keeps at most `MOST_TRACES` traces, a method as many for each object, and those go first that were not used
for longest. Each value of a number that is looked at is a trace, though only the first few are compiled: traces that
differ in numbers alone share kernels then, which are given these. A trace keeps no argument, no tensor from outside
and no object of a method alive; it goes when one that it depends on has gone.
"""

from __future__ import annotations

import copy
import functools
import sys
import types
import weakref
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, ParamSpec, Self, TypeAlias, TypeVar, overload

from zyx import modes
from zyx.errors import IndexRangeError
from zyx.lazy_import import lazy_import
from zyx.runtime.devices import GROUP
from zyx.runtime.runtime import current
from zyx.runtime.tracing import Tracing, Unfit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from zyx.jit import bucketed, dims, parameters
    from zyx.jit import entry as entries
    from zyx.jit import exact_key as keys
    from zyx.jit import lengths as traced_lengths
    from zyx.jit import numbers as traced_numbers
    from zyx.jit import static as static_parameters
    from zyx.jit import structure as structures
    from zyx.jit import traced as tracing_run
    from zyx.jit.bucketed import BucketedTrace, Call
    from zyx.jit.dims import Declared, Dim
    from zyx.jit.entry import Entry
    from zyx.jit.exact_key import Structure
    from zyx.jit.lengths import BucketReplay, TracedSizes
    from zyx.runtime.handle import Handle
    from zyx.runtime.runtime import Runtime
    from zyx.specialise.table import Outline
else:
    dims = lazy_import("zyx.jit.dims", globals())
    entries = lazy_import("zyx.jit.entry", globals())
    keys = lazy_import("zyx.jit.exact_key", globals())
    structures = lazy_import("zyx.jit.structure", globals())
    traced_lengths = lazy_import("zyx.jit.lengths", globals())
    bucketed = lazy_import("zyx.jit.bucketed", globals())
    traced_numbers = lazy_import("zyx.jit.numbers", globals())
    parameters = lazy_import("zyx.jit.parameters", globals())
    static_parameters = lazy_import("zyx.jit.static", globals())
    tracing_run = lazy_import("zyx.jit.traced", globals())

_Key: TypeAlias = "tuple[Runtime, Structure, Structure, str]"
_DimsOf: TypeAlias = "Mapping[str, Mapping[int, Dim]]"
P = ParamSpec("P")
R = TypeVar("R")

#: Most traces that are kept of one function, of a method for each object; those not used for longest go first.
MOST_TRACES: Final = 128
#: Most of them of one signature, for different states of the objects that it uses.
MOST_OF_ONE_SIGNATURE: Final = 4
#: Most calls that are remembered to have been served by traces for sizes that vary.
_MOST_REPLAYS: Final = 1024


class SignatureTraces:
    """The traces of one signature.

    Attributes:
        entries: The traces, oldest first.
        ends: References to the objects that the signature is about, and to others that it ends with. When one of them
            dies, the signature is forgotten.
        owner: The number of the first of these objects, which is that of a method; 0 if there are none.
        used: The number of the last call that it was used for.
    """

    __slots__ = ("ends", "entries", "owner", "used")

    def __init__(
        self, objects: Sequence[object], others: Sequence[object], forget: Callable[[weakref.ref[object]], None]
    ) -> None:
        self.entries: list[Any] = []  # for many lengths, `zyx.jit.bucketed.BucketedTrace`
        self.ends = [weakref.ref(object_, forget) for object_ in (*objects, *others)]
        self.owner = id(objects[0]) if objects else 0
        self.used = 0


class _Latest(NamedTuple):
    """The trace that served the latest call, where it may serve the next one without being looked for.

    Attributes:
        among: What it depends on besides its arguments.
        kept: Where it is kept.
        entry: The trace.
    """

    among: tuple[object, ...]
    kept: SignatureTraces
    entry: Entry


class _Alike(NamedTuple):
    """What is known of the calls that differ from one in numbers alone.

    Attributes:
        key: What they have in common.
        varying: Which of their numbers are looked at.
        sized: Which of the numbers are sizes, and the sizes that were seen, of calls at other lengths as well.
        static: The places of numbers that count by their values.
    """

    key: _Key
    varying: Outline
    sized: Outline
    static: frozenset[int]


def _shared_key(like: _Key, varying: Outline, numbers: Sequence[float]) -> _Key | None:
    """Return what the trace that is for all `numbers` is kept by; None if each has a trace of its own.

    The first call is traced with its numbers, which may never change. With the second a trace is made for all, to which
    the numbers are given; but for those that the function looks at, each value of which has its own.
    """
    if len(varying.kept) == len(numbers) or tuple(numbers) == varying.first:
        return None
    runtime, structure, state, device = like
    if GROUP in device:
        return None  # a plan of several devices takes buffers
    fixed = tuple([(place, keys.exact_key(numbers[place])) for place in sorted(varying.kept)])
    return (runtime, ("numbers", structure, fixed), state, device)


class Jit(Generic[P, R]):
    """A function that is traced and replayed; see the module.

    Copies of it have traces of their own, and so have those that belong to copied objects.
    """

    def __init__(
        self, function: Callable[P, R], static: str | Iterable[str] = (), lengths: _DimsOf | None = None
    ) -> None:
        functools.update_wrapper(self, function, updated=())  # a module is a function, too, and its attributes its own
        parameters.check_function(function)
        self._wrapped = function
        self._name: str = getattr(function, "__qualname__", "a function")
        self._static = (static,) if isinstance(static, str) else tuple(static)
        self._static_places = None
        if self._static:
            self._static_places = static_parameters.StaticParameters(function, self._static).places
        self._lengths = lengths
        self._declared = None
        if lengths:
            self._declared = dims.DeclaredLengths(function, lengths).declared
        # A bound method is a function whose first argument is known, so that what that object has is looked at.
        is_bound = isinstance(function, types.MethodType)
        self._function: Callable[..., R] = function.__func__ if is_bound else function  # type: ignore[attr-defined]
        self._bound: tuple[object, ...] = (function.__self__,) if is_bound else ()  # type: ignore[attr-defined]
        self._kept: dict[_Key, SignatureTraces] = {}
        self._token = object()  # by which the runtime knows its calls
        self._replays: dict[_Key, BucketReplay] = {}
        self._latest: _Latest | None = None
        self._calls = 0

    @property
    def traces(self) -> list[Entry]:
        """The traces there are: for each signature seen, one for each state of the objects it uses."""
        return [entry for kept in list(self._kept.values()) for entry in kept.entries]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        runtime = current()
        if runtime.traces and runtime.tracing is not None:  # part of the function that is being traced
            return self._wrapped(*args, **kwargs)
        if runtime.observers.references and runtime.observers.are_recording:  # what it computes has to have a history
            if self._declared is not None:
                self._declared(self._bound, args, kwargs)
            return self._wrapped(*args, **kwargs)
        latest = self._latest
        if latest is not None and not kwargs:
            if latest.among == (runtime, modes.state(), runtime.default_device):
                with runtime.lock:
                    again = latest.entry.again(args)
                    if again is not None:
                        self._calls = latest.kept.used = self._calls + 1
                        return again  # type: ignore[return-value]  # what the function returns
        given: tuple[object, ...] = (*self._bound, *args) if self._bound else args
        tensors: list[Handle] = []
        structure = structures.take_apart((given, kwargs) if kwargs else given, tensors)
        state: Structure = modes.state()
        if runtime.observers.leaves and (marks := runtime.observers.marks_of(tensors)):
            state = (state, marks)  # where the gradients of a backward() in the function go
        return self._run((runtime, structure, state, runtime.default_device), given, args, kwargs, tensors)

    def _run(
        self,
        key: _Key,
        given: tuple[object, ...],
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        tensors: list[Handle],
    ) -> R:
        """Return what a call gives, by a trace that is there or a new one; `given` is all that is given by position."""
        runtime = key[0]
        traced: Entry | None = None
        tracing: Tracing | None = None  # kept here, since it keeps what was found until the first run
        alike: _Alike | None = None
        shared: _Key | None = None  # the key of the trace for all of these, where there is one, or is to be
        is_unfit = False  # whether that trace is for others, but not for this call
        numbers: list[float] = []
        while True:
            with runtime.lock:
                kept = self._kept.get(shared or key)
                if kept is not None:
                    self._calls = kept.used = self._calls + 1
                    for entry in kept.entries:  # another thread may have been first
                        outside = entry.found(tensors)
                        if outside is not None:
                            if entry.is_plain and len(tensors) == len(args) and not self._bound:
                                self._latest = _Latest((key[0], *key[2:]), kept, entry)
                            try:
                                return entry.run(tensors, outside, numbers)  # type: ignore[no-any-return]
                            except Unfit:
                                is_unfit = True
                                break
                elif alike is None and (served := self._replays.get(key)) is not None:
                    results = served.run(tensors)
                    if results is not None:
                        self._calls = served.kept.used = self._calls + 1
                        return results[0]  # type: ignore[no-any-return]
                if traced is not None:
                    self._keep(shared or key, traced)
                    outside = traced.found_tensors()
                    if outside is not None:  # or another thread has changed one meanwhile
                        result = traced.run(tensors, outside, numbers)
                        tracing = None
                        traced.settle()
                        return result  # type: ignore[no-any-return]
            if is_unfit:
                shared, is_unfit = None, False
                continue
            if alike is None:
                alike, done = self._alike(key, given, args, kwargs, tensors, numbers)
                if alike is None:
                    return done  # type: ignore[return-value]  # there is the one or the other
                shared = _shared_key(alike.key, alike.varying, numbers)
                if shared is not None:
                    continue
            tracing = Tracing(runtime)
            if runtime.trace.plans:
                runtime.trace.traced(self._name, self._reason(shared, key))
            traced = self._traced(given, kwargs, tensors, tracing, runtime, None if shared is None else alike, numbers)
            if shared is not None:
                shared = _shared_key(alike.key, alike.varying, numbers)

    def _alike(
        self,
        key: _Key,
        given: tuple[object, ...],
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        tensors: list[Handle],
        numbers: list[float],
    ) -> tuple[_Alike, None] | tuple[None, R]:
        """Return what is known of calls like this one; or what it gives, by a trace for sizes that vary.

        To `numbers` those among the arguments are added.
        """
        runtime = key[0]
        like = structures.take_apart((given, kwargs) if kwargs else given, [], numbers)
        static = self._static_places(self._bound, args, kwargs) if self._static_places else frozenset[int]()
        shapes = tuple([tensor._node.shape for tensor in tensors])
        declared = self._declared and self._declared(self._bound, args, kwargs)
        first = tuple(numbers)
        with runtime.lock:
            sized, is_new = runtime.outlines.outline((self._token, like, *key[2:]), first, self)
            sizes = sized.sizes(sum(shapes, ()), numbers)
            if is_new:
                sized.rows = [sizes]
        if declared or sized.symbolics or sized.sized or sized.rows != [sizes]:
            call = bucketed.Call(runtime, self._name, self._function, given, kwargs, tensors, numbers, static)
            done = self._at_length((runtime, like, *key[2:]), sized, call, sizes, declared)
            if done is not None:
                if len(self._replays) >= _MOST_REPLAYS:
                    self._replays.clear()
                result, self._replays[key] = done
                return None, result
        with runtime.lock:
            varying, is_new = runtime.outlines.outline((self._token, like, shapes, *key[2:]), first, self)
            if is_new:
                varying.kept = static
        return _Alike((runtime, (like, shapes), *key[2:]), varying, sized, static), None

    def _traced(
        self,
        given: tuple[object, ...],
        kwargs: Mapping[str, object],
        tensors: list[Handle],
        tracing: Tracing,
        runtime: Runtime,
        alike: _Alike | None,
        numbers: Sequence[float],
    ) -> Entry | None:
        """Return the trace of a call, or, if `alike` says of which, for all of these.

        None if that fails: then more of the numbers are known to be looked at, and one for fewer calls may not.
        """
        stand_ins = None if alike is None else traced_numbers.Numbers(alike.varying.kept)
        traced: Entry | None = None
        try:
            run = tracing_run.Traced(self._function, given, kwargs, tensors, tracing, runtime, stand_ins)
            traced = entries.Entry(run)
            tracing.finish()
        except traced_numbers.LookedAt:
            assert alike is not None
            assert stand_ins is not None
            alike.varying.kept = stand_ins.looked_at
        except IndexRangeError:  # of this call, and of no others
            raise
        except Exception:  # the function takes no stand-ins, or the device no numbers; or it fails anyway
            if alike is None:
                raise
            alike.varying.kept = frozenset(range(len(numbers)))
        if alike is not None:
            kept = alike.varying.kept - alike.static
            alike.sized.vary_as_sizes(frozenset([i for i in kept if type(numbers[i]) is int]))
        return traced

    def _at_length(
        self, key: _Key, outline: Outline, call: Call, sizes: tuple[int, ...], declared: Declared | None
    ) -> tuple[R, BucketReplay] | None:
        """Return what a call gives by a trace for sizes that vary; None if it is to have a trace of its own."""
        if call.runtime.planner.is_deterministic or GROUP in key[3]:
            return None  # other kernels add up in another order; and plans of several devices take buffers

        def key_of(way: TracedSizes) -> _Key:
            return (key[0], ("lengths", key[1], way.number), key[2], key[3])

        def keep(way: TracedSizes, trace: BucketedTrace) -> SignatureTraces:
            self._replays.clear()
            return self._keep(key_of(way), trace, way)

        return traced_lengths.run_at_length(
            outline, call, sizes, declared, lambda way: self._kept.get(key_of(way)), keep
        )

    def _reason(self, shared: _Key | None, key: _Key) -> str:
        """Say why it is traced now."""
        if not self._kept:
            return "this is the first call"
        if self._kept.get(shared or key) is not None:
            return "what it found outside of itself has changed"
        if shared is None:
            return "its arguments are of another kind, or have other values that it looks at"
        return "numbers among its arguments change, and are given to one trace from now on"

    def _keep(self, key: _Key, traced: Entry | BucketedTrace, *ends: object) -> SignatureTraces:
        """Keep a new trace, return where, and forget those that will not be used again, or that are too many."""
        kept = self._kept.get(key)
        if kept is None:
            forget = functools.partial(_forget, weakref.ref(self), key)
            kept = self._kept[key] = SignatureTraces([*keys.identities_in(key[1])], ends, forget)
        still = [entry for entry in kept.entries if not entry.is_stale()][1 - MOST_OF_ONE_SIGNATURE :]
        kept.entries = [*still, traced]
        self._calls = kept.used = self._calls + 1
        self._forget_oldest(kept.owner)
        key[0].release_discarded()
        return kept

    def _forget_oldest(self, owner: int) -> None:
        """Forget the traces that are too many of one object, those not used for longest."""
        # Of the keys alone: making pairs may collect garbage, and that forgets traces.
        beside = [(known, one) for known in list(self._kept) if (one := self._kept.get(known)) and one.owner == owner]
        beside.sort(key=lambda item: -item[1].used)
        count = 0
        for known, one in beside:
            count += len(one.entries)
            if count > MOST_TRACES:
                self._kept.pop(known, None)

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., R]:
        """Bind to an object, as a method does."""
        return self if instance is None else types.MethodType(self, instance)

    def __copy__(self) -> Self:
        return type(self)(self._wrapped, self._static, self._lengths)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)(copy.deepcopy(self._wrapped, memo), self._static, self._lengths)

    def __reduce__(self) -> str | tuple[object, ...]:
        """Pickle as functions are, by name, if that is the name of this one; else with the function that it wraps."""
        name = getattr(self, "__qualname__", "")
        found: object = sys.modules.get(getattr(self, "__module__", ""))
        for part in name.split("."):
            found = getattr(found, part, None)
        return name if found is self else (type(self), (self._wrapped, self._static, self._lengths))

    def clear(self) -> None:
        """Forget all traces."""
        for runtime in {key[0] for key in self._kept}:
            runtime.outlines.forget(self._token)
        self._kept.clear()
        self._replays.clear()
        self._latest = None


def _forget(reference: weakref.ref[Jit[Any, Any]], key: Any, _: object) -> None:  # noqa: ANN401
    """Forget a signature, of which an object has died. May be called anywhere, and takes no lock."""
    jitted = reference()
    if jitted is not None and jitted._kept.pop(key, None) is not None and key[1][0] == "lengths":
        jitted._replays.clear()


@overload
def jit(function: Callable[P, R], *, static: str | Iterable[str] = (), lengths: _DimsOf | None = None) -> Jit[P, R]: ...
@overload
def jit(
    *, static: str | Iterable[str] = (), lengths: _DimsOf | None = None
) -> Callable[[Callable[P, R]], Jit[P, R]]: ...


def jit(
    function: Callable[P, R] | None = None, *, static: str | Iterable[str] = (), lengths: _DimsOf | None = None
) -> Jit[P, R] | Callable[[Callable[P, R]], Jit[P, R]]:
    """Return `function` as one that is traced once a signature and replayed from then on; see `zyx.jit.function`.

    Args:
        function: What is traced. Without it, a decorator is returned: ``@zyx.jit(static="depth")``.
        static: Names of parameters. Each value of a number that is given there has a trace of its own, and is that
            number while it is traced; no other argument counts differently for it.
        lengths: Axes of arguments whose lengths change from call to call, by the name of the parameter:
            ``@zyx.jit(lengths={"x": {0: zyx.Dim("n", 1, 8192)}})``. There is one trace for all of them from the first
            call on. Of a parameter that is given several tensors, the axis of each is declared.

    Raises:
        DimError: Dims that contradict. When called: a length out of its bounds, or axes of one Dim that differ.
        TraceError: `function` is a generator, an async function, or cannot be called, or has no such parameter. When
            called: it reads the values of a tensor, is given a NumPy array or an iterator, changes a list or dict that
            is an argument, or returns an iterator or tensors in objects that are not looked into.

    >>> zyx.jit(lambda x: x * 2)(zyx.Tensor([1.0, 2.0])).tolist()
    [2.0, 4.0]
    """
    if function is None:
        return functools.partial(Jit, static=static, lengths=lengths)
    return Jit(function, static, lengths)
