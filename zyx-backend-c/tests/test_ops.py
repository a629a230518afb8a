"""Every operation on every dtype and number of lanes does what the interpreter does, bit by bit."""

from collections.abc import Callable

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx import ops
from zyx.backend import DeviceInfo
from zyx.dtype import DType
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.ops import BinaryOp, UnaryOp
from zyx_backend_c.device import CpuDevice

Check = Callable[..., None]
#: A C compiler takes a tenth of a second for each kernel of these tests, so it gets fewer.
KINDS_AND_LANES = [
    (kind, lanes)
    for kind in ("llvm", "cc", "shared", "baseline")
    for lanes in ((1, 16) if kind == "cc" else (1, 2, 16, 64))
]
COUNT = 256

INTERESTING = [
    0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 3.0, 1e-3, -7.75, 1e4, 65504.0, 65519.0, 65520.0, 2.0**31, -(2.0**31),
    2.0**63, 1e30, -1e30, 3e38, 1e-40, -1e-45, 6e-8, 5.9e-8, 1e300, 5e-324, float("inf"), -float("inf"), float("nan"),
    127.5, 255.9, -128.9, 1 + 2**-8 + 2**-40, 1 + 3 * 2**-8 - 2**-40, 1 + 2**-11 + 2**-40,
]  # fmt: skip


