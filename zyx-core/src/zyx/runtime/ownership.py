"""Tell whether a buffer may be written over: whether a tensor is the only one that its values belong to.

CPython counts references; the counts of a tensor that is alone are taken once, from one that surely is, by the same
lines of code, so that it does not matter what references the interpreter itself holds while it runs them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zyx.runtime.handle import Handle


def is_sole_owner(handle: Handle) -> bool:
    """Whether nothing but `handle` refers to its node, and nothing but that node to its storage."""
    return _counts(handle) == _ALONE


def _counts(handle: Handle) -> tuple[int, int]:
    return sys.getrefcount(handle._node), sys.getrefcount(handle._node.storage)


class _Alone:
    """Stands for a handle or a node that holds the only reference to what is below it."""

    _node: object
    storage: object


def _alone() -> _Alone:
    handle = _Alone()
    handle._node = _Alone()
    handle._node.storage = _Alone()
    return handle


_ALONE: Final = _counts(_alone())  # type: ignore[arg-type]  # it has the attributes that are looked at
