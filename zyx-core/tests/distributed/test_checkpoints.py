"""Checkpoints of several processes: go on in another number of them, and what is wrong with files is said."""

import json
import os

import numpy as np
import pytest

import zyx
import zyx.distributed as dist
from zyx import nn, optim
from zyx.errors import DTypeError, FormatError, StateError, TransferError


def run_on(run_program, folder, phase, name, data, model):
    done = run_program("resuming.py", data * model, os.fspath(folder), phase, name, str(data), str(model))
    assert done.returncode == 0, done.stdout + done.stderr
    return np.array(json.loads((folder / f"{name}.json").read_text()))


@pytest.fixture(scope="module")
def of_one(run_program, tmp_path_factory):
    """Return the losses behind the checkpoint of a run in one process."""
    return run_on(run_program, tmp_path_factory.mktemp("one"), "begins", "one", 1, 1)


@pytest.mark.parametrize(
    ("begins", "goes_on"),
    [
        ((2, 1), [(1, 1), (2, 2)]),
        ((2, 2), [(2, 1)]),
        pytest.param((2, 1), [(1, 2), (4, 1), (1, 4)], marks=pytest.mark.slow),
        pytest.param((4, 1), [(1, 1), (1, 2)], marks=pytest.mark.slow),
        pytest.param((1, 1), [(2, 1)], marks=pytest.mark.slow),
        pytest.param((1, 2), [(2, 1)], marks=pytest.mark.slow),
    ],
)
def test_what_some_processes_saved_others_go_on_with(run_program, of_one, tmp_path, begins, goes_on):
    np.testing.assert_allclose(run_on(run_program, tmp_path, "begins", "begun", *begins), of_one, 0, 1e-6)
    names = {"index.json"} | {f"0002-{rank:05}-of-{np.prod(begins):05}.safetensors" for rank in range(np.prod(begins))}
    assert {path.name for path in (tmp_path / "checkpoint").iterdir()} == names
    for sizes in goes_on:
        losses = run_on(run_program, tmp_path, "goes_on", "resumed", *sizes)
        np.testing.assert_allclose(losses, of_one, 0, 1e-6, err_msg=f"{begins} to {sizes}")


# ---- in one process


@pytest.fixture
def saved(interpreter, tmp_path):
    """Return a folder with a checkpoint, and what it was made of."""
    layer = nn.Linear(3, 2)
    state = {"layer": layer, "optimizer": optim.Adam(layer.named_parameters(), lr=0.5), "random": zyx.Generator(3)}
    dist.save_sharded(tmp_path, state)
    return tmp_path, state


def test_what_was_saved_comes_back(saved):
    folder, state = saved
    zyx.rand(5, generator=state["random"])
    other = nn.Linear(3, 2)
    loaded = {"layer": other, "optimizer": optim.Adam(other.named_parameters(), lr=9.0), "random": zyx.Generator(8)}
    dist.load_sharded(folder, loaded)
    assert other.weight.tolist() == state["layer"].weight.tolist()
    assert loaded["optimizer"].lr == 0.5
    drawn = zyx.rand(4, generator=loaded["random"]).tolist()
    assert drawn == zyx.rand(4, generator=zyx.Generator(3)).tolist()
    weights = {"layer": nn.Linear(3, 2)}  # a part of what there is
    dist.load_sharded(folder, weights)
    assert weights["layer"].bias.tolist() == other.bias.tolist()


def test_groups_of_optimisers_and_tensors_are_saved(interpreter, tmp_path):
    layer = nn.Linear(2, 1)
    both = optim.OptimizerGroup(optim.SGD([layer.weight], lr=0.5, momentum=0.9), optim.Adam([layer.bias], lr=0.25))
    both.step([zyx.ones((1, 2)), zyx.ones(1)])
    dist.save_sharded(tmp_path, {"both": both, "epoch": zyx.Tensor(3), "bf16": zyx.ones(2, dtype=zyx.bfloat16)})
    other = optim.OptimizerGroup(optim.SGD([layer.weight], lr=1.0, momentum=0.9), optim.Adam([layer.bias], lr=1.0))
    epoch, short = zyx.Tensor(0), zyx.zeros(2, dtype=zyx.bfloat16)
    dist.load_sharded(tmp_path, {"both": other, "epoch": epoch, "bf16": short})
    assert [each.lr for each in other.optimizers] == [0.5, 0.25]
    assert {name: value.tolist() for name, value in other.state_dict().items()} == {
        name: value.tolist() for name, value in both.state_dict().items()
    }
    assert epoch.item() == 3
    assert short.tolist() == [1.0, 1.0]


def test_a_save_that_fails_leaves_the_one_before(saved, monkeypatch):
    folder, state = saved
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def fails(*arguments):
        raise TransferError("no room")

    monkeypatch.setattr("zyx.distributed.checkpoints.save_safetensors", fails)
    with pytest.raises(TransferError, match="save_sharded: rank 0: no room"):
        dist.save_sharded(folder, state)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_what_does_not_fit_is_named_and_nothing_changes(saved):
    folder, _ = saved
    other = nn.Linear(2, 2)
    weights = other.weight.tolist()
    with pytest.raises(StateError, match=r"layer.weight is \(2, 3\) in .* and should be \(2, 2\)"):
        dist.load_sharded(folder, {"layer": other})
    with pytest.raises(StateError, match=r"has no net.weight, net.bias; it has layer.weight"):
        dist.load_sharded(folder, {"net": other})
    assert other.weight.tolist() == weights
    with pytest.raises(DTypeError, match="'steps' is a int"):
        dist.save_sharded(folder, {"steps": 3})
    with pytest.raises(StateError, match=r"'a.weight' comes twice"):
        dist.save_sharded(folder, {"a": other, "a.weight": other.weight})


def test_faults_of_files_are_said(saved):
    folder, state = saved
    wanted = {"layer": state["layer"]}
    index = folder / "index.json"
    good = json.loads(index.read_text())

    def refused(error, text, change):
        changed = json.loads(json.dumps(good))
        change(changed)
        index.write_text(json.dumps(changed))
        with pytest.raises(error, match=text):
            dist.load_sharded(folder, wanted)

    entry = good["tensors"]["layer.weight"]["parts"][0]
    for key, value in {"file": "../x", "starts": [0, -1], "sizes": [2, 4]}.items():
        refused(FormatError, "no index", lambda it, pair=(key, value): _first(it).update([pair]))
    refused(FormatError, "its format is 'other'", lambda it: it.update(format="other"))
    refused(FormatError, "no index", lambda it: it.update(tensors=3))
    refused(FormatError, "what the index says", lambda it: it["tensors"]["layer.weight"].update(parts=[]))
    refused(FormatError, "what the index says", lambda it: it["tensors"]["layer.weight"].update(dtype="int32"))
    refused(FormatError, "what the index says", lambda it: _first(it).update(sizes=[1, 3]))
    twice = [{**entry, "sizes": [1, 3]}, {**entry, "sizes": [1, 3]}]
    refused(FormatError, "what the index says", lambda it: it["tensors"]["layer.weight"].update(parts=twice))
    index.write_text("{")
    with pytest.raises(FormatError, match="no index of a checkpoint"):
        dist.load_sharded(folder, wanted)
    index.write_text(json.dumps(good))
    (folder / entry["file"]).unlink()
    with pytest.raises(TransferError, match=entry["file"]):
        dist.load_sharded(folder, wanted)
    index.unlink()
    with pytest.raises(TransferError, match=r"index.json cannot be read"):
        dist.load_sharded(folder, wanted)


def _first(index):
    return index["tensors"]["layer.weight"]["parts"][0]
