"""Tensors share memory with arrays of other libraries: on the paper device, and with PyTorch and CuPy on a GPU."""

from __future__ import annotations

import ctypes
import gc
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zyx
from zyx.errors import SharingError
from zyx.functions import sharing
from zyx.runtime.runtime import use

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fake_driver import FakeSession

    from zyx.runtime.runtime import Runtime
    from zyx_backend_cuda.memory import CudaPool

DTYPES = [zyx.float32, zyx.float64, zyx.float16, zyx.bfloat16, zyx.int8, zyx.uint8, zyx.int32, zyx.int64, zyx.bool]


class Foreign:
    """An array of another library, which is a tensor in disguise."""

    def __init__(self, tensor: zyx.Tensor, change: Callable[[sharing._Managed], None] = lambda managed: None) -> None:
        self.tensor = tensor
        self.change = change
        self.streams: list[object] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, stream: object = None) -> object:
        self.streams.append(stream)
        capsule = self.tensor.__dlpack__(stream=stream)
        self.change(sharing._Managed.from_address(sharing._pointer_of(capsule, b"dltensor")))
        return capsule


@pytest.fixture
def current(runtime: Runtime) -> Iterator[Runtime]:
    with use(runtime):
        yield runtime
    gc.collect()
    runtime.memory.reclaim()
    assert not sharing._exported


def address(tensor: zyx.Tensor) -> int:
    return tensor.__cuda_array_interface__["data"][0]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(2, 3, 5), (4,), (), (0, 3)])
def test_tensors_go_out_and_come_back_without_a_copy(
    current: Runtime, dtype: zyx.DType, shape: tuple[int, ...]
) -> None:
    x = (zyx.arange(int(np.prod(shape))).reshape(*shape) % 2).astype(dtype)
    assert x.__dlpack_device__() == (2, 0)
    foreign = Foreign(x)
    y = zyx.from_dlpack(foreign, copy=False)
    assert (y.shape, y.dtype, y.device) == (x.shape, dtype, "cuda:0")
    assert foreign.streams == [current.device().memory_pool.stream_number()]
    if dtype is not zyx.bfloat16:
        assert address(x) == address(y)
    assert y.tolist() == x.tolist()
    del x, foreign
    assert (y + y).astype(zyx.bool).tolist() == y.astype(zyx.bool).tolist()


def test_shared_memory_is_kept_and_never_handed_out(current: Runtime, pool: CudaPool, session: FakeSession) -> None:
    x = zyx.Tensor(np.arange(8, dtype=np.float32))
    x.numpy()
    free = pool.free_bytes
    y = zyx.from_dlpack(Foreign(x))
    assert len(sharing._exported) == 1
    where = address(x)
    del x
    others = [zyx.Tensor(np.zeros(8, np.float32)).realize() for _ in range(3)]
    assert y.tolist() == list(range(8))
    assert where not in map(address, others)
    del y
    current.memory.reclaim()
    assert not sharing._exported
    current.memory.reclaim()  # what was exported is given back in turn
    assert where in session.alive
    del others
    current.memory.reclaim()
    assert pool.free_bytes > free


def test_capsules_that_nobody_takes_are_freed(current: Runtime) -> None:
    x = zyx.ones(3)
    capsule = x.__dlpack__()
    assert len(sharing._exported) == 1
    del capsule
    assert not sharing._exported


def test_copies_are_made_where_they_are_asked_for(current: Runtime) -> None:
    x = zyx.Tensor(np.arange(3, dtype=np.float32))
    assert address(zyx.from_dlpack(Foreign(x), copy=True)) != address(x)
    assert np.from_dlpack(x, device="cpu").tolist() == [0, 1, 2]
    assert zyx.from_dlpack(Foreign(x), device="interpreter:0").device == "interpreter:0"
    with pytest.raises(SharingError, match=r"data on cuda:0 is copied to interpreter:0; copy=False"):
        zyx.from_dlpack(Foreign(x), device="interpreter:0", copy=False)
    capsule = x.__dlpack__(copy=True)
    assert sharing._Managed.from_address(sharing._pointer_of(capsule, b"dltensor")).array.data != address(x)


