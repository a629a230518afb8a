"""Memory of the flat interface: copies, its life, what is refused, and what is left when something fails."""

from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zyx
from zyx.compute import ComputeBackend, Region
from zyx.errors import (
    AllocationError,
    BackendError,
    DTypeError,
    InvalidArgumentError,
    NotInitializedError,
    TraceError,
    UnsupportedError,
)
from zyx.runtime.runtime import use
from zyx.testing.faults import ERRORS, Faults
from zyx.testing.flat import backend_of, download, upload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zyx.backend import Device, MemoryPool
    from zyx.runtime.runtime import Runtime
    from zyx.testing.values import Array


@pytest.fixture
def backend(runtime: Runtime) -> Iterator[ComputeBackend]:
    """The flat interface on the device."""
    with backend_of(runtime) as opened:
        yield opened


def live_bytes(runtime: Runtime, pool: MemoryPool) -> int:
    gc.collect()
    runtime.synchronize()
    return runtime.memory_stats()[pool.name].live_bytes


def counted(count: int, dtype: Any = np.float32) -> Array:  # noqa: ANN401  # what NumPy takes
    return np.arange(1, count + 1).astype(dtype)


# ---- life


def test_nothing_goes_before_it_is_initialised(runtime: Runtime) -> None:
    with use(runtime):
        backend = ComputeBackend()
        assert [backend.is_initialized, backend.name] == [False, ""]
        calls: list[Callable[[], object]] = [
            lambda: backend.alloc(4),
            lambda: backend.free(1),
            lambda: backend.copy_htod(1, b""),
            lambda: backend.copy_dtoh(bytearray(), 1),
            lambda: backend.copy_dtod(1, 1, 0),
            lambda: backend.unary("exp", 0, 0, 0),
            lambda: backend.gemm("n", "n", 0, 0, 0, 1, 0, 1, 0, 1, 0, 0, 1),
            backend.synchronize,
            lambda: backend.allocated_bytes,
            lambda: backend.info,
        ]
        for call in calls:
            with pytest.raises(NotInitializedError, match="call init first"):
                call()
        backend.init()
        backend.init()
        assert backend.is_initialized
        assert backend.name == runtime.default_device
        handle = backend.alloc(4)
        backend.close()
        backend.close()
        with pytest.raises(NotInitializedError):
            backend.free(handle)


def test_memory_is_counted_and_given_back(runtime: Runtime, pool: MemoryPool) -> None:
    with use(runtime):
        backend = ComputeBackend()
        backend.init()
        before = live_bytes(runtime, pool)
        handles = [backend.alloc(1600) for _ in range(5)]
        assert backend.allocated_bytes == 8000
        assert live_bytes(runtime, pool) - before == 8000
        for _ in range(20):
            for handle in handles[1:]:
                backend.binary("add", handles[0], handle, handle, 400)
                backend.binary("mul", Region(handle, 400), handle, Region(handle, 800), 100)
                backend.gemm("n", "t", 8, 8, 8, 1.0, handle, 9, handle, 8, 0.5, handles[0], 10)
        assert live_bytes(runtime, pool) - before == 8000
        backend.free(handles[0])
        assert backend.allocated_bytes == 6400
        assert live_bytes(runtime, pool) - before == 6400
        backend.close()
        assert live_bytes(runtime, pool) == before


def test_a_part_is_written_in_its_place(backend: ComputeBackend, runtime: Runtime, pool: MemoryPool) -> None:
    whole, part = upload(backend, counted(1 << 16)), upload(backend, counted(16))
    backend.unary("neg", part, Region(whole, 64), 16)
    runtime.synchronize()
    before = runtime.memory_stats()[pool.name]
    for _ in range(8):
        backend.unary("neg", part, Region(whole, 64), 16)
    after = runtime.memory_stats()[pool.name]
    assert after.live_bytes == before.live_bytes
    assert after.peak_bytes - before.live_bytes < 1 << 18 or after.peak_bytes == before.peak_bytes
    wanted = counted(1 << 16)
    wanted[16:32] = -counted(16)
    assert np.array_equal(download(backend, whole, wanted), wanted)


def test_memory_that_is_freed_while_work_on_it_is_queued_is_still_used(backend: ComputeBackend) -> None:
    out = backend.alloc(1 << 16)
    for _ in range(20):
        handle = upload(backend, counted(1 << 14))
        backend.unary("neg", handle, out, 1 << 14)
        backend.free(handle)
        other = upload(backend, np.zeros(1 << 14, np.float32))
        backend.free(other)
    assert np.array_equal(download(backend, out, counted(1 << 14)), -counted(1 << 14))


