"""Means of gradients, and a network that several processes train as one does."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
from reporting import Log, report

import zyx
import zyx.distributed as dist
from zyx import nn, optim

STEPS, BATCH = 50, 64


def test_means_come_in_the_structure_of_the_gradients(group):
    mean = (group.size + 1) / 2
    one = zyx.ones((2, 3)) * (group.rank + 1)
    grads = {
        "w": [one, one.astype(zyx.float16)],
        "none": None,
        "b": (one[0], zyx.Tensor(float(group.rank + 1)), one[:0]),
    }
    with Log(group) as calls:
        found = dist.average_gradients(grads)
    assert calls == ["all_reduce mean of float32 [10]", "all_reduce mean of float16 [2, 3]"]
    assert found["none"] is None
    assert type(found["b"]) is tuple
    assert [(part.shape, part.dtype) for part in zyx.tree.leaves(found)] == [
        (part.shape, part.dtype) for part in zyx.tree.leaves(grads)
    ]
    assert all((part.numpy() == mean).all() for part in zyx.tree.leaves(found))


def test_buckets_are_no_larger_than_is_said(group):
    grads = [zyx.ones(count) * group.rank for count in (3, 2, 5, 1, 1, 1)]
    with Log(group) as calls:
        found = dist.average_gradients(grads, bucket_bytes=16)
    assert calls == [f"all_reduce mean of float32 [{count}]" for count in (3, 2, 5, 3)]
    assert [part.tolist() for part in found] == [[(group.size - 1) / 2] * count for count in (3, 2, 5, 1, 1, 1)]


def test_hundreds_of_parameters_take_one_message(group):
    grads = [zyx.ones(7) * group.rank for _ in range(300)]
    with Log(group) as calls:
        assert sum(part.sum().item() for part in dist.average_gradients(grads)) == 300 * 7 * (group.size - 1) / 2
    assert calls == ["all_reduce mean of float32 [2100]"]


def digits():
    """Return pixels from 0 to 1, float32 ``(1797, 64)``, and labels; from the file that scikit-learn brings along.

    To import scikit-learn takes as long as everything here.
    """
    (folder,) = importlib.util.find_spec("sklearn").submodule_search_locations
    rows = np.loadtxt(Path(folder, "datasets", "data", "digits.csv.gz"), delimiter=",", dtype=np.float32)
    return rows[:, :-1] / 16, rows[:, -1].astype(np.int64)


def trained(average, part, rows):
    """Return the losses of a network that is trained on some rows of each batch, and its weights."""
    zyx.manual_seed(3)
    model = nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 10))
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    pixels, labels = digits()

    @zyx.jit
    def step(x, y):
        with zyx.Tape() as tape:
            loss = zyx.cross_entropy(model(x), y)
        optimizer.step(average(tape.gradient(loss, model.parameters())))
        return part(loss)

    losses = []
    for number in range(STEPS):
        batch = np.arange(number * BATCH, (number + 1) * BATCH)[rows] % len(pixels)
        losses.append(step(zyx.Tensor(pixels[batch]), zyx.Tensor(labels[batch])).item())
    return np.array(losses), [weight.numpy() for weight in model.parameters()]


def test_losses_are_those_of_one_process(group):
    if group.rank == 0:
        alone, _ = trained(lambda grads: grads, lambda loss: loss, slice(None))
    else:
        alone = np.empty(STEPS)
    alone = dist.broadcast(zyx.Tensor(alone)).numpy()
    mine = slice(group.rank, None, group.size)
    losses, weights = trained(dist.average_gradients, lambda loss: dist.all_reduce(loss, "mean"), mine)
    assert alone[-1] < alone[0] / 4
    worst = np.abs(losses - alone).max()
    Path(sys.argv[1], "worst.txt").write_text(f"losses {alone[0]:.3f} to {alone[-1]:.3f}, at most {worst:.1e} apart")
    assert worst < 1e-5
    for weight in weights:
        copies = dist.all_gather(zyx.Tensor(weight[None])).numpy()
        assert (copies == copies[:1]).all()


if __name__ == "__main__":
    report([thing for name, thing in list(globals().items()) if name.startswith("test_")])
