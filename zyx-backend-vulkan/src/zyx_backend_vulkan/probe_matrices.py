"""Which elements of cooperative matrices each thread holds: Vulkan leaves that to the driver, and `Wmma` says it.

A product is tried in three steps. Each that fails leaves it out, with the reason.

1. Threads are asked how many components they have of a, b and c: as many as `Wmma` gives them. Of matrices that are
   twice as wide, the left half is taken, if there are none that are not.
2. Matrices whose elements are their own numbers are loaded, and each thread writes down its components. If they are
   those that `Wmma` gives the thread, in an order that is the same for all threads, the order is kept.
3. Random matrices are multiplied by a kernel with `Wmma`, and compared with what `Wmma` means.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from zyx import dtype as dtypes
from zyx.drivers.faults import Fault
from zyx.errors import BackendError, DeviceLostError
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.kernel.wmma import DIMENSIONS, WARP, fragment_lanes, fragment_positions, multiply_fragments
from zyx.ops import BinaryOp
from zyx_backend_vulkan.render_code import Code
from zyx_backend_vulkan.render_matrices import USES, component_type, matrix_type
from zyx_backend_vulkan.spirv_table import NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from zyx.kernel.data import Kernel
    from zyx_backend_vulkan.target import Product, Target

_FACTORS: Final = (dtypes.float16, dtypes.bfloat16)
_HALF_BITS: Final = 16
_WORD_BYTES: Final = 4
#: Elements are multiples of 1/8 up to 1: products and sums of some of them are exact in float32, in any order.
_PARTS: Final = 8


class Trial(Protocol):
    """Runs on a device that is being opened; `zyx_backend_vulkan.probes.Trial`."""

    target: Target

    def run(self, kernel: Kernel, *arrays: NDArray[Any]) -> None:
        """Run a kernel on arrays, which are replaced."""

    def run_module(self, name: str, words: bytes, values: NDArray[Any]) -> None:
        """Run a module of one group of `WARP` threads on an array, which is replaced."""


def tried_products(listed: Sequence[Product], trial: Trial, note: Callable[[str], object]) -> tuple[Product, ...]:
    """Return the products of a driver's list that `Wmma` can be; `note` is told why others cannot.

    Raises:
        DeviceLostError: The device was lost over it.
    """
    wanted = [product for product in listed if _is_wanted(product)]
    halves = [
        replace(product, dims=(m, n // 2, depth), empty=n // 2) for product in listed for m, n, depth in [product.dims]
    ]
    found: list[Product] = []
    for product in [*wanted, *filter(_is_wanted, halves)]:
        if product.empty and any((one.dims, one.factor) == (product.dims, product.factor) for one in found):
            continue
        try:
            placed = _placed(product, trial)
        except DeviceLostError:
            raise
        except (Fault, BackendError) as error:
            placed = f"the driver refuses it: {error}"
        if isinstance(placed, str):
            note(f"{product} is left out: {placed}")
        else:
            found.append(placed)
    return tuple(found)


def _is_wanted(product: Product) -> bool:
    """Whether there is a `Wmma` of such matrices."""
    is_known = product.dims in DIMENSIONS[_HALF_BITS] and product.factor in _FACTORS
    return is_known and product.total is dtypes.float32


def _placed(product: Product, trial: Trial) -> Product | str:
    """Return a product with the places of its elements, or why there are none."""
    target = trial.target
    if target.subgroup_size != WARP:
        return f"{target.subgroup_size or 'nobody knows how many'} threads run in step, not {WARP}"
    if not target.has_memory_model:
        return "the device lacks Vulkan's memory model"
    if not target.is_native(product.factor) or not (
        product.factor is dtypes.bfloat16 or product.factor in target.arithmetic
    ):
        return f"the device has no {product.factor} beside it"
    wanted = _lanes(product)
    counts = tuple(_counts(product, trial))
    if counts != wanted:
        return f"threads hold {counts} elements of a, b and c, not {wanted}"
    places = []
    for number, held in enumerate(_held(product, trial)):
        order = order_of(held, _numbers(product, number))
        if order is None:
            return f"the threads hold other elements of {'abc'[number]} than those of Wmma"
        places.append(order)
    placed = replace(product, places=tuple(places))
    return placed if _multiplies(placed, trial) else "the results are wrong"


def order_of(held: NDArray[Any], wanted: NDArray[Any]) -> tuple[int, ...] | None:
    """Return which of the components that threads hold each wanted element is: one order for all threads.

    Args:
        held: Numbers of elements, [thread, component].
        wanted: Numbers of elements, [thread, element].

    Returns:
        The component of each element, or None if there is no such order.
    """
    matches = (held[:, None, :] == wanted[:, :, None]).all(axis=0)  # [element, component]
    if not (matches.sum(axis=1) == 1).all() or not (matches.sum(axis=0) <= 1).all():
        return None
    return tuple(int(component) for component in matches.argmax(axis=1))


# ---- matrices of numbers


def _lanes(product: Product) -> tuple[int, ...]:
    """Return how many components of a, b and c a thread has, with those of empty columns."""
    return tuple(rows * columns // WARP for rows, columns in product.shapes)


def _numbers(product: Product, matrix: int) -> NDArray[Any]:
    """Return the numbers of the elements that `Wmma` gives each thread, [thread, element]."""
    rows, columns = fragment_positions(product.dims, "abc"[matrix], _HALF_BITS)
    result: NDArray[Any] = rows * product.shapes[matrix][1] + columns
    return result


def _counts(product: Product, trial: Trial) -> list[int]:
    """Return how many components a thread has of a, b and c."""
    values = np.zeros(len(USES), np.uint32)
    trial.run_module("counts", counting(product, trial.target), values)
    return [int(value) for value in values]


def _held(product: Product, trial: Trial) -> list[NDArray[Any]]:
    """Return the numbers of the elements that each thread holds of a, b and c, [thread, component]."""
    total = sum(rows * columns for rows, columns in product.shapes)
    given = []
    for number, (rows, columns) in enumerate(product.shapes):
        dtype = product.total if number == len(USES) - 1 else product.factor
        # No more than 256 of them, which 8 significant bits hold.
        given.append(np.arange(rows * columns).astype(dtype.numpy).view(np.uint8))
    data = np.concatenate(given)
    words = np.zeros(len(data) // _WORD_BYTES + total, np.uint32)
    words.view(np.uint8)[: len(data)] = data
    trial.run_module("components", writing(product, trial.target), words)
    found = words[len(data) // _WORD_BYTES :].view(np.float32)
    sizes = [rows * columns for rows, columns in product.shapes]
    return [part.reshape(WARP, -1) for part in np.split(found, np.cumsum(sizes)[:-1])]


# ---- modules, of one buffer and one group of a warp


def counting(product: Product, target: Target) -> bytes:
    """Return a module that writes how many components a thread has of a, b and c."""
    m, buffer = _module(target)
    word = m.of(dtypes.uint32)
    for number, use in enumerate(USES):
        count = m.value("CooperativeMatrixLengthKHR", word, matrix_type(m, product, use))
        m.do("Store", _element(m, buffer, m.word(number)), count)
    return m.words("counts")


def writing(product: Product, target: Target) -> bytes:
    """Return a module that writes the components that each thread has of a, b and c, in float32, behind these."""
    m, buffer = _module(target)
    word, real = m.of(dtypes.uint32), m.of(dtypes.float32)
    thread = _thread(m)
    start = 0  # in words
    counts = _lanes(product)
    shapes = product.shapes
    matrices = []
    for number, ((rows, columns), use) in enumerate(zip(shapes, USES, strict=True)):
        dtype = product.total if number == len(USES) - 1 else product.factor
        together = 32 // dtype.bits
        layout = m.word(NAMES["CooperativeMatrixLayout"]["RowMajorKHR"])
        matrices.append(
            m.value(
                "CooperativeMatrixLoadKHR", matrix_type(m, product, use), _element(m, buffer, m.word(start)), layout,
                m.word(columns // together),
            )
        )  # fmt: skip
        start += rows * columns // together
    for matrix, count, use in zip(matrices, counts, USES, strict=True):
        dtype = product.total if use == USES[-1] else product.factor
        first = m.value("IAdd", word, m.value("IMul", word, thread, m.word(count)), m.word(start))
        for component in range(count):
            found = m.value("CompositeExtract", component_type(m, dtype), matrix, component)
            if dtype is not dtypes.float32:
                found = m.value("FConvert", real, found)
            place = m.value("IAdd", word, first, m.word(component))
            m.do("Store", _element(m, buffer, place), m.cast_bits(found, dtypes.uint32, 1))
        start += count * WARP
    return m.words("components")


def _module(target: Target) -> tuple[Code, int]:
    """Return a module, and its buffer of words."""
    m = Code(target)
    m.mode("LocalSize", WARP, 1, 1)
    word = m.of(dtypes.uint32)
    buffer = m.variable("StorageBuffer", m.struct((m.runtime_array(word, _WORD_BYTES),), (0,)))
    m.decorate(buffer, "DescriptorSet", 0)
    m.decorate(buffer, "Binding", 0)
    return m, buffer


def _thread(m: Code) -> int:
    type_ = m.of(dtypes.uint32, 3)
    variable = m.variable("Input", type_)
    m.decorate(variable, "BuiltIn", NAMES["BuiltIn"]["LocalInvocationId"])
    return m.value("CompositeExtract", m.of(dtypes.uint32), m.value("Load", type_, variable), 0)


def _element(m: Code, buffer: int, place: int) -> int:
    return m.value("AccessChain", m.pointer("StorageBuffer", m.of(dtypes.uint32)), buffer, m.word(0), place)


# ---- a product


def _multiplies(product: Product, trial: Trial) -> bool:
    """Whether random matrices are multiplied as `Wmma` says."""
    random = np.random.default_rng(0)
    target, before = trial.target, trial.target.products
    factor = product.factor.numpy
    lanes = fragment_lanes(product.dims)
    a, b = (
        (random.integers(-_PARTS, _PARTS + 1, (WARP, count)) / _PARTS).astype(np.float32).astype(factor)
        for count in lanes[:2]
    )
    c = random.integers(-_PARTS, _PARTS + 1, (WARP, lanes[2])).astype(np.float32)
    expected = multiply_fragments(product.dims, a, b, c)
    trial.target = replace(target, products=(*before, product))
    try:
        trial.run(multiplying(product), a, b, c)
    finally:
        trial.target = target
    return np.array_equal(c, expected)


def multiplying(product: Product) -> Kernel:
    """Return a kernel of one warp that adds a product to its third array; each thread has its part side by side."""
    build = Builder()
    lanes = fragment_lanes(product.dims)
    types = (product.factor, product.factor, product.total)
    arrays = [
        build.define(k.Memory.GLOBAL, dtype, WARP * count, mutable=number == 2)
        for number, (dtype, count) in enumerate(zip(types, lanes, strict=True))
    ]
    thread = build.index(k.Axis.LOCAL, 0, WARP, dtypes.int32)
    places = [build.binary(BinaryOp.MUL, thread, build.const(count, dtypes.int32)) for count in lanes]
    a, b, c = (build.load(*each) for each in zip(arrays, places, lanes, strict=True))
    build.store(arrays[2], places[2], build.wmma(product.dims, a, b, c))
    return build.finish("multiplying")
