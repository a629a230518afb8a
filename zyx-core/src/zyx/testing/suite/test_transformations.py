"""Any sequence of passes and any schedule: what the device computes stays what the interpreter, or the oracle, says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.errors import ScheduleError, VerifyError
from zyx.lowering.lower import lower_together
from zyx.passes.fuse_multiply_add import fuse_multiply_add
from zyx.passes.pipeline import ALL_PASSES, pass_name, run_passes, standard_passes
from zyx.passes.split_multiply_add import split_multiply_add
from zyx.testing.choices import Seeded
from zyx.testing.graphs import GraphOptions, random_case
from zyx.testing.kernels import arguments_for, random_kernel, same_values
from zyx.testing.launching import claimed_dtypes, expected, fits, prepare, run_on
from zyx.testing.nests import kernels_of
from zyx.testing.schedules import MOST_WRITTEN_OUT, is_about_bounds, random_schedule, written_out

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from zyx.backend import Device
    from zyx.kernel.data import Kernel
    from zyx.nest.data import Nest
    from zyx.nest.expr import Param
    from zyx.passes.pipeline import Pass
    from zyx.testing.nests import KernelCase
    from zyx.testing.schedules import Schedule
    from zyx.testing.values import Array


def fitting_kernels(device: Device, seed: int, count: int) -> Iterator[tuple[int, Kernel]]:
    """Yield `count` random kernels that a device claims, each with its seed."""
    allowed = [dtype for dtype in claimed_dtypes(device) if device.info.can_compute(dtype)]
    number = seed
    while count:
        kernel = random_kernel(number, allowed=allowed)
        if fits(kernel, device):
            yield number, kernel
            count -= 1
        number += 1


def without_fusing(passes: Sequence[Pass]) -> list[Pass]:
    """Return `passes` so that products that are added are rounded twice, as the interpreter does, and never once."""
    return [split_multiply_add if pass_ is fuse_multiply_add else pass_ for pass_ in passes] + [split_multiply_add]


def compare(device: Device, kernel: Kernel, number: int, passes: Sequence[Pass] = ()) -> None:
    """Assert that `passes` keep what a kernel computes on the interpreter, and that the device computes it, too."""
    args = arguments_for(kernel, number)
    try:
        changed = run_passes(kernel, passes, check=True)
        assert same_values(expected(changed, args), expected(kernel, args)), "passes have changed the values"
        # Functions and powers are decomposed for the device, and may differ from the interpreter's in their last digit.
        lowered = run_passes(changed, without_fusing(standard_passes(device.info)), check=True)
        assert same_values(run_on(device, lowered, args), expected(lowered, args)), "the device differs"
    except BaseException as error:
        error.add_note(f"seed {number}, passes {', '.join(map(pass_name, passes)) or 'none'}:\n{kernel}")
        raise


def test_random_kernels_give_what_the_interpreter_says(
    device: Device, seed: int, effort: Callable[[int, int], int], examples: Counter[str]
) -> None:
    for number, kernel in fitting_kernels(device, seed, effort(25, 300)):
        compare(device, kernel, number)
        examples["random kernels"] += 1


def test_random_sequences_of_passes_keep_the_values(
    device: Device, seed: int, effort: Callable[[int, int], int], examples: Counter[str]
) -> None:
    optional = [pass_ for pass_ in ALL_PASSES if pass_ is not fuse_multiply_add]
    for number, kernel in fitting_kernels(device, seed + 10_000, effort(25, 300)):
        choices = Seeded(number)
        compare(device, kernel, number, [choices.pick(optional) for _ in range(choices.integer(1, 12))])
        examples["random sequences of passes"] += 1


def run_nests(device: Device, nests: Sequence[Nest], buffers: Mapping[Param, Array]) -> None:
    """Lower nests to one kernel and run it on a device.

    Raises:
        ScheduleError: The kinds of the ranges do not go together, or ask for more than the device claims; or accesses
            are not proved to lie inside.
    """
    try:
        kernel = prepare(lower_together(nests, "scheduled"), device)
    except VerifyError as error:
        if not is_about_bounds(error):
            raise
        raise ScheduleError("what is not proved to stay inside is not launched") from error
    if not fits(kernel, device):
        raise ScheduleError(f"{kernel.name} does not fit {device.name}")
    params = dict.fromkeys(param for nest in nests for param in nest.params)
    results = run_on(device, kernel, [buffers[param] for param in params])
    for param, result in zip(params, results, strict=True):
        buffers[param][...] = result


def test_random_schedules_keep_the_values(
    device: Device, seed: int, effort: Callable[[int, int], int], examples: Counter[str]
) -> None:
    options = GraphOptions(dtypes=tuple(claimed_dtypes(device)), most_nodes=6, most_elements=300)
    for number in range(seed, seed + effort(60, 500)):
        choices = Seeded(number)
        case = random_case(choices, options)
        for kernel in kernels_of(case, device.info, together=choices.chance(30))[0]:
            schedules = [random_schedule(choices, nest) for nest in kernel.nests]
            if max(written_out(schedule.nest) for schedule in schedules) > MOST_WRITTEN_OUT:
                continue
            try:
                check_schedules(device, kernel, schedules)
            except ScheduleError:
                continue
            except BaseException as error:
                error.add_note("\n".join([f"seed {number}:", str(case), *map(str, schedules)]))
                raise
            examples["random schedules"] += 1


def check_schedules(device: Device, kernel: KernelCase, schedules: Sequence[Schedule]) -> None:
    """Assert that a kernel computes what the oracle says, on a device, after some moves."""
    kernel.check(
        lambda nests, buffers: run_nests(device, nests, buffers), [schedule.nest for schedule in schedules], "scheduled"
    )
