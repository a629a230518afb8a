"""In which order operations happen, how often, and what happens if processes do not agree."""

import contextlib
import os
import threading
import time

import numpy as np
from reporting import Log, refused, report

import zyx
import zyx.distributed as dist
from zyx.errors import CollectiveError, GradientError, InvalidArgumentError, ShapeError, TraceError


def test_equal_operations_are_not_merged(group):
    x = zyx.ones(3)
    with Log(group) as calls:
        first, second = dist.all_reduce(x), dist.all_reduce(x)
        assert first.tolist() == second.tolist() == [group.size] * 3
    assert calls == ["all_reduce sum of float32 [3]"] * 2


def test_what_nobody_reads_is_done(group):
    with Log(group) as calls:
        dist.all_reduce(zyx.ones(3))
        dist.broadcast(zyx.ones(2))
    assert calls == ["all_reduce sum of float32 [3]", "broadcast from 0 of float32 [2]"]


def test_who_reads_or_when_makes_no_difference(group):
    parts = [dist.all_reduce(zyx.Tensor([float(number)])) for number in range(4)]
    if group.rank == 0:
        assert [part.item() for part in reversed(parts)] == [group.size * number for number in (3, 2, 1, 0)]
    assert dist.all_reduce(zyx.ones(1)).item() == group.size


def test_a_value_is_not_exchanged_again_for_what_is_made_of_it(group):
    with Log(group) as calls:
        y = dist.all_reduce(zyx.ones(3))
        z = y * 2 + 1
        assert z.tolist() == (z - 0).tolist() == [2 * group.size + 1] * 3
        assert y.tolist() == [group.size] * 3
    assert len(calls) == 1


def test_traced_functions_do_the_same_at_each_call(group):
    @zyx.jit
    def step(x):
        dist.all_reduce(x, "max")  # nobody reads it
        late = dist.all_reduce(x * 2)
        dist.barrier()
        dist.all_reduce(x, "max")
        gathered = dist.all_gather(x.sum().reshape(1))
        return gathered, late

    wanted = [
        "all_reduce max of float32 [2]", "all_reduce sum of float32 [2]", "barrier", "all_reduce max of float32 [2]",
        "all_gather along 0 of float32 [1]",
    ]  # fmt: skip
    for number in range(4):
        with Log(group) as calls:
            gathered, late = step(zyx.Tensor([1.0, number]) + group.rank)
            if group.rank:
                assert gathered.tolist() == [1.0 + number + 2 * rank for rank in range(group.size)]
            assert late.tolist() == [sum(2 * (start + rank) for rank in range(group.size)) for start in (1.0, number)]
        assert calls == wanted
    assert len(step.traces) == 1
    assert dist.all_reduce(zyx.ones(1)).item() == group.size  # after a trace as before


def test_traced_functions_exchange_messages(group):
    @zyx.jit
    def step(x):
        if group.rank % 2:
            got = dist.recv(x, source=group.rank - 1)
            dist.send(got * 2, group.rank - 1)
            return got
        dist.send(x, group.rank + 1)
        return dist.recv(x, source=group.rank + 1)

    for number in range(3):
        x = zyx.Tensor([number, group.rank - group.rank % 2])
        assert step(x).tolist() == [part * (1 if group.rank % 2 else 2) for part in x.tolist()]


def test_traced_functions_take_lengths_that_vary(group):
    @zyx.jit
    def double(x):
        return dist.all_reduce(x * 2) + 1

    for length in (3, 4, 5, 6, 7, 8):
        assert double(zyx.ones(length)).tolist() == [2 * group.size + 1] * length


