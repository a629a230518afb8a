"""Sorting by hand-written kernels, on devices that differ in threads and memory, against NumPy's stable sort."""

import numpy as np
import pytest

import zyx
from zyx.errors import UnsupportedError
from zyx.fusion.prepare import prepare
from zyx.graph import node as n
from zyx.graph.graph import Graph
from zyx.graph.walk import topological
from zyx.kernels import sorting
from zyx.kernels.sorting.network import comparators
from zyx.runtime.runtime import use
from zyx.testing import paper
from zyx.testing.paper import PAPER, PaperDevice, open_paper, paper_info

RNG = np.random.default_rng(7)
#: As NVIDIA reports an H200.
H200 = paper_info(
    "H200", units=132, warp_size=32, max_group_threads=1024, max_group_shape=(1024, 1024, 64), local_bytes=49152,
    vector_bytes=16, registers=255, cache_bytes=(1 << 18, 50 << 20),
)  # fmt: skip


@pytest.mark.parametrize("size", range(1, 17))
def test_networks_sort_whatever_there_is(size):
    pairs = list(comparators(size))
    for word in range(1 << size) if size <= 10 else RNG.integers(0, 1 << size, 300):
        bits = [int(word) >> i & 1 for i in range(size)]
        for i, j in pairs:
            assert i < j < size
            bits[i], bits[j] = min(bits[i], bits[j]), max(bits[i], bits[j])
        assert bits == sorted(bits)


def check(x, axis, **options):
    order = np.argsort(x, axis, kind="stable")
    assert np.array_equal(zyx.argsort(zyx.Tensor(x), axis, **options).numpy(), order)


@pytest.mark.parametrize("name", sorted(PAPER))
@pytest.mark.parametrize("size", [5, 40, 100])
def test_every_kind_of_device_sorts(name, size):
    with open_paper(name) as runtime, use(runtime):
        if size == 40:
            check(RNG.integers(0, size, (2, size), dtype=np.int64), 1)
        else:
            check(RNG.standard_normal((size, 3)).astype(np.float32), 0)


@pytest.mark.parametrize("size", [31, 32, 33, 255, 256, 257, 1000])
@pytest.mark.parametrize("kind", ["drawn", "sorted", "reversed", "equal"])
def test_few_threads_with_little_memory_merge_many_runs(size, kind):
    x = {
        "drawn": RNG.integers(0, size // 4, size),
        "sorted": np.arange(size),
        "reversed": np.arange(size)[::-1].copy(),
        "equal": np.zeros(size),
    }[kind].astype(np.int32)
    with open_paper("card with one axis") as runtime, use(runtime):
        check(x, 0)


@pytest.mark.parametrize("size", [100, 257, 1000])
@pytest.mark.parametrize("name", ["card with one axis", "processor", "plain"])
def test_the_first_few_of_long_rows_are_found_part_by_part(monkeypatch, name, size):
    monkeypatch.setattr(sorting, "_CHUNK", 100)
    x = RNG.integers(0, 9, (3, size)).astype(np.int32)
    with open_paper(name) as runtime, use(runtime):
        values, places = zyx.topk(zyx.Tensor(x), 3, largest=False)
        wanted = np.argsort(x, 1, kind="stable")[:, :3]
        assert np.array_equal(places.numpy(), wanted)
        assert np.array_equal(values.numpy(), np.take_along_axis(x, wanted, 1))


@pytest.mark.parametrize("dtype", ["int64", "float32", "bool"])
@pytest.mark.parametrize("size", [100, 128, 257])
def test_rows_longer_than_a_chunk_are_sorted_in_chunks(monkeypatch, dtype, size):
    monkeypatch.setattr(sorting, "_CHUNK", 30)
    with open_paper(paper_info("processors", units=9, max_params=8)) as runtime, use(runtime):
        check(RNG.integers(0, 50, (2, size)).astype(dtype), 1)


class Picky(PaperDevice):
    """A device whose compiler takes no kernel with one of these beginnings."""

    refused: tuple[str, ...] = ()

    def compile(self, kernel):
        if kernel.name.startswith(self.refused):
            raise UnsupportedError(f"no {kernel.name}")
        return super().compile(kernel)


@pytest.mark.parametrize("size", [9, 100])
@pytest.mark.parametrize("refused", [("sort_tiles", "sort_network"), ("sort", "count_digits")])
def test_what_a_compiler_refuses_is_sorted_otherwise(monkeypatch, refused, size):
    monkeypatch.setattr(paper, "PaperDevice", Picky)
    monkeypatch.setattr(Picky, "refused", refused)
    with open_paper("card") as runtime, use(runtime):
        check(RNG.integers(0, 50, (2, size)).astype("int32"), 1)


def prepared(shape, axis, count=None):
    graph = Graph()
    leaf = graph.leaf(shape, zyx.uint32, "paper:0")
    node = graph.sort(leaf, axis, 32, shape[axis] if count is None else count)
    outputs = prepare(Graph(), topological([node]), [node], H200)
    kernels = [found for found in topological(outputs) if isinstance(found, n.Custom) and not found.output]
    assert outputs[0].shape == node.shape
    return [found.kernel.kernel for found in kernels]


def test_a_gpu_sorts_a_million_in_few_launches_that_fill_it():
    kernels = prepared((1_705_637,), 0)
    assert len(kernels) == 10
    assert len(set(kernels)) == 2, "one kernel merges runs of all lengths"
    for kernel in kernels:
        groups, threads = kernel.grid
        assert groups[0] > 2 * 132
        assert threads[0] >= 256


def test_more_groups_than_the_device_has_are_folded():
    with open_paper("card with few groups") as runtime, use(runtime):
        check(RNG.standard_normal((9000, 3)), 1)
        check(RNG.standard_normal((1200, 70)).astype("float32"), 1)


def test_rows_that_fit_local_memory_take_one_launch():
    (kernel,) = prepared((3443, 285), 1)
    assert kernel.grid == ((1722,), (128,))
    (kernel,) = prepared((47, 160448), 0, 4)
    assert kernel.grid == ((160448 // 16,), (128,))
    (kernel,) = prepared((5, 536219), 0)
    assert kernel.grid[1] == (128,)


def test_the_first_few_of_a_gpu_s_rows_take_few_launches():
    assert len(prepared((8, 50257), 1, 40)) == 2