def test_threads_may_share_a_backend(backend: ComputeBackend) -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        for i in range(10):
            handle = upload(backend, np.full(100, number + i, np.float32))
            backend.binary("add", handle, handle, handle, 100)
            if not (download(backend, handle, np.empty(100, np.float32)) == 2 * (number + i)).all():
                wrong.append(number)
            backend.free(handle)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert backend.allocated_bytes == 0


# ---- copies


@pytest.mark.parametrize("count", [1, 2, 3, 5, 16, 17, 1000, 4099])
def test_bytes_come_back_as_they_went(backend: ComputeBackend, count: int) -> None:
    given = np.random.default_rng(count).integers(0, 256, count).astype(np.uint8)
    handle = backend.alloc(count)
    backend.copy_htod(handle, given.tobytes())
    found = bytearray(count)
    backend.copy_dtoh(found, handle)
    assert found == given.tobytes()
    middle = count // 3
    backend.copy_htod(Region(handle, middle), bytes(count - 2 * middle))
    given[middle : count - middle] = 0
    backend.copy_dtoh(found, handle)
    assert found == given.tobytes()
    part = bytearray(count - middle)
    backend.copy_dtoh(part, Region(handle, middle))
    assert part == given.tobytes()[middle:]


def test_arrays_are_copied_whatever_their_layout_and_dtype(backend: ComputeBackend) -> None:
    turned = np.arange(12, dtype=np.float64).reshape(3, 4).T
    handle = upload(backend, turned)
    found = np.zeros((8, 6))[::2, ::2]
    backend.copy_dtoh(found, handle)
    assert np.array_equal(found, turned)
    values = np.array([1.5, -2.0], zyx.bfloat16.numpy)
    assert (download(backend, upload(backend, values), values) == values).all()


def test_the_source_may_change_at_once(backend: ComputeBackend) -> None:
    values = counted(1 << 16)
    handle = backend.alloc(values.nbytes)
    backend.copy_htod(handle, values)
    values[:] = 0
    assert np.array_equal(download(backend, handle, values), counted(1 << 16))


def test_memory_is_copied_on_the_device(backend: ComputeBackend) -> None:
    source, target = upload(backend, counted(10)), upload(backend, np.zeros(10, np.float32))
    backend.copy_dtod(target, source, 40)
    assert np.array_equal(download(backend, target, counted(10)), counted(10))
    backend.unary("neg", target, target, 10)
    assert np.array_equal(download(backend, source, counted(10)), counted(10)), "the copy shares memory"
    backend.copy_dtod(Region(source, 2), Region(target, 5), 7)
    wanted = counted(10).view(np.uint8).copy()
    wanted[2:9] = (-counted(10)).view(np.uint8)[5:12]
    assert np.array_equal(download(backend, source, wanted), wanted)
    backend.copy_dtod(Region(source, 20), source, 20)


def test_memory_is_copied_from_another_device(backend: ComputeBackend, runtime: Runtime) -> None:
    names = [device.name for device in runtime.devices if device.name not in (backend.name, "dummy:0")]
    with ComputeBackend(next(iter(names), backend.name)) as other:
        source, target = upload(other, counted(10)), upload(backend, np.zeros(16, np.float32))
        backend.copy_dtod(Region(target, 8), Region(source, 4), 36, other)
        wanted = np.zeros(16, np.float32)
        wanted[2:11] = counted(10)[1:]
        assert np.array_equal(download(backend, target, wanted), wanted)
        with pytest.raises(InvalidArgumentError, match=r"src is \d+; expected a handle of this backend"):
            backend.copy_dtod(target, source, 4)


def test_nothing_of_nothing_is_copied(backend: ComputeBackend) -> None:
    backend.copy_htod(12345, b"")
    backend.copy_dtoh(bytearray(), 12345)
    backend.copy_dtod(1, 2, 0)


# ---- what is refused


