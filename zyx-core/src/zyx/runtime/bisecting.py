"""Find the stage of a kernel that makes a number wrong: on what a program gives it, stage by stage.

    graph -> prepared graph -> nests -> each move -> kernel as lowered -> each pass -> device

Of each launch the inputs are kept. The reference is the graph, evaluated in float64 and in its own types
(`zyx.graph.evaluate`). Where the device's result is another, the stages are made again and run by their interpreters,
and the first whose result is another than the reference is the one. A launch whose graph is not known is compared with
its nests, and a hand-written kernel with itself as it was written. What a graph becomes before it is divided into
kernels is compared with it on drawn values (`zyx.runtime.prepared`).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zyx.backend import PoolBuffer
from zyx.errors import BackendError, LaunchError, UnsupportedError, VerifyError, ZyxError
from zyx.graph.evaluate import evaluate
from zyx.graph.lines import in_lines, lines_of
from zyx.graph.printer import format_graph
from zyx.kernel.run import run as run_kernel
from zyx.kernel.verify import verify
from zyx.nest.run import run_nest
from zyx.passes.simplify import simplify
from zyx.runtime.differences import Difference, Expected, first_difference, shifted
from zyx.runtime.first_rule import first_rule
from zyx.runtime.prepared import difference_of_graphs, points_of_graph
from zyx.runtime.stages import Following, texts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zyx.backend import Argument, Device, Event
    from zyx.dtype import DType, Scalar
    from zyx.graph.node import Node
    from zyx.kernel.data import Kernel
    from zyx.nest.data import Nest
    from zyx.runtime.stages import Making
    from zyx.runtime.steps import LaunchStep

    Array = np.ndarray[Any, Any]

#: Points of all statements of a kernel up to which it is looked at, if nothing else is asked for. NumPy goes over them
#: in a second; the interpreter of kernels, which runs where something is wrong, in a minute.
MOST_POINTS: Final = 1 << 22
#: Launches of a kernel of a plan that are looked at, if nothing else is asked for.
LAUNCHES: Final = 1
_REPEATED: Final = "enough of its launches were looked at"


@dataclass(frozen=True, slots=True)
class Finding:
    """The first stage of a kernel that differs.

    Attributes:
        kernel: The kernel, its device and the lines of the program; of a graph that is not divided yet, how many
            results it has, and the same.
        launch: Which launch of it, from 1 on; 0 of a graph.
        stage: What made it wrong: ``preparation`` of a graph, ``fusion``, ``move``, ``schedule``, ``lowering``,
            ``pass``, or ``device``: the renderer, its compiler, or the device.
        step: The move, or the name of the pass.
        difference: How the results differ; None if there are none.
        error: What the stage raised in place of giving results.
        before: The text before it.
        after: The text after it.
        hint: What else is known.
    """

    kernel: str
    launch: int
    stage: str
    step: str
    difference: Difference | None
    error: str
    before: str
    after: str
    hint: str = ""

    def __str__(self) -> str:
        what = f"{self.stage} {self.step}".rstrip()
        said = str(self.difference) if self.difference is not None else self.error
        where = f"kernel {self.kernel}, launch {self.launch}" if self.launch else self.kernel
        lines = [f"{where}: {what}: {said}"]
        lines += [self.hint] if self.hint else []
        return "\n".join([*lines, f"---- before {what}", self.before, f"---- after {what}", self.after])


@dataclass(frozen=True, slots=True)
class _Step:
    """A stage, or a part of one, and what computes its results from the arguments of a launch."""

    stage: str
    step: str
    text: str
    run: Callable[[Sequence[Array | Scalar]], list[Array]]
    kernel: Kernel | None = None


class Bisection(Following):
    """A `zyx.runtime.trace.Profiler` that compares launches with what they are to compute.

    Args:
        tolerance: How far floats may be off, as a part of their size; None for what their type allows.
        most_points: Kernels of more points are not looked at.
        launches: How many launches of each kernel of a plan are looked at.
        every_stage: Whether stages are run where the device's result is right, too.

    Attributes:
        findings: What differs, at most one for each launch.
        compared: Number of launches that were compared.
        repeated: Number of launches of kernels of which enough were looked at.
        passed_over: Kernels that were not looked at, with the reason, and how many launches of them.
    """

    def __init__(
        self,
        *,
        tolerance: float | None = None,
        most_points: int = MOST_POINTS,
        launches: int = LAUNCHES,
        every_stage: bool = False,
    ) -> None:
        super().__init__()
        self.findings: list[Finding] = []
        self.compared = 0
        self.repeated = 0
        self.passed_over: dict[tuple[str, str], int] = {}
        self._tolerance = tolerance
        self._most_points = most_points
        self._most_launches = launches
        self._every_stage = every_stage
        self._count: dict[Making | str, int] = {}

    def prepared(self, outputs: Sequence[Node], prepared: Sequence[Node], device: Device) -> None:
        """Compare a graph with what it has become for a device, on drawn values."""
        if all(new is old or new.sources == (old,) for old, new in zip(outputs, prepared, strict=True)):
            return  # nothing has changed but that it is stored
        where = f"graph of {len(outputs)} on {device.name}{in_lines(lines_of(outputs))}"
        points = max(points_of_graph(outputs), points_of_graph(prepared))
        if points > self._most_points:
            self._pass_over(where, f"{points} elements are more than {self._most_points}, the limit (--points)")
            return
        try:
            difference = difference_of_graphs(outputs, prepared, self._tolerance)
        except UnsupportedError as error:
            self._pass_over(where, f"it cannot be evaluated: {error}")
            return
        if difference is not None:
            texts = format_graph(outputs), format_graph(prepared)
            hint = "its leaves were given drawn values"
            self.findings.append(Finding(where, 0, "preparation", "", difference, "", *texts, hint))

    def launch(self, step: LaunchStep, args: Sequence[Argument], events: Sequence[Event]) -> Event:
        """Launch and wait, and compare the result."""
        device, pool = step.device, step.device.memory_pool
        pool.sync_events(events)
        making = self.of(step)
        why = self._reason(step, making, args)
        if making is None or why:
            if why == _REPEATED:
                self.repeated += 1
            else:
                self._pass_over(step.program.name if making is None else making.where, why)
            return device.launch(step.program, args)
        arguments = _read(making, args, device)
        self.compared += 1
        try:
            pool.sync_events([device.launch(step.program, args)])
        except BackendError as error:
            self._compare(making, arguments, None, f"{type(error).__name__}: {error}")
            raise
        after = _read(making, args, device)
        self._compare(making, arguments, [np.asarray(after[place]) for place in _places_written(making)])
        return pool.completed()

    def _reason(self, step: LaunchStep, making: Making | None, args: Sequence[Argument]) -> str:
        """Return why a launch is not looked at; nothing if it is."""
        if making is None:
            return "its plan was made before, or by other means"
        if making.source is None and making.custom is None:
            return "a backend's own program computes it"
        if len(args) != len(step.args) + len(step.given) + len(step.starts):
            return "a buffer is empty"
        if not making.has_all_ends or any(
            _length(memory, raw) < memory.length and not memory.is_front
            for raw, memory in zip(args, _buffers_of(making), strict=False)
        ):
            return "it is given a length; with ZYX_DETERMINISTIC=1 each length has kernels of its own"
        points = _points_of(making)
        if points > self._most_points:
            return f"{points} points are more than {self._most_points}, the limit (--points)"
        count = self._count[making] = self._count.get(making, 0) + 1
        return _REPEATED if count > self._most_launches else ""

    # ---- comparing

    def _compare(
        self, making: Making, arguments: Sequence[Array | Scalar], found: Sequence[Array] | None, refused: str = ""
    ) -> None:
        """Note the first stage that differs, if one does.

        Args:
            making: Of the kernel.
            arguments: What it was given.
            found: What the device made of it; None if it refused the launch.
            refused: What it said then.
        """
        where = making.where
        before = format_graph(making.graph.outputs) if making.graph is not None else f"no graph: {making.no_graph}"
        note = functools.partial(Finding, where, self._count[making])
        try:
            wanted = _wanted(making, arguments)
        except UnsupportedError as error:
            self._pass_over(where, f"its graph cannot be evaluated: {error}")
            self.compared -= 1
            return
        except (VerifyError, LaunchError) as error:  # of nests, or of a hand-written kernel: a read out of bounds
            stage = "fusion" if making.source is not None else "hand-written kernel"
            text = texts_of(making.source.nests) if making.source is not None else str(making.custom)
            self.findings.append(note(stage, "", None, f"{type(error).__name__}: {error}", before, text))
            return
        last = None if found is None else self._difference(wanted, found)
        if last is not None:
            wanted = _loosened(wanted, making, arguments, self._tolerance)
            last = self._difference(wanted, found or ())
        if last is None and not refused and not self._every_stage:
            return
        kernel: Kernel | None = None
        try:
            for step in _steps(making):
                difference, said = None, ""
                try:
                    with np.errstate(all="ignore"):
                        difference = self._difference(wanted, step.run(arguments))
                except (VerifyError, LaunchError) as error:
                    said = f"{type(error).__name__}: {error}"
                if difference is not None or said:
                    hint = self._rule(step, kernel, wanted, making, arguments)
                    self.findings.append(note(step.stage, step.step, difference, said, before, step.text, hint))
                    return
                before, kernel = step.text, step.kernel
        except ZyxError as error:  # such as of a move of another package
            said = f"the next stage cannot be made again: {type(error).__name__}: {error}"
            if last is None and not refused:
                self._pass_over(where, said)
            else:
                self.findings.append(
                    note("after this stage", "", last, refused, before, making.launched.program.source, said)
                )
            return
        if last is not None or refused:
            source = making.launched.program.source or f"no source: {making.device.name} is given the kernel itself"
            hint = f"computed by the library {making.library}" if making.library else ""
            self.findings.append(note("device", "", last, refused, before, source, hint))

    def _pass_over(self, where: str, why: str) -> None:
        self.passed_over[where, why] = self.passed_over.get((where, why), 0) + 1

    def _difference(self, wanted: Sequence[Expected], found: Sequence[Array]) -> Difference | None:
        return first_difference(wanted, found, self._tolerance)

    def _rule(
        self,
        step: _Step,
        before: Kernel | None,
        wanted: Sequence[Expected],
        making: Making,
        arguments: Sequence[Array | Scalar],
    ) -> str:
        """Return the rule of `simplify` that makes a kernel wrong, with its operation; empty for other passes."""
        if step.step != simplify.__name__ or before is None:
            return ""

        def is_wrong(kernel: Kernel) -> bool:
            try:
                with np.errstate(all="ignore"):
                    return self._difference(wanted, _run_kernel(kernel, making, arguments)) is not None
            except (VerifyError, LaunchError):
                return True

        return first_rule(before, making.device.info, is_wrong)


def _steps(making: Making) -> Iterator[_Step]:
    """Yield what can be run of a kernel before it is the device's, in order."""
    source = making.source
    if source is not None:
        nests = list(source.nests)
        yield _Step("fusion", "", texts_of(nests), functools.partial(_run_nests, tuple(nests), making))
        if making.library:
            return
        for number, (chosen, moves) in enumerate(making.scheduled):
            for move in moves:
                nests[number] = move.apply(nests[number])
                run = functools.partial(_run_nests, tuple(nests), making)
                yield _Step("move", str(move), texts_of(nests), run)
            if str(nests[number]) != str(chosen):  # what is no move, such as the order of ranges
                nests[number] = chosen
                yield _Step("schedule", "", texts_of(nests), functools.partial(_run_nests, tuple(nests), making))
    kernel = making.lowered
    stage = "lowering" if source is not None else "hand-written kernel"
    yield _Step(stage, "", str(kernel), functools.partial(_run_kernel, kernel, making), kernel)
    for step in making.passes:
        if step.after is not step.before:
            run = functools.partial(_run_kernel, step.after, making)
            yield _Step("pass", step.name, str(step.after), run, step.after)


