"""A kernel as LLVM IR text, final: explicit vectors, no optimisation passes needed after it.

    define void @zyx_kernel(ptr %args, i64 %begin, i64 %end, ptr %scratch)

runs the groups ``begin <= g < end``. `args` has one slot of 8 bytes a param: the address of a buffer, or the value of a
variable at its start. `scratch` is memory of the thread, for arrays that are too large for registers. Groups are
numbered with axis 0 running fastest: ``g = (i2 * size1 + i1) * size0 + i0``. That function only unpacks the arguments;
the work is done by one whose parameters are ``noalias``, since arrays of a kernel do not overlap: so the code generator
may move loads across stores. Operation ``%12`` of the kernel is ``%v12`` in the text::

    %0 = define global f32[64]           define internal void @body(ptr noalias readonly %v0, i64 %begin, i64 %end)
    %1 = index group 0 : 4         =>    groups:
    %2 = const 16                          %group = phi i64 [ %begin, %entry ], [ %group.next, %groups ]
    %3 = mul %1, %2                        %v3 = mul i64 %group, 16
    %4 = load f32x16 %0[%3]                %a4 = getelementptr inbounds float, ptr %v0, i64 %v3
                                           %v4 = load <16 x float>, ptr %a4, align 4

Control flow is structured, so the text is in static single assignment form as it is written: slots of register arrays
(`zyx.render.llvm.slots`) are renamed at every store, and joined by phis where regions start and end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.errors import UnsupportedError
from zyx.kernel import data as k
from zyx.render.llvm.operations import OPERATIONS
from zyx.render.llvm.templates import Templates
from zyx.render.llvm.types import LANES
from zyx_backend_c import llvm_byte_products, llvm_cpu
from zyx_backend_c.analysis import analyse
from zyx_backend_c.program import Rendered
from zyx_backend_c.toolchain import SYMBOL

if TYPE_CHECKING:
    from zyx.kernel.data import Kernel
    from zyx.render.llvm.operations import WriteOperation
    from zyx_backend_c.target import Target

# Some processors are tuned for half their vector width; kernels are scheduled for all of it.
_FUNCTIONS: Final = """\
target triple = "{triple}"

define internal void @body({parameters}i64 %begin, i64 %end) #0 {{
entry:
{body}
}}

define void @{symbol}(ptr %args, i64 %begin, i64 %end, ptr %scratch) #0 {{
{unpacking}
  tail call void @body({arguments}i64 %begin, i64 %end)
  ret void
}}

attributes #0 = {{ nounwind "min-legal-vector-width"="{bits}" "prefer-vector-width"="{bits}" }}
!0 = !{{i32 1}}
"""

_WRITERS: Final[dict[type, WriteOperation]] = {
    **OPERATIONS,
    k.Define: llvm_cpu.define,
    k.Variable: llvm_cpu.variable,
    k.Index: llvm_cpu.index,
    k.Barrier: llvm_cpu.barrier,
    k.Binary: llvm_byte_products.binary,
}


class LlvmRenderer:
    """Renders kernels for one processor. Not for several threads at once: it keeps the templates that it made."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._templates = Templates(target)

    def render(self, kernel: Kernel) -> Rendered:
        """Return the text of `kernel`.

        Raises:
            UnsupportedError: An operation, dtype or number of lanes that there is no form for.
        """
        analysis = analyse(kernel, self.target)
        w = llvm_cpu.CpuWriter(kernel, analysis, self._templates, self.target)
        ops, writers, lines = kernel.ops, _WRITERS, w.lines
        body = next((i for i, op in enumerate(ops) if not isinstance(op, (k.Define, k.Variable))), len(ops))
        i = -1
        try:
            for i in range(body):
                writers[type(ops[i])](w, i, ops[i])
            lines.append("  br label %groups\ngroups:")
            phi = len(lines)
            lines.append("")
            w.block = "groups"
            for i in range(body, len(ops)):
                writers[type(ops[i])](w, i, ops[i])
        except UnsupportedError as error:
            raise UnsupportedError(f"kernel {kernel.name}, operation %{i}: {error}") from error
        except KeyError as error:  # the tables of `zyx.render.llvm.types` have every type there is
            raise UnsupportedError(
                f"kernel {kernel.name}, operation %{i}: no native form of {ops[i]}; lanes may be {LANES}"
            ) from error
        lines[phi] = f"  %group = phi i64 [ %begin, %entry ], [ %group.next, %{w.block} ]"
        lines.append("  %group.next = add nuw nsw i64 %group, 1")
        lines.append("  %group.more = icmp ult i64 %group.next, %end")
        lines.append("  br i1 %group.more, label %groups, label %done\ndone:")
        if analysis.is_streaming and self.target.has_streaming:
            lines.append("  call void @llvm.x86.sse.sfence()")  # before other threads hear that the chunk is done
        lines.append("  ret void")
        text = _FUNCTIONS.format(
            triple=self.target.triple,
            symbol=SYMBOL,
            parameters="".join(f"{parameter}, " for parameter in w.parameters),
            body="\n".join(lines),
            unpacking="\n".join(w.unpacking),
            arguments="".join(f"{argument}, " for argument in w.arguments),
            bits=self.target.vector_bytes * 8,
        )
        return Rendered.of(kernel, text, analysis)