def test_handles_that_are_none_are_refused(backend: ComputeBackend, runtime: Runtime) -> None:
    handle = backend.alloc(16)
    backend.free(handle)
    with pytest.raises(InvalidArgumentError, match=rf"ComputeBackend.free: handle is {handle}; .* this one was freed"):
        backend.free(handle)
    with pytest.raises(InvalidArgumentError, match=rf"unary: input is {handle}; .* this one was freed"):
        backend.unary("exp", handle, handle, 4)
    for wrong in (0, handle + 1, -1, 1 << 70):
        with pytest.raises(InvalidArgumentError, match=f"handle is {wrong}; expected a handle"):
            backend.free(wrong)
    for odd in (None, "a", 1.5, True, np.zeros(3)):
        with pytest.raises(InvalidArgumentError, match=r"handle is .*; expected a handle"):
            backend.free(odd)  # type: ignore[arg-type]  # that is what is refused
    with ComputeBackend() as other:
        foreign = other.alloc(16)
        with pytest.raises(InvalidArgumentError, match=rf"handle is {foreign}; .* this one is of another"):
            backend.free(foreign)
    assert runtime is not None


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda b, h: b.alloc(0), "alloc: nbytes is 0; expected an integer > 0"),
        (lambda b, h: b.alloc(-4), "alloc: nbytes is -4"),
        (lambda b, h: b.alloc(2.5), r"alloc: nbytes is 2.5 \(float\)"),
        (lambda b, h: b.copy_htod(h, bytes(65)), "copy_htod: dst is .*at least 65 bytes .* it has 64"),
        (lambda b, h: b.copy_htod(Region(h, 60), bytes(8)), "copy_htod: dst is .*at least 68 bytes"),
        (lambda b, h: b.copy_htod(h, 5), "copy_htod: src is 5; expected a NumPy array or"),
        (lambda b, h: b.copy_htod(h, "text"), "copy_htod: src is 'text'"),
        (lambda b, h: b.copy_htod(h, np.array([None])), "copy_htod: src is a ndarray .*of numbers"),
        (lambda b, h: b.copy_htod(h, zyx.ones(2)), r"copy_htod: src is a Tensor .*numpy\(\)"),
        (lambda b, h: b.copy_dtoh(bytes(4), h), "copy_dtoh: dst is .*read-only"),
        (lambda b, h: b.copy_dtoh(bytearray(65), h), "copy_dtoh: src is .*at least 65 bytes"),
        (lambda b, h: b.copy_dtod(h, Region(h, 4), 8), "copy_dtod: dst is .*does not overlap with src"),
        (lambda b, h: b.copy_dtod(h, h, -8), "copy_dtod: nbytes is -8"),
        (lambda b, h: b.copy_dtod(h, h, 4, "c"), "copy_dtod: source is 'c'"),
        (lambda b, h: b.unary("exp", h, h, 17), "unary: input is .*at least 68 bytes for 17 elements of float32"),
        (lambda b, h: b.unary("exp", Region(h, 2), h, 1), "unary: the offset of input is 2; expected a multiple of 4"),
        (lambda b, h: b.unary("exp", Region(h, -4), h, 1), "unary: the offset of input is -4"),
        (lambda b, h: b.unary("exp", h, Region(h, 4), 4), "unary: output is .*does not overlap with input, or input"),
        (lambda b, h: b.unary("exp", h, h, -1), "unary: n is -1; expected an integer >= 0"),
        (lambda b, h: b.unary("erf", h, h, 1), "unary: op is 'erf'; expected one of UnaryOp.RELU"),
        (lambda b, h: b.binary("add", Region(h, 4), h, h, 4), "binary: output is .*does not overlap with a"),
        (lambda b, h: b.reduce("sum", h, h, (), 0), "reduce: shape is .*one axis at least"),
        (lambda b, h: b.reduce("sum", h, h, (4,), 1), "reduce: axis is 1; expected less than 1"),
        (lambda b, h: b.reduce("sum", h, h, (4,), -2), "reduce: axis is -2"),
        (lambda b, h: b.reduce("sum", h, h, (4, -1), 0), r"reduce: shape\[1\] is -1"),
        (lambda b, h: b.reduce("sum", h, h, 4, 0), "reduce: shape is 4"),
        (lambda b, h: b.reduce("sum", h, h, (4,), 0), "reduce: output is .*does not overlap with input"),
        (
            lambda b, h: b.reduce("mean", h, h, (4,), 0, dtype="int32"),
            "reduce: op is ReduceOp.MEAN; expected one of SUM",
        ),
        (lambda b, h: gemm(b, h, lda=0), "gemm: lda is 0; expected an integer >= 2, the length of a row"),
        (lambda b, h: gemm(b, h, lda=1), "gemm: lda is 1"),
        (lambda b, h: gemm(b, h, lda=None), r"gemm: lda is None \(NoneType\)"),
        (lambda b, h: gemm(b, h, ldb=1), "gemm: ldb is 1"),
        (lambda b, h: gemm(b, h, ldc=0), "gemm: ldc is 0"),
        (lambda b, h: gemm(b, h, ldc=100), "gemm: c is .*at least"),
        (lambda b, h: gemm(b, h, m=-1), "gemm: m is -1"),
        (lambda b, h: gemm(b, h, alpha="1"), "gemm: alpha is '1'; expected a real number"),
        (lambda b, h: gemm(b, h, beta=1j), "gemm: beta is 1j; expected a real number"),
        (lambda b, h: gemm(b, h, beta=None), "gemm: beta is None"),
        (lambda b, h: gemm(b, h, alpha=0.5, dtype="int32"), "gemm: alpha is 0.5; expected an integer that int32 holds"),
        (lambda b, h: gemm(b, h, alpha=300, dtype="uint8"), "gemm: alpha is 300; expected an integer that uint8 holds"),
        (lambda b, h: gemm(b, h, trans_a="x"), "gemm: trans_a is 'x'; expected one of Transpose.NO_TRANS"),
        (lambda b, h: gemm(b, h, c=h), "gemm: c is .*does not overlap with a"),
        (
            lambda b, h: b.batched_gemm("n", "n", 1, 2, 1, 1.0, h, 1, h, 2, 0.0, b.alloc(64), 2, 1, 2, 1, 3),
            "batched_gemm: stride_c is 1; expected products apart from each other, 2 or more",
        ),
        (
            lambda b, h: b.batched_gemm("n", "n", 1, 2, 1, 1.0, h, 1, h, 2, 0.0, b.alloc(64), 2, 1, 2, 0, 2),
            "batched_gemm: stride_c is 0",
        ),
        (
            lambda b, h: b.batched_gemm_by_handles("n", "n", 1, 1, 1, 1.0, [h], 1, [h, h], 1, 0.0, [h], 1),
            "batched_gemm_by_handles: the length of b is 2; expected 1",
        ),
        (
            lambda b, h: b.batched_gemm_by_handles("n", "n", 1, 1, 1, 1.0, h, 1, [h], 1, 0.0, [h], 1),
            "batched_gemm_by_handles: a is .*; expected a list of handles",
        ),
        (lambda b, h: twice(b, h, b.alloc(16)), r"batched_gemm_by_handles: c\[0\] is .*does not overlap with c\[1\]"),
        (lambda b, h: conv(b, h, filter_shape=(1, 2, 1, 1)), "conv2d_forward: filter_shape is .*1 channels"),
        (
            lambda b, h: conv(b, h, filter_shape=(1, 1, 3, 1)),
            "conv2d_forward: filter_shape is .*no larger than the",
        ),
        (lambda b, h: conv(b, h, output_shape=(1, 1, 2, 1)), r"conv2d_forward: output_shape is .*\(1, 1, 2, 2\)"),
        (lambda b, h: conv(b, h, stride=(0, 1)), r"conv2d_forward: stride\[0\] is 0"),
        (lambda b, h: conv(b, h, stride=(1,)), r"conv2d_forward: stride is \(1,\); expected 2 integers >= 1"),
        (lambda b, h: conv(b, h, padding=(-1, 0)), r"conv2d_forward: padding\[0\] is -1"),
        (lambda b, h: attention(b, h, scale=0), "attention: scale is 0; expected a finite number > 0"),
        (lambda b, h: attention(b, h, scale=float("inf")), "attention: scale is inf"),
        (lambda b, h: attention(b, h, scale=float("nan")), "attention: scale is nan"),
        (lambda b, h: attention(b, h, scale=-1.0), "attention: scale is -1.0"),
        (lambda b, h: attention(b, h, causal_offset=1), "attention: causal_offset is 1; expected None"),
        (lambda b, h: attention(b, h, dtype="int32"), "attention: dtype is 'int32'; expected a dtype of floats"),
    ],
)
def test_an_error_names_the_call_the_argument_and_what_was_expected(
    backend: ComputeBackend, call: Callable[[ComputeBackend, int], object], text: str
) -> None:
    values = counted(16)
    handle = upload(backend, values)
    with pytest.raises(InvalidArgumentError, match=f"^ComputeBackend.{text}"):
        call(backend, handle)
    assert np.array_equal(download(backend, handle, values), values), "a call that is refused has changed something"


