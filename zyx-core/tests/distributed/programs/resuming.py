"""Train, save what each process has, and go on: ``resuming.py FOLDER begins|goes_on NAME DATA MODEL``.

Losses of the steps behind the checkpoint are written to NAME.json. Numbers for dropout are drawn for all samples, and
each process takes those of its own: so they do not depend on how many there are.
"""

import json
import sys
from pathlib import Path

import numpy as np

import zyx
import zyx.distributed as dist
from zyx import nn, optim

STEPS, BATCH, WIDTH = 8, 16, 12


class Net(nn.Module):
    def __init__(self, mesh):
        self.up, self.down = nn.Linear(5, WIDTH), nn.Linear(WIDTH, 3)
        self.scale = nn.Parameter(zyx.Tensor(1.5))  # of no axes
        self.register_buffer("count", zyx.zeros(2, dtype="int32"))
        self._mesh = mesh

    def forward(self, x, keep):
        return self.down(self.up(x).tanh() * keep) * self.scale


def main(folder, phase, name, data, model):
    mesh = dist.Mesh({"data": data, "model": model})
    zyx.manual_seed(5 if phase == "begins" else 6)  # what is loaded takes the place of all that is drawn here
    net = Net(mesh)
    dist.parallelize(net, mesh, {"up": "columns", "down": "rows"})
    dist.fully_shard(net.up, mesh)
    dist.fully_shard(net, mesh)
    optimizer = optim.AdamW(net.named_parameters(), lr=0.05 if phase == "begins" else 1.0)
    state = {"net": net, "optimizer": optimizer, "random": zyx.default_generator(), "step": zyx.Tensor([0])}

    @zyx.jit
    def step(x, y):
        keep = dist.shard((zyx.rand((BATCH, 1)) < 0.8).astype(zyx.float32), mesh, {0: "data"})
        with zyx.Tape() as tape:
            loss = ((net(x, keep) - y) ** 2).mean()
        optimizer.step(tape.gradient(loss, net.parameters()))
        return dist.all_reduce(loss, "mean", mesh.group("data"))

    samples = np.random.default_rng(0).standard_normal((2 * STEPS, BATCH, 5)).astype(np.float32)

    def losses(numbers):
        found = []
        for number in numbers:
            x = dist.shard(zyx.Tensor(samples[number]), mesh, {0: "data"})
            found.append(step(x, (x[:, :3] * 2).sin()).item())
        return found

    checkpoint = Path(folder, "checkpoint")
    if phase == "begins":
        losses(range(STEPS))
        net.count += 7
        state["step"] += STEPS
        dist.save_sharded(checkpoint, {"step": state["step"]})  # one that is replaced
        dist.save_sharded(checkpoint, state)
    else:
        dist.load_sharded(checkpoint, state)
        assert net.count.tolist() == [7, 7]
        assert optimizer.lr == np.float32(0.05)
    start = state["step"].item()
    assert start == STEPS
    found = losses(range(start, 2 * STEPS))
    if dist.init().rank == 0:
        Path(folder, f"{name}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:4], *map(int, sys.argv[4:]))
