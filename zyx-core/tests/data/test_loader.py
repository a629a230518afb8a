"""Loaders: batches, orders, workers, errors, progress."""

import collections
import threading
import time

import numpy as np
import pytest

import zyx
from zyx import data
from zyx.errors import ArgumentError, DataError, DTypeError, IndexRangeError, IntegerError, ShapeError


class Squares(data.Dataset):
    def __init__(self, count=10, delay=0.0):
        self.count, self.delay, self.asked = count, delay, []

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        self.asked.append(index)
        time.sleep(self.delay)
        return {"x": np.float32(index * index), "pair": (index, zyx.Tensor([float(index)])), "name": f"n{index}"}


def numbers(loader):
    return [batch["pair"][0].tolist() for batch in loader]


def test_batches_have_the_structure_of_samples():
    first, *_, last = data.DataLoader(Squares(), batch_size=4)
    assert first["x"].tolist() == [0, 1, 4, 9]
    assert first["x"].dtype == "float32"
    assert first["pair"][0].dtype == "int64"
    assert first["pair"][1].shape == (4, 1)
    assert first["name"] == ["n0", "n1", "n2", "n3"]
    assert isinstance(first["pair"], tuple)
    assert last["x"].tolist() == [64, 81]


@pytest.mark.parametrize(("drop_last", "count"), [(False, 3), (True, 2)])
def test_a_last_batch_of_fewer_samples_may_be_dropped(drop_last, count):
    loader = data.DataLoader(Squares(), 4, drop_last=drop_last)
    assert len(loader) == len(list(loader)) == count


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_the_same_seed_gives_the_same_orders_whatever_the_number_of_workers(workers):
    loader = data.DataLoader(Squares(), 3, shuffle=True, seed=5, num_workers=workers)
    first, second = numbers(loader), numbers(loader)
    assert first != second
    assert all(sorted(n for batch in each for n in batch) == list(range(10)) for each in (first, second))
    again = data.DataLoader(Squares(), 3, shuffle=True, seed=5)
    assert [numbers(again), numbers(again)] == [first, second]
    with_generator = data.DataLoader(Squares(), 3, shuffle=True, generator=zyx.Generator(5))
    assert numbers(with_generator) == first


def test_the_default_generator_gives_orders_without_a_seed():
    orders = []
    for _ in range(2):
        zyx.manual_seed(3)
        orders.append(numbers(data.DataLoader(Squares(), 10, shuffle=True)))
    assert orders[0] == orders[1]


def test_a_sampler_says_the_order_and_samples_may_come_alone():
    assert numbers(data.DataLoader(Squares(), 2, sampler=[7, 1, 7])) == [[7, 1], [7]]
    loader = data.DataLoader(Squares(), None, sampler=[3, 2])
    assert [sample["name"] for sample in loader] == ["n3", "n2"]
    assert len(loader) == 2


def test_workers_are_threads_that_are_ahead_by_a_bounded_number():
    dataset = Squares(100)
    loader = data.DataLoader(dataset, 1, num_workers=2, prefetch_factor=3)
    batches = iter(loader)
    for taken in range(1, 20):
        next(batches)
        time.sleep(0.002)
        assert len(dataset.asked) <= taken + 2 * 3
    batches.close()
    time.sleep(0.05)
    asked = len(dataset.asked)
    time.sleep(0.05)
    assert len(dataset.asked) == asked < 40


def test_workers_make_several_batches_at_a_time():
    names = set()

    class Watched(Squares):
        def __getitem__(self, index):
            names.add(threading.current_thread().name)
            return super().__getitem__(index)

    assert numbers(data.DataLoader(Watched(8, delay=0.02), 1, num_workers=4)) == [[i] for i in range(8)]
    assert len(names) > 1
    assert all(name.startswith("zyx-data") for name in names)


def test_workers_have_the_device_and_the_switches_of_the_pass():
    with zyx.device("interpreter"):
        batches = iter(data.DataLoader(Squares(), 5, num_workers=2))
        assert next(batches)["x"].device == "interpreter:0"


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_come_up_with_the_number_of_the_sample_where_its_batch_is_due(workers):
    class Broken(Squares):
        def __getitem__(self, index):
            if index == 5:
                raise KeyError("no such file")
            return super().__getitem__(index)

    batches = iter(data.DataLoader(Broken(), 2, num_workers=workers))
    assert next(batches)["pair"][0].tolist() == [0, 1]
    assert next(batches)["pair"][0].tolist() == [2, 3]
    with pytest.raises(DataError, match=r"sample 5: the data set failed: KeyError.*no such file") as caught:
        next(batches)
    assert caught.value.indices == (5,)
    assert isinstance(caught.value.__cause__, KeyError)


