"""Devices of both toolchains, and a way to run a kernel on one of them and on the oracle."""

import shutil
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from zyx.builtin.host import HostPool
from zyx.drivers.cache import MemoryCache
from zyx.kernel import run as interpreter
from zyx.kernel.data import Define, Kernel
from zyx.kernel.verify import verify
from zyx_backend_c.device import CpuDevice
from zyx_backend_c.driver import Compiler
from zyx_backend_c.start import make_device, make_workers, open_devices
from zyx_backend_c.target import Target
from zyx_backend_c.toolchain_llvm import LlvmToolchain
from zyx_backend_c.workers import Sharing

HAS_COMPILER = any(map(shutil.which, ("gcc", "clang", "cc")))


#: The least that 64-bit processors of the x86 family have today.
BASELINE = Target("x86_64-unknown-linux-gnu", "x86-64-v2", frozenset({"sse4.1", "sse4.2", "ssse3", "popcnt", "cx16"}))

KINDS = ["llvm", "cc", "shared", "baseline"]


@pytest.fixture(scope="session")
def devices() -> Iterator[dict[str, CpuDevice]]:
    """What the package opens, one that shares every step out, and one for a processor without extras."""
    pool = HostPool()
    both = open_devices("both" if HAS_COMPILER else "llvm", "", 2, MemoryCache(), pool)
    opened = dict(zip(("llvm", "cc"), both, strict=False))
    llvm = opened["llvm"].toolchain
    everything = Sharing(share_ns=0, wake_ns=0, chunk_ns=1, spins=20)
    opened["shared"] = make_device(2, pool, llvm, llvm, make_workers(llvm, 4, everything))
    if llvm.compiler.target.is_x86 and llvm.compiler.target.is_linux:
        plain = LlvmToolchain(Compiler(BASELINE), MemoryCache())
        opened["baseline"] = make_device(3, pool, plain, plain, make_workers(plain, 2, Sharing()))
    yield opened
    for device in opened.values():
        device.close()


@pytest.fixture(params=KINDS, scope="session")
def device(request: pytest.FixtureRequest, devices: dict[str, CpuDevice]) -> CpuDevice:
    if request.param not in devices:
        pytest.skip("no C compiler on this machine" if request.param == "cc" else "not an x86 with Linux")
    return devices[request.param]


@pytest.fixture(scope="session")
def llvm_device(devices: dict[str, CpuDevice]) -> CpuDevice:
    return devices["llvm"]


def run_on(device: CpuDevice, kernel: Kernel, args: Sequence[object]) -> list[np.ndarray]:
    """Run `kernel` on copies of the arrays among `args`, and return them."""
    verify(kernel)
    program = device.compile(kernel)
    pool = device.memory_pool
    buffers = []
    for param, arg in zip(kernel.params, args, strict=True):
        if isinstance(param, Define):
            data = np.ascontiguousarray(arg)
            buffer, event = pool.allocate(data.nbytes)
            pool.release_events([pool.host_to_pool(memoryview(data.view(np.uint8)), buffer, [event])])
            buffers.append(buffer)
        else:
            buffers.append(arg)
    pool.release_events([device.launch(program, buffers)])
    results = []
    for arg, buffer in zip(args, buffers, strict=True):
        if isinstance(arg, np.ndarray):
            result = np.empty_like(arg)
            pool.pool_to_host(buffer, memoryview(result.view(np.uint8)))
            pool.deallocate(buffer)
            results.append(result)
    device.release(program)
    return results


def expected(kernel: Kernel, args: Sequence[object]) -> list[np.ndarray]:
    """Return what the interpreter makes of copies of `args`."""
    copies = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
    interpreter.run(kernel, copies)
    return [copy for copy in copies if isinstance(copy, np.ndarray)]


def assert_same(actual: np.ndarray, wanted: np.ndarray, what: object = "", *, signs: bool = True) -> None:
    """Bit by bit, but for the sign and payload of NaN; and the sign of zeros, unless `signs`."""
    if wanted.dtype.kind not in "fV" and wanted.dtype.name != "bfloat16":
        np.testing.assert_array_equal(actual, wanted, str(what))
        return
    with np.errstate(invalid="ignore"):  # signalling NaN
        left, right = actual.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_array_equal(left, right, str(what))
    kept = ~np.isnan(right) if signs else []
    np.testing.assert_array_equal(np.signbit(left[kept]), np.signbit(right[kept]), str(what))


@pytest.fixture(scope="session")
def run() -> Callable[[CpuDevice, Kernel, Sequence[object]], list[np.ndarray]]:
    """Run a kernel on a device."""
    return run_on


@pytest.fixture(scope="session")
def check() -> Callable[..., None]:
    """Run a kernel on a device and on the oracle, and compare every array."""

    def compare(device: CpuDevice, kernel: Kernel, *args: object, signs: bool = True) -> None:
        results = zip(run_on(device, kernel, args), expected(kernel, args), strict=True)
        for number, (actual, wanted) in enumerate(results):
            assert_same(actual, wanted, f"argument {number} of {kernel.name}", signs=signs)

    return compare
