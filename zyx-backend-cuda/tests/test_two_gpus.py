"""Two GPUs: copies both ways without the host, graphs that run on both, products, sharing, and choosing one of them.

What computes little runs on two paper devices, too. On GPUs it runs through each of the packages.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from fake_driver import FakeSession, fake_cuda

import zyx
from zyx import dtype as dtypes
from zyx.backend import Launch, Slot
from zyx.backend.library import Gemm
from zyx.errors import DriverNotFoundError
from zyx.runtime.runtime import use
from zyx.testing.launching import download, upload
from zyx.testing.opening import open_runtime
from zyx_backend_cuda.start import library_kernels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zyx.kernel.data import Kernel
    from zyx.runtime.runtime import Runtime
    from zyx_backend_cuda.device import CudaDevice
    from zyx_backend_cuda.memory import CudaBuffer, CudaPool

    Devices = tuple[CudaDevice, CudaDevice]

DRIVERS = ["pycuda", "cuda-bindings"]
PAPER = "paper"


@pytest.fixture(scope="session")
def open_two(open_gpu: Callable[..., Runtime]) -> Callable[[str], Runtime]:
    """``open_two(driver)`` opens the GPUs; it skips the test if there are not two, and says how many there are."""

    def open_all(driver: str) -> Runtime:
        runtime = open_gpu(driver=driver)
        count = len(runtime.backends.open("cuda").devices)
        if count < 2:
            runtime.close()
            pytest.skip(f"it takes two GPUs; there is {count}")
        return runtime

    return open_all


@pytest.fixture(scope="module", params=[PAPER, *DRIVERS])
def both(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    """A runtime on two devices: of paper, or GPUs through each of the packages."""
    if request.param != PAPER:
        opened = request.getfixturevalue("open_two")(request.param)
        yield opened
        opened.close()
        return
    with fake_cuda(pytest.MonkeyPatch(), [FakeSession("First"), FakeSession("Second")]):
        opened = open_runtime("cuda")
        yield opened
        opened.close()


@pytest.fixture(scope="module", params=DRIVERS)
def gpus(request: pytest.FixtureRequest, open_two: Callable[[str], Runtime]) -> Iterator[Runtime]:
    """A runtime on two GPUs."""
    opened = open_two(request.param)
    yield opened
    opened.close()


def devices_of(runtime: Runtime) -> Devices:
    return runtime.device("cuda:0"), runtime.device("cuda:1")  # type: ignore[return-value]


@pytest.fixture
def copies(both: Runtime, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the devices copy from now on: ``to 0`` and ``to 1`` straight from each other, ``down`` through the host."""
    noted: list[str] = []

    def noting(session: object, name: str, what: str) -> None:
        call: Callable[..., None] = getattr(session, name)

        def note(*arguments: object) -> None:
            noted.append(what)
            call(*arguments)

        monkeypatch.setattr(session, name, note)

    for number, device in enumerate(devices_of(both)):
        noting(device.pool.session, "copy_from", f"to {number}")
        noting(device.pool.session, "download", "down")
    return noted


def copied(source: CudaBuffer, pool: CudaPool, events: list) -> CudaBuffer:
    """Return a copy in another pool, made when `events` of the source's pool have come; nobody has waited for it."""
    target, event = pool.allocate(source.nbytes)
    pool.sync_events([event])
    pool.sync_events([pool.pool_to_pool(source, target, events)])
    return target


@pytest.mark.parametrize("nbytes", [1, 4097, 30_000_001])
@pytest.mark.parametrize("way", [(0, 1), (1, 0)], ids=["there", "back"])
def test_a_buffer_goes_from_one_to_the_other_without_the_host(
    both: Runtime, copies: list[str], nbytes: int, way: tuple[int, int]
):
    source_pool, target_pool = (devices_of(both)[number].pool for number in way)
    data = np.random.default_rng(nbytes).integers(0, 256, nbytes, np.uint8)
    source = upload(source_pool, data)
    target = copied(source, target_pool, [source_pool.completed()])  # type: ignore[arg-type]
    assert copies == [f"to {way[1]}"]
    np.testing.assert_array_equal(download(target_pool, target, data), data)
    source_pool.deallocate(source)
    target_pool.deallocate(target)


