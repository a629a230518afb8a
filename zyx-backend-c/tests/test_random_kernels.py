"""Random kernels do on the device what they do on the interpreter."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

from zyx import dtype as dtypes
from zyx.kernel import run as interpreter
from zyx.kernel.data import Axis, Index, Kernel
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.testing.kernels import arguments_for, kernels, same_values
from zyx_backend_c.device import CpuDevice

Run = Callable[[CpuDevice, Kernel, Sequence[object]], list[np.ndarray]]
EXACT = [*dtypes.INTEGERS, dtypes.bool_]


def compare(device: CpuDevice, run: Run, kernel: Kernel) -> None:
    assume(not any(isinstance(op, Index) and op.axis is Axis.LOCAL and op.size > 1 for op in kernel.ops))
    kernel = run_passes(kernel, standard_passes(device.info))
    given = arguments_for(kernel)
    actual = run(device, kernel, given)
    wanted = [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in given]
    interpreter.run(kernel, wanted)
    assert same_values(actual, [array for array in wanted if isinstance(array, np.ndarray)]), kernel


@settings(suppress_health_check=list(HealthCheck))
@given(kernel=kernels())
def test_any_kernel_on_a_processor_that_rounds_twice(devices: dict[str, CpuDevice], run: Run, kernel: Kernel) -> None:
    """The interpreter rounds the product and the sum of a multiply-add, as processors without the instruction do."""
    if "baseline" not in devices:
        pytest.skip("not an x86 with Linux")
    compare(devices["baseline"], run, kernel)


@pytest.mark.parametrize("kind", ["llvm", "shared"])
@settings(suppress_health_check=list(HealthCheck))
@given(kernel=kernels(EXACT))
def test_any_kernel_on_integers(devices: dict[str, CpuDevice], kind: str, run: Run, kernel: Kernel) -> None:
    compare(devices[kind], run, kernel)


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(kernel=kernels(EXACT))
def test_any_kernel_on_integers_through_c(devices: dict[str, CpuDevice], run: Run, kernel: Kernel) -> None:
    if "cc" not in devices:
        pytest.skip("no C compiler on this machine")
    compare(devices["cc"], run, kernel)
