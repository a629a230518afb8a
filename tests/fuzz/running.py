"""Run a program on a device in several ways, and compare it with what it means."""

from __future__ import annotations

import contextvars
import enum
import functools
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import zyx
import zyx.nn.functional as F
from fuzz.program import MANY_SAMPLES, SAMPLES
from zyx.runtime.runtime import current
from zyx.specialise.table import Table
from zyx.testing.compare import assert_within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fuzz.program import Program
    from zyx.runtime.runtime import Runtime
    from zyx.testing.values import Array

#: How far a slope may be off, as a part of the sum of the sizes of its terms.
_SLOPE: Final = 2e-3


class Way(enum.Enum):
    """How a program is run."""

    EAGER = "as it stands"
    GIVEN = "with its constants given to the kernels"
    ONE_BY_ONE = "one output after the other"
    JIT = "under zyx.jit, three times"
    GRADIENT = "with gradients"
    THREADS = "in two threads at once"
    MAPPED = "under zyx.vmap, of three examples"
    MAPPED_GRADIENT = "with gradients, under zyx.vmap"


def check(program: Program, way: Way) -> None:
    """Run a program on the default device.

    Raises:
        AssertionError: A result is not what it has to be. Errors of other classes are wrong as well.
    """
    function = program.function()
    match way:
        case Way.EAGER | Way.ONE_BY_ONE:
            outputs = function(zyx, F, *tensors(program.inputs))
            if way is Way.EAGER:
                zyx.realize(*outputs)
            compare(program, program.inputs, outputs)
        case Way.GIVEN:
            with constants_given(current()):
                check(program, Way.EAGER)
        case Way.JIT:
            _check_jit(program, function)
        case Way.GRADIENT | Way.MAPPED_GRADIENT:
            sources = [n for n, array in enumerate(program.inputs) if array.dtype.kind == "f" and array.size]
            called = functools.partial(function, zyx, F)
            check_slopes(
                program,
                lambda given, weights: (
                    gradients(called, given, weights, sources)
                    if way is Way.GRADIENT
                    else _mapped_gradients(program, called, given, weights, sources)
                ),
                sources,
            )
        case Way.THREADS:
            _check_threads(program, function)
        case Way.MAPPED:
            _check_mapped(program, function)


@contextmanager
def constants_given(runtime: Runtime) -> Iterator[None]:
    """Let kernels be given all constants, also those that never change, for the length of a ``with`` block."""
    before, runtime.outlines = runtime.outlines, Table(all_vary=True)
    runtime.drop_plans()
    try:
        yield
    finally:
        runtime.outlines = before


def tensors(inputs: Sequence[Array]) -> list[zyx.Tensor]:
    """Return tensors of arrays."""
    return [zyx.Tensor(array) for array in inputs]


def compare(program: Program, inputs: Sequence[Array], outputs: Sequence[zyx.Tensor]) -> None:
    """Assert that outputs are what they have to be; where they do not seem so, samples are taken anew, and many."""
    found = [output.numpy() for output in outputs]
    try:
        _compare(program, inputs, found, SAMPLES)
    except AssertionError:
        _compare(program, inputs, found, MANY_SAMPLES)


def _compare(program: Program, inputs: Sequence[Array], found: Sequence[Array], samples: int) -> None:
    known = program.known(inputs, samples)
    texts = [f"input {number}" for number in range(len(inputs))] + program.texts()
    for number, array in zip(program.outputs, found, strict=True):
        assert_within(array, known[number].reference(), f"t{number} = {texts[number]}")


def _check_jit(program: Program, function: Callable[..., list[Any]]) -> None:
    @zyx.jit
    def jitted(*given: zyx.Tensor) -> list[zyx.Tensor]:
        return function(zyx, F, *given)

    for turn in range(3):
        inputs = moved_on(program, turn)
        compare(program, inputs, jitted(*tensors(inputs)))


def _check_mapped(program: Program, function: Callable[..., list[Any]]) -> None:
    examples = [moved_on(program, turn) for turn in range(3)]
    stacked = tensors([np.stack(arrays) for arrays in zip(*examples, strict=True)])
    of_all = zyx.vmap(functools.partial(function, zyx, F), axis_size=len(examples))(*stacked)
    for number, inputs in enumerate(examples):
        compare(program, inputs, [output[number] for output in of_all])


