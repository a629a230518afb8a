"""Cooperative matrices: modules with them are valid, and what is tried of a driver's says which ones `Wmma` can be.

A stand-in takes the driver's place: it gives each thread the elements that it is told to.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from targets import FULL, PLACES, WITH_MATRICES, validate, validated

from zyx import dtype as dtypes
from zyx.errors import CompileError, DeviceLostError, UnsupportedError
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.kernel.verify import verify
from zyx.kernel.wmma import WARP, fragment_lanes, fragment_positions, multiply_fragments
from zyx.ops import BinaryOp, ReduceOp
from zyx_backend_vulkan.disassembly import disassembly
from zyx_backend_vulkan.probe_matrices import counting, multiplying, tried_products, writing
from zyx_backend_vulkan.render import render
from zyx_backend_vulkan.target import Product

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx.kernel.data import Kernel
    from zyx_backend_vulkan.target import Target

HALVES = pytest.mark.parametrize("factor", [dtypes.float16, dtypes.bfloat16], ids=str)
SHAPES = pytest.mark.parametrize("dims", list(PLACES), ids=str)
DIMS = (16, 8, 16)


def product(dims: tuple[int, int, int], factor: DType, places: Any = ()) -> Product:
    return Product(dims, factor, dtypes.float32, places)


def ids(text: str, name: str) -> list[str]:
    """Return the lines of a module that have an instruction."""
    return [line for line in text.splitlines() if f"Op{name} " in line]


# ---- modules


@HALVES
@SHAPES
def test_a_product_is_made_of_components(dims: tuple[int, int, int], factor: DType):
    kernel = multiplying(product(dims, factor))
    verify(kernel)
    text = disassembly(validated(kernel, WITH_MATRICES).words)
    lanes = fragment_lanes(dims)
    assert len(ids(text, "CooperativeMatrixMulAddKHR")) == 1
    assert len(ids(text, "CompositeInsert")) == sum(lanes)
    assert len(ids(text, "TypeCooperativeMatrixKHR")) == 3
    assert "OpMemoryModel Logical Vulkan" in text
    assert ('OpExtension "SPV_KHR_bfloat16"' in text) == (factor is dtypes.bfloat16)


def test_components_are_taken_in_the_order_of_the_device():
    order = (3, 1, 2, 0)
    places = (tuple(range(8)), order, order)
    target = replace(WITH_MATRICES, products=(product(DIMS, dtypes.float16, places),))
    text = disassembly(validated(multiplying(product(DIMS, dtypes.float16)), target).words)
    inserted = [int(line.split()[-1]) for line in ids(text, "CompositeInsert")]
    assert tuple(inserted) == (*range(8), *order, *order)
    (result,) = ids(text, "CooperativeMatrixMulAddKHR")
    number = result.split()[0]
    taken = [line.split()[-1] for line in ids(text, "CompositeExtract") if f" {number} " in line]
    assert tuple(map(int, taken)) == order


def chained(count: int) -> Kernel:
    """Return a kernel that adds products of the same factors to one sum, from memory that a group shares."""
    b = Builder()
    lanes = fragment_lanes(DIMS)
    source = b.define(k.Memory.GLOBAL, dtypes.float16, WARP * 8, mutable=False)
    out = b.define(k.Memory.GLOBAL, dtypes.float32, WARP * 4)
    total = b.define(k.Memory.GLOBAL, dtypes.int32, 1)
    shared = b.define(k.Memory.LOCAL, dtypes.float16, WARP * 8)
    thread = b.index(k.Axis.LOCAL, 0, WARP, dtypes.int32)
    at = [b.binary(BinaryOp.MUL, thread, b.const(count, dtypes.int32)) for count in lanes]
    b.store(shared, at[0], b.load(source, at[0], 8))
    b.barrier()
    a, x = b.load(shared, at[0], 8), b.load(shared, at[1], 4)
    c = b.const(0.0, dtypes.float32, 4)
    for _ in range(count):
        c = b.wmma(DIMS, a, x, c)
    b.store(out, at[2], c)
    b.atomic(ReduceOp.SUM, total, b.const(0, dtypes.int32), b.const(1, dtypes.int32))
    return b.finish("chained")


def test_matrices_of_a_block_are_made_once():
    text = disassembly(validated(chained(3), WITH_MATRICES).words)
    assert len(ids(text, "CooperativeMatrixMulAddKHR")) == 3
    assert len(ids(text, "CompositeInsert")) == sum(fragment_lanes(DIMS))


def test_what_warps_share_is_not_private_in_the_memory_model_of_matrices():
    text = disassembly(validated(chained(1), WITH_MATRICES).words)
    assert len(ids(text, "Store")) - 1 == sum("NonPrivatePointer" in line for line in ids(text, "Store"))
    assert "VulkanMemoryModelDeviceScope" in text  # for the atomic
    plain = disassembly(render(chained(0), FULL).words)
    assert "NonPrivatePointer" not in plain
    assert "OpMemoryModel Logical GLSL450" in plain


@pytest.mark.parametrize("target", [WITH_MATRICES, replace(WITH_MATRICES, max_buffers=0)], ids=["bound", "addresses"])
def test_a_global_array_that_a_group_passes_on_is_not_private_either(target: Target):
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtypes.float32, WARP * 4)
    thread = b.index(k.Axis.LOCAL, 0, WARP, dtypes.int32)
    at = b.binary(BinaryOp.MUL, thread, b.const(4, dtypes.int32))
    b.store(out, at, b.load(out, at, 4))
    b.barrier()
    half = b.const(1.0, dtypes.float16, 8), b.const(1.0, dtypes.float16, 4)
    other = b.binary(BinaryOp.SUB, b.const(4 * (WARP - 1), dtypes.int32), at)
    b.store(out, at, b.wmma(DIMS, *half, b.load(out, other, 4)))
    kernel = b.finish("passed_on")
    text = disassembly(validated(kernel, target).words)
    assert "Coherent" not in text
    assert sum("NonPrivatePointer" in line for line in text.splitlines()) == 4


@HALVES
def test_products_that_there_are_not_are_refused(factor: DType):
    with pytest.raises(UnsupportedError, match=f"there is no product 16 x 8 x 16 of {factor.name}"):
        render(multiplying(product(DIMS, factor)), FULL)
    with pytest.raises(UnsupportedError, match="in which threads hold what Wmma gives them"):
        render(multiplying(product(DIMS, factor)), replace(FULL, products=(product(DIMS, factor),)))


@HALVES
@SHAPES
def test_modules_that_try_products_are_valid(dims: tuple[int, int, int], factor: DType):
    for write in (counting, writing):
        validate(write(product(dims, factor), WITH_MATRICES), WITH_MATRICES)


# ---- what is tried


class Driver:
    """A driver that gives threads some of the elements of matrices.

    Args:
        orders: Of a, b and c: which element of `Wmma` each component is.
        shift: Threads have what those so many places on have, by `Wmma`.
        counts: How many components it says that a thread has.
        is_wrong: Whether products are wrong.
        error: What compiling a module with matrices ends with.
        is_wide: Whether its matrices are two of `Wmma` side by side.
    """

    def __init__(
        self, orders: Any = (), *, shift: int = 0, counts: Any = (), is_wrong: bool = False, error: Any = None,
        is_wide: bool = False,
    ) -> None:  # fmt: skip
        self.target = replace(WITH_MATRICES, products=())
        self.orders, self.shift, self.counts = orders, shift, counts
        self.is_wrong, self.error = is_wrong, error
        self.dims, self.factor, self.is_wide = DIMS, dtypes.float16, is_wide

    def held(self, matrix: int) -> Any:
        rows, columns = fragment_positions(self.dims, "abc"[matrix], 16)
        wide = {0: self.dims[2], 1: self.dims[1], 2: self.dims[1]}[matrix]
        if self.is_wide and matrix:
            rows, columns, wide = np.hstack([rows, rows]), np.hstack([columns, columns + wide]), 2 * wide
        numbers = np.roll(rows * wide + columns, self.shift, axis=0)
        return numbers[:, list(self.orders[matrix])] if self.orders else numbers

    def run_module(self, name: str, words: bytes, values: Any) -> None:
        if self.error is not None:
            raise self.error
        validate(words, self.target)
        if name == "counts":
            values[:] = self.counts or [self.held(matrix).shape[1] for matrix in range(3)]
            return
        lanes, start = [self.held(matrix).shape[1] for matrix in range(3)], 0
        sizes = [WARP * count for count in lanes]
        words_of = [sizes[0] // 2, sizes[1] // 2, sizes[2]]
        out = values[sum(words_of) :]
        for matrix, size in enumerate(sizes):
            dtype = np.float32 if matrix == 2 else self.factor.numpy
            given = values[start : start + words_of[matrix]].view(dtype).astype(np.float32)
            out[:size] = given[self.held(matrix)].reshape(-1).view(np.uint32)
            out, start = out[size:], start + words_of[matrix]

    def run(self, kernel: Kernel, a: Any, b: Any, c: Any) -> None:
        """Multiply what threads hold, by the orders that the target says."""
        validated(kernel, self.target)
        (found,) = self.target.products
        operands = []
        for matrix, values in enumerate((a, b, c)):
            components = np.zeros(self.held(matrix).shape, values.dtype)
            components[:, list(found.places[matrix])] = values
            order = self.orders[matrix] if self.orders else range(components.shape[1])
            elements = np.zeros_like(components)
            elements[:, list(order)] = components
            operands.append(elements[:, : values.shape[1]])
        result = multiply_fragments(self.dims, *operands)
        order = self.orders[2] if self.orders else range(result.shape[1])
        components = result[:, list(order)]
        c[:] = components[:, list(found.places[2])] + self.is_wrong


def tried(driver: Driver, *products: Product) -> tuple[tuple[Product, ...], list[str]]:
    """Return what is found of products, and what is said of the others."""
    said: list[str] = []
    return tried_products(products, driver, said.append), said


@HALVES
@SHAPES
def test_matrices_that_lie_as_wmma_has_them_are_found(dims: tuple[int, int, int], factor: DType):
    driver = Driver()
    driver.dims, driver.factor = dims, factor
    assert tried(driver, product(dims, factor)) == ((product(dims, factor, PLACES[dims]),), [])
    assert driver.target.products == ()


def test_components_in_another_order_are_found_with_their_places():
    orders = ((0, 1, 4, 5, 2, 3, 6, 7), (2, 3, 0, 1), (1, 2, 3, 0))
    ((found,), said) = tried(Driver(orders), product(DIMS, dtypes.float16))
    assert not said
    assert found.places == (orders[0], orders[1], (3, 0, 1, 2))


def test_the_left_half_is_taken_of_matrices_that_are_twice_as_wide():
    rows, columns, depth = DIMS
    wide = product((rows, 2 * columns, depth), dtypes.bfloat16)
    driver = Driver(is_wide=True)
    driver.factor = dtypes.bfloat16
    ((found,), said) = tried(driver, wide)
    assert not said
    assert found == replace(product(DIMS, dtypes.bfloat16, PLACES[DIMS]), empty=columns)
    target = replace(WITH_MATRICES, products=(found,))
    text = disassembly(validated(multiplying(product(DIMS, dtypes.bfloat16)), target).words)
    assert len(ids(text, "CompositeInsert")) == sum(fragment_lanes(DIMS))


def test_matrices_that_are_as_wide_are_preferred():
    rows, columns, depth = DIMS
    wide = product((rows, 2 * columns, depth), dtypes.float16)
    assert tried(Driver(), wide, product(DIMS, dtypes.float16))[0] == (product(DIMS, dtypes.float16, PLACES[DIMS]),)


def test_threads_that_hold_what_others_should_are_no_wmma():
    found, (said,) = tried(Driver(shift=1), product(DIMS, dtypes.float16))
    assert found == ()
    assert said == (
        "a product 16 x 8 x 16 of float16 in float32 is left out: the threads hold other elements of a than those of "
        "Wmma"
    )


@pytest.mark.parametrize(
    ("driver", "reason"),
    [
        (Driver(counts=(16, 8, 4)), r"threads hold \(16, 8, 4\) elements of a, b and c, not \(8, 4, 4\)"),
        (Driver(is_wrong=True), "the results are wrong"),
        (Driver(error=CompileError("no such type")), "the driver refuses it: no such type"),
    ],
    ids=["counts", "results", "refusal"],
)
def test_products_that_are_something_else_are_left_out_with_the_reason(driver: Driver, reason: str):
    found, (said,) = tried(driver, product(DIMS, dtypes.float16))
    assert found == ()
    assert re.search(reason, said)


def test_where_threads_do_not_swap_in_warps_no_product_is_tried():
    driver = Driver(error=AssertionError("nothing is to be run"))
    driver.target = replace(driver.target, subgroup_size=0)
    assert tried(driver, product(DIMS, dtypes.float16))[1][0].endswith(
        "nobody knows how many threads run in step, not 32"
    )
    driver.target = replace(driver.target, subgroup_size=64)
    assert "64 threads run in step, not 32" in tried(driver, product(DIMS, dtypes.float16))[1][0]


def test_a_device_that_is_lost_over_it_is_lost():
    with pytest.raises(DeviceLostError):
        tried(Driver(error=DeviceLostError("gone")), product(DIMS, dtypes.float16))


def test_products_that_are_no_wmma_are_not_looked_at():
    driver = Driver(error=AssertionError("nothing is to be run"))
    others = (
        product((16, 32, 16), dtypes.float16), product((16, 16, 8), dtypes.int16),
        replace(product(DIMS, dtypes.float16), total=dtypes.float16),
        product(DIMS, dtypes.int8),
    )  # fmt: skip
    assert tried(driver, *others) == ((), [])
