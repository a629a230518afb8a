"""Samplers: which samples a pass has, in which order, and that each pass has another one."""

import numpy as np
import pytest

import zyx
from zyx.data import DataLoader, RandomSampler, SequentialSampler, SubsetRandomSampler, TensorDataset
from zyx.data import WeightedRandomSampler as Weighted
from zyx.errors import ArgumentError, ShapeError

pytestmark = pytest.mark.usefixtures("interpreter")


def test_a_loader_follows_a_sampler():
    data = TensorDataset(zyx.arange(6) * 10)
    loader = DataLoader(data, 2, sampler=SubsetRandomSampler([1, 3, 5], zyx.Generator(0)))
    assert len(loader) == 2
    first, second = (np.concatenate([x.numpy() for (x,) in loader]).tolist() for _ in range(2))
    assert sorted(first) == sorted(second) == [10, 30, 50]
    assert [x.tolist() for (x,) in DataLoader(data, 3, sampler=SequentialSampler(data))] == [[0, 10, 20], [30, 40, 50]]


def test_a_loader_takes_what_pytorch_says_of_memory_and_processes():
    data = TensorDataset(zyx.arange(6))
    loader = DataLoader(data, batch_size=3, shuffle=False, pin_memory=True, persistent_workers=False)
    assert [x.tolist() for (x,) in loader] == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(ArgumentError, match="DataLoader: no argument is called batchsize; did you mean batch_size"):
        DataLoader(data, batchsize=3)


def test_each_pass_has_an_order_of_its_own_and_a_seed_repeats_them():
    one, other = (RandomSampler(range(20), generator=zyx.Generator(3)) for _ in range(2))
    passes = [list(one), list(one)]
    assert passes == [list(other), list(other)]
    assert passes[0] != passes[1]
    assert sorted(passes[0]) == list(range(20))


def test_numbers_of_samples_are_those_asked_for():
    assert sorted(RandomSampler(range(3), num_samples=6)) == [0, 0, 1, 1, 2, 2]
    drawn = RandomSampler(range(3), replacement=True, num_samples=50)
    assert len(drawn) == len(list(drawn)) == 50
    assert set(drawn) == {0, 1, 2}
    assert list(RandomSampler([])) == list(RandomSampler([], replacement=True)) == []


def test_weights_say_how_often():
    weights = np.array([0.0, 1.0, 3.0])
    counts = np.bincount(list(Weighted(weights, 4000, generator=zyx.Generator(1))), minlength=3)
    assert counts[0] == 0
    assert counts[2] / 4000 == pytest.approx(0.75, abs=4 * 0.43 / 4000**0.5)
    assert sorted(Weighted([0.1, 0.2, 0.3], 3, replacement=False)) == [0, 1, 2]


@pytest.mark.parametrize(
    "make",
    [
        lambda: RandomSampler([], num_samples=2), lambda: RandomSampler(range(3), num_samples=-1), lambda:
        Weighted([1.0], 2, replacement=False), lambda: Weighted([[1.0]], 1), lambda: Weighted([1.0], -1),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused(make):
    with pytest.raises(ShapeError, match="Sampler: "):
        make()


def test_a_batch_of_tensors_is_computed_unless_gradients_are_to_pass():
    rows = zyx.arange(6.0).reshape(3, 2)
    batch = zyx.data.collate([rows[0] * 2, rows[2] * 2, rows[0] * 2])
    assert batch.is_realized
    assert batch.tolist() == [[0, 2], [8, 10], [0, 2]]
    w = zyx.ones(2, requires_grad=True)
    zyx.data.collate([w * 3, w]).sum().backward()
    assert w.grad.tolist() == [4, 4]
    assert zyx.data.collate([zyx.ones(2, dtype="bfloat16")]).dtype == zyx.bfloat16