def _wanted(making: Making, arguments: Sequence[Array | Scalar]) -> list[Expected]:
    """Return what a launch is to give."""
    written = _places_written(making)
    buffers = making.launched.buffers
    shapes = [(buffers[place].shape, buffers[place].dtype, _kept(making, place, arguments)) for place in written]
    if making.graph is None:
        with np.errstate(all="ignore"):
            plain = (
                _run_kernel(making.custom, making, arguments)
                if making.custom is not None
                else _run_nests(making.source.nests if making.source is not None else (), making, arguments)
            )
        return [  # of what has its length from the launch there are no rows and columns
            Expected(*(known if math.prod(known[0]) == values.size else _flat(values, known[1])), values, None)
            for known, values in zip(shapes, plain, strict=True)
        ]
    values = _values_of(making, arguments)
    own = evaluate(making.graph.outputs, values.__getitem__)
    exact = evaluate(making.graph.outputs, values.__getitem__, exact=True)
    numbers = _outputs_of(making)
    return [
        Expected(*known, own[number].reshape(-1), exact[number].reshape(-1))
        for number, known in zip(numbers, shapes, strict=True)
    ]


def _loosened(
    wanted: Sequence[Expected], making: Making, arguments: Sequence[Array | Scalar], tolerance: float | None
) -> list[Expected]:
    """Return `wanted` with what else results may be, as floats may be off before they become something else."""
    if making.graph is None:
        return list(wanted)
    values = _values_of(making, arguments)
    numbers = _outputs_of(making)
    found = [
        [each.reshape(-1) for each in evaluate(outputs, values.__getitem__)]
        for outputs in shifted(making.graph.outputs, tolerance)
    ]
    return [
        each._replace(others=tuple(outputs[number] for outputs in found))
        for number, each in zip(numbers, wanted, strict=True)
    ]


