"""Run a program on a device in several ways, and compare it with what it means."""

from __future__ import annotations

import enum
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import zyx
import zyx.nn.functional as F
from zyx.runtime.runtime import current
from zyx.runtime.varying import Varying
from zyx.testing.compare import assert_within
from zyx.testing.fuzz.program import MANY_SAMPLES, SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zyx.runtime.runtime import Runtime
    from zyx.testing.fuzz.program import Program
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
        case Way.GRADIENT:
            _check_gradient(program, function)
        case Way.THREADS:
            _check_threads(program, function)


@contextmanager
def constants_given(runtime: Runtime) -> Iterator[None]:
    """Let kernels be given all constants, also those that never change, for the length of a ``with`` block."""
    planner = runtime.planner
    before, planner.varying = planner.varying, Varying(all_vary=True)
    runtime._drop_plans()
    try:
        yield
    finally:
        planner.varying = before


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

    threads = [threading.Thread(target=work, args=(turn,)) for turn in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def _check_gradient(program: Program, function: Callable[..., list[Any]]) -> None:
    """Compare slopes along random directions with differences of the meaning in float64."""
    random = np.random.default_rng(len(program.calls))
    given = tensors(program.inputs)
    sources = [n for n, array in enumerate(program.inputs) if array.dtype.kind == "f" and array.size]
    wanted = program.exactly(_floats(program.inputs))
    weights = [random.uniform(-1, 1, value.shape) for value in wanted]
    with zyx.Tape() as tape:
        outputs = function(zyx, F, *given)
        loss = zyx.zeros((), dtype="float32")
        for output, weight in zip(outputs, weights, strict=True):
            loss = loss + (output * zyx.Tensor(weight.astype(np.float32)).astype(output.dtype)).sum().astype("float32")
    gradients = [gradient.numpy().astype(np.float64) for gradient in tape.gradient(loss, [given[n] for n in sources])]
    weights = [weight.astype(np.float32).astype(np.float64) for weight in weights]
    for number, gradient in zip(sources, gradients, strict=True):
        assert gradient.shape == program.inputs[number].shape, f"the gradient at input {number} is of {gradient.shape}"
    for _ in range(2):
        directions = [random.standard_normal(program.inputs[n].shape) for n in sources]

        def slope(step: float, directions: Sequence[Array] = directions) -> float:
            ends = []
            for sign in (1, -1):
                inputs = _floats(program.inputs)
                for n, direction in zip(sources, directions, strict=True):
                    inputs[n] = inputs[n] + sign * step * direction
                values = program.exactly(inputs)
                ends.append(sum(float((v * w).sum()) for v, w in zip(values, weights, strict=True)))
            return (ends[0] - ends[1]) / (2 * step)

        with np.errstate(all="ignore"):
            near, nearer = slope(1e-5), slope(2e-6)
            parts = [g * v for g, v in zip(gradients, directions, strict=True)]
            found, size = (float(sum(part.sum() for part in some)) for some in (parts, [np.abs(p) for p in parts]))
            room = _SLOPE * (size + abs(near)) + 1e-3
        if not np.isfinite([near, nearer, found]).all() or abs(near - nearer) > room / 4 or size > 1e6:
            continue  # a corner lies between, or numbers are too large for differences
        assert abs(found - near) <= 2 * room, f"the slope is {found:.6g}, not {near:.6g} (allowed error {2 * room:.2g})"


def _floats(inputs: Sequence[Array]) -> list[Array]:
    return [array if array.dtype.kind in "iub" else array.astype(np.float64) for array in inputs]
