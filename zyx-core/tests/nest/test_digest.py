"""Digests: the same for what is made in the same way, another one after every change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zyx import dtype as dtypes
from zyx.kernel.data import Kernel
from zyx.kernel.digest import digest_of_kernel
from zyx.lowering.lower import lower_together
from zyx.nest.data import Kind, Nest, Store
from zyx.nest.digest import digest_of_nests
from zyx.nest.expr import Param
from zyx.nest.pool import Pool
from zyx.schedule.moves import Mark, Peel, Split
from zyx.testing.choices import Seeded
from zyx.testing.graphs import GraphOptions, random_case
from zyx.testing.nests import MACHINES, kernels_of

OPTIONS = GraphOptions(most_nodes=6, most_elements=200)


def kernels(seed):
    choices = Seeded(seed)
    case = random_case(choices, OPTIONS)
    return kernels_of(case, choices.pick(MACHINES), together=choices.chance(30))[0]


@pytest.mark.parametrize("seed", range(40))
def test_what_is_made_again_has_the_digest_it_had(seed):
    digests = [[digest_of_nests(kernel.nests) for kernel in kernels(seed)] for _ in range(2)]
    assert digests[0] == digests[1]
    lowered = [[lower_together(kernel.nests, name) for kernel in kernels(seed)] for name in ("one", "other")]
    assert [digest_of_kernel(kernel) for kernel in lowered[0]] == [digest_of_kernel(kernel) for kernel in lowered[1]]


@pytest.mark.parametrize("seed", range(40))
def test_moves_change_the_digest(seed):
    for kernel in kernels(seed):
        for nest in kernel.nests:
            changed = [move.apply(nest) for range_ in nest.ranges for move in moves_of(range_.label)]
            assert len({digest_of_nests([other]) for other in [nest, *changed]}) == 1 + len(changed)


def moves_of(label):
    return Split(label, 3), Mark(label, Kind.UNROLL), Mark(label, Kind.REPEAT), Peel(label)


def test_kernels_of_other_operations_have_other_digests():
    found = {}
    for seed in range(40):
        for kernel in kernels(seed):
            lowered = lower_together(kernel.nests, "test")
            digest = digest_of_kernel(lowered)
            assert found.setdefault(digest, lowered) == lowered
    assert len(found) > 40
    assert len(set(map(digest_of_kernel, (Kernel("a", k.ops[:-1]) for k in found.values())))) > 40


def store(value=1.0, *, size=8, step=1, **fields):
    pool = Pool()
    range_ = pool.range(size)
    param = Param(0, dtypes.float32, 100, True)
    statement = Store(param, pool.scale(pool.ref(range_), step), pool.literal(value, dtypes.float32), None, (range_,))
    return Nest((param,), (replace(statement, **fields),), pool)


def test_what_looks_alike_is_told_apart():
    nests = [store(), store(0.0), store(-0.0), store(float("nan")), store(size=7), store(step=2), store(streaming=True)]
    assert len({digest_of_nests([nest]) for nest in nests}) == len(nests)
    assert digest_of_nests([store(), store()]) != digest_of_nests([store()])
    assert digest_of_nests([store(float("nan"))]) == digest_of_nests([store(float("nan"))])
