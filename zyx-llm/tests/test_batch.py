"""Prompts of different lengths side by side, beside each by itself."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import zyx
from zyx.errors import IndexRangeError, InvalidArgumentError, ShapeError
from zyx_llm import Sampling, load
from zyx_llm.generation import generate_all

sys.path.insert(0, str(Path(__file__).parent))

import networks

PROMPTS = ["hello world", "h", "hello hello hello world, and so on", "who"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load(networks.save(tmp_path_factory.mktemp("model") / "small.gguf"))


def columns(model, prompts, limit, sampling=None):
    """Return for each prompt what was given for it."""
    found = generate_all(model.network, prompts, limit, sampling or Sampling(), dtype=zyx.float32)
    return [list(row) for row in zip(*found, strict=True)]


@pytest.mark.parametrize(
    "sampling",
    [Sampling(), Sampling(repetition_penalty=5.0), Sampling(temperature=1.5, top_k=20, seed=3)],
    ids=["greedy", "with a penalty", "drawn"],
)
def test_rows_are_what_they_are_by_themselves(model, sampling):
    prompts = [[5, 6, 7], [9], list(range(3, 120)), [200, 100] * 9]
    found = columns(model, prompts, 12, sampling)
    for row, prompt in enumerate(prompts):
        alone = Sampling(
            sampling.temperature, sampling.top_k, repetition_penalty=sampling.repetition_penalty,
            seed=sampling.seed + row,
        )  # fmt: skip
        assert found[row] == list(model.session(alone).generate(prompt, 12))


def test_rows_of_windows_are_what_they_are_by_themselves(tmp_path):
    model = load(networks.save(tmp_path / "windows.gguf", **{"llama.attention.sliding_window": 5}))
    prompts = [[5, 6, 7], list(range(3, 23))]
    assert columns(model, prompts, 8) == [list(model.session().generate(prompt, 8)) for prompt in prompts]


def test_a_row_ends_where_its_context_does(model):
    prompts = [[5] * 598, [6] * 3]
    found = columns(model, prompts, 8)
    assert found[0][3:] == [None] * 5
    assert found[0][:3] == list(model.session().generate(prompts[0], 8))
    assert found[1] == list(model.session().generate(prompts[1], 8))


def test_answers_are_those_of_single_prompts(model):
    alone = ["".join(model.answer(prompt, limit=20)) for prompt in PROMPTS]
    assert model.answer_all(PROMPTS, limit=20) == alone
    stop = alone[0][3:5]
    found = model.answer_all(PROMPTS, limit=20, stops=[stop])
    assert found == ["".join(model.answer(prompt, limit=20, stops=[stop])) for prompt in PROMPTS]
    assert found[0] == alone[0][: alone[0].index(stop)]
    assert model.answer_all([]) == []


def test_bad_prompts_are_refused(model):
    with pytest.raises(InvalidArgumentError, match="prompts are a list of texts; `answer` takes one text"):
        model.answer_all("hello")
    for prompts, error, message in (
        ([], InvalidArgumentError, "there are no prompts"),
        ([[1], []], InvalidArgumentError, "at least one token"),
        ([[1], [1, 10000]], IndexRangeError, "token 10000, at 1, is out of range"),
        ([[1], [1] * 601], ShapeError, "601 tokens are more than the context of 600"),
    ):
        with pytest.raises(error, match=message):
            next(generate_all(model.network, prompts, 3, Sampling(), dtype=zyx.float32))