def values(dtype: DType, seed: int, count: int = COUNT) -> np.ndarray:
    """Special values of a dtype, and random ones."""
    rng = np.random.default_rng(seed)
    if dtype.is_bool:
        return rng.integers(0, 2, count).astype(np.bool_)
    if dtype.is_integer:
        low, high = int(dtype.min), int(dtype.max)
        special = [low, high, 0, 1, high - 1, low + 1, 2, 3, 7, min(high, 64), *([-1, -2, -7] if low else [])]
        random = rng.integers(low, high, count, dtype=dtype.numpy, endpoint=True)
        small = rng.integers(max(low, -9), 70, count).astype(dtype.numpy)
        data = np.where(rng.random(count) < 0.5, random, small)
    else:
        special = INTERESTING
        bits = rng.integers(0, 256, (count, dtype.itemsize), dtype=np.uint8).view(dtype.numpy).ravel()
        data = np.where(rng.random(count) < 0.4, bits, (rng.standard_normal(count) * 50).astype(dtype.numpy))
    with np.errstate(all="ignore"):
        chosen = np.array(special).astype(dtype.numpy) if dtype.is_float else np.array(special, dtype=dtype.numpy)
    places = rng.permutation(count)[: count // 2]
    data[places] = chosen[rng.integers(0, len(chosen), len(places))]
    return data.astype(dtype.numpy)


def claimed(info: DeviceInfo, dtype: DType) -> tuple[list[UnaryOp], list[BinaryOp]]:
    capability = info.capabilities[dtype]
    return (sorted(capability.unary, key=lambda op: op.value), sorted(capability.binary, key=lambda op: op.value))


def test_everything_but_transcendental_functions_powers_and_half_arithmetic_is_claimed(device: CpuDevice) -> None:
    for dtype in dtypes.ALL:
        unary, binary = claimed(device.info, dtype)
        if dtype.is_float and dtype.bits == 16:
            assert not device.info.can_compute(dtype)
            continue
        assert set(unary) == ops.unary_ops(dtype) - ops.TRANSCENDENTAL
        assert set(binary) == ops.binary_ops(dtype) - {BinaryOp.POW}


COMPUTED = [dtype for dtype in dtypes.ALL if not (dtype.is_float and dtype.bits == 16)]


@pytest.mark.parametrize(("device", "lanes"), KINDS_AND_LANES, indirect=["device"])
@pytest.mark.parametrize("dtype", COMPUTED, ids=str)
def test_every_operation_that_is_claimed_gives_the_pinned_result(
    device: CpuDevice, check: Check, dtype: DType, lanes: int
) -> None:
    unary, binary = claimed(device.info, dtype)
    builder = Builder()
    x = builder.define(k.Memory.GLOBAL, dtype, COUNT, mutable=False)
    y = builder.define(k.Memory.GLOBAL, dtype, COUNT, mutable=False)
    results = [builder.define(k.Memory.GLOBAL, dtype, COUNT) for _ in unary]
    comparisons = [op in ops.COMPARISONS for op in binary]
    results += [builder.define(k.Memory.GLOBAL, dtypes.bool_ if test else dtype, COUNT) for test in comparisons]
    extra = not dtype.is_bool
    if extra:
        results += [builder.define(k.Memory.GLOBAL, dtype, COUNT) for _ in range(2)]
    group = builder.index(k.Axis.GROUP, 0, COUNT // lanes)
    start = builder.binary(BinaryOp.MUL, group, builder.const(lanes, dtypes.int64))
    a, b = builder.load(x, start, lanes), builder.load(y, start, lanes)
    values_ = [builder.unary(op, a) for op in unary] + [builder.binary(op, a, b) for op in binary]
    if extra:
        values_.append(builder.mad(a, b, a) if dtype.is_integer else builder.mad(a, builder.like(1.0, a), b))
        values_.append(builder.where(builder.binary(BinaryOp.LT, a, b), b, a))
    for result, value in zip(results, values_, strict=True):
        builder.store(result, start, value)
    kernel = builder.finish(f"ops_{dtype.short}x{lanes}")
    outputs = [np.zeros(COUNT, op.dtype.numpy) for op in kernel.params[2:]]
    check(device, kernel, values(dtype, 1), values(dtype, 2), *outputs, signs=False)  # max of two zeros may be either


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", dtypes.INTEGERS, ids=str)
def test_divisions_and_shifts_by_constants_give_the_pinned_result(
    device: CpuDevice, check: Check, dtype: DType, lanes: int
) -> None:
    constants = [
        c
        for c in (0, 1, -1, 2, 7, 10, dtype.bits - 1, dtype.bits, 100, dtype.min, dtype.max)
        if dtype.min <= c <= dtype.max
    ]
    chosen = (BinaryOp.DIV, BinaryOp.MOD, BinaryOp.SHL, BinaryOp.SHR)
    builder = Builder()
    x = builder.define(k.Memory.GLOBAL, dtype, COUNT, mutable=False)
    y = builder.define(k.Memory.GLOBAL, dtype, COUNT * len(constants) * len(chosen))
    group = builder.index(k.Axis.GROUP, 0, COUNT // lanes)
    start = builder.binary(BinaryOp.MUL, group, builder.const(lanes, dtypes.int64))
    a = builder.load(x, start, lanes)
    for number, (op, constant) in enumerate((op, c) for op in chosen for c in constants):
        place = builder.binary(BinaryOp.ADD, start, builder.const(number * COUNT, dtypes.int64))
        b = (
            builder.const(constant, dtype, lanes)
            if number % 2
            else builder.splat(builder.const(constant, dtype), lanes)
        )
        builder.store(y, place, builder.binary(op, a, b))
    kernel = builder.finish("by_constants")
    check(device, kernel, values(dtype, 3), np.zeros(COUNT * len(constants) * len(chosen), dtype.numpy))


@pytest.mark.parametrize(("device", "lanes"), KINDS_AND_LANES, indirect=["device"])
@pytest.mark.parametrize("source", dtypes.ALL, ids=str)
def test_every_conversion_is_rounded_once_or_saturates(
    device: CpuDevice, check: Check, source: DType, lanes: int
) -> None:
    count = 2 * COUNT
    builder = Builder()
    x = builder.define(k.Memory.GLOBAL, source, count, mutable=False)
    results = [builder.define(k.Memory.GLOBAL, target, count) for target in dtypes.ALL]
    group = builder.index(k.Axis.GROUP, 0, count // lanes)
    start = builder.binary(BinaryOp.MUL, group, builder.const(lanes, dtypes.int64))
    a = builder.load(x, start, lanes)
    for result, target in zip(results, dtypes.ALL, strict=True):
        builder.store(result, start, builder.cast(a, target))
    outputs = [np.zeros(count, target.numpy) for target in dtypes.ALL]
    check(device, builder.finish("casts"), values(source, 4, count), *outputs)


@pytest.mark.parametrize("lanes", [1, 4, 32])
def test_bits_are_read_as_another_type(device: CpuDevice, check: Check, lanes: int) -> None:
    families = [[d for d in dtypes.ALL if d.bits == bits and not d.is_bool] for bits in (8, 16, 32, 64)]
    pairs = [(s, t) for family in families for s in family for t in family if s is not t]
    builder = Builder()
    arrays = [
        (builder.define(k.Memory.GLOBAL, s, 64, mutable=False), builder.define(k.Memory.GLOBAL, t, 64))
        for s, t in pairs
    ]
    start = builder.binary(
        BinaryOp.MUL, builder.index(k.Axis.GROUP, 0, 64 // lanes), builder.const(lanes, dtypes.int64)
    )
    for (x, y), (_, target) in zip(arrays, pairs, strict=True):
        builder.store(y, start, builder.bitcast(builder.load(x, start, lanes), target))
    args = [a for s, t in pairs for a in (values(s, 5, 64), np.zeros(64, t.numpy))]
    check(device, builder.finish("bitcasts"), *args)
