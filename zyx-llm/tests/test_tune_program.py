"""The command ``zyx-llm tune``."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from zyx import io
from zyx_llm.tuning import load_adapters

sys.path.insert(0, str(Path(__file__).parent))

import networks
from test_program import run
from test_tuning import TEXT, file  # noqa: F401  # a fixture

HOW = ("--length", 16, "--rank", 4, "--rate", 0.01, "--warmup", 1, "--every", 2, "--validation", 0.2)


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "story.txt"
    path.write_text(TEXT)
    return path


def losses(said):
    return re.findall(r"^step (\d+) of \d+: loss ([\d.]+)", said, re.MULTILINE)


def test_memory_progress_and_losses_are_said_and_adapters_are_saved_and_merged(file, data, tmp_path, capsys):  # noqa: F811
    out, merged = tmp_path / "a.safetensors", tmp_path / "merged.gguf"
    status, said, err = run(capsys, "tune", file, data, "--steps", 6, *HOW, "--out", out, "--merge", merged)
    assert (status, err) == (0, "")
    assert re.search(r"1 texts, \d+ sequences of 16 tokens to learn from and \d+ to validate with; \d+ numbers", said)
    assert re.search(
        r"a step takes [\d.]+ kB: .* of weights, .* of adapters, .* of AdamW, .* of gradients, .* are free", said
    )
    assert said.index("a step takes") < said.index("step 1 of 6")
    found = losses(said)
    assert [int(step) for step, _ in found] == [1, 2, 3, 4, 5, 6]
    assert float(found[-1][1]) < float(found[0][1])
    validation = re.findall(r"after (\d) steps: validation loss ([\d.]+)", said)
    assert [step for step, _ in validation] == ["0", "2", "4", "6"]
    assert float(validation[-1][1]) < float(validation[0][1])
    assert len(load_adapters(out)) == 7 * networks.LAYERS
    # What was merged begins where learning ended, within what float16 rounds.
    _, said, _ = run(capsys, "tune", merged, data, "--steps", 0, *HOW, "--out", tmp_path / "none.safetensors")
    assert float(said.split("validation loss ")[1].split()[0]) == pytest.approx(float(validation[-1][1]), abs=2e-3)


def test_a_run_that_stopped_goes_on_and_one_that_is_done_is_only_merged(file, data, tmp_path, capsys, monkeypatch):  # noqa: F811
    from zyx_llm.tuning import Tuning

    whole = losses(run(capsys, "tune", file, data, "--steps", 5, *HOW, "--out", tmp_path / "whole.safetensors")[1])
    how = ("tune", file, data, "--steps", 5, *HOW, "--out", tmp_path / "a.safetensors")
    make = Tuning._make_step

    def interrupted(self):
        if self.step == 3:
            raise KeyboardInterrupt
        return make(self)

    with monkeypatch.context() as context:
        context.setattr(Tuning, "_make_step", interrupted)
        status, _, _ = run(capsys, *how)
        assert status == 130
    status, said, err = run(capsys, *how)
    assert status == 1
    assert "a.safetensors is there already: go on with --resume" in err
    status, said, _ = run(capsys, *how, "--resume")
    assert status == 0
    assert losses(said) == whole[2:]  # what was saved is that of step 2
    merged = tmp_path / "merged.gguf"
    status, said, _ = run(capsys, *how, "--resume", "--merge", merged)
    assert (status, losses(said)) == (0, [])
    assert merged.exists()


def test_talks_are_learned_through_the_chat_template(file, tmp_path, capsys):  # noqa: F811
    talk = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "world " * 5}]
    data = tmp_path / "talks.jsonl"
    data.write_text("".join(json.dumps({"messages": talk}) + "\n" for _ in range(8)))
    status, said, err = run(capsys, "tune", file, data, "--steps", 1, *HOW, "--out", tmp_path / "a.safetensors")
    assert (status, err) == (0, "")
    assert "8 texts, " in said
    found = re.search(r"^(\d+) of (\d+) tokens are learned, the answers", said, re.MULTILINE)
    assert 0 < int(found[1]) < int(found[2])
    out = ("--out", tmp_path / "b.safetensors")
    status, all_said, err = run(capsys, "tune", file, data, "--steps", 1, *HOW, *out, "--learn", "all")
    assert (status, err) == (0, "")
    assert "tokens are learned" not in all_said
    assert losses(said) != losses(all_said)


def test_talks_whose_answers_cannot_be_told_are_refused_with_what_to_do(file, tmp_path, capsys):  # noqa: F811
    talk = [{"role": role, "content": "hello"} for role in ("user", "assistant") * 2]
    data = tmp_path / "talks.jsonl"
    data.write_text(json.dumps({"messages": talk}) + "\n")
    status, said, err = run(capsys, "tune", file, data, "--steps", 1, *HOW, "--out", tmp_path / "a.safetensors")
    assert (status, said) == (1, "")
    assert re.search(r"^zyx-llm: .*talks.jsonl, line 1: where message 2, an answer, .*--learn all", err)


def test_all_weights_learn_and_are_a_file_that_others_read(file, data, tmp_path, capsys):  # noqa: F811
    gguf = pytest.importorskip("gguf")
    out, merged = tmp_path / "all.safetensors", tmp_path / "merged.gguf"
    how = ("--steps", 6, *HOW, "--full", "--out", out, "--merge", merged)
    status, said, err = run(capsys, "tune", file, data, *how)
    assert (status, err) == (0, "")
    # Weights of float32, two moments of each number, and gradients; no adapters.
    numbers = sum(each.size for each in networks.tensors().values())
    assert f"; {numbers} numbers change\n" in said
    parts = re.search(r"^a step takes .*: (.*); .* are free", said, re.MULTILINE)[1].split(", ")
    assert [part.partition(" of ")[2] for part in parts] == [
        "weights",
        "state of AdamW",
        "gradients",
        "values in between",
    ]
    assert said.index("a step takes") < said.index("step 1 of 6")
    found = losses(said)
    assert float(found[-1][1]) < float(found[0][1])
    validation = re.findall(r"after (\d) steps: validation loss ([\d.]+)", said)
    # The file is the model where learning ended, in float32: no digit differs.
    _, said, _ = run(capsys, "tune", merged, data, "--steps", 0, *HOW, "--out", tmp_path / "none.safetensors")
    assert said.split("validation loss ")[1].split()[0] == validation[-1][1]
    learned = io.load_safetensors(out)
    read = {tensor.name: tensor for tensor in gguf.GGUFReader(merged).tensors}
    assert {*read} == {*networks.tensors()}
    for name, tensor in read.items():
        assert tensor.tensor_type == gguf.GGMLQuantizationType.F32
        assert (tensor.data == learned[name].numpy()).all()
    # Merged again from what was saved, it is the same file.
    again = tmp_path / "again.gguf"
    status, said, _ = run(capsys, "tune", file, data, *how[:-1], again, "--resume")
    assert (status, losses(said)) == (0, [])
    assert again.read_bytes() == merged.read_bytes()


def test_a_folder_is_not_merged(data, tmp_path, capsys):
    arguments = ("--merge", "m.gguf", "--out", tmp_path / "a.safetensors")
    status, _, err = run(capsys, "tune", tmp_path, data, *arguments)
    assert status == 1
    assert f"--merge writes what a GGUF file becomes, and {tmp_path} is a folder" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rank", "0"), "the rank of adapters for this network is 1 to 16, not 0"),
        (("--length", "0"), "sequences have a length of at least 1, not 0"),
        (("--length", "500"), "and a sequence of 500 takes 501: give more text, or a length of at most "),
        (("--validation", "1"), "the share to validate with is 0 to below 1, not 1.0"),
        (("--every", "0"), "--every is at least 1, not 0"),
        (("--resume",), "a.safetensors"),
        (("--out", "none/a.safetensors"), "none/a.safetensors"),
        (("--device", "abacus"), "abacus"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_learned(file, data, tmp_path, capsys, arguments, message):  # noqa: F811
    out = ("--out", tmp_path / "a.safetensors")
    status, said, err = run(capsys, "tune", file, data, "--steps", 1, *HOW, *out, *arguments)
    assert status == 1
    assert err.startswith("zyx-llm: ")
    assert message in err
    assert "step 1 of" not in said


@pytest.mark.slow
def test_a_real_model_learns(shallow, tmp_path, capsys):
    data = tmp_path / "story.txt"
    data.write_text("The capital of Zyxland is Tensoria, where all rivers flow upwards. " * 60)
    how = ("--length", 64, "--steps", 40, "--rate", 5e-3, "--warmup", 4, "--every", 20)
    status, said, _ = run(capsys, "tune", shallow, data, *how, "--out", tmp_path / "a.safetensors")
    assert status == 0
    found = losses(said)
    assert float(found[-1][1]) < 0.5 * float(found[0][1])