def _mapped_gradients(
    program: Program,
    function: Callable[..., list[Any]],
    given: Sequence[zyx.Tensor],
    weights: Sequence[zyx.Tensor],
    sources: Sequence[int],
) -> list[zyx.Tensor]:
    """Return `gradients` of the second of two examples; the first has other inputs."""
    of_one = zyx.vmap(lambda *given: gradients(function, given, weights, sources))
    others = tensors(moved_on(program, 1))
    return [gradient[1] for gradient in of_one(*map(zyx.stack, zip(others, given, strict=True)))]


def moved_on(program: Program, turn: int) -> list[Array]:
    """Return the inputs with the elements of floats moved on: what is read at places given by integers stays there."""
    return [
        np.roll(array.ravel(), turn).reshape(array.shape) if array.dtype.kind not in "iub" else array
        for array in program.inputs
    ]


def _check_threads(program: Program, function: Callable[..., list[Any]]) -> None:
    errors: list[BaseException] = []
    ready = threading.Barrier(2)

    def work(turn: int) -> None:
        try:
            inputs = moved_on(program, turn)
            given = tensors(inputs)
            ready.wait()
            for _ in range(2):
                compare(program, inputs, function(zyx, F, *given))
        except BaseException as error:  # noqa: BLE001  # it is raised by the other thread
            errors.append(error)

    threads = [threading.Thread(target=contextvars.copy_context().run, args=(work, turn)) for turn in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def gradients(
    function: Callable[..., list[Any]],
    given: Sequence[zyx.Tensor],
    weights: Sequence[zyx.Tensor],
    sources: Sequence[int],
) -> list[zyx.Tensor]:
    """Return the gradients of a weighted sum of a function's outputs at some of what it is given."""
    with zyx.Tape() as tape:
        loss = zyx.zeros((), dtype="float32")
        for output, weight in zip(function(*given), weights, strict=True):
            loss = loss + (output * weight.astype(output.dtype)).sum().astype("float32")
    return tape.gradient(loss, [given[n] for n in sources])


def check_slopes(
    program: Program,
    computed: Callable[[Sequence[zyx.Tensor], Sequence[zyx.Tensor]], Sequence[zyx.Tensor]],
    sources: Sequence[int],
) -> None:
    """Compare slopes along random directions with differences of the meaning in float64.

    Args:
        program: What it is about.
        computed: Returns `gradients`, of tensors and weights.
        sources: Numbers of the inputs that these are at.
    """
    random = np.random.default_rng(len(program.calls))
    wanted = program.exactly(_floats(program.inputs))
    weights = [random.uniform(-1, 1, value.shape) for value in wanted]
    given_weights = tensors([weight.astype(np.float32) for weight in weights])
    found_gradients = computed(tensors(program.inputs), given_weights)
    slopes = [gradient.numpy().astype(np.float64) for gradient in found_gradients]
    weights = [weight.astype(np.float32).astype(np.float64) for weight in weights]
    for number, gradient in zip(sources, slopes, strict=True):
        assert gradient.shape == program.inputs[number].shape, f"the gradient at input {number} is of {gradient.shape}"
    for _ in range(2):
        directions = [random.standard_normal(program.inputs[n].shape) for n in sources]

        def slope(step: float, directions: Sequence[Array] = directions) -> tuple[float, float]:
            """Return the slope, and what rounding may make of no slope at all."""
            ends, largest = [], 0.0
            for sign in (1, -1):
                inputs = _floats(program.inputs)
                for n, direction in zip(sources, directions, strict=True):
                    inputs[n] = inputs[n] + sign * step * direction
                values = program.exactly(inputs)
                ends.append(sum(float((v * w).sum()) for v, w in zip(values, weights, strict=True)))
                largest = max(largest, *(float(np.abs(v).max()) for v in values if v.size), 0.0)
            return (ends[0] - ends[1]) / (2 * step), np.finfo(np.float64).eps * largest / step

        with np.errstate(all="ignore"):
            (near, _), (nearer, lost) = slope(1e-5), slope(2e-6)
            parts = [g * v for g, v in zip(slopes, directions, strict=True)]
            found, size = (float(sum(part.sum() for part in some)) for some in (parts, [np.abs(p) for p in parts]))
            room = _SLOPE * (size + abs(near)) + 1e-3
        if not np.isfinite([near, nearer, found]).all() or max(abs(near - nearer), lost) > room / 4 or size > 1e6:
            continue  # a corner lies between, or numbers are too large for differences
        assert abs(found - near) <= 2 * room, f"the slope is {found:.6g}, not {near:.6g} (allowed error {2 * room:.2g})"


def _floats(inputs: Sequence[Array]) -> list[Array]:
    return [array if array.dtype.kind in "iub" else array.astype(np.float64) for array in inputs]
