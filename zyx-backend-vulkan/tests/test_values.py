"""What modules compute on a device, in each form that a target may ask for: what drivers fold, round and forget."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from targets import LEAST, random_kernels, validate

import zyx
from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.kernel.verify import verify
from zyx.ops import TRANSCENDENTAL, BinaryOp, UnaryOp
from zyx.runtime.runtime import use
from zyx.testing.kernels import arguments_for, results_of, same_values
from zyx.testing.launching import expected, launch, prepare, run_on
from zyx_backend_vulkan.render import render
from zyx_backend_vulkan.render_writer import Writer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DType, Scalar
    from zyx.kernel.data import Kernel, ValueId
    from zyx.runtime.runtime import Runtime
    from zyx.testing.values import Array
    from zyx_backend_vulkan.device import VulkanDevice
    from zyx_backend_vulkan.target import Target

NAN, INFINITY = float("nan"), float("inf")
#: Numbers at which floats have edges.
_SPECIAL = (0.0, -0.0, 1.0, -1.0, INFINITY, -INFINITY, NAN, 3.0)
#: Random kernels for each form of a module.
_COUNT = 40

FORMS = ["as it is", "by addresses", "with a buffer of numbers", "in words", "without half"]


def form_of(device: VulkanDevice, name: str) -> Target:
    """Return what modules of a device may use, or less."""
    target = device.dialect
    match name:
        case "by addresses":
            if not target.has_addresses:
                pytest.skip("the device has no addresses of buffers")
            return replace(target, max_buffers=0)
        case "with a buffer of numbers":
            return replace(target, push_bytes=0)
        case "in words":
            return replace(
                target, arithmetic=LEAST.arithmetic, storage_bits=frozenset({32}), shared_bits=frozenset({32})
            )
        case "without half":
            return replace(target, arithmetic=target.arithmetic - {dtypes.float16}, shared_bits=frozenset({32, 64}))
        case _:
            return target


def run_as(device: VulkanDevice, target: Target, kernel: Kernel, args: Sequence[Array | Scalar]) -> list[Array]:
    """Return the arrays after a kernel ran in a form that a target asks for."""
    verify(kernel)
    program = device.build(render(kernel, target))
    try:
        return launch(device, program, args)
    finally:
        device.release(program)


def is_exact(kernel: Kernel) -> bool:
    """Whether results are the same, to the bit, whatever operations are made of."""
    return not any(
        (isinstance(op, k.Unary) and op.op in TRANSCENDENTAL)
        or (isinstance(op, k.Binary) and op.op in (BinaryOp.POW, BinaryOp.DIV, BinaryOp.MOD) and op.type.dtype.is_float)
        or (isinstance(op, k.Unary) and op.op in (UnaryOp.SQRT, UnaryOp.RECIPROCAL))
        for op in kernel.ops
    )


@pytest.mark.parametrize("name", FORMS)
def test_random_kernels_give_what_the_interpreter_gives(device: VulkanDevice, name: str):
    target = form_of(device, name)
    done = 0
    for seed, kernel in enumerate(random_kernels(replace(target, fuses=frozenset()), range(_COUNT))):
        if is_exact(kernel):
            results = run_as(device, replace(target, fuses=frozenset()), kernel, arguments_for(kernel, seed))
            assert same_values(results, results_of(kernel, seed)), str(kernel)
            done += 1
    assert done > _COUNT // 4


def test_random_kernels_give_the_same_in_the_memory_model_of_matrices(
    device: VulkanDevice, monkeypatch: pytest.MonkeyPatch
):
    if not device.dialect.has_memory_model:
        pytest.skip("the device lacks Vulkan's memory model")
    begin = Writer.__init__

    def begin_in_model(writer: Writer, *args: Any) -> None:
        begin(writer, *args)
        writer.has_memory_model = True
        writer.m.require("VulkanMemoryModel")

    monkeypatch.setattr(Writer, "__init__", begin_in_model)
    target = replace(device.dialect, fuses=frozenset())
    done = 0
    for seed, kernel in enumerate(random_kernels(target, range(_COUNT))):
        if is_exact(kernel):
            validate(render(kernel, target).words, target, kernel)
            assert same_values(run_as(device, target, kernel, arguments_for(kernel, seed)), results_of(kernel, seed))
            done += 1
    assert done > _COUNT // 4


# ---- zeros, infinities, NaN


def _applied(dtype: DType, lanes: int, op: BinaryOp, constant: float, *, first: bool) -> Kernel:
    """Return a kernel that combines elements and a constant."""
    b = Builder()
    count = len(_SPECIAL)
    source = b.define(k.Memory.GLOBAL, dtype, count, mutable=False)
    out = b.define(k.Memory.GLOBAL, dtype, count)
    at = b.binary(BinaryOp.MUL, b.index(k.Axis.GROUP, 0, count // lanes, dtypes.int32), b.const(lanes, dtypes.int32))
    x = b.load(source, at, lanes)
    y = b.like(constant, x)
    b.store(out, at, b.binary(op, y, x) if first else b.binary(op, x, y))
    return b.finish(f"{op.value}_{_SPECIAL.index(constant)}_{first}")


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64, dtypes.float16], ids=str)
def test_zeros_that_the_driver_knows_are_no_less_numbers(device: VulkanDevice, dtype: DType, lanes: int):
    if not device.info.can_compute(dtype):
        pytest.skip(f"the device does not compute with {dtype}")
    values = np.array(_SPECIAL, dtype.numpy)
    for op in (BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV):
        for constant in (0.0, -0.0, INFINITY):
            for first in (False, True):
                kernel = _applied(dtype, lanes, op, constant, first=first)
                args = [values, np.zeros_like(values)]
                _same_to_the_sign(run_on(device, kernel, args)[1], expected(kernel, args)[1], kernel)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)
def test_a_value_and_itself_are_two_numbers(device: VulkanDevice, dtype: DType):
    if not device.info.can_compute(dtype):
        pytest.skip(f"the device does not compute with {dtype}")
    values = np.array(_SPECIAL, dtype.numpy)
    for op in (BinaryOp.SUB, BinaryOp.DIV, BinaryOp.MAX, BinaryOp.MUL):
        b = Builder()
        out = b.define(k.Memory.GLOBAL, dtype, len(values))
        at = b.index(k.Axis.GROUP, 0, len(values), dtypes.int32)
        x = b.load(out, at)
        b.store(out, at, b.binary(op, x, x))
        kernel = b.finish(op.value)
        _same_to_the_sign(run_on(device, kernel, [values])[0], expected(kernel, [values])[0], kernel)


def _same_to_the_sign(found: Array, wanted: Array, kernel: Kernel) -> None:
    np.testing.assert_array_equal(found, wanted, err_msg=kernel.name)
    is_number = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found)[is_number], np.signbit(wanted)[is_number], err_msg=kernel.name)


def test_sums_are_not_put_in_another_order(device: VulkanDevice):
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtypes.float32, 4)
    zero = b.const(0, dtypes.int32)
    x = b.load(out, zero)
    large = b.like(1e8, x)
    b.store(out, zero, b.binary(BinaryOp.SUB, b.binary(BinaryOp.ADD, x, large), large))
    assert run_on(device, b.finish("order"), [np.ones(4, np.float32)])[0][0] == 0


@pytest.mark.parametrize("op", [BinaryOp.LT, BinaryOp.LE, BinaryOp.EQ, BinaryOp.NE], ids=str)
def test_the_opposite_of_a_comparison_knows_nan(device: VulkanDevice, op: BinaryOp):
    values = np.array(_SPECIAL, np.float32)
    pairs = np.array(np.meshgrid(values, values)).reshape(2, -1).copy()
    count = pairs.shape[1]
    b = Builder()
    sources = [b.define(k.Memory.GLOBAL, dtypes.float32, count, mutable=False) for _ in pairs]
    out = b.define(k.Memory.GLOBAL, dtypes.bool_, count)
    at = b.index(k.Axis.GROUP, 0, count, dtypes.int32)
    x, y = (b.load(source, at) for source in sources)
    b.store(out, at, b.unary(UnaryOp.NOT, b.binary(op, x, y)))
    kernel = b.finish("opposite")
    args = [*pairs, np.zeros(count, np.bool_)]
    np.testing.assert_array_equal(run_on(device, kernel, args)[2], expected(kernel, args)[2])


# ---- halves


def _converting(source: DType, target: DType, count: int) -> Kernel:
    b = Builder()
    given = b.define(k.Memory.GLOBAL, source, count, mutable=False)
    out = b.define(k.Memory.GLOBAL, target, count)
    at = b.index(k.Axis.GROUP, 0, count, dtypes.int32)
    b.store(out, at, b.cast(b.load(given, at), target))
    return b.finish(f"{source}_to_{target}")


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("half", [dtypes.float16, dtypes.bfloat16], ids=str)
def test_every_half_is_a_float(device: VulkanDevice, half: DType, name: str):
    values = np.arange(1 << 16, dtype=np.uint16).view(half.numpy)
    kernel = _converting(half, dtypes.float32, len(values))
    found = run_as(device, form_of(device, name), kernel, [values, np.zeros(len(values), np.float32)])[1]
    np.testing.assert_array_equal(found, values.astype(np.float32))


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("half", [dtypes.float16, dtypes.bfloat16], ids=str)
def test_floats_round_to_the_nearest_half(device: VulkanDevice, half: DType, name: str):
    halves = np.arange(0, 1 << 16, 7, dtype=np.uint16).view(half.numpy).astype(np.float32)
    halves = halves[np.isfinite(halves)]
    between = (halves[1:].astype(np.float64) / 2 + halves[:-1] / 2).astype(np.float32)  # ties among them
    beside = [np.nextafter(between, np.float32(side)) for side in (-INFINITY, INFINITY)]
    values = np.concatenate([halves, between, *beside, np.array(_SPECIAL, np.float32)])
    kernel = _converting(dtypes.float32, half, len(values))
    args = [values, np.zeros(len(values), half.numpy)]
    found = run_as(device, form_of(device, name), kernel, args)[1]
    _same_to_the_sign(found.astype(np.float32), expected(kernel, args)[1].astype(np.float32), kernel)


@pytest.mark.parametrize("half", [dtypes.float16, dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("source", [dtypes.float64, dtypes.int64, dtypes.uint64, dtypes.int32], ids=str)
def test_conversions_to_halves_round_once(device: VulkanDevice, source: DType, half: DType):
    if not device.info.can_compute(source):
        pytest.skip(f"the device has no {source}")
    rng = np.random.default_rng(0)
    digits = 11 if half is dtypes.float16 else 8
    whole = (rng.integers(1 << digits - 1, 1 << digits, 600) * 2 + 1).astype(np.float64)  # a tie of two halves
    size = 2.0 ** rng.integers(-10 if source.is_float else 1, 4 if half is dtypes.float16 else 20, 600)
    ties = whole * size
    if source.is_float:
        values = np.concatenate([ties, ties * (1 + 2.0**-40), ties * (1 - 2.0**-40), -ties])
    else:
        wide = (whole * 2.0 ** rng.integers(1, 50 if source.bits == 64 else 14, 600)).astype(np.int64)
        values = np.concatenate([wide, wide + 1, wide - 1] + ([-wide, 1 - wide] if not source.is_unsigned else []))
    given = values.astype(source.numpy)
    kernel = _converting(source, half, len(given))
    args = [given, np.zeros(len(given), half.numpy)]
    np.testing.assert_array_equal(run_on(device, kernel, args)[1], expected(kernel, args)[1])


# ---- arguments, positions


@pytest.mark.parametrize("count", [1, 3, 40])
def test_numbers_of_every_type_arrive(device: VulkanDevice, count: int):
    taken = [dtype for dtype in dtypes.ALL if device.info.can_store(dtype)]
    b = Builder()
    outs = [b.define(k.Memory.GLOBAL, dtype, count) for dtype in taken]
    numbers = [[b.variable(dtype, f"n{dtype.short}{i}") for dtype in taken] for i in range(count)]
    for i, row in enumerate(numbers):
        for out, number in zip(outs, row, strict=True):
            b.store(out, b.const(i, dtypes.int32), number)
    rng = np.random.default_rng(1)
    given = [rng.integers(0, 100, count).astype(dtype.numpy) for dtype in taken]
    args: list[Array | Scalar] = [np.zeros_like(array) for array in given]
    args += [array[i].item() for i in range(count) for array in given]
    for name in FORMS[:3]:
        for found, wanted in zip(run_as(device, form_of(device, name), b.finish("numbers"), args), given, strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.uint32, dtypes.int64], ids=str)
def test_vectors_are_found_by_positions_of_any_type(device: VulkanDevice, dtype: DType):
    if not device.info.can_compute(dtype):
        pytest.skip(f"the device has no {dtype}")

    def const(value: int) -> ValueId:
        return b.const(value, dtype)

    b = Builder()
    out, source = (b.define(k.Memory.GLOBAL, dtypes.float32, 128, mutable=not i) for i in range(2))
    shared = b.define(k.Memory.LOCAL, dtypes.float32, 128)
    first = b.index(k.Axis.LOCAL, 0, 8, dtype)
    row, column = b.binary(BinaryOp.SHR, first, const(2)), b.binary(BinaryOp.AND, first, const(3))
    at = b.binary(BinaryOp.ADD, b.binary(BinaryOp.MUL, row, const(16)), b.binary(BinaryOp.SHL, column, const(2)))
    for start in (0, 32):
        place = b.binary(BinaryOp.ADD, at, const(start))
        b.store(shared, place, b.load(source, place, 4))
    b.barrier()
    last = b.binary(BinaryOp.SUB, const(60), at)
    b.store(out, at, b.load(shared, last, 4))
    kernel = prepare(b.finish("positions"), device)
    args = [np.zeros(128, np.float32), np.arange(128, dtype=np.float32)]
    np.testing.assert_array_equal(run_on(device, kernel, args)[0], expected(kernel, args)[0])


def _turned_over(dtype: DType, lanes: int, *, is_masked: bool, is_mixed: bool) -> Kernel:
    """Return a kernel whose threads write what the thread at the other end of their group read, through its memory."""
    b, threads = Builder(), 16
    out = b.define(k.Memory.GLOBAL, dtype, threads * lanes)
    x = b.define(k.Memory.GLOBAL, dtype, threads * lanes, mutable=False)
    shared = b.define(k.Memory.LOCAL, dtype, threads * lanes)
    thread = b.index(k.Axis.LOCAL, 0, threads, dtypes.int32)
    width = b.const(lanes, dtypes.int32)
    place = b.binary(BinaryOp.MUL, thread, width)
    mask = None
    if is_masked:
        mask = b.vectorize((b.binary(BinaryOp.LT, thread, b.const(threads - 3, dtypes.int32)),) * lanes)
    b.store(shared, place, b.load(x, place, lanes, mask=mask))
    b.barrier()
    other = b.binary(BinaryOp.MUL, b.binary(BinaryOp.SUB, b.const(threads - 1, dtypes.int32), thread), width)
    found = b.load(shared, other, lanes)
    if is_mixed:
        lane = b.binary(BinaryOp.ADD, other, b.const(1, dtypes.int32))
        found = b.vectorize((b.load(shared, lane), *(b.devectorize(found, lane) for lane in range(1, lanes))))
    b.store(out, place, found)
    return b.finish("turned_over")


@pytest.mark.parametrize("is_mixed", [False, True], ids=["vectors", "vectors and numbers"])
@pytest.mark.parametrize("is_masked", [False, True], ids=["all", "some"])
@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("dtype", [dtypes.uint8, dtypes.float16, dtypes.bfloat16, dtypes.float32], ids=str)
def test_long_vectors_go_through_memory_of_a_group(
    device: VulkanDevice, dtype: DType, lanes: int, is_masked: bool, is_mixed: bool
):
    kernel = _turned_over(dtype, lanes, is_masked=is_masked, is_mixed=is_mixed)
    for form in FORMS[:2]:
        found = run_as(device, form_of(device, form), kernel, arguments_for(kernel, 1))
        assert same_values(found, results_of(kernel, 1))


@pytest.mark.parametrize("first", [5, 13])
def test_elements_whose_place_was_sorted_are_divided_by_their_sum(runtime: Runtime, first: int):
    # NVIDIA's driver took other elements where a module asked for rounding to nearest even in float32 as well.
    random = np.random.default_rng(first)
    with use(runtime):
        for length in (first, 18 - first):
            x = (random.integers(-96, 96, (31, 2, length)) / 32).astype(np.float32)
            middle = x.min(1)
            found = zyx.median(zyx.Tensor(x), 1)
            scaled = (found / zyx.sum(zyx.abs(found), -2, keepdims=True)).numpy()
            np.testing.assert_allclose(scaled, middle / np.abs(middle).sum(-2, keepdims=True), rtol=1e-5)
