"""Schedules leave a group no more local memory than its device has."""

from __future__ import annotations

import numpy as np
import pytest

import zyx
from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.lowering.arrays import local_bytes
from zyx.lowering.lower import lower_together
from zyx.nest.data import Kind
from zyx.runtime.runtime import use
from zyx.schedule.choose import choose_schedule
from zyx.testing.choices import Seeded
from zyx.testing.graphs import GraphOptions, random_case
from zyx.testing.nests import kernels_of
from zyx.testing.paper import PAPER, open_paper, paper_info

CARDS = [info for info in PAPER.values() if info.max_group_threads > 1]


def taken(nest) -> int:
    """Return the bytes of local memory of the kernel of a nest, those of a lone thread's own arrays left out."""
    arrays = [op for op in lower_together([nest], "test").ops if isinstance(op, k.Define)]
    return sum(op.length * op.dtype.itemsize for op in arrays if op.memory is k.Memory.LOCAL)


def test_local_memory_is_counted_as_lowering_takes_it():
    counted = 0
    for seed in range(40):
        choices = Seeded(seed)
        case = random_case(choices, GraphOptions(most_nodes=8, most_elements=5000))
        for kernel in kernels_of(case, choices.pick(CARDS), together=False)[0]:
            nest, _ = choose_schedule(kernel.nests[0], choices.pick(CARDS))
            if any(nest.kind(range_) is Kind.LOCAL for range_ in nest.ranges):
                assert local_bytes(nest) == taken(nest), nest
                counted += local_bytes(nest) > 0
    assert counted


@pytest.mark.parametrize("bytes_", [0, 100, 1000, 49088])
@pytest.mark.parametrize("shape", [(131, 3), (3, 67)], ids=str)
def test_a_variance_is_computed_in_little_local_memory(bytes_, shape):
    info = paper_info(
        "card", units=132, warp_size=32, max_group_threads=1024, max_group_shape=(1024, 1024, 64),
        local_bytes=bytes_, vector_bytes=16, lanes=(2, 4), cache_bytes=(49152, 1 << 25),
    )  # fmt: skip
    data = np.arange(int(np.prod(shape)), dtype=np.uint32).reshape(shape) % 1009
    with open_paper(info) as runtime, use(runtime):
        x = zyx.Tensor(data)
        for found in (zyx.var(x), zyx.var(x, dtype="float64"), zyx.var(zyx.flip(x.astype("float64")) * 1.0)):
            assert found.dtype in (dtypes.float32, dtypes.float64)
            np.testing.assert_allclose(found.numpy(), data.var(), rtol=1e-4)
        np.testing.assert_allclose(zyx.var(x.T, dtype="float64").numpy(), data.var(), rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("name", ["tiny caches", "tiny card", "card without local memory"])
def test_scans_and_what_stores_them_go_over_one_order_of_loops_where_memory_is_little(name, axis):
    data = np.random.default_rng(1).standard_normal((2, 6, 33))
    with open_paper(name) as runtime, use(runtime):
        np.testing.assert_array_equal(zyx.cummax(zyx.Tensor(data), axis).numpy(), np.maximum.accumulate(data, axis))
