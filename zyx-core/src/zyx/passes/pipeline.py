"""Run passes one after the other, and say which ones a device needs.

Passes do not verify, print or time; a `PassObserver` may, since it sees the kernel before and after each of them.
"""

from __future__ import annotations

import functools
import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from zyx import dtype as dtypes
from zyx.errors import VerifyError
from zyx.kernel.verify import verify
from zyx.passes.copy_ahead import copy_ahead
from zyx.passes.decompose_integer_power import decompose_integer_power
from zyx.passes.eliminate_common_subexpressions import eliminate_common_subexpressions
from zyx.passes.eliminate_dead_code import eliminate_dead_code
from zyx.passes.fold_constants import fold_constants
from zyx.passes.fold_groups import fold_groups
from zyx.passes.fuse_multiply_add import fuse_multiply_add
from zyx.passes.guard_integer_division import guard_integer_division
from zyx.passes.hoist_loop_invariants import hoist_loop_invariants
from zyx.passes.narrow_indices import narrow_indices
from zyx.passes.simplify import simplify
from zyx.passes.simplify_algebra import simplify_algebra
from zyx.passes.sink_into_branches import sink_into_branches
from zyx.passes.split_multiply_add import split_multiply_add
from zyx.passes.unroll_single_iteration_loops import unroll_single_iteration_loops

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.kernel.data import Kernel

Pass: TypeAlias = "Callable[[Kernel], Kernel]"


class PassObserver(Protocol):
    """Something that looks on while passes run."""

    def __call__(self, name: str, before: Kernel, after: Kernel, seconds: float) -> None:
        """Take note of the pass `name`, which took `seconds`; `after` is `before` itself if it changed nothing."""


#: The passes that depend on no device. Any sequence of them keeps the meaning of a kernel.
ALL_PASSES: Final[tuple[Pass, ...]] = (
    unroll_single_iteration_loops,
    fold_constants,
    simplify_algebra,
    eliminate_common_subexpressions,
    hoist_loop_invariants,
    decompose_integer_power,
    guard_integer_division,
    narrow_indices,
    fuse_multiply_add,
    split_multiply_add,
    eliminate_dead_code,
    sink_into_branches,
)


def standard_passes(info: DeviceInfo) -> list[Pass]:
    """Return what makes the kernels of lowering ready for a device.

    After them, no operation is left that `info` does not list, as far as there is a decomposition, and no integer
    division has a divisor of 0 or one that makes it overflow.
    """
    # Threads of a GPU have 32-bit integer units; CPUs address memory with 64 bits just as well.
    prefers_short_indices = info.warp_size > 1 or not info.can_compute(dtypes.int64)
    return [
        unroll_single_iteration_loops,
        functools.partial(fold_groups, max_groups=info.max_groups),
        functools.partial(copy_ahead, local_bytes=info.local_bytes),
        functools.partial(simplify, info=info),
        *([fuse_multiply_add] if info.has_fma else []),
        hoist_loop_invariants,
        *([narrow_indices] if prefers_short_indices else []),
        eliminate_dead_code,
        sink_into_branches,
    ]


def pass_name(pass_: Pass) -> str:
    """Return the name of the function that a pass is, whatever its options."""
    function = pass_.func if isinstance(pass_, functools.partial) else pass_
    name: str = function.__name__
    return name


_observer: ContextVar[PassObserver | None] = ContextVar("_observer", default=None)


@contextmanager
def observing(observer: PassObserver | None) -> Iterator[None]:
    """Have `observer` told of all passes that run for this thread or task, and for what it has compiled."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


def run_passes(
    kernel: Kernel, passes: Sequence[Pass], observer: PassObserver | None = None, *, check: bool = False
) -> Kernel:
    """Return what `passes`, in this order, make of a kernel. What a pass has returned it is not asked to do again.

    Args:
        kernel: A verified kernel.
        passes: What to run.
        observer: Is told of each pass; None takes that of `observing`.
        check: Whether to verify the kernel at first and after each pass.

    Raises:
        VerifyError: If `check`; a note says after which pass, and has the kernel before it.
    """
    if check:
        verify(kernel)
    observer = observer or _observer.get()
    returned: dict[Pass, Kernel] = {}
    for current in passes:
        if returned.get(current) is kernel:
            continue
        before, started = kernel, time.perf_counter()
        kernel = returned[current] = current(before)
        if observer is not None:
            observer(pass_name(current), before, kernel, time.perf_counter() - started)
        if check and kernel is not before:
            try:
                verify(kernel)
            except VerifyError as error:
                error.add_note(f"after pass {pass_name(current)}; before it, the kernel was:\n{before!r}")
                raise
    return kernel
