"""A program that no launcher has started is a group of one, and needs no MPI."""

import subprocess
import sys

import numpy as np
import pytest

import zyx
import zyx.distributed as dist
from zyx.distributed.engine import Engine
from zyx.distributed.group import Group, launched
from zyx.distributed.mpi import of_fixed_length
from zyx.distributed.reductions import combined
from zyx.errors import (
    AxisError,
    CollectiveError,
    DTypeError,
    GradientError,
    InvalidArgumentError,
    PackageMissingError,
    ShapeError,
    StateError,
    UnsupportedError,
)
from zyx.ops import ReduceOp

pytestmark = pytest.mark.usefixtures("interpreter")


def test_operations_of_one_process_give_back_what_they_are_given():
    x = zyx.ones((2, 3))
    assert repr(dist.init()) == "Group(rank=0, size=1)"
    assert dist.init() is dist.init()
    for operation in (dist.all_reduce, dist.all_gather, dist.reduce_scatter, dist.broadcast, dist.all_to_all):
        assert operation(x) is x
    dist.barrier()
    assert zyx.grad(lambda x: (dist.all_reduce(x) ** 2).sum())(x).tolist() == [[2.0] * 3] * 2
    assert zyx.vmap(dist.all_reduce)(x).tolist() == x.tolist()


def test_gradients_of_one_process_are_their_means():
    w, b = zyx.ones((2, 3)), zyx.ones(3, dtype=zyx.float16)
    found = dist.average_gradients({"w": w, "rest": [b, None]})
    assert found["w"] is w
    assert found["rest"][0] is b
    assert found["rest"][1] is None
    with pytest.raises(DTypeError, match="means are of floats"):
        dist.average_gradients([zyx.Tensor([1])])
    with pytest.raises(DTypeError, match=r"average_gradients takes a zyx\.Tensor, not float"):
        dist.average_gradients([1.0])
    with pytest.raises(InvalidArgumentError, match="bucket_bytes is 0"):
        dist.average_gradients([w], bucket_bytes=0)


def test_wrong_arguments_are_refused_by_one_process_as_by_many():
    x = zyx.ones((2, 3))
    for error, wrong in {
        InvalidArgumentError: lambda: dist.all_reduce(x, "add"),
        AxisError: lambda: dist.all_gather(x, 2),
        DTypeError: lambda: dist.all_reduce(x > 0),
    }.items():
        with pytest.raises(error):
            wrong()
    with pytest.raises(DTypeError, match="means are of floats"):
        dist.all_reduce(zyx.Tensor([1]), "mean")
    with pytest.raises(DTypeError, match="no order"):
        dist.all_reduce(zyx.Tensor([1j]), "max")
    with pytest.raises(DTypeError, match=r"takes a zyx\.Tensor"):
        dist.all_reduce(np.ones(2))
    with pytest.raises(InvalidArgumentError, match="the ranks 0 to 0"):
        dist.broadcast(x, 1)
    with pytest.raises(InvalidArgumentError, match="rank of this process"):
        dist.send(x, 0)
    with pytest.raises(InvalidArgumentError, match="rank of this process"):
        dist.recv((2,), source=0)


def test_launchers_are_known_by_what_they_say():
    assert launched({}) == 1
    assert launched({"OMPI_COMM_WORLD_SIZE": "3"}) == 3
    assert launched({"SLURM_NTASKS": "8"}) == 1
    assert launched({"SLURM_STEP_NUM_TASKS": "8", "PMI_SIZE": "8"}) == 8


