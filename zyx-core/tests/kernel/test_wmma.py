"""Matrix fragments against the tables of the PTX manual, and their product against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.kernel.build import Builder
from zyx.kernel.data import Axis, Memory
from zyx.kernel.run import run
from zyx.kernel.wmma import DIMENSIONS, fragment_lanes, fragment_positions, to_tf32
from zyx.ops import BinaryOp

BITS_DIMS = [(bits, dims) for bits, some in DIMENSIONS.items() for dims in some]


@pytest.mark.parametrize(("bits", "dims"), BITS_DIMS)
@pytest.mark.parametrize(("matrix", "shape"), [("a", (0, 2)), ("b", (2, 1)), ("c", (0, 1))])
def test_the_threads_of_a_warp_hold_every_element_once(bits, dims, matrix, shape):
    rows, columns = fragment_positions(dims, matrix, bits)
    held = set(zip(rows.ravel().tolist(), columns.ravel().tolist(), strict=True))
    assert held == {(row, column) for row in range(dims[shape[0]]) for column in range(dims[shape[1]])}
    assert rows.size == len(held)


def test_the_layout_is_that_of_the_manual():
    # PTX ISA, 9.7.15.5.8: a of m16n8k16 in thread 5 (group 1, second pair), then b and c.
    rows, columns = fragment_positions((16, 8, 16), "a")
    assert list(zip(rows[5].tolist(), columns[5].tolist(), strict=True)) == [
        (1, 2), (1, 3), (9, 2), (9, 3), (1, 10), (1, 11), (9, 10), (9, 11),
    ]  # fmt: skip
    rows, columns = fragment_positions((16, 8, 16), "b")
    assert list(zip(rows[5].tolist(), columns[5].tolist(), strict=True)) == [(2, 1), (3, 1), (10, 1), (11, 1)]
    rows, columns = fragment_positions((16, 8, 16), "c")
    assert list(zip(rows[5].tolist(), columns[5].tolist(), strict=True)) == [(1, 2), (1, 3), (9, 2), (9, 3)]
    rows, columns = fragment_positions((16, 8, 8), "a")
    assert list(zip(rows[31].tolist(), columns[31].tolist(), strict=True)) == [(7, 6), (7, 7), (15, 6), (15, 7)]
    rows, columns = fragment_positions((16, 8, 8), "b")
    assert list(zip(rows[31].tolist(), columns[31].tolist(), strict=True)) == [(6, 7), (7, 7)]
    # 9.7.15.5.3: m16n8k8 of .tf32.
    rows, columns = fragment_positions((16, 8, 8), "a", 32)
    assert list(zip(rows[5].tolist(), columns[5].tolist(), strict=True)) == [(1, 1), (9, 1), (1, 5), (9, 5)]
    rows, columns = fragment_positions((16, 8, 8), "b", 32)
    assert list(zip(rows[5].tolist(), columns[5].tolist(), strict=True)) == [(1, 1), (5, 1)]


def test_factors_of_float32_are_rounded_to_eleven_bits():
    exact = np.array([1 + 2**-10, 1 + 2**-11, 1 + 2**-11 - 2**-20, -1 - 2**-11, np.inf, -0.0, 3.4028235e38], np.float32)
    rounded = [1 + 2**-10, 1 + 2**-10, 1, -1 - 2**-10, np.inf, -0.0, np.inf]
    np.testing.assert_array_equal(to_tf32(exact), np.array(rounded, np.float32))
    assert np.signbit(to_tf32(exact)[5])
    assert np.isnan(to_tf32(np.array([0x7FFFFFFF, 0xFF800001], np.uint32).view(np.float32))).all()


@pytest.mark.parametrize(
    ("factor", "dims"),
    [
        (factor, dims)
        for factor in (dtypes.float16, dtypes.bfloat16, dtypes.float32)
        for dims in DIMENSIONS[factor.bits]
    ],
    ids=str,
)
def test_two_warps_multiply_matrices(factor, dims):
    """Each thread loads its fragments from where they lie in memory, and stores its part of the product."""
    m, n, depth = dims
    lanes = dict(zip("abc", fragment_lanes(dims), strict=True))
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, m, depth)).astype(factor.numpy), rng.normal(size=(2, depth, n)).astype(factor.numpy)
    c = rng.normal(size=(2, m, n)).astype(np.float32)
    builder = Builder()
    arrays = {
        name: builder.define(Memory.GLOBAL, dtype, 2 * 32 * lanes[name])
        for name, dtype in (("a", factor), ("b", factor), ("c", dtypes.float32))
    }
    thread = builder.index(Axis.LOCAL, 0, 64, dtypes.int32)
    parts = {}
    for name, count in lanes.items():
        parts[name] = builder.binary(BinaryOp.MUL, thread, builder.const(count, dtypes.int32))
    fragments = [builder.load(arrays[name], parts[name], lanes[name]) for name in "abc"]
    builder.store(arrays["c"], parts["c"], builder.wmma(dims, *fragments))
    memory = []
    for name, matrices in (("a", a), ("b", b), ("c", c)):
        rows, columns = fragment_positions(dims, name, factor.bits)
        memory.append(np.ascontiguousarray(matrices[:, rows, columns]).reshape(-1))
    run(builder.finish("multiply"), memory)
    rows, columns = fragment_positions(dims, "c")
    if factor is dtypes.float32:
        a, b = to_tf32(a), to_tf32(b)
    expected = (a.astype(np.float64) @ b.astype(np.float64) + c)[:, rows, columns].reshape(-1)
    np.testing.assert_allclose(memory[2], expected, rtol=1e-6, atol=1e-6)
