"""Tokens one after the other, and answers."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import zyx
from zyx.errors import IndexRangeError, InvalidArgumentError, ShapeError
from zyx_llm import Sampling, load
from zyx_llm.generation import chosen
from zyx_llm.model import Cache

sys.path.insert(0, str(Path(__file__).parent))

import networks


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load(networks.save(tmp_path_factory.mktemp("model") / "small.gguf"))


def greedy(model, tokens, count):
    """Return what comes next, each time computed of all tokens anew."""
    tokens = list(tokens)
    for _ in range(count):
        cache = Cache(model.network.config, 1, len(tokens), zyx.float32, model.network.device)
        hidden = model.network.hidden(zyx.Tensor(np.array([tokens], np.int32)), zyx.Tensor(np.int32(0)), cache)
        tokens.append(int(model.network.logits(hidden)[0, -1].argmax().item()))
    return tokens[-count:]


@pytest.mark.parametrize("length", [1, 15, 16, 17, 90])
def test_tokens_are_the_likeliest_whatever_the_parts_that_a_prompt_is_read_in(model, length):
    prompt = [(7 * number) % 250 + 3 for number in range(length)]
    assert list(model.session().generate(prompt, 6)) == greedy(model, prompt, 6)


def test_nothing_is_traced_after_the_second_token(model):
    session = model.session(Sampling(temperature=1.0, min_p=0.01, seed=2))
    traces = []
    for _ in session.generate([5, 6, 7], 200):
        traces.append(session.traces)
    assert len(traces) == 200
    assert traces[1:] == [2] * 199  # one reads sixteen tokens, and one a single one


def test_short_texts_share_the_traces_of_the_least_cache(model):
    sampling, least = Sampling(temperature=0.5, top_k=3), model.session().cache_bytes
    for length in (1, 10, 50, 200, 2, 17, 65, 250):
        session = model.session(sampling)
        assert len(list(session.generate([5] * length, 6))) == 6
        assert session.cache_bytes == least  # a prompt and what follows have room in it, the last part's filling too
    assert session.traces == 4  # of the sizes of parts


def test_prompts_of_many_lengths_share_a_few_traces(model):
    for length in range(1, 300, 17):
        session = model.session()
        list(session.generate([9] * length, 2))
    assert session.traces <= 8  # four sizes of chunks, and two of caches


def test_a_prompt_that_begins_like_the_last_one_is_read_from_where_they_differ(model):
    session, anew = model.session(), model.session()
    first = list(session.generate([5, 6, 7, 8], 3))
    rest = session.keep([5, 6, 7, 8, *first[:2], 99, 100])
    assert list(rest) == [99, 100]
    assert list(session.generate(rest, 4)) == list(anew.generate([5, 6, 7, 8, *first[:2], 99, 100], 4))
    assert list(session.keep([5, 6])) == [6]
    assert session.length == 1


def test_the_same_seed_draws_the_same_tokens(model):
    drawn = [list(model.session(Sampling(temperature=2.0, seed=seed)).generate([5, 6, 7], 12)) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


LOGITS = np.log(np.array([[0.05, 0.4, 0.15, 0.1, 0.3]], np.float32))


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"temperature": 1.0}, [1, 1, 1, 1, 4, 4, 4, 2, 3, 0]),  # of falling probability: 0.4 0.7 0.85 0.95 1
        ({"temperature": 1.0, "top_k": 2}, [1, 1, 1, 1, 1, 1, 4, 4, 4, 4]),  # 4 of 7
        ({"temperature": 1.0, "top_p": 0.7}, [1, 1, 1, 1, 1, 1, 4, 4, 4, 4]),
        ({"temperature": 1.0, "min_p": 0.5}, [1, 1, 1, 1, 1, 1, 4, 4, 4, 4]),
        ({"temperature": 1.0, "top_p": 0.01}, [1] * 10),
        ({"temperature": 0.5, "top_k": 2}, [1, 1, 1, 1, 1, 1, 4, 4, 4, 4]),  # 16 of 25
        ({"temperature": 0.0}, [1] * 10),
        ({"temperature": 1.0, "top_k": 1}, [1] * 10),
    ],
)
def test_tokens_are_drawn_by_their_probability(how, expected):
    numbers = [0.05 + 0.1 * step for step in range(10)]
    found = [
        int(chosen(zyx.Tensor(LOGITS), None, zyx.Tensor(np.float32(number)), Sampling(**how)).item())
        for number in numbers
    ]
    assert found == expected


def test_tokens_that_were_there_are_less_likely():
    seen = zyx.Tensor(np.array([[False, True, False, False, False]]))
    for logits, penalty, expected in (
        ([0.0, 3.0, 2.0, 0.0, 0.0], 1.0, 1),
        ([0.0, 3.0, 2.0, 0.0, 0.0], 2.0, 2),
        ([-9.0, -2.0, -3.0, -9.0, -9.0], 2.0, 2),
    ):
        given = zyx.Tensor(np.array([logits], np.float32))
        sampling = Sampling(repetition_penalty=penalty)
        assert chosen(given, seen, zyx.Tensor(np.float32(0)), sampling).item() == expected


def test_a_penalty_counts_what_was_read_and_written(model):
    session = model.session(Sampling(repetition_penalty=1e6))
    prompt = [5, 6, 7]
    written = list(session.generate(prompt, 30))
    assert len({*prompt, *written}) == 33


@pytest.mark.parametrize(
    ("name", "value"),
    [("temperature", -1.0), ("temperature", float("nan")), ("top_k", -1), ("top_p", 0.0), ("top_p", 1.5),
     ("min_p", 2.0), ("repetition_penalty", 0.0), ("seed", -1)],
)  # fmt: skip
def test_values_out_of_range_are_refused(name, value):
    with pytest.raises(InvalidArgumentError, match=f"{name} is .*, not {value}"):
        Sampling(**{name: value})


def test_bad_tokens_are_refused_by_their_numbers(model):
    count = model.network.config.vocabulary
    session = model.session()
    with pytest.raises(IndexRangeError, match=f"token {count}, at 1, is out of range for a vocabulary of {count}"):
        session.feed([1, count])
    with pytest.raises(InvalidArgumentError, match="at least one token"):
        session.feed([])
    with pytest.raises(ShapeError, match="601 tokens are more than the context of 600; the file says 600"):
        session.feed([1] * 601)
    session.feed([1] * 598)
    with pytest.raises(ShapeError, match="3 tokens after 598 others are more than the context of 600"):
        session.feed([1] * 3)


def test_an_answer_ends_where_the_context_does(model):
    session = model.session()
    assert len(list(session.generate([5] * 595, 100))) == 6  # the last one needs no room
    assert session.length == 600


def test_an_answer_ends_at_a_stop_and_at_the_limit(model):
    whole = "".join(model.answer("hello", limit=40))
    assert len(whole) > 8
    stop = whole[4:6]
    assert "".join(model.answer("hello", limit=40, stops=[stop])) == whole[: whole.index(stop)]
    assert whole.startswith("".join(model.answer("hello", limit=5)))


def test_a_talk_is_the_prompt_of_its_answer(model):
    assert model.talk([{"role": "user", "content": "hello"}]) == "user: hello<|im_end|>assistant:"


@pytest.mark.parametrize(("dtype", "tolerance"), [(zyx.float16, 2e-3), (zyx.bfloat16, 2e-2)])
def test_matrices_may_be_of_half_precision(model, tmp_path, dtype, tolerance):
    other = load(networks.save(tmp_path / "small.gguf"), dtype=dtype)
    # Matrices only: norms, of 32 numbers each, stay float32.
    norms = 4 * networks.WIDTH * (2 * networks.LAYERS + 1)
    assert other.network.weight_bytes - norms == (model.network.weight_bytes - norms) // 2
    found = []
    for each in (model, other):
        cache = Cache(each.network.config, 1, 8, zyx.float32, each.network.device)
        hidden = each.network.hidden(zyx.Tensor(np.arange(3, 11, dtype=np.int32)[None]), zyx.Tensor(np.int32(0)), cache)
        found.append(each.network.logits(hidden).numpy())
    assert 0 < np.linalg.norm(found[1] - found[0]) <= tolerance * np.linalg.norm(found[0])
