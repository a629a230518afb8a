"""Nests that differ only in where they read, as one over a number."""

import pytest

from zyx.fusion.arrange import arrange
from zyx.fusion.build import build_nest
from zyx.fusion.offset_specialisation import share_kernels
from zyx.fusion.partition import partition
from zyx.graph.walk import topological
from zyx.nest.digest import digest_of_nests


def nests_of(bench, *nodes):
    """Return the nests of nodes, one by one, each of a launch of its own."""
    found = []
    for node in nodes:
        (launch,) = arrange(partition(topological([node]), [node], bench.info), bench.info)
        params = {}
        found.append([build_nest(part, params) for part in launch])
    return found


def shared(bench, *nodes):
    """Return of each launch which kernel it has, and the values of its numbers."""
    launches = share_kernels(nests_of(bench, *nodes))
    digests = [digest_of_nests(launch.nests) for launch in launches]
    return [digests.index(digest) for digest in digests], [tuple(launch.starts.values()) for launch in launches]


def rows(bench, x, *starts, count=16):
    return [bench.exp(bench.graph.shrink(x, [(start, start + count)])) for start in starts]


def test_slices_of_a_buffer_share_a_kernel_over_multiples_of_what_divides_their_starts(cpu):
    x = cpu.normal(640)
    assert shared(cpu, *rows(cpu, x, 32, 96, 160)) == ([0, 0, 0], [(1,), (3,), (5,)])


def test_a_single_kernel_keeps_its_start(cpu):
    x = cpu.normal(640)
    kernels, starts = shared(cpu, *rows(cpu, x, 32), cpu.sum(cpu.normal(5, 7), 1))
    assert (kernels, starts) == ([0, 1], [(), ()])


def test_equal_starts_stay_constants(cpu):
    assert shared(cpu, *rows(cpu, cpu.normal(640), 32), *rows(cpu, cpu.normal(640), 32)) == ([0, 0], [(), ()])


def test_what_is_known_of_the_place_of_vectors_stays_known(cpu):
    """Four floats are the longest vector: where others begin at its multiples, one that does not is another's."""
    kernels, starts = shared(cpu, *rows(cpu, cpu.normal(640), 16, 17, 48, 19, 22, 26))
    assert kernels == [0, 1, 0, 1, 4, 4]
    assert starts == [(1,), (17,), (3,), (19,), (11,), (13,)]


@pytest.mark.parametrize(("width", "kernels"), [(21, [0, 0, 0]), (22, [0, 1, 0]), (24, [0, 1, 2])])
def test_no_more_than_matters_is_kept_apart(cpu, width, kernels):
    """Where rows do not begin at multiples of vectors, nothing is known of columns that do."""
    x = cpu.normal(5, width)
    columns = [cpu.exp(cpu.graph.shrink(x, [(0, 5), (start, start + 12)])) for start in (4, 5, 6)]
    assert shared(cpu, *columns)[0] == kernels


def test_rows_that_vectors_do_not_divide_are_all_alike(cpu):
    assert shared(cpu, *rows(cpu, cpu.normal(640), 16, 17, 18, count=15))[0] == [0, 0, 0]


def test_the_number_goes_as_far_as_the_buffer(cpu):
    (first, _) = share_kernels(nests_of(cpu, *rows(cpu, cpu.normal(100), 16, 80)))
    assert "min(max(p2, 0i32), 5i32)" in str(first.nests[0])


@pytest.mark.parametrize("padding", [(1, 0), (0, 1)])
def test_what_is_read_beyond_the_ends_stays_where_it_is(cpu, padding):
    x = cpu.normal(640)
    padded = [cpu.graph.pad(cpu.graph.shrink(x, [(start, start + 16)]), [padding], 0.0) for start in (0, 624)]
    assert shared(cpu, *map(cpu.exp, padded))[1] == [(), ()]


def test_each_buffer_has_a_number_of_its_own(cpu):
    x, y = cpu.normal(640), cpu.normal(320)
    pairs = [
        cpu.add(cpu.graph.shrink(x, [(a, a + 16)]), cpu.graph.shrink(y, [(b, b + 16)]))
        for a, b in ((0, 64), (32, 16), (96, 80))
    ]
    kernels, starts = shared(cpu, *pairs)
    assert kernels == [0, 0, 0]
    assert sorted(map(sorted, zip(*starts, strict=True))) == sorted([[0, 1, 3], [1, 4, 5]])


def test_what_differs_in_more_than_where_it_reads_is_not_shared(cpu):
    x = cpu.normal(640)
    kernels, starts = shared(
        cpu, *rows(cpu, x, 32), *rows(cpu, x, 64, count=32), cpu.sum(cpu.graph.shrink(x, [(96, 112)]), 0)
    )
    assert (kernels, starts) == ([0, 1, 2], [(), (), ()])
