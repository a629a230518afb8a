"""The loop in which a model learns, and what is kept of it in files."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import zyx
from zyx import io
from zyx.errors import FormatError, InvalidArgumentError, TransferError
from zyx.quantize import quantize
from zyx_llm import load
from zyx_llm.model import NoCache
from zyx_llm.tuning import (
    ROW,
    Choices,
    DivergedError,
    Text,
    Tuning,
    batch_of,
    load_adapters,
    load_checkpoint,
    loss_of,
    packed,
    save_checkpoint,
    save_weights,
)

sys.path.insert(0, str(Path(__file__).parent))

import networks

TEXT = "hello world, or world hello. " * 12


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    blocks = {
        name: quantize(zyx.Tensor(array), "Q4_1") if array.ndim == 2 else zyx.Tensor(array)
        for name, array in networks.tensors().items()
    }
    return networks.save(tmp_path_factory.mktemp("model") / "small.gguf", tensors=blocks)


@pytest.fixture(scope="module")
def rows(file):
    return packed([Text(load(file).tokenizer.encode(TEXT))], 16)


def of_tokens(tokens, counts=True):
    """Return rows of tokens."""
    found = np.empty(tokens.shape, ROW)
    found["token"], found["counts"] = tokens, counts
    return found


def tuning(file, rows, choices):
    dtype = zyx.float32 if choices.rank is None else None
    return Tuning(load(file, dtype=dtype).network, rows[2:], rows[:2], choices)


SHORT = Choices(steps=6, batch=2, accumulate=2, rank=4, rate=1e-2, warmup=2)
#: The same, where all weights change.
FULL = dataclasses.replace(SHORT, rank=None, alpha=None)


def test_fifty_steps_lower_both_losses(file, rows):
    made = tuning(file, rows, Choices(steps=50, batch=4, rank=4, rate=1e-2, warmup=5))
    before = made.validate()
    losses = [*made.run()]
    assert len(losses) == made.step == 50
    assert np.mean(losses[-5:]) < 0.5 * losses[0]
    assert made.validate() < 0.5 * before
    assert [*made.losses["validation"]] == ["0", "50"]
    assert [*made.losses["train"].values()] == losses


def test_all_weights_learn_too(file, rows):
    made = tuning(file, rows, Choices(steps=8, batch=4, rank=None, rate=1e-2, warmup=2))
    held = {name: tensor.numpy().copy() for name, tensor in made.params.items()}
    losses = [*made.run()]
    assert losses[-1] < 0.8 * losses[0]
    assert all((tensor.numpy() != held[name]).any() for name, tensor in made.params.items())
    with pytest.raises(InvalidArgumentError, match=r"is packed as Q4_1, and weights have to be float32"):
        Tuning(load(file).network, rows[2:], rows[:2], Choices(rank=None))


def test_a_file_of_all_weights_has_the_logits_of_what_learned(file, rows, tmp_path):
    source = networks.save(tmp_path / "q4.gguf", tensors=io.load_gguf(file, packed=True), **{"general.file_type": 3})
    made = tuning(source, rows, FULL)
    [*made.run()]
    path = tmp_path / "merged.gguf"
    save_weights(path, source, made.params)
    tokens = zyx.Tensor(rows["token"][:2].copy())
    expected, found, before = (
        logits_of(network, tokens).numpy() for network in (made.network, load(path).network, load(source).network)
    )
    assert np.array_equal(found, expected)
    assert np.abs(before - expected).max() > 0.05 * np.abs(expected).max()
    assert io.read_metadata(path) == io.read_metadata(source) | {"general.file_type": 0}


def test_weights_of_another_network_and_what_is_no_number_are_not_written(file, tmp_path):
    for name, weight, message in (
        ("blk.7.attn_q.weight", zyx.ones(32, 32), r"blk.7.attn_q.weight is not there, and \(32, 32\) was learned"),
        ("blk.0.attn_k.weight", zyx.ones(32, 32), r"blk.0.attn_k.weight is \(16, 32\), and \(32, 32\) was learned"),
        ("output_norm.weight", zyx.full(32, float("inf")), r"output_norm.weight has numbers that are not finite"),
    ):
        with pytest.raises(FormatError, match=message):
            save_weights(tmp_path / "merged.gguf", file, {name: weight})
    assert not (tmp_path / "merged.gguf").exists()


def test_accumulated_batches_are_one_of_all_their_rows(file, rows):
    together = [*tuning(file, rows, Choices(steps=4, batch=4, rank=4, rate=1e-2, warmup=0)).run()]
    apart = [*tuning(file, rows, Choices(steps=4, batch=1, accumulate=4, rank=4, rate=1e-2, warmup=0)).run()]
    assert np.allclose(together, apart, rtol=1e-4)


def logits_of(network, tokens):
    start = zyx.zeros((), dtype=zyx.int32)
    return network.logits(network.hidden(tokens, start, NoCache(tokens.shape[1])))


def mean_of_counted(torch, network, rows):
    """Return the loss that PyTorch computes of logits, over the tokens that count, and how many these are."""
    tokens, counts = (rows[field].copy() for field in ROW.names)
    logits = logits_of(network, zyx.Tensor(tokens[:, :-1].copy()))
    told = torch.tensor(np.where(counts, tokens, -100)[:, 1:]).long()
    scores = torch.tensor(logits.numpy(), dtype=torch.float64)
    return torch.nn.functional.cross_entropy(scores.flatten(0, 1), told.flatten()).item(), int((told != -100).sum())


def some_counting(rows, seed=4):
    return of_tokens(rows["token"], np.random.default_rng(seed).random(rows.shape) < 0.3)


def test_the_loss_is_that_of_pytorch_over_the_tokens_that_count(file, rows):
    torch = pytest.importorskip("torch")
    masked = some_counting(rows)
    network = load(file).network
    whole, count = mean_of_counted(torch, network, masked[2:5])
    tokens, counts = (zyx.Tensor(masked[2:5][field].copy()) for field in ROW.names)
    assert loss_of(network, tokens, counts).item() == pytest.approx(whole, rel=1e-5)
    assert loss_of(network, tokens, counts, zyx.Tensor(2.0 * count)).item() == pytest.approx(whole / 2, rel=1e-5)
    # The first token of a row is read, and never told.
    counts = zyx.Tensor(np.where(np.arange(17) == 0, ~masked[2:5]["counts"], masked[2:5]["counts"]))
    assert loss_of(network, tokens, counts).item() == pytest.approx(whole, rel=1e-5)
    made = tuning(file, masked, SHORT)
    assert made.validate() == pytest.approx(mean_of_counted(torch, network, masked[:2])[0], rel=1e-5)
    # A step is over what counts in all its batches, which is not the mean of their means.
    (loss, *_) = made.run()
    taken = batch_of(masked[2:], 0, 4, SHORT.seed)
    assert loss == pytest.approx(mean_of_counted(torch, network, taken)[0], rel=1e-5)
    means = [mean_of_counted(torch, network, taken[part])[0] for part in (slice(2), slice(2, 4))]
    assert abs(np.mean(means) - loss) > 1e-3


def test_gradients_are_of_the_tokens_that_count_alone(file, rows):
    masked = some_counting(rows)
    other = masked.copy()
    # What is told behind the last token that counts changes nothing.
    last = 8
    masked["counts"][:, last + 1 :] = other["counts"][:, last + 1 :] = False
    other["token"][:, last + 1 :] = 7
    found = [[*tuning(file, each, SHORT).run()] for each in (masked, other)]
    assert found[0] == found[1]
    assert found[0][-1] < found[0][0]
    together = [*tuning(file, masked, Choices(steps=4, batch=4, rank=4, rate=1e-2, warmup=0)).run()]
    apart = [*tuning(file, masked, Choices(steps=4, batch=1, accumulate=4, rank=4, rate=1e-2, warmup=0)).run()]
    assert np.allclose(together, apart, rtol=1e-4)


def test_a_batch_in_which_no_token_counts_is_no_nan(file, rows):
    none = of_tokens(rows["token"], counts=False)
    made = tuning(file, none, Choices(steps=2, batch=2, rank=4, rate=1e-2, warmup=0))
    held = {name: tensor.numpy().copy() for name, tensor in made.params.items()}
    assert made.validate() == 0.0
    assert [*made.run()] == [0.0, 0.0]
    assert all((tensor.numpy() == held[name]).all() for name, tensor in made.params.items())
    # Beside one that has some, it adds nothing.
    half = of_tokens(rows["token"], np.arange(len(rows))[:, None] % 2 == 0)
    losses = [*tuning(file, half, Choices(steps=8, batch=1, accumulate=2, rank=4, rate=1e-2, warmup=0)).run()]
    assert np.isfinite(losses).all()


def test_rates_rise_evenly_and_fall_along_a_cosine():
    schedule = Choices(steps=10, warmup=4, rate=1.0).schedule
    rates = [schedule(zyx.Tensor(step)).item() for step in range(11)]
    falling = [(1 + np.cos(np.pi * part / 6)) / 2 for part in range(7)]
    assert np.allclose(rates, [0.2, 0.4, 0.6, 0.8, *falling], atol=1e-6)
    assert np.isclose(Choices(steps=10, warmup=0, rate=1.0).schedule(zyx.Tensor(0)).item(), 1.0)


@pytest.mark.parametrize("how", [SHORT, FULL], ids=["adapters", "full"])
def test_who_stops_and_resumes_has_the_same_losses(file, rows, tmp_path, how):
    whole = tuning(file, rows, how)
    expected = [*whole.run()]
    path = tmp_path / "adapter.safetensors"
    first = tuning(file, rows, how)
    begun = first.run()
    assert [next(begun) for _ in range(3)] == expected[:3]
    save_checkpoint(path, first)
    second = tuning(file, rows, how)
    load_checkpoint(path, second)
    assert second.step == 3
    assert [*second.run()] == expected[3:]
    assert second.losses["train"] == whole.losses["train"]
    for name, tensor in second.params.items():
        assert (tensor.numpy() == whole.params[name].numpy()).all()


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is of POSIX")
@pytest.mark.parametrize("how", ["SHORT", "FULL"])
def test_who_is_killed_and_resumes_has_the_same_losses(file, rows, tmp_path, how):
    path = tmp_path / "adapter.safetensors"
    np.save(tmp_path / "rows.npy", rows)
    script = (
        "import sys, numpy as np; sys.path.insert(0, sys.argv[1]); import test_tuning as t\n"
        "made = t.tuning(sys.argv[2], np.load(sys.argv[3]), getattr(t, sys.argv[5]))\n"
        "for loss in made.run():\n"
        "    t.save_checkpoint(sys.argv[4], made)\n"
        "    print(made.step, flush=True)\n"
    )
    command = [
        sys.executable,
        "-c",
        script,
        str(Path(__file__).parent),
        str(file),
        str(tmp_path / "rows.npy"),
        str(path),
        how,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        for _ in range(2):
            assert process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    resumed, whole = (tuning(file, rows, globals()[how]) for _ in range(2))
    load_checkpoint(path, resumed)
    made = resumed.step
    assert made >= 2
    assert [*resumed.run()] == [*whole.run()][made:]
    assert resumed.losses == whole.losses


def test_a_file_that_cannot_be_written_leaves_the_last_one(file, rows, tmp_path, monkeypatch):
    from zyx.io import safetensors_file

    path = tmp_path / "adapter.safetensors"
    made = tuning(file, rows, SHORT)
    next(made.run())
    save_checkpoint(path, made)
    held = path.read_bytes()

    def full(arrays, temporary, metadata):
        Path(temporary).write_bytes(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(safetensors_file, "save_file", full)
    with pytest.raises(TransferError, match="No space left on device"):
        save_checkpoint(path, made)
    assert path.read_bytes() == held
    assert [each.name for each in tmp_path.iterdir()] == ["adapter.safetensors"]


def test_saved_adapters_are_those_that_were_learned(file, rows, tmp_path):
    made = tuning(file, rows, SHORT)
    next(made.run())
    save_checkpoint(tmp_path / "a.safetensors", made)
    network = load(file).network.adapted(load_adapters(tmp_path / "a.safetensors"))
    tokens = zyx.Tensor(rows[:2]["token"].copy())
    assert np.isclose(loss_of(network, tokens).item(), made.validate(), rtol=1e-5)


def test_what_does_not_fit_is_not_resumed(file, rows, tmp_path):
    path = tmp_path / "a.safetensors"
    made = tuning(file, rows, SHORT)
    save_checkpoint(path, made)
    for choices, given, message in (
        (Choices(steps=7, batch=2, accumulate=2, rank=4, rate=1e-2, warmup=2), rows, "was made with steps 6, not 7"),
        (SHORT, rows[::-1], "was made with data .* choose the same texts, and --learn, --length, --validation"),
        (SHORT, some_counting(rows), "was made with data "),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            load_checkpoint(path, tuning(file, given, choices))
    zyx.io.save_safetensors(path, {"x": zyx.zeros(1)})
    for read in (load_adapters, lambda path: load_checkpoint(path, made)):
        with pytest.raises(FormatError, match="is no file that zyx-llm tune wrote"):
            read(path)


def test_a_loss_that_is_no_number_stops_before_the_step(file, rows):
    made = tuning(file, rows, SHORT)
    steps = made.run()
    next(steps)
    name = "blk.1.attn_v.lora_b"
    made.params[name][...] = float("nan")
    held = {each: tensor.numpy().copy() for each, tensor in made.params.items()}
    with pytest.raises(DivergedError, match="the loss of batch 1 of 2 is nan in step 2 of 6, which was not made"):
        next(steps)
    assert made.step == 1
    assert all(np.array_equal(tensor.numpy(), held[each], equal_nan=True) for each, tensor in made.params.items())


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"steps": -1}, "steps is at least 0, not -1"),
        ({"batch": 0}, "batch is at least 1, not 0"),
        ({"accumulate": 0}, "accumulate is at least 1, not 0"),
        ({"rate": float("nan")}, "rate is a number of at least 0, not nan"),
        ({"decay": -1.0}, "decay is a number of at least 0, not -1.0"),
    ],
)
def test_choices_have_their_ranges(how, message):
    with pytest.raises(InvalidArgumentError, match=message):
        Choices(**how)


def test_sequences_fit_the_network(file):
    with pytest.raises(InvalidArgumentError, match="sequences of 601 tokens are longer than the context of 600"):
        tuning(file, of_tokens(np.zeros((4, 602), np.int32)), SHORT)
    with pytest.raises(InvalidArgumentError, match="some beyond 266"):
        tuning(file, of_tokens(np.full((4, 8), 266, np.int32)), SHORT)
    with pytest.raises(InvalidArgumentError, match="as `packed` returns them, not int32"):
        tuning(file, np.zeros((4, 8), np.int32), SHORT)


@pytest.mark.parametrize("rank", [4, None])
def test_what_a_step_takes_is_told_before_it_is_made(file, rows, rank):
    made = tuning(file, rows, Choices(steps=2, batch=2, rank=rank, warmup=0))
    told = made.memory_bytes()
    assert made.step == 0
    if rank is None:
        numbers = sum(each.size for each in networks.tensors().values())
        assert told["weights"] == 4 * numbers
        assert told["state of AdamW"] >= 8 * numbers
        assert told["gradients"] == 8 * numbers
        assert told.pop("adapters") == 0
    assert min(told.values()) > 0
    [*made.run()]
    pool = next(iter(zyx.memory_stats()))
    peak = zyx.memory_stats()[pool].peak_bytes
    assert sum(told.values()) <= 1.05 * peak  # other tests may have taken more
