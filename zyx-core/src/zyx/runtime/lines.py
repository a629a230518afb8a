"""Note the line of the program that each operation is from, where ``ZYX_DEBUG=lines`` or `zyx.debug` asks for it.

That is the innermost line outside of zyx: of what is called in a layer of `zyx.nn`, the line that calls the layer.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zyx.graph.lines import lines_of, note_line
from zyx.graph.signature import Key
from zyx.runtime.trace import LINES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.graph.node import Leaf, Node
    from zyx.runtime.devices import OpenDevices
    from zyx.runtime.handle import Handle

_OURS: Final = str(Path(__file__).parents[1]) + os.sep


class Lines:
    """An observer of the handles of a runtime, for threads that have it switched on.

    Args:
        runtime: The runtime.

    Attributes:
        wanted: How often it was asked for.
    """

    is_recording = False

    def __init__(self, runtime: OpenDevices) -> None:
        self._runtime: Final = runtime
        self.wanted = 0

    def created(self, handle: Handle) -> None:
        """Note where it was made."""
        if self._runtime.trace.bits & LINES and (line := line_of_caller()):
            note_line(handle._node, line)

    def computed(self, handle: Handle, node: Node, leaf: Leaf) -> None:
        """Do nothing: values are from no line."""

    def assigned(self, handle: Handle, old: Node) -> None:
        """Note where it was given another value."""
        self.created(handle)

    def key(self, key: Key, order: Sequence[Node]) -> Key:
        """Return the key of a plan for these lines."""
        return Key((key.structure, lines_of(order)), key.constants)


def line_of_caller() -> str:
    """Return the innermost line outside of zyx, such as ``train.py:12``; empty if there is none."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back  # type: ignore[assignment]  # None at the end
    return "" if frame is None else f"{_short(frame.f_code.co_filename)}:{frame.f_lineno}"


def _short(file: str) -> str:
    """Return a path as it is seen from the folder of the process, if it lies there."""
    here = os.getcwd() + os.sep  # noqa: PTH109  # of each operation: a path takes ten times as long
    return file.removeprefix(here)


def follow_lines(runtime: OpenDevices) -> Callable[[], None]:
    """Note lines of a runtime's operations from now on, where debugging asks for it; return what ends that.

    It has to be ended as often as it is asked for.
    """
    lines = runtime.lines
    if lines is None:
        lines = runtime.lines = Lines(runtime)
        runtime.observers.add(lines, is_following=False)
    lines.wanted += 1
    return partial(_end, runtime, lines)


def _end(runtime: OpenDevices, lines: Lines) -> None:
    lines.wanted -= 1
    if not lines.wanted:
        runtime.observers.drop_bystander(lines)
        runtime.lines = None
