"""The short way into native code: a program of one small step is a builtin function, which is given buffers.

    bind, workers.run      ctypes; arguments in the program's table, so one call at a time; may be shared out
    program.entry          a builtin; arguments on the stack, so in any thread, and within handlers of signals

It takes a fifth of the time: there is no lock to take, and native code looks at the buffers. CPython alone has such
functions: elsewhere there is no entry, and all programs go the other way.
"""

from __future__ import annotations

import sys
from importlib import resources
from typing import Final

from zyx_backend_c import driver

SYMBOL: Final = "zyx_enter"
#: Functions of CPython's stable interface that it calls.
_FUNCTIONS: Final = (
    "PyLong_AsVoidPtr", "PyLong_AsUnsignedLongLong", "PyObject_GetAttr", "PyTuple_GetItem", "Py_DecRef",
    "PyErr_Occurred", "PyErr_Clear", "PyEval_SaveThread", "PyEval_RestoreThread", "PyBool_FromLong",
)  # fmt: skip
#: Attributes of buffers that it reads.
_ATTRIBUTES: Final = ("extent", "pool")
#: Estimated nanoseconds from which other Python threads may run meanwhile; to let them takes about 60.
_RELEASE_NS: Final = 1000


def entry_imports() -> dict[str, int]:
    """Return the addresses of what the entry uses; none where Python has no such entries."""
    if sys.implementation.name != "cpython":
        return {}
    found = driver.python_functions(_FUNCTIONS)
    if len(found) < len(_FUNCTIONS):
        return {}
    return found | {f"zyx_name_{name}": driver.address_of_object(name) for name in _ATTRIBUTES}


def entry_text(counters: int) -> str:
    """Return `entry.ll` with the placeholders filled in, to be compiled together with what has `%Pool`.

    Args:
        counters: The word of the worker pool that counts calls; the next one counts steps.
    """
    text = resources.files("zyx_backend_c").joinpath("entry.ll").read_text(encoding="ascii")
    return text.replace("COUNTERS", str(counters)).replace("RELEASE", str(_RELEASE_NS))