def _values_of(making: Making, arguments: Sequence[Array | Scalar]) -> dict[Node, Array]:
    """Return the values of the leaves of a kernel's graph."""
    leaves = {} if making.graph is None else making.graph.leaves
    return {leaf: np.asarray(arguments[place], leaf.dtype.numpy).reshape(leaf.shape) for place, leaf in leaves.items()}


def _outputs_of(making: Making) -> list[int]:
    """Return for each buffer that is written the place of its node among the outputs of the graph."""
    order = {node: number for number, node in enumerate(dict.fromkeys(making.launched.stored))}
    return [order[making.launched.buffers[place]] for place in _places_written(making)]


def _flat(values: Array, dtype: DType) -> tuple[tuple[int, ...], DType, tuple[int, ...]]:
    return values.shape, dtype, values.shape


def _kept(making: Making, place: int, arguments: Sequence[Array | Scalar]) -> tuple[int, ...]:
    """Return the sizes of the part of what is stored that is of use."""
    shape = making.launched.buffers[place].shape
    numbers = arguments[len(making.launched.buffers) :]
    ends = making.ends.get(place, (None,) * len(shape))
    return tuple(size if end is None else min(size, int(numbers[end])) for size, end in zip(shape, ends, strict=True))


def _places_written(making: Making) -> list[int]:
    """Return which of the buffers a launch stores to."""
    stored = set(making.launched.stored)
    return [place for place, node in enumerate(making.launched.buffers) if node in stored]


