"""Requests answered side by side, beside each by itself."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import zyx
from zyx.errors import IndexRangeError, InvalidArgumentError, ShapeError
from zyx_llm import Sampling, load
from zyx_llm.serving import BatchEngine, Request, ServerFullError

sys.path.insert(0, str(Path(__file__).parent))

import networks


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load(networks.save(tmp_path_factory.mktemp("model") / "small.gguf"))


@pytest.fixture(scope="module")
def engine(model):
    made = BatchEngine(model.network, model.tokenizer.special.ends, pages=200, rows=8)
    yield made
    made.close()


def alone(model, prompt, limit, sampling=None):
    """Return what a session writes up to an end."""
    found = []
    for token in model.session(sampling).generate(prompt, limit):
        if token in model.tokenizer.special.ends:
            break
        found.append(token)
    return found


def together(engine, requests):
    tickets = [engine.submit(request) for request in requests]
    return [[written.token for written in ticket] for ticket in tickets]


def prompts(count, seed=0, longest=90):
    random = np.random.default_rng(seed)
    return [tuple(map(int, random.integers(3, 250, random.integers(1, longest)))) for _ in range(count)]


def test_greedy_answers_of_many_are_those_of_each_alone(model, engine):
    given = prompts(32)
    found = together(engine, [Request(prompt, 5 + 3 * (row % 9)) for row, prompt in enumerate(given)])
    assert found == [alone(model, prompt, 5 + 3 * (row % 9)) for row, prompt in enumerate(given)]
    assert any(len(each) > 20 for each in found)


@pytest.mark.parametrize(
    "samplings",
    [
        [Sampling(1.5, 20, seed=3), Sampling(0.7, 5, 0.8, seed=4), Sampling(), Sampling(2.0, 64, min_p=0.1, seed=5)],
        [Sampling(1.0, seed=6), Sampling(1.3, top_p=0.9, seed=7), Sampling(repetition_penalty=5.0), Sampling(3.0, 1)],
        [Sampling(repetition_penalty=3.0), Sampling(1.0, repetition_penalty=2.0, seed=9)],
    ],
    ids=["of few", "of all", "with penalties"],
)
def test_each_row_is_drawn_by_its_own_sampling(model, engine, samplings):
    given = prompts(len(samplings), seed=1)
    found = together(engine, [Request(*each) for each in zip(given, [15] * len(given), samplings, strict=True)])
    assert found == [alone(model, prompt, 15, each) for prompt, each in zip(given, samplings, strict=True)]
