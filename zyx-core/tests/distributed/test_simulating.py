"""A step of one process of many, of which the others are not there."""

import math

import numpy as np
import pytest

import zyx
import zyx.distributed as dist
from zyx import nn, optim
from zyx.errors import InvalidArgumentError, TraceError

INSIDE, BETWEEN = dist.Link(1e-6, 1e9, 1e-7), dist.Link(1e-5, 1e8, 1e-6)
NETWORK = dist.Network(INSIDE, BETWEEN, per_host=8)

pytestmark = pytest.mark.usefixtures("interpreter")


def train(way):
    def make():
        mesh = dist.Mesh({"data": -1, "model": 2 if "t" in way else 1})
        net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
        if "t" in way:
            dist.parallelize(net, mesh, {"*0": "columns", "*2": "rows"})
        if "f" in way:
            dist.fully_shard(net, mesh)
        optimizer = optim.SGD(net.parameters(), lr=0.1)
        data = mesh.group("data")

        @zyx.jit
        def step(x):
            with zyx.Tape() as tape:
                loss = net(x).square().mean()
            grads = tape.gradient(loss, net.parameters())
            optimizer.step(grads if "f" in way else dist.average_gradients(grads, group=data))
            return loss

        x = zyx.rand(3, 6)
        return lambda: step(x).item(), {"parameters": net, "samples": [x]}

    return make


def told(found):
    return [(each.kind, each.bytes, len(each.ranks), each.ranks[1] - each.ranks[0]) for each in found.exchanges]


@pytest.mark.parametrize("how", ["device", "record"])
def test_what_is_exchanged_is_noted_with_who_takes_part(how):
    given = {how: "interpreter" if how == "device" else zyx.device_info("interpreter")}
    found = dist.simulate(train(""), 64, NETWORK, **given)
    assert told(found) == [("all_reduce", 4 * (6 * 16 + 16 + 16 * 4 + 4), 64, 1)]
    assert found.is_measured == (how == "device") and found.launches > 0 and found.compute_s > 0
    assert found.parts == {"parameters": 720, "samples": 72}
    sharded = dist.simulate(train("f"), 4, NETWORK, **given)
    # Of 16 rows of weights each of 4 has 4, of 4 rows 1, and of the biases as many.
    assert told(sharded) == [("all_gather", 720, 4, 1), ("reduce_scatter", 720, 4, 1)]
    assert sharded.parts["parameters"] == 180 and sharded.held_bytes < found.held_bytes
    both = dist.simulate(train("ft"), 8, NETWORK, rank=5, **given)
    assert [each.ranks for each in both.exchanges if each.kind == "all_gather"] == [(1, 3, 5, 7)]
    assert [each.ranks for each in both.exchanges if each.kind == "all_reduce"] == [(4, 5)]
    assert dist.init().size == 1  # and here nothing has changed


def test_times_are_those_of_the_formulas():
    size, halves = 4 << 20, 2 * 7 / 8 * (4 << 20) / 1e9
    ranks = range(8)
    assert NETWORK.seconds("all_reduce", size, ranks) == pytest.approx(6e-6 + halves)
    assert NETWORK.seconds("all_reduce", 4, ranks) == pytest.approx(3 * (1e-6 + 4e-9))
    assert NETWORK.seconds("all_gather", size, ranks) == pytest.approx(3e-6 + halves / 2)
    assert NETWORK.seconds("all_to_all", size, ranks) == pytest.approx(7e-6 + halves / 2)
    assert NETWORK.seconds("send", size, (0, 1)) == pytest.approx(1e-6 + size / 1e9)
    assert NETWORK.seconds("agree", 0, ranks) == pytest.approx(7e-7)
    ring = dist.Network(INSIDE, BETWEEN, 8, is_ring=True)
    assert ring.seconds("all_reduce", size, ranks) == pytest.approx(14e-6 + halves)
    apart = NETWORK.seconds("all_reduce", size, range(0, 16, 8))  # of two hosts
    assert apart == pytest.approx(1e-5 + size / 1e8)
    assert NETWORK.seconds("reduce_scatter", size, (3,)) == 0
    with pytest.raises(InvalidArgumentError, match="no time of 'gossip'"):
        NETWORK.seconds("gossip", 4, ranks)


def test_a_step_is_computing_and_exchanging_one_after_the_other():
    found = dist.simulate(train(""), 1024, NETWORK)
    meeting_s, rounds = 1023 * BETWEEN.meeting_s, 10
    assert found.exchange_s == pytest.approx(meeting_s + NETWORK.seconds("all_reduce", 720, range(1024)))
    assert found.exchange_s == pytest.approx(meeting_s + rounds * (1e-5 + 720 / 1e8), rel=0.5)
    assert found.step_s == found.compute_s + found.exchange_s
    assert found.overlapped_s == max(found.compute_s, found.exchange_s)
    text = str(found)
    assert "a step in each of 1024" in text and "measured" in text and "720 B parameters" in text
    assert [line.split()[:4] for line in text.splitlines() if line.startswith("all_reduce")] == [
        ["all_reduce", "1024", "1", "1"]
    ]


def test_operations_give_what_they_would_if_all_had_these_values():
    def make():
        x = zyx.Tensor([[1.0, 2.0], [3.0, 4.0]])
        seen.append([dist.all_reduce(x).tolist(), dist.all_reduce(x, "max").tolist(), dist.all_gather(x).shape])
        seen[-1] += [dist.reduce_scatter(x).tolist(), dist.broadcast(x).tolist(), dist.all_to_all(x).tolist()]
        return lambda: dist.all_reduce(x, "mean").numpy()

    seen = []
    dist.simulate(make, 2, NETWORK, rank=1)
    x = [[1.0, 2.0], [3.0, 4.0]]
    assert seen == [[[[2.0, 4.0], [6.0, 8.0]], x, (4, 2), [[6.0, 8.0]], x, [[3.0, 4.0]] * 2]]


def test_links_are_measured_between_ranks():
    links = dist.run(dist.measure_links, ["interpreter"] * 2)
    assert links[0] == links[1]
    assert links[0].latency_s > 0 and links[0].meeting_s > 0 and math.isfinite(links[0].bytes_per_s)
    with pytest.raises(InvalidArgumentError, match="one process"):
        dist.measure_links()


def test_what_cannot_be_simulated_is_refused():
    with pytest.raises(InvalidArgumentError, match="no rank 3 of 2"):
        dist.simulate(train(""), 2, NETWORK, rank=3)
    with pytest.raises(InvalidArgumentError, match="not both"):
        dist.simulate(train(""), 2, NETWORK, device="interpreter", record=zyx.device_info())
    with pytest.raises(InvalidArgumentError, match="rate is above 0"):
        dist.Link(1e-6, 0)
    with pytest.raises(InvalidArgumentError, match="at least one process"):
        dist.Network(INSIDE, INSIDE, 0)
    with pytest.raises(TraceError, match="cannot be part of a traced"):
        zyx.jit(lambda x: dist.simulate(train(""), 2, NETWORK) and x)(zyx.Tensor(np.ones(2)))
