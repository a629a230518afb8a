"""What of LLVM IR is of processors whose groups are one thread: arguments, arrays, grid positions.

Arguments lie in slots of 8 bytes; the outer function unpacks them for the inner one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.kernel.data import Axis, Memory, Type
from zyx.render.llvm.types import MEMORY, VALUE
from zyx.render.llvm.writer import Writer
from zyx_backend_c.analysis import ALIGNMENT

if TYPE_CHECKING:
    from zyx.kernel import data as k
    from zyx.kernel.data import Kernel
    from zyx.render.llvm.templates import Templates
    from zyx_backend_c.analysis import Analysis
    from zyx_backend_c.target import Target


class CpuWriter(Writer):
    """The text of one kernel.

    Attributes:
        analysis: What is known of it.
        target: The processor.
        unpacking: Lines of the outer function.
        parameters: Parameters of the inner function.
        arguments: What the outer one calls it with.
    """

    def __init__(self, kernel: Kernel, analysis: Analysis, templates: Templates, target: Target) -> None:
        super().__init__(kernel, analysis.slots, templates)
        self.analysis = analysis
        self.target = target
        self.params = 0
        self.unpacking: list[str] = []
        self.parameters: list[str] = []
        self.arguments: list[str] = []


def define(w: CpuWriter, i: int, op: k.Define) -> None:
    """Give an array its pointer. Slots have none."""
    if op.memory is Memory.GLOBAL:
        _parameter(w, i, "ptr", "ptr noalias" if op.mutable else "ptr noalias readonly")
    elif i in w.analysis.scratch:
        w.unpacking.append(f"  %v{i} = getelementptr i8, ptr %scratch, i64 {w.analysis.scratch[i]}")
        w.parameters.append(f"ptr noalias %v{i}")
        w.arguments.append(f"ptr %v{i}")
        w.names[i] = f"%v{i}"
    elif i not in w.found.arrays:
        element = MEMORY[Type(op.dtype, op.lanes)]
        w.lines.append(f"  %v{i} = alloca [{op.length} x {element}], align {ALIGNMENT}")
        w.names[i] = f"%v{i}"


def variable(w: CpuWriter, i: int, op: k.Variable) -> None:
    """Unpack a scalar argument."""
    _parameter(w, i, MEMORY[op.type], MEMORY[op.type])
    if op.type.dtype.is_bool:
        w.lines.append(f"  %v{i}.b = icmp ne i8 %v{i}, 0")
        w.names[i] = f"%v{i}.b"


def _parameter(w: CpuWriter, i: int, type_: str, declared: str) -> None:
    w.unpacking.append(
        f"  %a{i} = getelementptr i8, ptr %args, i64 {8 * w.params}\n  %v{i} = load {type_}, ptr %a{i}, align 8"
    )
    w.params += 1
    w.parameters.append(f"{declared} %v{i}")
    w.arguments.append(f"{type_} %v{i}")
    w.names[i] = f"%v{i}"


def index(w: CpuWriter, i: int, op: k.Index) -> None:
    """Take a grid position out of the number of the group, in which axis 0 runs fastest."""
    if op.axis is Axis.LOCAL or op.size == 1:
        w.names[i] = "0"
        return
    sizes = w.analysis.groups
    step = 1
    for size in sizes[: op.number]:
        step *= size
    name = "%group"
    if step > 1:
        w.lines.append(f"  %q{i} = udiv i64 {name}, {step}")
        name = f"%q{i}"
    if any(size > 1 for size in sizes[op.number + 1 :]):
        w.lines.append(f"  %r{i} = urem i64 {name}, {op.size}")
        name = f"%r{i}"
    if op.type.dtype.bits < 64:
        w.lines.append(f"  %v{i} = trunc i64 {name} to {VALUE[op.type]}")
        name = f"%v{i}"
    w.names[i] = name


def barrier(_: CpuWriter, __: int, ___: k.Barrier) -> None:
    """Do nothing: a group is one thread."""
