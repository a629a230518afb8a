"""What a program may see and change of zyx at work: what debugging shows, memory, graphs and plans."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from zyx.dtype import as_dtype
from zyx.errors import InvalidArgumentError, SettingsError, TraceError
from zyx.functions.operands import require
from zyx.lazy_import import lazy_import
from zyx.modes import Undo, set_shown
from zyx.runtime.runtime import current
from zyx.runtime.trace import LINES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zyx.dtype import DTypeLike
    from zyx.graph import dot, printer
    from zyx.passes import pipeline
    from zyx.runtime import closing, explain, lines
    from zyx.runtime import profile as profiling
    from zyx.runtime import tuning as searching
    from zyx.runtime.buffer import MemoryUse
    from zyx.runtime.profile import Profile
    from zyx.runtime.tuning import Progress, Tuning
    from zyx.settings import debug as debugging
    from zyx.tensor.tensor import Tensor
else:
    dot = lazy_import("zyx.graph.dot", globals())
    printer = lazy_import("zyx.graph.printer", globals())
    pipeline = lazy_import("zyx.passes.pipeline", globals())
    closing = lazy_import("zyx.runtime.closing", globals())
    explain = lazy_import("zyx.runtime.explain", globals())
    lines = lazy_import("zyx.runtime.lines", globals())
    profiling = lazy_import("zyx.runtime.profile", globals())
    searching = lazy_import("zyx.runtime.tuning", globals())
    debugging = lazy_import("zyx.settings.debug", globals())

__all__ = [
    "close", "debug", "empty_cache", "explain_plan", "memory_stats", "plot_dot_graph", "plot_dot_plan", "print_graph",
    "profile", "realize_all", "supports_dtype", "tune",
]  # fmt: skip


def debug(*subjects: str | int | Sequence[str]) -> Undo[int | None]:
    """Show these subjects on standard error, and no others, from now on or for the length of a ``with`` block.

        zyx.debug("source", "launches")     from now on; zyx.debug(48) is the same
        zyx.debug()                         nothing, whatever ``ZYX_DEBUG`` says
        with zyx.debug("memory"): ...       for this block; then what was shown before

    The subjects are those of ``ZYX_DEBUG``: devices, plan, schedule, ir, source, launches, memory, compile, autotune,
    lines, all. It holds for this thread or task; threads that are started have what the configuration says.

    Raises:
        SettingsError: There is no such subject; the text lists them.

    >>> with zyx.debug("memory"):
    ...     x = zyx.ones(2)
    """
    bits = debugging.NOTHING
    try:
        for subject in subjects:
            bits |= debugging.parse_debug(subject)
    except ValueError as error:
        raise SettingsError(f"zyx.debug: {error}") from None
    if not bits & LINES:
        return set_shown(int(bits))
    return set_shown(int(bits), lines.follow_lines(current()))


def memory_stats() -> dict[str, MemoryUse]:
    """Return what tensors hold, by the name of the memory: each pool that is open, such as ``host`` or ``cuda:0``.

    Bytes of tensors that nobody can reach any more are not among the live ones.

    >>> x = zyx.ones(2).realize()
    >>> "host" in zyx.memory_stats()
    True
    """
    return current().memory_stats()


def empty_cache() -> int:
    """Give memory that is kept for tensors to come back to the system; return how many bytes.

    What tensors hold stays. So do the buffers of traced functions (`zyx.jit`) for their own use.

    >>> zyx.empty_cache() >= 0
    True
    """
    return current().empty_cache()


def plot_dot_graph(*tensors: Tensor) -> str:
    """Return a drawing, in the language DOT of Graphviz, of what `tensors` are to be computed from; compute nothing.

        pathlib.Path("graph.dot").write_text(zyx.plot_dot_graph(loss))     # dot -Tsvg graph.dot > graph.svg

    What has its values is a box, what has not an ellipse, and `tensors` have a double line.

    Each is shown with its dtype and shape.

    Raises:
        DTypeError: One is no tensor.

    >>> zyx.plot_dot_graph(zyx.ones(2) + 1).startswith("digraph")
    True
    """
    return dot.dot_of_graph([require(x, "plot_dot_graph").node for x in tensors])


def explain_plan(*tensors: Tensor) -> dict[str, Any]:
    """Return how `tensors` will be computed together: the kernels and copies, in data that `json.dumps` takes.

    Kernels are compiled, and nothing is run. A notebook shows tables of it. The keys:

        inputs, results   tensors: buffer (its number), shape, dtype, device, bytes
        temporaries       memory in between: buffer, bytes, pool
        steps             in order: kind ("launch" or "copy"), reads and writes (numbers of buffers); of launches also
                          name, device, bytes (of the buffers), is_library, and unless that is true
                          counts: operations by class, flops, loaded_bytes, stored_bytes, read_footprint,
                          written_footprint (each byte once), is_exact (else they are upper bounds)

    Raises:
        BackendError: A kernel was refused.
        TraceError: A function is being traced.

    >>> [step["kind"] for step in zyx.explain_plan(zyx.Tensor([1.0, 2.0]) * 3)["steps"]]
    ['launch']
    """
    runtime = current()
    if runtime.tracing is not None:
        raise TraceError("there is no plan while a function is being traced; explain what it returns")
    return explain.explain_plan(runtime, [require(x, "explain_plan") for x in tensors])


def realize_all() -> None:
    """Compute the values of all tensors that somebody still holds, together; nothing to do is no error.

    They are found among all objects of the process, as the garbage collector does, which takes milliseconds.

    Raises:
        TraceError: A function is being traced.

    >>> x = zyx.arange(3) + 1
    >>> zyx.realize_all()
    >>> x.tolist()
    [1, 2, 3]
    """
    runtime = current()
    if runtime.tracing is not None:
        raise TraceError("realize_all: a function is being traced, whose tensors have no values")
    runtime.realize(closing.handles_of(runtime))


def close() -> None:
    """Wait for all work, free all memory, and close the devices; what comes next opens them anew.

    Tensors whose values lay in memory raise a `StateError` when they are used; read what is needed before. Without a
    call, the devices are closed when the process ends.

    Raises:
        TraceError: A function is being traced.

    >>> zyx.close()
    >>> zyx.ones(2).tolist()
    [1.0, 1.0]
    """
    runtime = current()
    if runtime.tracing is not None:
        raise TraceError("close: a function is being traced")
    closing.close_under(runtime)


def print_graph(*tensors: Tensor) -> None:
    """Print what `tensors` are to be computed from, one line an operation with its dtype and shape, sources first.

    %0: f32[4, 3] = leaf on c:0
    %1: f32[4, 3] = exp %0
    return %1

    Raises:
        DTypeError: One is no tensor.

    >>> zyx.print_graph(zyx.Tensor([1.0], device="interpreter").exp())  # doctest: +ELLIPSIS
    %0: f32[1] = ... on interpreter:0
    %1: f32[1] = exp %0
    return %1
    """
    print(printer.format_graph([require(x, "print_graph").node for x in tensors]))  # noqa: T201  # it is asked for


def supports_dtype(dtype: DTypeLike, device: str | None = None) -> bool:
    """Tell whether tensors of a dtype can be on `device`; without one, whether on any device that there is.

    `zyx.device_info` tells more: whether it computes with the dtype, or core does so in float32 for it.

    Raises:
        NoDeviceError: There is no such device.
        DTypeError: There is no such dtype.

    >>> zyx.supports_dtype("float32", "interpreter")
    True
    """
    wanted, runtime = as_dtype(dtype), current()
    there = runtime.devices if device is None else [runtime.device(device)]
    return any(each.info.can_store(wanted) for each in there)


@contextmanager
def profile(*, passes: bool = False) -> Iterator[Profile]:
    """Time every launch for the length of a ``with`` block, beside what the schedule is expected to take.

        with zyx.profile() as kernels:
            step(x, y)
        print(kernels)                  a table, most time first; kernels.as_json() is the same as data
        kernels.as_trace()              what happened when, to be written as JSON for Perfetto and other viewers

    Each kernel is launched by itself and waited for, so the block takes longer than without. What a traced function
    compiled before the block has times, but nothing that is expected. ``zyx profile SCRIPT`` does this for a program.

    Args:
        passes: Whether to time the passes over kernels that are compiled in the block as well: ``profile.passes()``,
            and a second table in what is printed.

    >>> with zyx.profile() as kernels:
    ...     total = (zyx.arange(8) * 2).sum().item()
    >>> total, len(kernels.as_json()) > 0
    (56, True)
    """
    profile = profiling.Profile()
    with current().profiled(profile), pipeline.observing(profile.passed if passes else None):
        yield profile


@contextmanager
def tune(seconds: float = 60.0, *, progress: Progress | None = None) -> Iterator[Tuning]:
    """Search faster schedules for what is launched in a ``with`` block, when it is over.

        with zyx.tune(seconds=60) as tuning:
            step(x, y)                      once or a few times: launches are timed to see which matter
        print(tuning)                       what each took and takes, and why; tuning.as_json() is the same as data

    Schedules of every family and those next to the best are compiled and timed on buffers of their own; what computes
    something else is left aside and named. What was found is used at once, by functions of `zyx.jit` that were traced
    in the block, too, and kept on disk for later processes (``autotune.save_to_disk``). ``zyx tune SCRIPT`` does this
    for a program, and lists, exports and forgets what was found. Kernels that were compiled before the block for traced
    functions are not searched.

    Args:
        seconds: How long the search may take, beside the block itself; a little more where one candidate takes long.
        progress: Called with the kernel's name, how many candidates were timed, how many times as fast the best of them
            is, and the seconds left.

    Raises:
        InvalidArgumentError: `seconds` is not a positive number.
        TraceError: A function is being traced.

    >>> with zyx.tune(seconds=0.01):
    ...     x = zyx.ones(2).tolist()
    """
    if not isinstance(seconds, int | float) or not 0 < seconds < float("inf"):
        raise InvalidArgumentError(f"tune: seconds is a positive number, not {seconds!r}")
    runtime = current()
    if runtime.tracing is not None:
        raise TraceError("tune: a function is being traced, whose launches come later; tune a call of it")
    recording, tuning = searching.RecordingProfile(), searching.Tuning()
    with runtime.profiled(recording):
        yield tuning
    searching.tune(runtime, recording, float(seconds), tuning, progress or (lambda name, tried, gain, left: None))


def plot_dot_plan(*tensors: Tensor) -> str:
    """Return a drawing of `explain_plan` in the language DOT of Graphviz: boxes are buffers, ellipses kernels.

    Tensors of any shapes.

    Raises:
        DTypeError: One is no tensor.

    >>> zyx.plot_dot_plan(zyx.ones(2) + 1).startswith("digraph")
    True
    """
    return explain.dot_of_plan(explain_plan(*tensors))
