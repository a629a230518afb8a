"""Groups along the axes of a mesh, parts of tensors, and modules whose parameters are in parts."""

import copy
import sys
from pathlib import Path

import numpy as np
from reporting import Log, refused, report

import zyx
import zyx.distributed as dist
from zyx import nn, optim
from zyx.distributed import checkpoints
from zyx.errors import ArgumentError, CollectiveError, InvalidArgumentError, ShapeError, StateError, TransferError


def test_axes_have_groups(group):
    size, rank = group.size, group.rank
    mesh = dist.Mesh({"data": 2, "model": -1})
    assert mesh.axes == {"data": 2, "model": size // 2}
    assert (mesh.rank("data"), mesh.rank("model")) == divmod(rank, size // 2)
    x = zyx.Tensor([rank])
    neighbours = [place for place in range(size) if place // (size // 2) == rank // (size // 2)]
    assert dist.all_gather(x, 0, mesh.group("model")).tolist() == neighbours
    across = [place for place in range(size) if place % (size // 2) == rank % (size // 2)]
    assert dist.all_gather(x, 0, mesh.group("data")).tolist() == across
    assert dist.broadcast(x, 1, mesh.group("data")).item() == across[1]
    assert mesh.whole is group
    alone = dist.Mesh({"data": size, "model": 1})
    assert alone.group("data") is group
    assert dist.all_reduce(x, group=alone.group("model")) is x
    summed = zyx.jit(lambda x: dist.all_reduce(dist.all_reduce(x, group=mesh.group("model")), group=mesh.group("data")))
    for number in range(3):
        assert summed(x + number).item() == sum(range(size)) + number * size


def test_wrong_meshes_are_refused_by_all(group):
    size = group.size
    for axes in ({"data": size + 1}, {"data": -1, "model": -1}, {"data": -1, "model": 3}, {}, {"data": 0, "model": -1}):
        refused(InvalidArgumentError, lambda axes=axes: dist.Mesh(axes), f"no grid of {size} processes")
    mesh = dist.Mesh({"data": -1})
    refused(InvalidArgumentError, lambda: mesh.group("model"), "no axis 'model'", "'data'")
    refused(CollectiveError, lambda: dist.Mesh({"ab"[group.rank % 2]: -1}), "rank 0 calls Mesh", "rank 1 calls Mesh")
    refused(InvalidArgumentError, lambda: group.split([0, 0]), "different ranks")
    refused(InvalidArgumentError, lambda: group.split([group.rank, size]), "different ranks")
    refused(InvalidArgumentError, lambda: group.split([(group.rank + 1) % size]), f"this process, {group.rank}")


def test_groups_are_in_the_order_of_their_ranks(group):
    back = group.split(range(group.size)[::-1])
    assert back.rank == group.size - 1 - group.rank
    assert dist.all_gather(zyx.Tensor([group.rank]), 0, back).tolist() == list(range(group.size))[::-1]
    assert group.split(range(group.size)[::-1]).engine is back.engine
    pair = group.split([group.rank - group.rank % 2, group.rank - group.rank % 2 + 1])

    def differ():
        return dist.all_reduce(zyx.ones(2), "sum" if group.rank % 2 else "max", pair)

    first = group.rank - group.rank % 2
    refused(CollectiveError, differ, f"rank {first} calls all_reduce max", f"rank {first + 1} calls all_reduce sum")
    if pair.rank == 0:
        dist.send(zyx.Tensor([group.rank]), 1, pair)
    else:
        assert dist.recv((1,), zyx.int64, 0, pair).item() == first


def test_parts_are_divided_as_they_come_and_put_together(group):
    size, rank = group.size, group.rank
    mesh = dist.Mesh({"data": 2, "model": -1})
    for rows in (0, 1, 2, 5, 8):
        x = np.arange(rows * 6, dtype=np.float32).reshape(rows, 6)
        step = -(-rows // 2)
        mine = x[mesh.rank("data") * step : (mesh.rank("data") + 1) * step]
        part = dist.shard(zyx.Tensor(x), mesh, {0: "data"})
        np.testing.assert_array_equal(part.numpy(), mine)
        np.testing.assert_array_equal(dist.unshard(part, mesh, ("data", None), x.shape).numpy(), x)
        both = dist.shard(zyx.Tensor(x), mesh, {-1: "model", 0: "data"})
        np.testing.assert_array_equal(dist.unshard(both, mesh, ("data", "model"), (rows, 6)).numpy(), x)
    whole = dist.Mesh({"all": -1})
    x = zyx.Tensor(np.arange(5.0, dtype=np.float32))
    with zyx.Tape() as tape:
        loss = (dist.shard(x, whole, {0: "all"}) * (rank + 1)).sum()
    step = -(-5 // size)
    wanted = [rank + 1 if rank * step <= place < (rank + 1) * step else 0 for place in range(5)]
    assert tape.gradient(loss, x).tolist() == wanted
    refused(ArgumentError, lambda: dist.shard(zyx.ones((2, 2)), whole, ("all", "all")), "two axes along 'all'")
    refused(ArgumentError, lambda: dist.shard(zyx.ones((2, 2)), whole, "all"), "a dict")
    refused(ShapeError, lambda: dist.unshard(zyx.ones((3, 2)), whole, {0: "all"}, (4, 2)), "no part of (4, 2)")
    refused(CollectiveError, lambda: dist.unshard(zyx.ones(1 + min(rank, 1)), whole, {0: "all"}), "[1]", "[2]")


class Net(nn.Module):
    """Parameters of all sorts: shared, in a tuple, without axes, of two dtypes, fewer rows than processes."""

    def __init__(self):
        self.first = nn.Linear(3, 5)
        self.blocks = [nn.Linear(5, 5), nn.Linear(5, 5)]
        self.blocks[1].weight = self.blocks[0].weight
        self.pair = (nn.Parameter(zyx.ones(1, 5)), nn.Parameter(zyx.Tensor(0.5)))
        self.half = nn.Parameter(zyx.ones((7,), dtype=zyx.float16))
        self.frozen = nn.Parameter(zyx.ones(5) * 2, requires_grad=False)
        self.register_buffer("mean", zyx.ones(5))
        self.fails = False

    def forward(self, x):
        h = self.first(x).tanh()
        for block in self.blocks:
            h = block(h).tanh()
        if self.fails:
            raise ValueError("it fails")
        return (h * self.pair[0] * self.frozen - self.mean) * self.pair[1] + self.half[:5].astype(zyx.float32)


def nets():
    zyx.manual_seed(2)
    net = Net()
    return net, copy.deepcopy(net)


def loss_of(net, x):
    return (net(x) ** 2).mean()


def slopes(net, x):
    with zyx.Tape() as tape:
        loss = loss_of(net, x)
    return tape.gradient(loss, net.parameters())


def test_gradients_of_sharded_parameters_are_parts_of_the_means(group):
    net, whole = nets()
    mesh = dist.Mesh({"data": -1})
    dist.fully_shard(net.blocks[1], mesh)  # shares its weights with one that is not by itself
    assert dist.fully_shard(net, mesh) is net
    refused(StateError, lambda: dist.fully_shard(net, mesh), "already")
    assert [name for name, _ in net.named_parameters()] == [name for name, _ in whole.named_parameters()]
    x = zyx.Tensor(np.random.default_rng(group.rank).standard_normal((4, 3)).astype(np.float32))
    np.testing.assert_allclose(net(x).numpy(), whole(x).numpy(), 1e-6, 1e-6)
    wanted = dist.average_gradients(slopes(whole, x))
    loss_of(net, x).backward()
    for found in (slopes(net, x), zyx.jit(lambda x: slopes(net, x))(x), [p.grad for p in net.parameters()]):
        for grad, parameter, mean in zip(found, net.parameters(), wanted, strict=True):
            part = dist.shard(mean, mesh, {0: "data"}) if mean.ndim else mean
            if grad is None:
                assert not parameter.requires_grad
                continue
            assert grad.shape == parameter.shape == part.shape
            tolerance = 1e-3 if grad.dtype is zyx.float16 else 1e-5
            np.testing.assert_allclose(grad.numpy(), part.numpy(), tolerance, tolerance)
    full = dist.full_state_dict(net)
    assert list(full) == list(whole.state_dict()) == list(net.state_dict())
    for name, value in whole.state_dict().items():
        assert full[name].tolist() == value.tolist()
    clipped, norm = dist.clip_grad_norm(slopes(net, x), net.parameters(), 0.01)
    _, whole_norm = optim.clip_grad_norm(wanted, 0.01)
    np.testing.assert_allclose(norm.item(), whole_norm.item(), 1e-4)
    assert [part.shape for part in clipped] == [parameter.shape for parameter in net.parameters()]


def test_a_module_is_gathered_by_one_message_each_way(group):
    mesh = dist.Mesh({"data": -1})
    net = dist.fully_shard(nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 1)), mesh)
    with Log(group) as calls:
        slopes(net, zyx.ones((2, 3)))
    count = sum(-(-rows // group.size) * columns for rows, columns in ((5, 3), (5, 1), (1, 5), (1, 1)))
    assert calls == [
        f"all_gather along 0 of float32 [{count}]", f"reduce_scatter mean along 0 of float32 [{count * group.size}]",
    ]  # fmt: skip


def test_parts_are_back_in_their_places_also_after_an_error(group):
    net, _ = nets()
    dist.fully_shard(net, dist.Mesh({"data": -1}))
    before = [id(parameter) for parameter in net.parameters()]
    shapes = [parameter.shape for parameter in net.parameters()]
    net.fails = True
    refused(ValueError, lambda: net(zyx.ones((1, 3))), "it fails")
    net.fails = False
    net(zyx.ones((1, 3)))
    assert [id(parameter) for parameter in net.parameters()] == before
    assert [parameter.shape for parameter in net.parameters()] == shapes
    assert net.blocks[1].weight is net.blocks[0].weight


def test_copies_and_other_tensors_are_gathered_as_well(group):
    net, whole = nets()
    dist.fully_shard(net, dist.Mesh({"data": -1}))
    x = zyx.ones((2, 3))
    other = copy.deepcopy(net)
    doubled = {name: value * 2 for name, value in net.named_parameters()}
    result = nn.functional_call(net, doubled, (x,)).numpy()
    other.load_state_dict(doubled, strict=False)
    np.testing.assert_allclose(other(x).numpy(), result, 1e-6)
    whole.load_state_dict({name: value * 2 for name, value in whole.named_parameters()}, strict=False)
    np.testing.assert_allclose(whole(x).numpy(), result, 1e-6)
    full = dist.full_state_dict(other)
    np.testing.assert_array_equal(full["first.weight"].numpy(), whole.first.weight.numpy())
    dist.load_full_state_dict(net, {name: value.numpy() for name, value in whole.state_dict().items()})
    np.testing.assert_allclose(net(x).numpy(), result, 1e-6)
    refused(StateError, lambda: dist.load_full_state_dict(net, net.state_dict()), "the whole")


def test_optimisers_keep_state_of_parts_alone(group):
    net = nn.Linear(3, 5, bias=False)
    early = optim.Adam(net.named_parameters())
    dist.fully_shard(net, dist.Mesh({"data": -1}))
    refused(StateError, lambda: early.step([net.weight * 0]), "exp_avg of shape (5, 3) for parameter weight", "new one")
    optimizer = optim.Adam(net.named_parameters())
    rows = dist.all_gather(zyx.Tensor([optimizer.state["exp_avg"][0].shape[0]])).tolist()
    assert sum(rows) == 5
    assert max(rows) == -(-5 // group.size)
    assert list(optimizer.state_dict()) == ["step", "lr", "weight.exp_avg", "weight.exp_avg_sq"]


class Layers(nn.Module):
    def __init__(self, padding=None):
        self.words, self.places = nn.Embedding(8, 4), nn.Embedding(5, 4, padding)
        self.up, self.down, self.last = nn.Linear(4, 8), nn.Linear(8, 4), nn.Linear(4, 12)
        self.norm = nn.LayerNorm(4)

    def forward(self, x):
        h = self.norm(self.words(x) + self.places(x % 4))
        return self.last(h + self.down(self.up(h).gelu()))


RULES = {"words": "rows", "places": "columns", "up": "columns", "d*": "rows", "las?": "gathered"}


def test_divided_layers_compute_what_whole_ones_do(group):
    zyx.manual_seed(4)
    net = Layers(padding=1)
    whole = copy.deepcopy(net)
    mesh = dist.Mesh({"model": -1})
    dist.parallelize(net, mesh, RULES)
    refused(StateError, lambda: dist.parallelize(net, mesh, RULES), "divided already")
    assert (net.up.out_features, net.down.in_features, net.down.out_features) == (8 // group.size, 8 // group.size, 4)
    x = zyx.Tensor([[0, 1, 7], [3, 5, -1]])
    np.testing.assert_allclose(net(x).numpy(), whole(x).numpy(), 1e-5, 1e-5)
    wanted = dict(zip(dict(whole.named_parameters()), slopes(whole, x), strict=True))
    state = dist.full_state_dict(net)
    assert all(state[name].tolist() == value.tolist() for name, value in whole.state_dict().items())
    for found in (slopes(net, x), zyx.jit(lambda x: slopes(net, x))(x)):
        for (name, parameter), grad in zip(net.named_parameters(), found, strict=True):
            layout = parameter.layout
            part = wanted[name] if layout is None else layout.part_of(wanted[name])
            np.testing.assert_allclose(grad.numpy(), part.numpy(), 1e-4, 1e-6, err_msg=name)
    norms = [dist.clip_grad_norm(slopes(net, x), net.parameters(), 1.0)[1].item()]
    norms.append(optim.clip_grad_norm(list(wanted.values()), 1.0)[1].item())
    np.testing.assert_allclose(*norms, 1e-5)


def test_columns_and_rows_take_one_message_each_way(group):
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
    dist.parallelize(net, dist.Mesh({"model": -1}), {"0": "columns", "2": "rows"})
    x = zyx.ones((2, 4), requires_grad=True)
    with Log(group) as calls:
        net(x).sum().backward()
        assert x.grad.shape == (2, 4)
    assert calls == ["all_reduce sum of float32 [2, 4]"] * 2


def test_wrong_rules_change_nothing(group):
    net = Layers(padding=1)
    mesh = dist.Mesh({"model": -1})

    def divide(rules, axis="model"):
        return lambda: dist.parallelize(net, mesh, rules, axis)

    refused(InvalidArgumentError, divide({"up": "columns", "*.q_proj": "columns"}), "'*.q_proj' fits no layer", "down")
    refused(InvalidArgumentError, divide({"u*": "columns", "up": "rows"}), "'up' fits no layer")
    refused(InvalidArgumentError, divide({"up": "column"}), "'up' is 'column'", "'gathered'")
    refused(InvalidArgumentError, divide({"words": "gathered"}), "'columns', 'rows'")
    refused(InvalidArgumentError, divide(RULES, "data"), "no axis 'data'")
    refused(ArgumentError, divide({"norm": "columns"}), "'norm' is a LayerNorm")
    refused(ArgumentError, divide({"places": "rows"}), "padding_idx")
    odd = nn.Sequential(nn.Linear(3, 5))
    refused(ShapeError, lambda: dist.parallelize(odd, mesh, {"0": "columns"}), "'0' has 5 features")
    net.last.weight = net.words.weight
    refused(StateError, divide({"words": "rows"}), "words.weight and last.weight are one parameter")
    assert all(parameter.layout is None for parameter in net.parameters())
    sharded = dist.fully_shard(nn.Sequential(nn.Linear(4, 8)), dist.Mesh({"data": -1}))
    refused(StateError, lambda: dist.parallelize(sharded, mesh, {"0": "rows"}), "before fully_shard")


def test_random_numbers_do_not_depend_on_the_number_of_processes(group):
    mesh = dist.Mesh({"data": -1})
    zyx.manual_seed(11)
    whole = [zyx.rand((8, 2)).numpy(), zyx.randn((8, 2)).numpy(), zyx.rand(3).numpy()]
    zyx.manual_seed(11)
    parts = [dist.shard(zyx.rand((8, 2)), mesh, {0: "data"}), dist.shard(zyx.randn((8, 2)), mesh, {0: "data"})]
    mine = slice(8 // group.size * group.rank, 8 // group.size * (group.rank + 1))
    for part, value in zip(parts, whole, strict=False):
        np.testing.assert_array_equal(part.numpy(), value[mine])
    np.testing.assert_array_equal(zyx.rand(3).numpy(), whole[2])


def test_states_that_differ_are_not_saved(group):
    zyx.manual_seed(group.rank)
    refused(StateError, lambda: dist.save_sharded("nowhere", {"r": zyx.default_generator()}), "random generator r")
    different = {"x": zyx.ones(2 + group.rank)}
    refused(StateError, lambda: dist.save_sharded("nowhere", different), "x is float32 [2] on rank 0", "[3] on rank 1")
    names = {"x" if group.rank else "y": zyx.ones(2)}
    refused(StateError, lambda: dist.save_sharded("nowhere", names), "different things: x, y")
    net = dist.fully_shard(nn.Linear(4, 4), dist.Mesh({"data": -1}))
    optimizer = optim.Adafactor(net.named_parameters(), lr=0.1)
    refused(StateError, lambda: dist.save_sharded("nowhere", {"o": optimizer}), "not of each element")


def test_one_that_cannot_write_leaves_the_checkpoint_before_to_all(group):
    folder = Path(sys.argv[1], "checkpoint")
    net = dist.fully_shard(nn.Linear(4, 7), dist.Mesh({"data": -1}))
    dist.save_sharded(folder, {"net": net})
    before = {path.name for path in folder.iterdir()}
    wanted = dist.full_state_dict(net)["weight"].tolist()
    dist.barrier()
    dist.load_full_state_dict(net, {"weight": zyx.zeros((7, 4)), "bias": zyx.zeros(7)})
    written = checkpoints.save_safetensors
    if group.rank == 1:
        checkpoints.save_safetensors = lambda *arguments: written(folder / "none" / "x.safetensors", {})
    refused(TransferError, lambda: dist.save_sharded(folder, {"net": net}), "save_sharded: rank 1: ", "none")
    checkpoints.save_safetensors = written
    dist.load_sharded(folder, {"net": net})
    assert dist.full_state_dict(net)["weight"].tolist() == wanted
    dist.save_sharded(folder, {"net": net})  # takes the place of what was left behind, too
    assert len({path.name for path in folder.iterdir()}) == len(before) == group.size + 1
    dist.barrier()
    (folder / "index.json").unlink(missing_ok=True)
    dist.barrier()
    refused(TransferError, lambda: dist.load_sharded(folder, {"net": net}), "index.json cannot be read")


if __name__ == "__main__":
    report([thing for name, thing in list(globals().items()) if name.startswith("test_")])