def test_gradients_are_those_of_the_sum_of_all(group):
    rank, size = group.rank, group.size
    weights = np.arange(4 * size, dtype=np.float32).reshape(2 * size, 2)
    slopes = [weights + 100 * other for other in range(size)]  # of what each process computes of its result
    x = zyx.Tensor(weights * 0.5)

    def slope(function, shape, x=x):
        with zyx.Tape() as tape:
            result = function(x)
            assert result.shape == shape
            mine = np.resize(slopes[rank], shape)
            loss = (result * zyx.Tensor(mine)).sum()
        return tape.gradient(loss, x).numpy()

    total = sum(slopes)
    whole = weights.shape
    np.testing.assert_allclose(slope(dist.all_reduce, whole), total)
    np.testing.assert_allclose(slope(lambda x: dist.all_reduce(x, "mean"), whole), total / size, 1e-6)
    gathered = sum(np.resize(each, (2 * size * size, 2)) for each in slopes)
    np.testing.assert_allclose(slope(dist.all_gather, gathered.shape), np.split(gathered, size)[rank])
    parts = np.concatenate([np.resize(each, (2, 2)) for each in slopes])
    np.testing.assert_allclose(slope(dist.reduce_scatter, (2, 2)), parts)
    np.testing.assert_allclose(slope(lambda x: dist.reduce_scatter(x, 0, "mean"), (2, 2)), parts / size)
    at_root = total if rank == 1 else np.zeros_like(total)
    np.testing.assert_allclose(slope(lambda x: dist.broadcast(x, 1), whole), at_root)
    back = np.concatenate([np.split(each, size)[rank] for each in slopes])
    np.testing.assert_allclose(slope(dist.all_to_all, whole), back)
    refused(GradientError, lambda: slope(lambda x: dist.all_reduce(x, "max"), whole), "all_reduce has no gradient")


def test_gradients_of_complex_numbers_and_of_gradients(group):
    z = zyx.Tensor(np.array([1 + 2j, 3 - 1j], np.complex64)) * (group.rank + 1)
    found = zyx.grad(lambda z: (dist.all_reduce(z).real ** 2).sum())(z)
    total = sum(rank + 1 for rank in range(group.size))
    np.testing.assert_allclose(found.numpy(), 2 * group.size * total * np.array([1, 3]), 1e-6)

    def slope(x):
        return zyx.grad(lambda x: (dist.all_reduce(x) ** 3).sum())(x).sum()

    x = zyx.ones(2) * (group.rank + 1)
    # The first is size * 3 t^2 at each, with t the sum of all; so the second is the sum over all of size * 6 t.
    np.testing.assert_allclose(zyx.grad(slope)(x).numpy(), [group.size * group.size * 6 * total] * 2, 1e-6)


def test_backward_leaves_gradients_and_does_each_once(group):
    w = zyx.ones(3, requires_grad=True)
    with Log(group) as calls:
        (dist.all_reduce(w * (group.rank + 1)) ** 2).sum().backward()
        total = sum(rank + 1 for rank in range(group.size))
        assert w.grad.tolist() == [2 * total * group.size * (group.rank + 1)] * 3
        assert w.grad.tolist() == [2 * total * group.size * (group.rank + 1)] * 3
    assert calls == ["all_reduce sum of float32 [3]"] * 2


def test_gradients_inside_of_traced_functions(group):
    @zyx.jit
    def step(x):
        return zyx.grad(lambda x: (dist.all_reduce(x) ** 2).sum())(x)

    for number in range(3):
        with Log(group) as calls:
            found = step(zyx.ones(2) * number)
        assert calls == ["all_reduce sum of float32 [2]"] * 2
        assert found.tolist() == [2 * group.size * group.size * number] * 2


def test_tapes_around_traced_functions_pass_gradients(group):
    double = zyx.jit(lambda x: dist.all_reduce(x) * 2)
    x = zyx.Tensor([1.0, 1.0])
    with zyx.Tape() as tape:
        loss = double(x).sum()
    assert tape.gradient(loss, x).tolist() == [2 * group.size] * 2


def test_checkpointed_parts_end_before_operations(group):
    x = zyx.Tensor([1.0, 1.0])
    refused(TraceError, lambda: zyx.checkpoint(dist.all_reduce, x), "all_reduce", "zyx.checkpoint", "out of order")

    def parts(x):
        y = dist.all_reduce(zyx.checkpoint(lambda x: x * 3, x))
        return zyx.checkpoint(lambda y: y**2, y).sum()

    assert zyx.grad(parts)(x).tolist() == [2 * 9 * group.size * group.size] * 2


def test_transformations_that_call_once_for_many_are_refused(group):
    x = zyx.ones((3, 2))
    refused(TraceError, lambda: zyx.vmap(dist.all_reduce)(x).numpy(), "all_reduce", "vmap")
    assert dist.all_reduce(x).sum().item() == 6 * group.size


