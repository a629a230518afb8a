"""What an adapter is and can do: limits and types as the driver reports them, rates as estimates."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import numpy as np

from zyx import ops
from zyx.backend import Capability, DeviceInfo
from zyx.ops import BinaryOp, ReduceOp
from zyx_backend_wgpu.bindings import WRITE, Dispatch
from zyx_backend_wgpu.render import Language
from zyx_backend_wgpu.subgroups import FEATURE as SUBGROUPS
from zyx_backend_wgpu.subgroups import SWAPS, subgroup_size
from zyx_backend_wgpu.wgsl import held_types

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx.dtype import DType
    from zyx_backend_wgpu.driver import Session

#: Features that are used where they are.
FEATURES: Final = (
    "shader-f16", "shader-f64", "shader-int64", "shader-int64-atomic-all-ops", SUBGROUPS, "timestamp-query",
)  # fmt: skip

#: What every device of WebGPU has, and some no more of.
LEAST_LIMITS: Final = {
    "max-buffer-size": 1 << 28, "max-storage-buffer-binding-size": 1 << 27, "max-storage-buffers-per-shader-stage": 8,
    "max-compute-workgroup-storage-size": 16384, "max-compute-invocations-per-workgroup": 256,
    "max-compute-workgroup-size-x": 256, "max-compute-workgroup-size-y": 256, "max-compute-workgroup-size-z": 64,
    "max-compute-workgroups-per-dimension": 65535, "max-uniform-buffer-binding-size": 65536,
}  # fmt: skip

#: Lane counts above 1. Values of several lanes are as many variables: more than a few only make compilers slow.
_LANES: Final = (2, 4)
#: What WebGPU does not tell: bytes of a vector load that pays, and registers of a thread before they spill.
_VECTOR_BYTES: Final = 16
_REGISTERS: Final = 128
#: Bytes of arrays of a thread. NVIDIA's driver compiles 12 KiB, and loses the device over 16.
_PRIVATE_BYTES: Final = 12 << 10
#: Threads that run in step, where the driver does not tell.
_WARP: Final = 32

#: Estimates by kind of adapter: processors, float32 operations a second, bytes a second.
_RATES: Final = {
    "DiscreteGPU": (64, 1e13, 4e11),
    "IntegratedGPU": (16, 1e12, 5e10),
    "VirtualGPU": (32, 2e12, 1e11),
}
#: Bytes of the cache that all processors share, which WebGPU does not tell: what small ones have. Rows that fit are
#: read again from there, at less than it takes to store what follows from them.
_CACHE_BYTES: Final = {"DiscreteGPU": 1 << 22, "IntegratedGPU": 1 << 20, "VirtualGPU": 1 << 20}
#: Of a processor: operations a second and core in generated code of a software driver.
_CPU_FLOPS_PER_S: Final = 4e9
_CPU_BYTES_PER_S: Final = 1e10


def language_of(session: Session) -> Language:
    """Return what kernels for a device are written with.

    Raises:
        Fault: The driver refused.
    """
    features = session.features
    types = held_types(
        has_f16="shader-f16" in features,
        has_f64="shader-f64" in features and "shader-int64" in features,  # whose bits are looked at as integers
        has_i64="shader-int64" in features,
    )
    has_i64_atomics = "shader-int64-atomic-all-ops" in features
    return Language(types, has_i64_atomics, subgroup_size(session), most_iterations(session))


#: Counts the iterations of one loop; through memory, so that no compiler knows how it ends.
_LOOP_TEST: Final = """
@group(0) @binding(0) var<storage, read_write> p: array<u32>;
@compute @workgroup_size(1) fn main() {{
    for (var i = 0u; i < {count}u; i += 1u) {{ p[0] = p[0] + 1u; }}
}}
"""
_LOOP_TEST_COUNT: Final = 100_000


def most_iterations(session: Session) -> int:
    """Return after how many iterations the driver ends the loops of a thread, without a word; 0 if it does not.

    Those for processors may: Mesa's llvmpipe does (see `zyx.render.long_loops`). Try it there.

    Raises:
        Fault: The driver refused.
    """
    if session.adapter.kind != "CPU":
        return 0
    count = np.zeros(1, np.uint32)
    pipeline = session.build(_LOOP_TEST.format(count=_LOOP_TEST_COUNT), "loop", (WRITE,))
    memory = session.allocate(count.nbytes)
    session.write(memory, 0, count.view(np.uint8).data)
    session.submit([Dispatch(pipeline, session.group((WRITE,), [(memory, memory.nbytes)]), 1, 1, 1)])
    session.read(memory, 0, count.view(np.uint8).data)
    return int(count[0]) if count[0] < _LOOP_TEST_COUNT else 0


#: Whether a multiply-add rounds once: of (1 + e)**2 - 1 - 2e, the square of e is left then, and else nothing.
_FMA_TEST: Final = """
@group(0) @binding(0) var<storage, read_write> p: array<{type}>;
@compute @workgroup_size(1) fn main() {{
    let fused = fma(p[0], p[0], p[1]);
    p[1] = fused;
}}
"""


def fuses_multiply_add(session: Session, language: Language) -> bool:
    """Return whether the device's multiply-adds round once, which WebGPU leaves open: try it.

    Raises:
        Fault: The driver refused.
    """
    for type_, dtype in (("f32", np.float32), ("f64", np.float64)):
        if type_ in language.types.values():
            x = dtype(1) + np.finfo(dtype).eps
            values = np.array([x, -(x * x)], dtype)
            pipeline = session.build(_FMA_TEST.format(type=type_), "fma", (WRITE,))
            memory = session.allocate(values.nbytes)
            data = values.view(np.uint8).data
            session.write(memory, 0, data)
            session.submit([Dispatch(pipeline, session.group((WRITE,), [(memory, memory.nbytes)]), 1, 1, 1)])
            session.read(memory, 0, data)
            if values[1] == 0:
                return False
    return True


def device_info(session: Session, language: Language, driver: str) -> DeviceInfo:
    """Return the record of a device.

    Args:
        session: The device, open.
        language: The language of its kernels.
        driver: Versions of this package and of wgpu.

    Raises:
        Fault: The driver refused.
    """
    adapter, limits = session.adapter, session.limits
    cores = os.cpu_count() or 1
    units, flops_per_s, bytes_per_s = _RATES.get(adapter.kind, (cores, cores * _CPU_FLOPS_PER_S, _CPU_BYTES_PER_S))
    shared = _CACHE_BYTES.get(adapter.kind)
    return DeviceInfo(
        model=str(adapter),
        driver=f"{driver}, {adapter.driver}",
        capabilities=_capabilities(language),
        flops_per_s=flops_per_s,
        bytes_per_s=bytes_per_s,
        units=units,
        max_groups=(limits["max-compute-workgroups-per-dimension"],) * 3,
        max_group_threads=limits["max-compute-invocations-per-workgroup"],
        max_group_shape=tuple(limits[f"max-compute-workgroup-size-{axis}"] for axis in "xyz"),
        warp_size=adapter.subgroup_threads or _WARP,
        subgroup_size=language.subgroup_size,
        swaps=SWAPS if language.subgroup_size else frozenset(),
        vector_bytes=_VECTOR_BYTES,
        registers=_REGISTERS,
        local_bytes=limits["max-compute-workgroup-storage-size"],
        private_bytes=_PRIVATE_BYTES,
        cache_bytes=(limits["max-compute-workgroup-storage-size"], shared) if shared else (),
        max_params=limits["max-storage-buffers-per-shader-stage"],
        max_buffer_bytes=max_buffer_bytes(limits),
        has_fma=fuses_multiply_add(session, language),
    )


def max_buffer_bytes(limits: Mapping[str, int]) -> int:
    """Return the size of the largest buffer that kernels can use, in whole words."""
    return min(limits["max-buffer-size"], limits["max-storage-buffer-binding-size"]) // 4 * 4


def _capabilities(language: Language) -> Mapping[DType, Capability]:
    """Return what the renderer has forms for: not transcendental functions, powers, and arithmetic on 16-bit floats.

    WGSL's own exponentials and the like are less accurate than zyx's, and differ from driver to driver. float16 is
    computed in float32 also where it is a type of the language, since its bits cannot be looked at there.
    """
    result = {}
    for dtype in language.types:
        if dtype.is_float and dtype.bits == 16:
            result[dtype] = Capability(lanes=_LANES)
            continue
        unary, binary = ops.unary_ops(dtype) - ops.TRANSCENDENTAL, ops.binary_ops(dtype) - {BinaryOp.POW}
        if dtype.is_float:
            binary -= {BinaryOp.MOD}
        atomic: frozenset[ReduceOp] = frozenset()
        if dtype.bits in language.atomic_bits and not dtype.is_bool:
            atomic = ops.reduce_ops(dtype)
        result[dtype] = Capability(unary, binary, atomic, _LANES)
    return result
