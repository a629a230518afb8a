"""What core writes of LLVM IR serves other processors than the one here: GPUs, of whose assembly LLVM makes text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import llvmlite.binding as llvm
import pytest

from zyx import dtype as dtypes
from zyx.backend.info import Capability, DeviceInfo, full_capability
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.kernel.data import Axis, Memory
from zyx.ops import BinaryOp
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.render.llvm.operations import OPERATIONS
from zyx.render.llvm.slots import find_slots
from zyx.render.llvm.templates import Templates
from zyx.render.llvm.types import MEMORY, VALUE
from zyx.render.llvm.writer import Writer
from zyx.testing.kernels import random_kernel

if TYPE_CHECKING:
    from zyx.kernel.data import Kernel

#: For each kind of GPU: a processor, how a kernel is declared, its barrier, and its positions.
GPUS = {
    "nvptx64-nvidia-cuda": (
        "sm_80", "ptx_kernel", "@llvm.nvvm.barrier0", "@llvm.nvvm.read.ptx.sreg.ctaid", "@llvm.nvvm.read.ptx.sreg.tid",
    ),
    "amdgcn-amd-amdhsa": (
        "gfx90a", "amdgpu_kernel", "@llvm.amdgcn.s.barrier", "@llvm.amdgcn.workgroup.id", "@llvm.amdgcn.workitem.id",
    ),
}  # fmt: skip


class Machine:
    """A GPU, as far as text for it differs."""

    has_fma = True
    has_half_conversion = False
    has_streaming = False


class GpuWriter(Writer):
    """The text of one kernel for a GPU: arguments are parameters, and local memory lies in its address space."""

    def __init__(self, kernel: Kernel, gpu: str) -> None:
        super().__init__(kernel, find_slots(kernel), Templates(Machine()))
        self.kernel = kernel
        self.gpu = gpu
        _, self.convention, self.meet, self.group, self.thread = GPUS[gpu]
        self.parameters: list[str] = []
        self.shared: list[str] = []

    def text(self) -> str:
        writers = {**OPERATIONS, k.Define: define, k.Variable: variable, k.Index: index, k.Barrier: barrier}
        for i, op in enumerate(self.ops):
            writers[type(op)](self, i, op)
        body = "\n".join(self.lines)
        return (
            f'target triple = "{self.gpu}"\n' + "\n".join(self.shared) + "\n"
            f"define {self.convention} void @main({', '.join(self.parameters)}) {{\nentry:\n{body}\n  ret void\n}}\n"
        )


def define(w: GpuWriter, i: int, op: k.Define) -> None:
    w.names[i] = f"%v{i}"
    if op.memory is Memory.GLOBAL:
        w.parameters.append(f"ptr %v{i}")
    elif op.memory is Memory.LOCAL:
        type_ = f"[{op.length} x {MEMORY[k.Type(op.dtype, op.lanes)]}]"
        w.shared.append(f"@m{i} = internal addrspace(3) global {type_} poison, align 16")
        w.lines.append(f"  %v{i} = addrspacecast ptr addrspace(3) @m{i} to ptr")
    elif i not in w.found.arrays:
        w.lines.append(f"  %v{i} = alloca [{op.length} x {MEMORY[k.Type(op.dtype, op.lanes)]}], align 16")


def variable(w: GpuWriter, i: int, op: k.Variable) -> None:
    w.names[i] = f"%v{i}"
    w.parameters.append(f"{VALUE[op.type]} %v{i}")


def index(w: GpuWriter, i: int, op: k.Index) -> None:
    place = w.group if op.axis is Axis.GROUP else w.thread
    type_, bits = VALUE[op.type], op.type.dtype.bits
    w.lines.append(f"  %x{i} = call i32 {place}.{'xyz'[op.number]}()")
    how = "zext" if bits > 32 else "trunc" if bits < 32 else "bitcast"
    w.lines.append(f"  %v{i} = {how} i32 %x{i} to {type_}")
    w.names[i] = f"%v{i}"


def barrier(w: GpuWriter, _: int, __: k.Barrier) -> None:
    w.lines.append(f"  call void {w.meet}()")


def assembly(text: str, gpu: str) -> str:
    """Return the assembly of LLVM IR; the text is verified before."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = llvm.parse_assembly(text)
    module.verify()
    target = llvm.Target.from_triple(gpu)
    return target.create_target_machine(cpu=GPUS[gpu][0]).emit_assembly(module)


def shared_sum() -> Kernel:
    """Return a kernel whose threads add pairs of numbers by way of local memory."""
    b = Builder()
    out, x = b.define(Memory.GLOBAL, dtypes.float32, 256), b.define(Memory.GLOBAL, dtypes.float32, 256, mutable=False)
    shared, total = b.define(Memory.LOCAL, dtypes.float32, 64), b.define(Memory.REGISTER, dtypes.float32, 1)
    group, thread = b.index(Axis.GROUP, 0, 4), b.index(Axis.LOCAL, 0, 64)
    zero, sixty_four = b.const(0, dtypes.int64), b.const(64, dtypes.int64)
    at = b.mad(group, sixty_four, thread)
    b.store(total, zero, b.const(0.0, dtypes.float32))
    b.store(shared, thread, b.load(x, at))
    b.barrier()
    turn = b.loop(2)
    other = b.binary(BinaryOp.XOR, thread, turn)
    b.store(total, zero, b.binary(BinaryOp.ADD, b.load(total, zero), b.load(shared, other)))
    b.end_loop()
    b.store(out, at, b.load(total, zero))
    return b.finish("shared_sum")


@pytest.mark.parametrize(("gpu", "words"), [
    ("nvptx64-nvidia-cuda", [".visible .entry main", "bar.sync", "%tid.x", "add.rn.f32", ".shared"]),
    ("amdgcn-amd-amdhsa", ["main:", "s_barrier", "v_add_f32", ".amdhsa_kernel main"]),
])  # fmt: skip
def test_a_kernel_with_barriers_and_local_memory_becomes_assembly(gpu: str, words: list[str]) -> None:
    found = assembly(GpuWriter(shared_sum(), gpu).text(), gpu)
    assert [word for word in words if word not in found] == []


@pytest.mark.parametrize("gpu", GPUS)
def test_random_kernels_become_assembly(gpu: str) -> None:
    halves = (dtypes.float16, dtypes.bfloat16)
    full = {dtype: full_capability(dtype, lanes=(2, 4), transcendental=False) for dtype in dtypes.ALL}
    info = DeviceInfo("gpu", "1", {**full, **{half: Capability(lanes=(2, 4)) for half in halves}})
    written = 0
    for seed in range(25):
        kernel = run_passes(random_kernel(seed), standard_passes(info))
        if any(isinstance(op, k.Binary) and op.op is BinaryOp.MOD and op.type.dtype.is_float for op in kernel.ops):
            continue
        if gpu.startswith("amdgcn") and has_stack(kernel):
            continue
        written += bool(assembly(GpuWriter(kernel, gpu).text(), gpu))
    assert written > 10


def has_stack(kernel: Kernel) -> bool:
    """Whether a register array needs memory, which lies in an address space of its own on AMD's GPUs."""
    arrays = find_slots(kernel).arrays
    return any(
        isinstance(op, k.Define) and op.memory is Memory.REGISTER and i not in arrays for i, op in enumerate(kernel.ops)
    )
