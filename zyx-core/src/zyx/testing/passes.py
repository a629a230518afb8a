"""What every pass on the linear IR has to keep: rules, values, and that a second run finds nothing more to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.kernel.verify import verify
from zyx.testing.kernels import results_of, same_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.kernel.data import Kernel


def check_pass(pass_: Callable[[Kernel], Kernel], kernel: Kernel, seed: int = 0) -> Kernel:
    """Return what a pass makes of a valid kernel, having checked it on random arguments.

    Raises:
        VerifyError: The result breaks a rule.
        AssertionError: It has other params, or computes other values, or running the pass again changes it.
    """
    result = pass_(kernel)
    verify(result)
    assert result.params == kernel.params, f"the params have changed:\n{kernel}\n{result}"
    expected, found = results_of(kernel, seed), results_of(result, seed)
    assert same_values(expected, found), f"the values have changed from {expected} to {found}:\n{kernel}\n{result}"
    again = pass_(result)
    assert again == result, f"a second run changes more:\n{result}\n{again}"
    return result