def test_the_device_is_current_where_another_library_is_asked_for_its_memory(
    current: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign, session = Foreign(zyx.Tensor(np.arange(3, dtype=np.float32))), current.device().memory_pool.session
    depths: list[int] = []
    asked = foreign.__dlpack__
    monkeypatch.setattr(
        Foreign, "__dlpack__", lambda self, stream=None: (depths.append(session.depth), asked(stream=stream))[1]
    )
    assert zyx.from_dlpack(foreign).tolist() == [0, 1, 2]
    assert depths[0] > 0
    assert session.depth == 0


def test_what_another_library_does_not_share_is_an_error_with_its_words(
    current: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Foreign, stream: int | None = None) -> object:
        raise BufferError("not today")

    foreign = Foreign(zyx.Tensor([1.0]))
    monkeypatch.setattr(Foreign, "__dlpack__", refuse)
    with pytest.raises(SharingError, match="from_dlpack: this Foreign is not shared: not today"):
        zyx.from_dlpack(foreign)


def transposed(managed: sharing._Managed) -> None:
    managed.array.strides = (ctypes.c_int64 * 2)(1, 2)


def opaque_handles(managed: sharing._Managed) -> None:
    managed.array.code, managed.array.bits = 3, 64


@pytest.mark.parametrize(
    ("change", "text"), [(transposed, r"of shape \(2, 2\) is not contiguous"), (opaque_handles, "no dtype for")]
)
def test_what_cannot_be_shared_is_refused(
    current: Runtime, change: Callable[[sharing._Managed], None], text: str
) -> None:
    with pytest.raises(SharingError, match=text):
        zyx.from_dlpack(Foreign(zyx.ones((2, 2)), change))


def test_the_interface_of_cuda_arrays_names_the_memory(current: Runtime) -> None:
    x = zyx.Tensor(np.arange(6, dtype=np.int16).reshape(2, 3))
    found = x.__cuda_array_interface__
    assert (found["shape"], found["typestr"], found["strides"], found["version"]) == ((2, 3), "<i2", None, 3)
    assert found["data"][1] is True
    assert not hasattr(x.astype(zyx.bfloat16), "__cuda_array_interface__")
    assert not hasattr(x.to("interpreter:0"), "__cuda_array_interface__")


# ---- on a GPU


def test_pytorch_shares_both_ways(gpu: Runtime) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    with use(gpu):
        for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.uint8, torch.bool):
            there = (torch.arange(60, device="cuda") % 2).to(dtype).reshape(3, 4, 5)
            here = zyx.from_dlpack(there, copy=False)
            assert str(here.dtype).removeprefix("zyx.") == str(dtype).removeprefix("torch.")
            back = torch.from_dlpack(here)
            assert back.data_ptr() == there.data_ptr()
            assert torch.equal(back, there)
        # Work of PyTorch that is still queued is waited for, and so is ours.
        there = torch.randn(4096, 4096, device="cuda")
        expected = (there @ there).double().sum().item()
        here = zyx.from_dlpack(there @ there)
        assert abs(here.astype(zyx.float64).sum().item() - expected) < 1e-6 * abs(there).sum().item()
        back = torch.from_dlpack(here * 2 + 1)
        assert torch.equal(back, (there @ there) * 2 + 1)


def test_cupy_shares_both_ways(gpu: Runtime) -> None:
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    with use(gpu):
        there = cupy.arange(60, dtype=cupy.float32).reshape(3, 20)
        here = zyx.from_dlpack(there, copy=False)
        assert address(here) == there.data.ptr
        for back in (cupy.from_dlpack(here), cupy.asarray(here)):
            assert back.data.ptr == there.data.ptr
            assert bool((back == there).all())
        assert cupy.asnumpy(cupy.asarray(here + 1)).tolist() == (cupy.asnumpy(there) + 1).tolist()
