"""Sums of pairs of products of bytes are one instruction where the processor has it and nothing can saturate."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.drivers.cache import MemoryCache
from zyx.kernel.build import Builder
from zyx.kernel.data import Kernel, Memory
from zyx.ops import BinaryOp
from zyx_backend_c.driver import Compiler
from zyx_backend_c.target import Target
from zyx_backend_c.toolchain_llvm import LlvmToolchain

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx_backend_c.device import CpuDevice

HOST_IS_X86 = platform.machine().lower() in ("x86_64", "amd64")
RANDOM = np.random.default_rng(2)
SSE = frozenset({"sse4.1", "ssse3"})
AVX2 = SSE | {"avx", "avx2", "fma", "f16c"}
AVX512 = AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni"}


def kernel_of(lanes: int, most: int | None, *, swapped: bool = False, wrong: bool = False) -> Kernel:
    """Return the kernel of the sums of pairs of ``(x & most) * y``, x uint8, y int8, so many lanes of int16."""
    b = Builder()
    out = b.define(Memory.GLOBAL, dtypes.int16, lanes)
    x, y = (b.define(Memory.GLOBAL, dtype, 2 * lanes, mutable=False) for dtype in (dtypes.uint8, dtypes.int8))
    zero = b.const(0, dtypes.int64)
    left, right = b.load(x, zero, 2 * lanes), b.load(y, zero, 2 * lanes)
    if most is not None:
        left = b.binary(BinaryOp.AND, left, b.const(most, dtypes.uint8, 2 * lanes))
    product = b.binary(BinaryOp.MUL, b.cast(left, dtypes.int16), b.cast(right, dtypes.int16))
    even, odd = tuple(range(0, 2 * lanes, 2)), tuple(range(1, 2 * lanes, 2))
    if wrong:  # not all neighbours
        odd = (*odd[:-1], odd[0])
    sides = [b.shuffle(product, product, each) for each in ((odd, even) if swapped else (even, odd))]
    b.store(out, zero, b.binary(BinaryOp.ADD, *sides))
    return b.finish("pairs")


def assembly(kernel: Kernel, cpu: str, features: frozenset[str]) -> str:
    chain = LlvmToolchain(Compiler(Target("x86_64-unknown-linux-gnu", cpu, features)), MemoryCache())
    return chain.assembly(chain.render(kernel).text)


@pytest.mark.skipif(not HOST_IS_X86, reason="LLVM makes code for the processors of this machine's family")
@pytest.mark.parametrize(
    ("cpu", "features", "lanes", "register"),
    [
        ("x86-64-v2", SSE, 8, "%xmm"),
        ("x86-64-v3", AVX2, 16, "%ymm"),
        ("x86-64-v4", AVX512, 16, "%ymm"),
        ("x86-64-v4", AVX512, 32, "%zmm"),
    ],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_the_instruction_is_in_the_code_of_processors_that_have_it(
    cpu: str, features: frozenset[str], lanes: int, register: str, swapped: bool
) -> None:
    text = assembly(kernel_of(lanes, 127, swapped=swapped), cpu, features)
    (line,) = [line for line in text.splitlines() if "pmaddubsw" in line]
    assert register in line
    assert "pmullw" not in text


@pytest.mark.skipif(not HOST_IS_X86, reason="LLVM makes code for the processors of this machine's family")
def test_it_is_not_used_where_sums_might_saturate_nor_for_other_pairs_nor_without_it() -> None:
    assert "pmaddubsw" not in assembly(kernel_of(16, None), "x86-64-v3", AVX2)
    assert "pmaddubsw" not in assembly(kernel_of(16, 128), "x86-64-v3", AVX2)
    assert "pmaddubsw" not in assembly(kernel_of(16, 127, wrong=True), "x86-64-v3", AVX2)
    assert "pmaddubsw" not in assembly(kernel_of(16, 127), "x86-64", frozenset())
    assert "pmaddubsw" not in assembly(kernel_of(32, 127), "x86-64-v3", AVX2)


@pytest.mark.parametrize("lanes", [8, 16, 32])
@pytest.mark.parametrize("most", [None, 15, 127, 128])
def test_values_are_those_of_numpy_at_the_ends_of_what_bytes_hold(
    device: CpuDevice, run: Callable[..., list[np.ndarray]], lanes: int, most: int | None
) -> None:
    x = RANDOM.choice(np.array([0, 1, 15, 127, 128, 255], np.uint8), 2 * lanes)
    y = RANDOM.choice(np.array([-128, -127, -1, 0, 1, 127], np.int8), 2 * lanes)
    x[:4], y[:4] = 255, (-128, -128, 127, 127)
    found = run(device, kernel_of(lanes, most), [np.zeros(lanes, np.int16), x, y])[0]
    left = x if most is None else x & np.uint8(most)
    products = left.astype(np.int16) * y.astype(np.int16)
    assert (found == products[::2] + products[1::2]).all()