def gemm(backend: ComputeBackend, handle: int, **given: Any) -> None:  # noqa: ANN401  # wrong ones, too
    usual = {"trans_a": "n", "trans_b": "n", "m": 2, "n": 2, "k": 2, "alpha": 1, "a": handle, "lda": 2, "b": handle}
    backend.gemm(**{**usual, "ldb": 2, "beta": 0, "c": backend.alloc(16), "ldc": 2, **given})


def twice(backend: ComputeBackend, handle: int, out: int) -> None:
    backend.batched_gemm_by_handles("n", "n", 2, 2, 2, 1.0, [handle] * 2, 2, [handle] * 2, 2, 0.0, [out] * 2, 2)


def conv(backend: ComputeBackend, handle: int, **given: Any) -> None:  # noqa: ANN401  # wrong ones, too
    shapes = {"input_shape": (1, 1, 2, 2), "filter_shape": (1, 1, 1, 1), "output_shape": (1, 1, 2, 2)}
    usual = {**shapes, "input": handle, "filter": handle, "stride": (1, 1), "padding": (0, 0)}
    backend.conv2d_forward(**{**usual, "output": backend.alloc(16), **given})


def attention(backend: ComputeBackend, handle: int, **given: Any) -> None:  # noqa: ANN401  # wrong ones, too
    backend.attention(handle, handle, handle, backend.alloc(16), 1, 1, 2, 2, 2, **given)


