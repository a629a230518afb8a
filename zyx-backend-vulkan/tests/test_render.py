"""Kernels as SPIR-V, without a device: modules are valid, and say where arguments lie."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from targets import FULL, LEAST, TARGETS, random_kernels, validated

from zyx import dtype as dtypes
from zyx.errors import UnsupportedError
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.ops import BinaryOp, ReduceOp, UnaryOp
from zyx_backend_vulkan.disassembly import disassembly
from zyx_backend_vulkan.render import render

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx.kernel.data import Kernel

#: Random kernels for each target.
_COUNT = 25
_MANY = 400


def copying(dtype: DType, *, lanes: int = 1, buffers: int = 2, numbers: int = 0) -> Kernel:
    """Return a kernel that copies elements of its first buffer to all others."""
    b = Builder()
    arrays = [b.define(k.Memory.GLOBAL, dtype, 64, mutable=number > 0) for number in range(buffers)]
    for number in range(numbers):
        b.variable(dtype, f"n{number}")
    at = b.binary(BinaryOp.MUL, b.index(k.Axis.GROUP, 0, 64 // lanes, dtypes.int32), b.const(lanes, dtypes.int32))
    value = b.load(arrays[0], at, lanes)
    for array in arrays[1:]:
        b.store(array, at, value)
    return b.finish("copying")


# ---- modules


@pytest.mark.parametrize("name", TARGETS)
def test_random_kernels_are_valid(name: str):
    _random_kernels_are_valid(name, range(_COUNT))


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_many_random_kernels_are_valid(name: str):
    _random_kernels_are_valid(name, range(_COUNT, _MANY))


def _random_kernels_are_valid(name: str, seeds: range) -> None:
    for kernel in random_kernels(TARGETS[name], seeds):
        validated(kernel, TARGETS[name])


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("memory", [k.Memory.GLOBAL, k.Memory.LOCAL], ids=str)
@pytest.mark.parametrize("op", [ReduceOp.SUM, ReduceOp.MAX, ReduceOp.PROD], ids=str)
def test_atomics_are_valid(name: str, memory: k.Memory, op: ReduceOp):
    target = TARGETS[name]
    for dtype in (dtypes.int32, dtypes.uint32, dtypes.float32, dtypes.int64, dtypes.uint64, dtypes.float64):
        if dtype not in target.arithmetic or dtype.bits not in target.atomic_bits:
            continue
        b = Builder()
        source = b.define(k.Memory.GLOBAL, dtype, 8, mutable=False)
        array = b.define(memory, dtype, 8)
        at = b.index(k.Axis.LOCAL, 0, 8, dtypes.int32)
        b.atomic(op, array, at, b.load(source, at), b.binary(BinaryOp.LT, at, b.const(5, dtypes.int32)))
        validated(b.finish("atomics"), target)


@pytest.mark.parametrize("distance", [1, 4])
def test_swaps_are_valid(distance: int):
    for dtype in FULL.swaps:
        b = Builder()
        out = b.define(k.Memory.GLOBAL, dtype, 8)
        at = b.index(k.Axis.LOCAL, 0, 8, dtypes.int32)
        b.store(out, at, b.swap(b.load(out, at), distance))
        rendered = validated(b.finish("swaps"), FULL)
        assert "OpGroupNonUniformShuffleXor" in disassembly(rendered.words)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("lanes", [2, 3, 4, 6, 8, 16])
def test_values_of_any_number_of_lanes_are_valid(name: str, lanes: int):
    b = Builder()
    source = b.define(k.Memory.GLOBAL, dtypes.float32, 64, mutable=False)
    out = b.define(k.Memory.GLOBAL, dtypes.float32, 64)
    shared = b.define(k.Memory.LOCAL, dtypes.float32, 64)
    register = b.define(k.Memory.REGISTER, dtypes.float32, 2, lanes=lanes)
    zero = b.const(0, dtypes.int32)
    at = b.index(k.Axis.GROUP, 0, 2, dtypes.int32)
    value = b.load(source, at, lanes)
    b.store(register, at, value)
    b.store(register, zero, value, b.binary(BinaryOp.LT, value, b.like(0.5, value)))
    value = b.shuffle(value, b.load(register, at), tuple(range(1, 2 * lanes, 2)))
    b.store(shared, zero, value)
    b.barrier()
    b.store(out, at, b.unary(UnaryOp.NEG, b.load(shared, zero, lanes)))
    validated(b.finish("lanes"), TARGETS[name])


def test_a_vector_is_one_access_where_its_place_is_a_multiple():
    text = disassembly(validated(copying(dtypes.float32, lanes=4), FULL).words)
    assert text.count("OpLoad") == 2  # of the vector, and of the place in the grid
    assert "ArrayStride 16" in text
    assert "ArrayStride 4" not in text


def test_positions_of_vectors_are_sums_of_what_those_of_numbers_are():
    b = Builder()
    source = b.define(k.Memory.GLOBAL, dtypes.float32, 4096, mutable=False)
    out = b.define(k.Memory.GLOBAL, dtypes.float32, 4096)
    at = b.binary(BinaryOp.MUL, b.index(k.Axis.GROUP, 0, 64, dtypes.int32), b.const(16, dtypes.int32))
    for start in (1024, 2048):
        place = b.binary(BinaryOp.ADD, at, b.const(start, dtypes.int32))
        b.store(out, place, b.load(source, place, 4))
    text = disassembly(validated(b.finish("positions"), FULL).words)
    assert "OpShiftRight" not in text
    assert {"OpConstant %3 256", "OpConstant %3 512", "OpConstant %3 4"} <= set(re.findall(r"OpConstant %3 \d+", text))


def test_a_buffer_of_vectors_and_of_numbers_is_two_variables():
    b = Builder()
    source = b.define(k.Memory.GLOBAL, dtypes.float32, 64, mutable=False)
    out = b.define(k.Memory.GLOBAL, dtypes.float32, 64)
    at = b.index(k.Axis.GROUP, 0, 64, dtypes.int32)
    first = b.devectorize(b.load(source, b.const(8, dtypes.int32), 4), 2)
    b.store(out, at, b.binary(BinaryOp.ADD, first, b.load(source, at)))
    text = disassembly(validated(b.finish("views"), FULL).words)
    assert text.count("Binding 0") == 2
    assert text.count("Aliased") == 3


def test_modules_declare_what_they_use():
    text = disassembly(validated(copying(dtypes.int32), FULL).words)
    assert [line.split()[-1] for line in text.splitlines() if "OpCapability" in line] == ["Shader"]
    text = disassembly(validated(copying(dtypes.uint8), FULL).words)
    assert {"OpCapability Int8", "OpCapability StorageBuffer8BitAccess"} <= {line.strip() for line in text.splitlines()}


# ---- arguments


def test_numbers_lie_in_push_constants_at_multiples_of_their_size():
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtypes.float64, 4)
    numbers = [b.variable(dtype, f"n{i}") for i, dtype in enumerate((dtypes.int8, dtypes.float64, dtypes.bool_))]
    total = b.binary(BinaryOp.ADD, b.cast(numbers[0], dtypes.float64), numbers[1])
    b.store(out, b.const(0, dtypes.int32), b.binary(BinaryOp.ADD, total, b.cast(numbers[2], dtypes.float64)))
    rendered = validated(b.finish("numbers"), FULL)
    assert rendered.push_offsets == (-1, 0, 8, 16)
    assert rendered.push_bytes == 20


def test_the_hidden_zero_lies_behind_the_numbers():
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtypes.float32, 4)
    number = b.variable(dtypes.float32, "n")
    zero = b.const(0, dtypes.int32)
    b.store(out, zero, b.binary(BinaryOp.MUL, number, b.const(0.0, dtypes.float32)))
    assert validated(b.finish("hidden"), FULL).push_bytes == 8


@pytest.mark.parametrize(("count", "nbytes"), [(31, 124), (32, -128), (40, -160)])
def test_numbers_that_push_constants_do_not_hold_lie_in_a_buffer(count: int, nbytes: int):
    rendered = validated(copying(dtypes.float32, numbers=count), FULL)
    assert rendered.push_bytes == nbytes
    assert rendered.push_offsets[2:] == tuple(range(0, 4 * count, 4))


def test_more_buffers_than_there_are_descriptors_come_by_address():
    kernel = copying(dtypes.float32, buffers=5)
    rendered = validated(kernel, replace(FULL, max_buffers=4))
    assert rendered.uses_addresses
    assert rendered.push_offsets == (0, 8, 16, 24, 32)
    assert rendered.push_bytes == 40
    assert not validated(kernel, replace(FULL, max_buffers=5)).uses_addresses


def test_more_buffers_than_a_device_takes_are_refused():
    with pytest.raises(UnsupportedError, match="kernel copying has 5 buffers, and the device binds 4"):
        render(copying(dtypes.float32, buffers=5), replace(LEAST, max_buffers=4))


@pytest.mark.parametrize("name", TARGETS)
def test_memory_of_a_group_is_counted_as_it_is_declared(name: str):
    target = TARGETS[name]
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtypes.uint8, 16)
    shared = b.define(k.Memory.LOCAL, dtypes.uint8, 48)
    at = b.index(k.Axis.LOCAL, 0, 16, dtypes.int32)
    b.store(shared, at, b.load(out, at))
    b.barrier()
    b.store(out, at, b.load(shared, at))
    assert validated(b.finish("shared"), target).local_bytes == (48 if 8 in target.shared_bits else 192)


# ---- what there is no form for


@pytest.mark.parametrize("dtype", [dtypes.int64, dtypes.uint64, dtypes.float64], ids=str)
def test_a_type_that_the_device_lacks_is_refused_by_name(dtype: DType):
    with pytest.raises(UnsupportedError, match=f"operation %2: the device has no {dtype.name}|has no {dtype.name}"):
        render(copying(dtype), LEAST)


@pytest.mark.parametrize(
    ("op", "dtype"), [(UnaryOp.SIN, dtypes.float32), (UnaryOp.NEG, dtypes.bfloat16), (UnaryOp.ERF, dtypes.float64)]
)
def test_operations_without_a_form_are_refused_by_name(op: UnaryOp, dtype: DType):
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtype, 1)
    at = b.const(0, dtypes.int32)
    b.store(out, at, b.unary(op, b.load(out, at)))
    with pytest.raises(UnsupportedError, match=f"kernel k, operation %3: there is no native form of {op.value}"):
        render(b.finish("k"), FULL)