@pytest.mark.parametrize("way", [(0, 1), (1, 0)], ids=["there", "back"])
def test_a_copy_waits_for_what_writes_its_source_and_is_waited_for_by_what_reads_its_target(
    both: Runtime, add: Callable[..., Kernel], integers, values, way: tuple[int, int]
):
    here, there = (devices_of(both)[number] for number in way)
    first, second = here.compile(add(1)), there.compile(add(1000))
    source, target = integers(here.pool, 0), integers(there.pool, 0)
    event = here.pool.completed()
    for _ in range(500):
        event = here.launch(first, [source], [event])
    arrived = there.pool.pool_to_pool(source, target, [event])
    there.pool.sync_events([there.launch(second, [target], [arrived])])
    assert values(target) == {1500}
    here.pool.deallocate(source)
    there.pool.deallocate(target)


def test_captured_sequences_of_both_devices_take_turns_over_copies(
    both: Runtime, add: Callable[..., Kernel], integers, values
):
    devices = devices_of(both)
    captured = [
        device.capture([Launch(device.compile(add(number)), (Slot(0),)) for number in (1, 2, 4)], 1)
        for device in devices
    ]
    buffers = [integers(device.pool, 0) for device in devices]
    for turn in range(6):
        here, there = turn % 2, 1 - turn % 2
        event = devices[here].launch(captured[here], [buffers[here]])
        arrived = devices[there].pool.pool_to_pool(buffers[here], buffers[there], [event])
        devices[there].pool.sync_events([arrived])
        assert values(buffers[there]) == {7 * (turn + 1)}
    for device, program, buffer in zip(devices, captured, buffers, strict=True):
        device.release(program)
        device.pool.deallocate(buffer)


def test_a_tensor_goes_there_and_back_and_each_copy_is_one(both: Runtime, copies: list[str]):
    with use(both):
        x = np.random.default_rng(1).integers(-9, 9, (37, 53)).astype(np.float32)
        there = (zyx.Tensor(x, device="cuda:0") + 1).to("cuda:1")
        back = (there * 2).to("cuda:0") - 3
        assert (there.device, back.device) == ("cuda:1", "cuda:0")
        back.realize()
        assert sorted(copies) == ["to 0", "to 1"]
        np.testing.assert_array_equal(back.numpy(), (x + 1) * 2 - 3)


def test_one_graph_computes_on_both(both: Runtime):
    random = np.random.default_rng(2)
    x, first, second = (random.integers(-3, 4, shape).astype(np.float32) for shape in ((8, 12), (12, 10), (10, 6)))
    with use(both):
        hidden = (zyx.Tensor(x, device="cuda:0") @ zyx.Tensor(first, device="cuda:0")).relu()
        there = hidden.to("cuda:1") @ zyx.Tensor(second, device="cuda:1")
        result = there.to("cuda:0").sum(axis=1) + hidden.sum(axis=1)
        wanted = np.maximum(x @ first, 0)
        np.testing.assert_array_equal(result.numpy(), (wanted @ second).sum(1) + wanted.sum(1))


def test_a_step_of_both_is_replayed_with_new_values(both: Runtime):
    random = np.random.default_rng(3)
    with use(both):
        weights = [random.integers(-2, 3, (6, 6)).astype(np.float32) for _ in range(2)]
        first, second = (zyx.Tensor(w, device=f"cuda:{number}") for number, w in enumerate(weights))

        @zyx.jit
        def step(x):
            there = (x @ first).to("cuda:1")
            return (there @ second + there).to("cuda:0") - x

        for turn in range(6):
            x = random.integers(-3, 4, (4, 6)).astype(np.float32)
            y = x @ weights[0]
            result = step(zyx.Tensor(x, device="cuda:0"))
            np.testing.assert_array_equal(result.numpy(), y @ weights[1] + y - x, err_msg=f"turn {turn}")