def test_dtypes_that_there_are_not_are_refused(backend: ComputeBackend) -> None:
    handle = backend.alloc(64)
    for wrong in ("float31", None, object(), "bool"):
        with pytest.raises(DTypeError, match=r"ComputeBackend\.unary: dtype is"):
            backend.unary("neg", handle, handle, 1, dtype=wrong)  # type: ignore[arg-type]  # that is what is refused
    for dtype in (zyx.float64, zyx.float16, zyx.int64):
        if not backend.info.can_store(dtype):
            with pytest.raises(UnsupportedError, match=f"{backend.name} does not store {dtype}; it has"):
                backend.unary("neg", handle, handle, 1, dtype=dtype)


def test_more_memory_than_there_is_is_refused(backend: ComputeBackend) -> None:
    before = backend.allocated_bytes
    with pytest.raises(BackendError) as caught:
        backend.alloc(1 << 60)
    assert isinstance(caught.value, AllocationError | UnsupportedError)
    assert backend.allocated_bytes == before


def test_calls_in_a_traced_function_are_refused(backend: ComputeBackend) -> None:
    @zyx.jit
    def step(x: zyx.Tensor) -> zyx.Tensor:
        backend.alloc(4)
        return x

    with pytest.raises(TraceError, match=r"ComputeBackend.alloc: a function is being traced"):
        step(zyx.ones(3))


def test_an_open_tape_keeps_nothing_of_calls(backend: ComputeBackend, runtime: Runtime, pool: MemoryPool) -> None:
    handle, out = upload(backend, counted(1000)), backend.alloc(4000)
    before = live_bytes(runtime, pool)
    with zyx.Tape():
        for _ in range(10):
            backend.binary("mul", handle, out, out, 1000)
            backend.binary("mul", handle, out, out, 500)
        assert live_bytes(runtime, pool) == before


# ---- what is left when something fails


def forget(runtime: Runtime) -> None:
    """Let all plans and programs be made anew: an error of the last may have values in its traceback until the next."""
    runtime.drop_plans()
    zyx.Tensor(counted(3)).square().numpy()
    gc.collect()
    runtime._drop_programs()


@pytest.mark.parametrize("method", sorted(ERRORS))
def test_whatever_fails_memory_is_as_it_was(runtime: Runtime, device: Device, pool: MemoryPool, method: str) -> None:
    values = counted(100) / 10
    with backend_of(runtime) as backend:
        whole, part = upload(backend, values), upload(backend, values)
        out, small = upload(backend, -values), upload(backend, -values)
        calls: list[Callable[[], None]] = [
            lambda: backend.unary("exp", whole, out, 100),
            lambda: backend.unary("tanh", part, Region(small, 40), 33),
            lambda: backend.gemm("n", "n", 5, 6, 7, 3.0, whole, 7, part, 6, 0.5, Region(out, 8), 9),
            lambda: backend.copy_htod(Region(out, 12), bytes(44)),
            lambda: backend.copy_htod(out, np.zeros(100, np.float32)),
        ]
        before = live_bytes(runtime, pool)
        for call in calls:
            forget(runtime)
            with Faults(device) as faults, faults.failing(method, 1, 10_000):
                try:
                    call()
                except ERRORS[method]:
                    failed = True
                else:
                    failed = False
            if failed:
                for handle, wanted in ((whole, values), (part, values), (out, -values), (small, -values)):
                    assert np.array_equal(download(backend, handle, values), wanted)
            else:
                for handle in (out, small):
                    backend.copy_htod(handle, -values)
            forget(runtime)
            assert live_bytes(runtime, pool) == before
        calls[0]()
        assert np.allclose(download(backend, out, values), np.exp(values), rtol=1e-5)
