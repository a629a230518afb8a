"""The CUDA backend, computing what the HIP backend says: ``--zyx-plugin hip_on_nvidia`` beside this folder.

Devices claim what AMD's claim, so core hands them the same kernels; the HIP backend writes them; a header makes NVRTC
read AMD's built-ins as NVIDIA's. Memory, launches and order are the CUDA backend's.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from zyx.hookspecs import hookimpl
from zyx_backend_cuda import start
from zyx_backend_cuda.info import device_info
from zyx_backend_cuda.plugin import (  # what a plugin has  # noqa: F401
    zyx_backend_info,
    zyx_config_section,
    zyx_memory_pools,
)
from zyx_backend_hip.info import capabilities
from zyx_backend_hip.render import DIALECT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.backend import Device, DeviceInfo, MemoryPool
    from zyx.hookspecs import BackendConfig
    from zyx.render.dialect import Dialect
    from zyx_backend_cuda.driver import Session
    from zyx_backend_cuda.plugin import CudaConfig

MAPPING: Final = (Path(__file__).parent / "hip_on_nvidia.h").read_text()
HIP_ON_NVIDIA: Final = dataclasses.replace(DIALECT, name="HIP C++ on NVIDIA", preamble=MAPPING + DIALECT.preamble)


def info_of(session: Session, dialect: Dialect, driver: str, *, tf32: bool = False) -> DeviceInfo:
    """Return the record of a device: NVIDIA's limits, and what the HIP backend computes with each dtype."""
    own = device_info(session, dialect, driver, tf32=tf32)
    claimed = {
        # NVRTC 13.0 assembles more lanes than a load brings wrongly; see `zyx_backend_cuda.info`.
        dtype: dataclasses.replace(
            able, lanes=tuple(lanes for lanes in able.lanes if lanes * dtype.itemsize <= own.vector_bytes)
        )
        for dtype, able in capabilities().items()
    }
    return dataclasses.replace(own, model=f"{own.model}, by HIP", capabilities=claimed, wmma=())


@hookimpl
def zyx_devices(config: BackendConfig[CudaConfig], pools: Mapping[str, MemoryPool]) -> Sequence[Device]:
    """Return the devices of the CUDA backend, with the HIP backend's kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(start, "cuda_dialect", lambda capability: HIP_ON_NVIDIA)
        patch.setattr(start, "device_info", info_of)
        return start.open_devices(config, pools)