def test_gradients_come_back_to_the_device_of_their_source(both: Runtime):
    random = np.random.default_rng(4)
    w, x, y = (random.integers(-3, 4, shape).astype(np.float32) for shape in ((5, 3), (4, 5), (6, 5)))
    with use(both):
        weight = zyx.Tensor(w, device="cuda:0")
        with zyx.Tape() as tape:
            here = (zyx.Tensor(x, device="cuda:0") @ weight).sum()
            there = (zyx.Tensor(y, device="cuda:1") @ weight.to("cuda:1")).sum()
            loss = here + 2 * there.to("cuda:0")
        gradient = tape.gradient(loss, weight)
        assert gradient.device == "cuda:0"
        column = x.sum(0) + 2 * y.sum(0)
        np.testing.assert_array_equal(gradient.numpy(), np.repeat(column[:, None], 3, axis=1))


def test_memory_is_used_again_behind_copies_that_read_it(both: Runtime):
    """Each tensor is forgotten while its copy may be under way, and the next one gets its memory."""
    with use(both):
        x = np.arange(1 << 14, dtype=np.float32)
        kept = zyx.Tensor(x, device="cuda:0")
        arrived = []
        for turn in range(24):
            arrived.append((kept + turn).to("cuda:1").realize())
            if turn % 3 == 2:
                kept = (arrived[-1] - turn).to("cuda:0").realize()
        for turn, tensor in enumerate(arrived):
            np.testing.assert_array_equal(tensor.numpy(), x + turn, err_msg=f"turn {turn}")


# ---- on GPUs alone


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.bfloat16], ids=str)
def test_products_of_the_library_are_each_device_s_own(gpus: Runtime, dtype: dtypes.DType):
    size, random = 64, np.random.default_rng(5)
    a, b = (random.integers(-3, 4, (size, size)).astype(dtype.numpy) for _ in range(2))
    wanted = (a.astype(np.float32) @ b.astype(np.float32)).astype(dtype.numpy)
    queued = []
    for device in devices_of(gpus):
        try:
            (kernel,) = library_kernels(device)
        except DriverNotFoundError as error:
            pytest.skip(str(error))
        program = kernel.prepare(Gemm(1, size, size, size, dtype, dtype))
        buffers = [upload(device.pool, x) for x in (a, b, np.zeros_like(wanted))]
        queued.append((device, buffers, device.launch(program, buffers)))  # type: ignore[arg-type]
    for device, buffers, event in queued:
        device.pool.sync_events([event])
        np.testing.assert_array_equal(download(device.pool, buffers[2], wanted), wanted)


def test_pytorch_shares_memory_of_the_second_and_its_choice_of_a_device_stays(gpus: Runtime):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    with use(gpus), torch.cuda.device(0):
        there = torch.arange(1000, device="cuda:1", dtype=torch.float32)
        here = zyx.from_dlpack(there, copy=False)
        assert here.device == "cuda:1"
        back = torch.from_dlpack(here)
        assert (back.data_ptr(), back.device.index) == (there.data_ptr(), 1)
        assert torch.equal(torch.from_dlpack(here * 2 + 1), there * 2 + 1)
        assert torch.equal(torch.from_dlpack(here.to("cuda:0") - 1).cpu(), there.cpu() - 1)
        assert torch.cuda.current_device() == 0


@pytest.mark.parametrize("driver", DRIVERS)
def test_the_second_alone_can_be_chosen(
    driver: str, open_two: Callable[[str], Runtime], open_gpu: Callable[..., Runtime]
):
    open_two(driver).close()
    runtime = open_gpu(driver=driver, devices=[1])
    assert runtime.backends.open("cuda").devices == ("cuda:0",)
    assert runtime.device().memory_pool.dlpack_device == (2, 1)
    with use(runtime):
        assert (zyx.Tensor([1, 2]) + 1).numpy().tolist() == [2, 3]
    runtime.close()


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
def test_the_kit_passes_on_the_second(driver: str, open_two: Callable[[str], Runtime]):
    open_two(driver).close()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs", "zyx.testing"]
    variables = {**os.environ, "ZYX_CUDA_DRIVER": driver}
    run = subprocess.run(
        [*command, "--zyx-device=cuda:1"], capture_output=True, text=True, check=False, timeout=1800, env=variables
    )
    assert run.returncode == 0, run.stdout[-3000:]
    assert " passed" in run.stdout
