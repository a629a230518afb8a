"""What a kernel becomes: a pipeline, built once, and the groups of buffers that it was launched with.

Putting buffers together takes the driver longer than a launch, and programs come back to the same few buffers, so the
groups are kept, and those least used dropped.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from zyx.drivers.arguments import check_arguments, scalar_bytes
from zyx.drivers.device_program import DeviceProgram
from zyx.drivers.faults import Fault
from zyx.errors import LaunchError
from zyx_backend_wgpu.bindings import WORD, Dispatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.drivers.arguments import Parameter
    from zyx_backend_wgpu.bindings import Group, Memory, Pipeline
    from zyx_backend_wgpu.memory import WgpuPool
    from zyx_backend_wgpu.render import Rendered

#: Tells sets of arguments apart: the number of each buffer's memory, the bytes of each number.
Key: TypeAlias = "tuple[int | bytes, ...]"

#: How many groups of buffers a program keeps.
_GROUPS: Final = 64
#: Constants have a place of so many bytes each; the first holds the zero.
_PLACE: Final = 16


def key_of(args: Sequence[Any], program: DeviceProgram) -> Key:
    """Return what tells `args` of a program, which are checked, apart from others."""
    return tuple(
        arg.memory.number if parameter.scalar is None else scalar_bytes(arg, parameter.scalar, program.what)
        for arg, parameter in zip(args, program.parameters, strict=True)
    )


class WgpuProgram(DeviceProgram):
    """A kernel, built."""

    __slots__ = ("__weakref__", "_grid", "_groups", "_kinds", "_pipeline")

    pool: WgpuPool

    def __init__(self, device: str, pool: WgpuPool, pipeline: Pipeline, rendered: Rendered) -> None:
        what = f"kernel {rendered.name} on {device}"
        super().__init__(rendered.name, rendered.text, what, pool, rendered.parameters)
        self._pipeline = pipeline
        self._kinds = rendered.bindings
        self._grid = rendered.groups
        self._groups: OrderedDict[Key, tuple[Group, object]] = OrderedDict()
        pool.holders.add(self)

    def dispatch(self, args: Sequence[Any]) -> Dispatch:
        """Return the launch of this kernel on `args`, which are checked.

        Raises:
            Fault: The driver refused the buffers.
        """
        key = key_of(args, self)
        found = self._groups.get(key)
        if found is None:
            found = self._groups[key] = self._group(args, key)
            if len(self._groups) > _GROUPS:
                self._groups.popitem(last=False)
        else:
            self._groups.move_to_end(key)
        return Dispatch(self._pipeline, found[0], *self._grid)

    def _group(self, args: Sequence[Any], key: Key) -> tuple[Group, object]:
        """Return a new group, and what must stay alive with it."""
        bound: list[tuple[Memory, int]] = [
            (arg.memory, _reached(arg.memory, parameter))
            for arg, parameter in zip(args, self.parameters, strict=True)
            if parameter.scalar is None
        ]
        if len(self._kinds) > len(bound):
            numbers = b"".join(part.ljust(_PLACE, b"\0") for part in key if isinstance(part, bytes))
            constants = self.pool.constants(bytes(_PLACE) + numbers)
            bound.append((constants, constants.nbytes))
        return self.pool.session.group(self._kinds, bound), bound

    def run(self, args: Sequence[Any]) -> int:
        """Start one launch, and return its ticket.

        Raises:
            LaunchError: The arguments do not fit, or the driver refused.
        """
        check_arguments(args, self.parameters, self.pool, self.what)
        return self.pool.work.submit((self.checked_dispatch(args),), self.what)

    def checked_dispatch(self, args: Sequence[Any]) -> Dispatch:
        """Return the launch on `args`. Raises `BackendError` if the driver refuses the buffers."""
        try:
            return self.dispatch(args)
        except Fault as fault:
            raise self.pool.work.failed(self.what, fault, LaunchError) from fault

    def let_go(self) -> None:
        """Drop the groups of buffers."""
        self._groups.clear()

    def release(self) -> None:
        """Drop the driver's objects; captured sequences keep what they need."""
        super().release()
        self._pipeline = None
        self._groups.clear()


def _reached(memory: Memory, parameter: Parameter) -> int:
    """Return how many bytes of `memory` a kernel is to reach: what is behind reads as 0."""
    words = -(-max(parameter.nbytes, parameter.most) // WORD) * WORD
    return min(words, memory.nbytes)