def _buffers_of(making: Making) -> list[_Memory]:
    """Return what is known of each of the buffers that a launch is given."""
    if making.custom is not None:
        return [_Memory(math.prod(node.shape), node.dtype) for node in making.launched.buffers]
    return [_Memory(param.length, param.dtype, param.is_front) for param in making.params if not param.by_value]


@dataclass(frozen=True, slots=True)
class _Memory:
    """Elements of a buffer: their number and type, and whether a launch may give fewer, those in front."""

    length: int
    dtype: DType
    is_front: bool = False


def _length(memory: _Memory, raw: Argument) -> int:
    """Return how many elements a launch gives of a buffer."""
    assert isinstance(raw, PoolBuffer)  # as buffers come first
    return min(memory.length, raw.nbytes // memory.dtype.itemsize)


def _points_of(making: Making) -> int:
    if making.source is None:
        return sum(math.prod(node.shape) for node in making.launched.buffers)
    return sum(math.prod(r.size for r in s.order) for nest in making.source.nests for s in nest.statements)


# ---- running


def _read(making: Making, args: Sequence[Argument], device: Device) -> list[Array | Scalar]:
    """Return what a launch is given: buffers as arrays on the host."""
    known = _buffers_of(making)
    found: list[Array | Scalar] = []
    for number, argument in enumerate(args):
        if number < len(known):
            array = np.empty(_length(known[number], argument), known[number].dtype.numpy)
            if array.size:
                device.memory_pool.pool_to_host(argument, memoryview(array.view(np.uint8)))  # type: ignore[arg-type]  # arrays are buffers
            found.append(array)
        else:
            found.append(argument)  # type: ignore[arg-type]  # a number
    return found


def _run_nests(nests: Sequence[Nest], making: Making, arguments: Sequence[Array | Scalar]) -> list[Array]:
    arrays = {
        param: np.array([each] if param.by_value else each, param.dtype.numpy)
        for param, each in zip(making.params, arguments, strict=True)
    }
    for nest in nests:
        run_nest(nest, [arrays[param] for param in nest.params])
    params = [param for param in making.params if not param.by_value]
    return [arrays[params[place]] for place in _places_written(making)]


def _run_kernel(kernel: Kernel, making: Making, arguments: Sequence[Array | Scalar]) -> list[Array]:
    verify(kernel)
    given = [np.array(each) if isinstance(each, np.ndarray) else each for each in arguments]
    written = _places_written(making)
    if making.custom is not None and written and written[0] != 0:  # as a library takes it: what it reads first
        count = len(making.launched.stored)
        given = [*given[-count:], *given[:-count]]
        run_kernel(kernel, given)
        return [np.asarray(each) for each in given[:count]]
    run_kernel(kernel, given)
    return [np.asarray(given[place]) for place in written]
