"""Put the parts together: the driver, the compiler, the devices that are asked for, and their pools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.drivers.cache import open_programs
from zyx.drivers.faults import Fault
from zyx.drivers.opening import open_each
from zyx.errors import DriverNotFoundError, InitializationError, NoDeviceError
from zyx_backend_cuda.blas import candidates, open_blas
from zyx_backend_cuda.cudnn import convolutions, open_cudnn
from zyx_backend_cuda.device import CudaDevice
from zyx_backend_cuda.driver import LEAST_VERSION, open_driver
from zyx_backend_cuda.info import capability_of, device_info
from zyx_backend_cuda.libraries import usable_majors
from zyx_backend_cuda.memory import CudaPool
from zyx_backend_cuda.nvrtc import open_nvrtc
from zyx_backend_cuda.render import cuda_dialect
from zyx_backend_cuda.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.backend import Device, MemoryPool
    from zyx.backend.library import LibraryKernel
    from zyx.hookspecs import BackendConfig
    from zyx_backend_cuda.driver import Driver
    from zyx_backend_cuda.plugin import CudaConfig


class OpenPool(CudaPool):
    """A pool that knows its driver, whether float32 products may leave bits out there, and what libraries offer.

    The last is known once it was asked for.
    """

    driver: Driver
    tf32: bool
    kernels: Sequence[LibraryKernel] | None = None


def open_pools(config: BackendConfig[CudaConfig]) -> Sequence[OpenPool]:
    """Return the pools of the devices that are asked for and start; those that refuse are noted.

    Raises:
        DriverNotFoundError: There is no driver, or no package for it.
        NoDeviceError: The driver has none, or not the one that is asked for; the text has those there are.
        InitializationError: The driver is too old, or all of them refused.
    """
    driver = open_driver(config.section.driver, config.note)
    try:
        count = driver.count()
    except Fault as error:
        raise InitializationError(f"CUDA does not list its devices: {error}") from error
    if not count:
        raise NoDeviceError(f"the CUDA driver has no device ({driver.name}); CUDA_VISIBLE_DEVICES may hide them")
    if driver.version < LEAST_VERSION:
        have, least = (".".join(map(str, version)) for version in (driver.version, LEAST_VERSION))
        raise InitializationError(
            f"the driver supports CUDA {have} ({driver.name}), and at least {least} is needed: update NVIDIA's "
            "driver, to version 525 or later"
        )
    asked = config.section.devices or list(range(count))
    missing = [ordinal for ordinal in asked if not 0 <= ordinal < count]
    if missing:
        raise NoDeviceError(f"there is no CUDA device {missing[0]}; there are {', '.join(map(str, range(count)))}")

    def open_pool(number: int, ordinal: int) -> OpenPool:
        try:
            session = driver.open(ordinal)
        except Fault as error:
            raise InitializationError(f"CUDA device {ordinal} does not start: {error}") from error
        try:
            pool = OpenPool(f"cuda:{number} memory", session, ordinal)
        except Fault as error:
            session.close()
            raise InitializationError(f"CUDA device {ordinal}, {session.name}, does not start: {error}") from error
        pool.driver, pool.tf32 = driver, config.section.tf32
        return pool

    return open_each(asked, open_pool, config.note)


def open_devices(config: BackendConfig[CudaConfig], pools: Mapping[str, MemoryPool]) -> Sequence[CudaDevice]:
    """Return the device of each pool, in order.

    Raises:
        DriverNotFoundError: There is no NVRTC, or none that knows any of the devices.
    """
    ours = [pool for pool in pools.values() if isinstance(pool, OpenPool)]
    if not ours:
        return []
    driver = ours[0].driver
    compiler = open_nvrtc(driver)
    cache = open_programs(config.cache_directory, "cuda", config.cache_bytes)
    versions = (
        f"zyx-backend-cuda {__version__}, CUDA {'.'.join(map(str, driver.version))} through {driver.name}, "
        f"NVRTC {'.'.join(map(str, compiler.version))}"
    )
    devices: list[CudaDevice] = []
    refused: list[str] = []
    for pool in ours:
        session = pool.session
        capability = capability_of(session)
        try:
            target = compiler.target(capability)
        except DriverNotFoundError as error:
            refused.append(f"{session.name}: {error}")
            continue
        dialect = cuda_dialect(capability)
        records = config.section.graphs and session.can_capture
        if config.section.graphs and not session.can_capture:
            config.note("captured plans are launched kernel by kernel: pip install cuda-bindings plays them as graphs")
        name, info = pool.name.removesuffix(" memory"), device_info(session, dialect, versions, tf32=pool.tf32)
        devices.append(CudaDevice(name, pool, info, dialect, compiler, target, cache, records=records))
    if not devices:
        raise DriverNotFoundError("; ".join(refused))
    for reason in refused:
        config.note(f"left out: {reason}")
    return devices


def library_kernels(device: Device) -> Sequence[LibraryKernel]:
    """Return the products that cuBLASLt offers on a device of this backend, and the convolutions of cuDNN.

    Raises:
        DriverNotFoundError: cuBLASLt is not found. From the next call on, it offers nothing.
        InitializationError: It does not start there; likewise.
    """
    if not isinstance(device, CudaDevice) or not isinstance(device.pool, OpenPool):
        return ()
    pool = device.pool
    if pool.kernels is None:
        device.dnn = open_cudnn(pool, device.name, tf32=pool.tf32)
        pool.kernels = () if device.dnn is None else (convolutions(device.dnn),)
        device.blas = open_blas(pool, device.name, usable_majors(pool.driver.version), tf32=pool.tf32)
        pool.kernels = (*candidates(device.blas), *pool.kernels)
    return pool.kernels
