"""Arrays that transforms of one length need again and again: made on the host, kept on the device."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from zyx.runtime.handle import Handle

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    import numpy.typing as npt

    from zyx.graph import Node
    from zyx.runtime.runtime import Runtime

_ATTRIBUTE: Final = "_fourier_tables"
#: Bytes that the tables of a runtime take together; the ones not used for longest are dropped above.
_MOST_BYTES: Final = 1 << 28


class Tables:
    """The tables of a runtime. They are what it can do without when there is no memory left."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._held: OrderedDict[tuple[Hashable, str], tuple[tuple[Handle, ...], int]] = OrderedDict()
        self._nbytes = 0
        runtime.spares.add(self)
        runtime.forked.add(self)

    def nodes(self, key: Hashable, device: str, make: Callable[[], Sequence[npt.NDArray[Any]]]) -> list[Node]:
        """Return leaves on `device` with the arrays that `make` returns for `key`; a trace finds them outside."""
        runtime = self._runtime
        with runtime.lock:
            found = self._held.get((key, device))
            if found is None:
                arrays = make()
                with runtime.traced_by(None):
                    handles = tuple([Handle.of(runtime.upload(array, device), runtime) for array in arrays])
                found = self._held[key, device] = handles, sum(array.nbytes for array in arrays)
                self._nbytes += found[1]
                while self._nbytes > _MOST_BYTES and len(self._held) > 1:
                    _, (_, nbytes) = self._held.popitem(last=False)
                    self._nbytes -= nbytes
            else:
                self._held.move_to_end((key, device))
        return [handle.node for handle in found[0]]

    def drop_spare(self) -> None:
        """Forget all tables."""
        self._held.clear()
        self._nbytes = 0

    def after_fork(self) -> None:
        """Forget all tables: they lie in the parent's memory."""
        self.drop_spare()


def tables_of(runtime: Runtime) -> Tables:
    """Return the tables of a runtime, which are made at their first use."""
    with runtime.lock:
        found = vars(runtime).get(_ATTRIBUTE)
        if not isinstance(found, Tables):
            found = Tables(runtime)
            setattr(runtime, _ATTRIBUTE, found)
    return found
