"""Which function writes which operation as LLVM IR."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from zyx.kernel import data as k
from zyx.render.llvm import atomics, control, memory, values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Writes an operation, given its number. `Any`: each takes its own operation, and a backend's those of its writer.
WriteOperation: TypeAlias = "Callable[[Any, int, Any], None]"

# A table, not a match: an arm costs 0.1 us, and a kernel may have a thousand operations.
OPERATIONS: Final[Mapping[type, WriteOperation]] = {
    k.Const: values.const,
    k.Loop: control.loop,
    k.EndLoop: control.end_loop,
    k.If: control.open_if,
    k.EndIf: control.end_if,
    k.Load: memory.load,
    k.Store: memory.store,
    k.Atomic: atomics.atomic,
    k.Unary: values.unary,
    k.Binary: values.binary,
    k.Where: values.where,
    k.Cast: values.cast,
    k.Bitcast: values.bitcast,
    k.Mad: values.mad,
    k.Vectorize: values.vectorize,
    k.Devectorize: values.devectorize,
    k.Shuffle: values.shuffle,
}