def test_processes_that_do_not_agree_are_told(group):
    def differ():
        return dist.all_reduce(zyx.ones(3)) if group.rank == 0 else dist.all_gather(zyx.ones(4))

    words = "rank 0 calls all_reduce sum of float32 [3]", "rank 1 calls all_gather along 0 of float32 [4]", "same order"
    refused(CollectiveError, differ, *words)
    refused(CollectiveError, lambda: dist.all_reduce(zyx.ones(3 + group.rank)), "float32 [3]", "float32 [4]")
    dtypes = zyx.float32, zyx.float16, zyx.int32, zyx.int8
    refused(CollectiveError, lambda: dist.broadcast(zyx.ones(2, dtype=dtypes[group.rank])), "float16 [2]")
    roots = [rank % 2 for rank in range(group.size)]
    refused(CollectiveError, lambda: dist.broadcast(zyx.ones(2), roots[group.rank]), "from 0", "from 1")
    traced = zyx.jit(lambda x: dist.all_reduce(x) if group.rank else dist.all_reduce(x, "max"))
    refused(CollectiveError, lambda: traced(zyx.ones(2)).numpy(), "all_reduce max of float32 [2]")
    assert dist.all_reduce(zyx.ones(1)).item() == group.size  # all know, so that they can go on


def test_messages_of_other_sizes_are_told(group):
    if group.rank == 0:
        with contextlib.suppress(CollectiveError):  # from device to device it is told to both
            dist.send(zyx.ones(3), 1)
    elif group.rank == 1:
        refused(CollectiveError, lambda: dist.recv((4,), source=0), "16 bytes are expected", "12 came")


def test_wrong_arguments_are_refused_before_anybody_waits(group):
    size = group.size
    refused(InvalidArgumentError, lambda: dist.all_reduce(zyx.ones(2), "average"), "'mean'")
    refused(InvalidArgumentError, lambda: dist.broadcast(zyx.ones(2), size), f"0 to {size - 1}")
    refused(InvalidArgumentError, lambda: dist.send(zyx.ones(2), group.rank), "rank of this process")
    refused(ShapeError, lambda: dist.reduce_scatter(zyx.ones(size + 1)), f"pad it to {2 * size}")
    refused(ShapeError, lambda: dist.all_to_all(zyx.ones(size + 1)), f"pad it to {2 * size}")


def test_other_threads_run_while_one_waits(group):
    ticks = []
    stop = threading.Event()

    def count():
        while not stop.wait(0.01):
            ticks.append(1)

    thread = threading.Thread(target=count)
    thread.start()
    if group.rank == 0:
        time.sleep(0.4)
    before, processor = len(ticks), time.process_time()
    dist.barrier()
    spent, counted = time.process_time() - processor, len(ticks) - before
    stop.set()
    thread.join()
    if group.rank:
        assert counted >= 10
        assert spent < 0.3


def test_other_threads_compute_while_one_waits(group):
    ends, stop = [], threading.Event()

    def compute():
        while not stop.is_set():
            assert (zyx.ones(3) * 2).tolist() == [2.0] * 3
            ends.append(time.monotonic())

    thread = threading.Thread(target=compute)
    thread.start()
    if group.rank == 0:
        time.sleep(0.5)
    began = time.monotonic()
    dist.barrier()
    over = time.monotonic()
    stop.set()
    thread.join()
    if group.rank and over - began > 0.3:
        assert len([end for end in ends if began < end < over]) >= 3


def test_children_of_a_fork_are_not_in_the_group(group):
    child = os.fork()
    if child == 0:
        try:
            refused(CollectiveError, dist.barrier, "a fork")
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    assert dist.all_reduce(zyx.ones(1)).item() == group.size


def test_another_runtime_has_an_order_of_its_own(group):
    from zyx.runtime.runtime import Runtime, use

    with use(Runtime()):
        assert dist.all_reduce(zyx.ones(2)).tolist() == [group.size] * 2
    assert dist.all_reduce(zyx.ones(2)).tolist() == [group.size] * 2


def test_devices_may_be_closed_between(group):
    zyx.close()
    assert dist.all_reduce(zyx.ones(2)).tolist() == [group.size] * 2


if __name__ == "__main__":
    report([thing for name, thing in list(globals().items()) if name.startswith("test_")])