def test_several_processes_without_mpi_are_told_what_is_missing(monkeypatch):
    monkeypatch.setenv("PMI_SIZE", "2")
    monkeypatch.setattr("zyx.distributed.group._group", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(PackageMissingError, match=r"2 processes.*zyx-core\[mpi\]"):
        dist.init()


def test_descriptions_that_are_cut_differ_where_they_did():
    one, other = ("x" * 200 + end for end in "ab")
    texts = [of_fixed_length(text) for text in ("short", one, other)]
    assert {len(text) for text in texts} == {160}
    assert texts[0].rstrip() == b"short"
    assert texts[1][:140] == texts[2][:140] and texts[1] != texts[2]


def test_workers_are_told_that_they_are_not_in_the_group(monkeypatch):
    monkeypatch.setenv("PMI_SIZE", "2")
    monkeypatch.setattr("zyx.distributed.group._group", None)
    monkeypatch.setattr("multiprocessing.parent_process", object)
    with pytest.raises(CollectiveError, match="by multiprocessing, and is not in it"):
        dist.init()


def test_one_process_imports_no_mpi():
    text = (
        "import sys, zyx.distributed as d; d.barrier(); assert not [m for m in sys.modules if m.startswith('mpi4py')]"
    )
    subprocess.run([sys.executable, "-c", text], check=True, timeout=60)


class _Lost(Engine):
    """An engine whose connection is gone, whatever is done by it."""

    name, rank, size = "a wire", 0, 2

    def agree(self, call):
        raise CollectiveError(f"{call}: cut")

    all_reduce = reduce = reduce_scatter = all_gather = broadcast = all_to_all = send = receive = end = agree


def test_an_operation_that_fails_has_not_happened():
    x, lost = zyx.ones(2), Group(0, 2, _Lost())
    for _ in range(2):
        with pytest.raises(CollectiveError, match=r"all_reduce sum of float32 \[2\], .*: cut"):
            dist.all_reduce(x, group=lost)
    traced = zyx.jit(lambda x: dist.all_reduce(x, group=lost))
    for _ in range(2):
        with pytest.raises(CollectiveError, match="cut"):
            traced(x)
    assert (x + 1).tolist() == [2.0, 2.0]


def test_a_mesh_of_one_process_has_groups_of_one():
    mesh = dist.Mesh({"data": -1, "model": 1})
    assert repr(mesh) == "Mesh({'data': 1, 'model': 1})"
    assert [mesh.size(axis) for axis in mesh.axes] == [1, 1]
    assert mesh.group("model").engine is None
    with pytest.raises(InvalidArgumentError, match=r"no grid of 1 process: "):
        dist.Mesh({"data": 2})
    x = zyx.ones((3, 2))
    assert dist.shard(x, mesh, ("data", "model")) is x
    assert dist.unshard(x, mesh, {0: "data"}) is x
    with pytest.raises(ShapeError, match="no part of"):
        dist.unshard(x, mesh, {0: "data"}, (4, 2))
    with pytest.raises(AxisError):
        dist.shard(x, mesh, {2: "data"})


def test_modules_of_one_process_are_whole():
    mesh = dist.Mesh({"data": 1, "model": 1})
    net = zyx.nn.Sequential(zyx.nn.Linear(3, 4), zyx.nn.Linear(4, 3))
    whole = net(zyx.ones((1, 3))).tolist()
    dist.fully_shard(dist.parallelize(net, mesh, {"0": "columns", "1": "rows"}), mesh)
    assert net(zyx.ones((1, 3))).tolist() == whole
    assert all(parameter.layout is None for parameter in net.parameters())
    with pytest.raises(StateError, match="already"):
        dist.fully_shard(net, mesh)
    for wrong in (dist.fully_shard, lambda module, mesh: dist.parallelize(module, mesh, {})):
        with pytest.raises(DTypeError, match="takes a module, not Tensor"):
            wrong(zyx.ones(2), mesh)
    with pytest.raises(InvalidArgumentError, match="no axis 'rows'"):
        dist.fully_shard(zyx.nn.Linear(2, 2), mesh, "rows")
    with pytest.raises(GradientError, match="1 gradients of 2 parameters"):
        dist.clip_grad_norm([None], [zyx.ones(1)] * 2, 1.0)
    with pytest.raises(GradientError, match="no gradients"):
        dist.clip_grad_norm([None], [zyx.ones(1)], 1.0)
    with pytest.raises(ShapeError, match="max_norm -1"):
        dist.clip_grad_norm([zyx.ones(1)], [zyx.ones(1)], -1.0)


def test_engines_that_know_only_all_processes_say_so():
    with pytest.raises(UnsupportedError, match="a wire: groups of a part"):
        Group(0, 3, _Lost()).split([0, 1])
    assert Group(0, 3, _Lost()).split([0]).engine is None


def test_keys_of_floats_are_in_their_order():
    numbers = np.array([-np.inf, -2.0, -1e-40, -0.0, 0.0, 1e-40, 3.0, np.inf], np.float32)
    seen = []
    for op in (ReduceOp.MAX, ReduceOp.MIN):
        back = combined(lambda keys: (seen.append(keys), keys)[1], op, numbers)
        np.testing.assert_array_equal(back.view(np.int32), numbers.view(np.int32))
        assert (np.diff(seen[-1].astype(np.int64)) > 0).all()
