"""Which threads of a group run in step: WebGPU has functions for them to swap values, and does not say who they are.

Drivers put threads with neighbouring numbers into subgroups of one size, as far as is known. So that nothing relies on
it where it is not so, a kernel is run at first in which threads swap their numbers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from zyx import dtype as dtypes
from zyx_backend_wgpu import driver_vulkan
from zyx_backend_wgpu.bindings import WRITE, Dispatch

if TYPE_CHECKING:
    from zyx_backend_wgpu.driver import ListedAdapter, Session

FEATURE: Final = "subgroup"
#: What threads swap: 64 bits are an extension of drivers that WebGPU does not ask for.
SWAPS: Final = frozenset({dtypes.float32, dtypes.int32, dtypes.uint32})

#: Every distance is made of bits, each of which is tried.
_TEST: Final = """
@group(0) @binding(0) var<storage, read_write> p: array<u32>;
@compute @workgroup_size({width}, {height}) fn main(@builtin(local_invocation_id) thread: vec3<u32>) {{
    let number = thread.x + {width}u * thread.y;
    for (var i = 0u; i < {bits}u; i += 1u) {{
        p[i * {count}u + number] = subgroupShuffleXor(number, 1u << i);
    }}
}}
"""


def subgroup_size(session: Session) -> int:
    """Return how many neighbouring threads can swap values; 0 if they cannot, or are not always as many.

    Raises:
        Fault: The driver refused.
    """
    size, largest = sizes_of(session.adapter)
    if FEATURE not in session.features or size != largest or size < 2 or size & (size - 1):
        return 0
    threads = session.limits["max-compute-invocations-per-workgroup"]
    shapes = [(size, 1), *(shape for shape in ((4 * size, 1), (size, 3), (2 * size, 2)) if math.prod(shape) <= threads)]
    return size if all(_swap_in_pairs(session, size, *shape) for shape in shapes) else 0


def sizes_of(adapter: ListedAdapter) -> tuple[int, int]:
    """Return the least and the most threads that run in step, as WebGPU's library tells, or else Vulkan; else 0."""
    told = adapter.subgroup_threads, adapter.most_subgroup_threads
    is_asked = not any(told) and adapter.road == "Vulkan"
    return driver_vulkan.subgroup_threads(*adapter.ids, adapter.name) if is_asked else told


def _swap_in_pairs(session: Session, size: int, width: int, height: int) -> bool:
    bits, count = size.bit_length() - 1, width * height
    pipeline = session.build(_TEST.format(width=width, height=height, bits=bits, count=count), "swaps", (WRITE,))
    memory = session.allocate(4 * bits * count)
    found = np.zeros((bits, count), np.uint32)
    session.submit([Dispatch(pipeline, session.group((WRITE,), [(memory, memory.nbytes)]), 1, 1, 1)])
    session.read(memory, 0, found.reshape(-1).view(np.uint8).data)
    session.free(memory)
    return np.array_equal(found, np.arange(count) ^ (1 << np.arange(bits)[:, None]))
