"""What Vulkan leaves open, tried when a device is opened: small kernels, and whether they give what they should.

* Whether a multiply-add rounds once.
* After how many iterations the driver ends the loops of a thread, without a word. Those for processors may: Mesa's
  llvmpipe does (see `zyx.render.long_loops`).
* Whether threads with neighbouring numbers are those that swap values.
* Which elements of cooperative matrices threads hold (`zyx_backend_vulkan.probe_matrices`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zyx import dtype as dtypes
from zyx.drivers.arguments import Parameter
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.kernel.wmma import WARP
from zyx.ops import BinaryOp
from zyx_backend_vulkan.driver_instance import CPU
from zyx_backend_vulkan.probe_matrices import tried_products
from zyx_backend_vulkan.program import KernelProgram, bindings_of
from zyx_backend_vulkan.render import Rendered, render

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from zyx.dtype import DType
    from zyx.kernel.data import Kernel
    from zyx_backend_vulkan.driver_programs import Pipelines
    from zyx_backend_vulkan.memory import VulkanPool
    from zyx_backend_vulkan.target import Product, Target

#: What places are counted in: every device has it.
_INDEX: Final = dtypes.int32
#: More iterations than a driver that ends loops would let pass.
_MANY: Final = 100_000


def tried(
    target: Target, products: Sequence[Product], pool: VulkanPool, pipelines: Pipelines, note: Callable[[str], object]
) -> Target:
    """Return `target` with what was tried of it.

    Args:
        target: What modules may use.
        products: The products of cooperative matrices that the driver lists.
        pool: Memory of the device.
        pipelines: Makes its pipelines.
        note: Is told what was left out, and why.

    Raises:
        Fault: The driver refused.
        BackendError: The device does not work.
    """
    fuses = {dtype for dtype in (dtypes.float32, dtypes.float64) if dtype in target.arithmetic}
    asked = replace(target, fuses=frozenset(fuses))
    found = frozenset(dtype for dtype in fuses if _rounds_once(Trial(asked, pool, pipelines), dtype))
    target = replace(target, fuses=found)
    trial = Trial(target, pool, pipelines)
    if pool.session.listed.kind == CPU:
        target = replace(target, most_iterations=_most_iterations(trial))
    if target.subgroup_size and not _swap_in_order(trial):
        target = replace(target, subgroup_size=0, swaps=frozenset())
    return replace(target, products=tried_products(products, Trial(target, pool, pipelines), note))


class Trial:
    """Runs kernels on a device that is being opened."""

    def __init__(self, target: Target, pool: VulkanPool, pipelines: Pipelines) -> None:
        self.target = target
        self._pool: Final = pool
        self._pipelines: Final = pipelines

    def run(self, kernel: Kernel, *arrays: NDArray[Any]) -> None:
        """Run a kernel on arrays, which are replaced."""
        self._run(render(kernel, self.target), arrays)

    def run_module(self, name: str, words: bytes, values: NDArray[Any]) -> None:
        """Run a module of one group of a warp on an array, which is replaced."""
        one = Parameter(values.nbytes)
        self._run(Rendered(name, "", (one,), (1, 1, 1), (WARP, 1, 1), words, False, (-1,), 0, 0), [values])

    def _run(self, rendered: Rendered, arrays: Sequence[NDArray[Any]]) -> None:
        pool = self._pool
        pipeline, _ = self._pipelines.build(rendered.words, rendered.threads, *bindings_of(rendered))
        program = KernelProgram(f"kernel {rendered.name}", pool, pipeline, rendered, self._pipelines.free)
        made = []
        for values in arrays:
            buffer, ready = pool.allocate(values.nbytes)
            pool.sync_events([pool.host_to_pool(_bytes(values), buffer, [ready])])
            made.append(buffer)
        with pool.work.lock:
            program.enqueue([buffer.memory for buffer in made])
            number = pool.compute.queued(program.what)
        pool.compute.finish(number)
        for values, buffer in zip(arrays, made, strict=True):
            pool.pool_to_host(buffer, _bytes(values))
            pool.deallocate(buffer)
        program.release()


def _bytes(values: NDArray[Any]) -> memoryview:
    return values.reshape(-1).view(np.uint8).data


def _rounds_once(trial: Trial, dtype: DType) -> bool:
    """Whether a multiply-add rounds once: of (1 + e)**2 - (1 + 2e), the square of e is left then, and else nothing."""
    b = Builder()
    p = b.define(k.Memory.GLOBAL, dtype, 2)
    first, second = (b.const(number, _INDEX) for number in range(2))
    x = b.load(p, first)
    b.store(p, second, b.mad(x, x, b.load(p, second)))
    one = np.ones(1, dtype.numpy)
    one_and_little = np.nextafter(one, 2 * one)
    values = np.concatenate([one_and_little, -one_and_little * one_and_little])
    trial.run(b.finish("rounds_once"), values)
    return bool(values[1] != 0)


def _most_iterations(trial: Trial) -> int:
    """Return after how many iterations loops end; 0 if they go on. Counted in memory: no compiler knows how it ends."""
    b = Builder()
    p = b.define(k.Memory.GLOBAL, dtypes.int32, 1)
    first = b.const(0, _INDEX)
    b.loop(_MANY, _INDEX)
    b.store(p, first, b.binary(BinaryOp.ADD, b.load(p, first), b.const(1, dtypes.int32)))
    b.end_loop()
    values = np.zeros(1, np.int32)
    trial.run(b.finish("many_iterations"), values)
    return int(values[0]) if values[0] < _MANY else 0


def _swap_in_order(trial: Trial) -> bool:
    """Whether threads with neighbouring numbers swap values. Every distance is made of bits, each of which is tried."""
    size = trial.target.subgroup_size
    bits = size.bit_length() - 1
    width, height = 2 * size, 2
    count = width * height
    b = Builder()
    p = b.define(k.Memory.GLOBAL, dtypes.int32, bits * count)
    x, y = b.index(k.Axis.LOCAL, 0, width, _INDEX), b.index(k.Axis.LOCAL, 1, height, _INDEX)
    number = b.binary(BinaryOp.ADD, b.binary(BinaryOp.MUL, y, b.const(width, _INDEX)), x)
    for bit in range(bits):
        place = b.binary(BinaryOp.ADD, number, b.const(bit * count, _INDEX))
        b.store(p, place, b.swap(number, 1 << bit))
    found = np.zeros((bits, count), np.int32)
    trial.run(b.finish("swaps"), found)
    return np.array_equal(found, np.arange(count) ^ (1 << np.arange(bits)[:, None]))
