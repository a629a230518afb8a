"""Devices on paper: any `DeviceInfo`, with the interpreter to run what is scheduled for it.

    with open_paper("tiny card") as runtime, use(runtime):
        ...                                               # everything is planned and scheduled for a tiny card

What a real device is scheduled for depends on its numbers: caches, registers, lanes, threads, params, local memory.
Those here have little of one thing or another, so that small graphs reach the rules that large ones reach elsewhere.
Kernels are held against `DeviceInfo` as compilers of drivers do it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.backend.info import Capability, DeviceInfo, full_capability
from zyx.builtin.interpreter import InterpreterDevice
from zyx.drivers.limits import check_limits
from zyx.hookspecs import API_VERSION, BackendInfo, hookimpl
from zyx.ops import reduce_ops
from zyx.testing.opening import open_runtime
from zyx.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zyx.backend import Device, MemoryPool, Program
    from zyx.dtype import DType
    from zyx.kernel.data import Kernel
    from zyx.runtime.runtime import Runtime

_SWAPS: Final = frozenset(dtype for dtype in dtypes.ALL if dtype.bits in (32, 64))
#: Of rows, columns and depth, as NVIDIA's processors have them since 2020.
_WMMA: Final = tuple(((16, 8, depth), dtype) for depth in (8, 16) for dtype in (dtypes.float16, dtypes.bfloat16))


def _capabilities(lanes: tuple[int, ...], lacking: Sequence[DType] = ()) -> dict[DType, Capability]:
    return {dtype: full_capability(dtype, lanes, reduce_ops(dtype)) for dtype in dtypes.ALL if dtype not in lacking}


def paper_info(model: str, *, lanes: tuple[int, ...] = (2, 4, 8, 16), **fields: object) -> DeviceInfo:
    """Return the record of a device that computes on all dtypes; `fields` are those of `DeviceInfo`."""
    given = {"driver": "paper", "capabilities": _capabilities(lanes), "has_fma": False, **fields}
    return DeviceInfo(model, **given)  # type: ignore[arg-type]  # the fields of the record


def _card(model: str, **fields: object) -> DeviceInfo:
    given = {"units": 4, "warp_size": 32, "max_group_threads": 256, "max_group_shape": (256, 256, 64), **fields}
    return paper_info(model, **given)  # type: ignore[arg-type]  # the fields of the record


#: The devices, by the names of their models.
PAPER: Final = {
    info.model: info
    for info in (
        paper_info("processor", vector_bytes=64, units=8, registers=32, has_shuffle=True, has_streaming=True,
                   cache_bytes=(32768, 1 << 20, 1 << 25)),
        paper_info("tiny caches", vector_bytes=32, units=2, registers=16, has_shuffle=True, has_streaming=True,
                   cache_bytes=(256, 1024, 2048), local_bytes=512),
        paper_info("few registers", vector_bytes=16, units=3, registers=4, cache_bytes=(1024,), max_params=4),
        paper_info("two lanes", lanes=(2,), vector_bytes=8, units=2, registers=8, cache_bytes=(1024, 4096)),
        paper_info("plain", units=2),
        _card("card", vector_bytes=16, registers=128, local_bytes=49152, cache_bytes=(65536, 1 << 20),
              subgroup_size=32, swaps=_SWAPS),
        _card("tiny card", units=2, warp_size=4, max_group_threads=8, max_group_shape=(8, 8, 4), registers=16,
              local_bytes=256, private_bytes=512, cache_bytes=(1024,), max_params=4, subgroup_size=4, swaps=_SWAPS),
        _card("card with few groups", max_groups=(512, 16, 8), max_group_threads=16, max_group_shape=(16, 4, 2),
              vector_bytes=8, local_bytes=1024, private_bytes=2048, meets_in_branches=False),
        _card("card without local memory", vector_bytes=16, local_bytes=0, private_bytes=4096),
        _card("card with tensor cores", units=2, max_group_threads=1024, max_group_shape=(1024, 1024, 64),
              vector_bytes=16, registers=128, local_bytes=49152, private_bytes=65536, cache_bytes=(65536, 1 << 20),
              subgroup_size=32, swaps=_SWAPS, wmma=_WMMA),
        _card("card with one axis", max_group_shape=(64, 1, 1), max_group_threads=64, vector_bytes=16,
              local_bytes=2048, registers=32, subgroup_size=8, swaps=_SWAPS),
    )
}  # fmt: skip


class PaperDevice(InterpreterDevice):
    """An interpreter that passes for another device, and refuses what that would refuse."""

    def __init__(self, name: str, pool: MemoryPool, info: DeviceInfo) -> None:
        super().__init__(name, pool)
        self._info = info

    def compile(self, kernel: Kernel) -> Program:
        check_limits(kernel, self._info)
        return super().compile(kernel)


class PaperBackend:
    """Declares one device on paper.

    Args:
        info: Its record.
        kind: Its class.
    """

    def __init__(self, info: DeviceInfo, kind: type[PaperDevice] = PaperDevice) -> None:
        self._info = info
        self._kind = kind

    @hookimpl
    def zyx_backend_info(self) -> BackendInfo:
        """Say who this is."""
        return BackendInfo("paper", __version__, API_VERSION, self._info.model, works_on_host_memory=True)

    @hookimpl
    def zyx_devices(self, pools: Mapping[str, MemoryPool]) -> Sequence[Device]:
        """Return the device."""
        return [self._kind("paper:0", pools["host"], self._info)]


@contextmanager
def open_paper(info: DeviceInfo | str) -> Iterator[Runtime]:
    """Open a runtime whose default device is on paper: one of `PAPER` by its name, or any other."""
    runtime = open_runtime("paper:0", [PaperBackend(PAPER[info] if isinstance(info, str) else info)])
    try:
        yield runtime
    finally:
        runtime.close()
