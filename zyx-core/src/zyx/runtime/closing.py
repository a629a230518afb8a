"""Close a runtime under the tensors of a program that goes on: what they held is gone, and they say so."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from zyx.errors import StateError
from zyx.graph import node as n
from zyx.runtime.buffer import Buffer
from zyx.runtime.handle import Handle
from zyx.runtime.lazy import Unread

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.runtime.runtime import Runtime


class Closed(Unread):
    """The storage of what had its values in memory that is closed."""

    __slots__ = ()

    def __init__(self) -> None:
        self.buffer = None

    def read(self, allocate: Callable[[int], Buffer]) -> Buffer:
        """Refuse.

        Raises:
            StateError: Always.
        """
        raise StateError("the values of this tensor went when zyx.close() was called; read what is needed before")


def handles_of(runtime: Runtime) -> list[Handle]:
    """Return the tensors of `runtime` that somebody still holds, in no order; functions that are being traced have
    theirs for themselves.
    """
    found = [each for each in gc.get_objects() if issubclass(type(each), Handle)]
    return [handle for handle in found if handle.runtime is runtime and handle.tracing is None]


def close_under(runtime: Runtime) -> None:
    """Wait, and close; tensors of `runtime` whose values lay in memory raise an error from now on, others are computed
    anew.
    """
    with runtime.lock:
        runtime.synchronize()
        for spare in list(runtime.spares):  # what lies in memory for those who need it again is made again
            spare.drop_spare()
        runtime.close()
        for each in gc.get_objects():
            if issubclass(type(each), n.Node):
                storage = each.storage
                buffer = storage.buffer if type(storage) is Unread else storage
                if type(buffer) is not Buffer or not runtime.memory.is_home_of(buffer):
                    continue
                if type(storage) is Unread:
                    storage.buffer = None  # it is read again
                else:
                    each.storage = Closed()