def test_samples_that_make_no_batch_are_named():
    class Ragged(Squares):
        def __getitem__(self, index):
            return {"x": np.ones(1 + index // 3)}

    with pytest.raises(DataError, match=r"samples 2, 3: .*sample\['x'\] has shape \(1,\) in one sample, and \(2,\)"):
        list(data.DataLoader(Ragged(), 2))


def test_rows_of_tensors_are_taken_all_at_once():
    x, y = zyx.arange(12).reshape(6, 2), np.arange(6.0)
    dataset = data.TensorDataset(x, y)
    assert [member.tolist() for member in dataset[-1]] == [[10, 11], 5.0]
    (first, labels), _ = data.DataLoader(dataset, 4, sampler=[5, 0, 0, 2, 1])
    assert first.tolist() == [[10, 11], [0, 1], [0, 1], [4, 5]]
    assert labels.dtype == "float64"
    with pytest.raises(IndexRangeError, match="6 samples"):
        dataset[6]
    with pytest.raises(ShapeError, match="first axes"):
        data.TensorDataset(x, y[:3])
    with pytest.raises(ArgumentError):
        data.TensorDataset()


def test_data_sets_are_cut_and_put_together():
    both = data.ConcatDataset([Squares(3), Squares(2)])
    assert [both[i]["name"] for i in (0, 3, -1)] == ["n0", "n0", "n1"]
    with pytest.raises(IndexRangeError):
        both[5]
    assert data.Subset(both, [4, 0])[0]["name"] == "n1"
    parts = data.random_split(Squares(10), [0.5, 0.25, 0.25], zyx.Generator(0))
    assert [len(part) for part in parts] == [6, 2, 2]
    assert sorted(place for part in parts for place in part.indices) == list(range(10))
    assert parts[0].indices != sorted(parts[0].indices)
    with pytest.raises(ShapeError, match="do not sum up"):
        data.random_split(Squares(10), [5, 4])


def test_a_function_of_ones_own_makes_batches():
    loader = data.DataLoader(data.TensorDataset(zyx.arange(4)), 2, collate_fn=len)
    assert list(loader) == [2, 2]


def test_collating_keeps_types_and_names_what_does_not_fit():
    Point = collections.namedtuple("Point", "x y")
    batch = data.collate([Point(1.5, True), Point(2.5, False)])
    assert isinstance(batch, Point)
    assert batch.x.dtype == "float32"
    assert batch.y.dtype == "bool"
    assert data.collate([[np.float64(1)], [np.float64(2)]])[0].dtype == "float64"
    for samples, error, text in [
        ([{"a": 1}, {"b": 1}], ShapeError, "keys"),
        ([(1,), (1, 2)], ShapeError, "members"),
        ([(1, zyx.ones(2)), (1, zyx.ones(3))], ShapeError, r"sample\[1\] has shape \(2,\)"),
        ([object()], DTypeError, "object"),
        ([1, "a"], DTypeError, "int and str"),
        ([], ShapeError, "at least one"),
    ]:
        with pytest.raises(error, match=text):
            data.collate(samples)


def test_bad_arguments_are_named():
    for call, error, text in [
        (lambda: data.DataLoader(iter([1])), ArgumentError, "__len__"),
        (lambda: data.DataLoader([1], shuffle=True, sampler=[0]), ArgumentError, "sampler"),
        (lambda: data.DataLoader([1], seed=1, generator=zyx.Generator(1)), ArgumentError, "seed or a generator"),
        (lambda: data.DataLoader([1], 0), ShapeError, "batch_size 0"),
        (lambda: data.DataLoader([1], 1.5), IntegerError, "batch_size"),
        (lambda: data.DataLoader([1], num_workers=-1), ShapeError, "num_workers -1"),
    ]:
        with pytest.raises(error, match=text):
            call()


def test_progress_is_shown_nowhere_but_on_terminals(capsys):
    assert [batch.tolist() for batch in data.DataLoader([1, 2, 3], 2, progress="train")] == [[1, 2], [3]]
    assert capsys.readouterr() == ("", "")
