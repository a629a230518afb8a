"""Tokens that are proposed out of what was said, and what becomes of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from zyx.errors import InvalidArgumentError
from zyx_llm import Sampling, load
from zyx_llm.generation.lookup import Lookup

sys.path.insert(0, str(Path(__file__).parent))

import networks


@pytest.mark.parametrize(
    ("tokens", "count", "expected"),
    [
        ([1, 2, 3, 4, 5, 6, 1, 2, 3], 2, [4, 5]),
        ([1, 2, 3, 4, 9, 9, 2, 3], 3, [4, 9, 9]),  # two are the same
        ([1, 2, 3, 4, 7, 2, 3, 5, 1, 2, 3], 2, [4, 7]),  # three are better than two that came later
        ([1, 2, 3, 1, 2, 4, 1, 2], 1, [4]),  # the last time
        ([7, 7, 7], 5, [7]),
        ([1, 2, 3, 4], 5, []),
        ([1, 2, 1], 5, []),
        ([1, 2, 3, 1, 2], 0, []),
        ([], 5, []),
    ],
)
def test_what_followed_before_is_proposed(tokens, count, expected):
    assert Lookup(tokens).propose(count) == expected


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load(networks.save(tmp_path_factory.mktemp("model") / "small.gguf"))


@pytest.mark.parametrize("draft", [1, 3, 7])
def test_what_is_written_does_not_depend_on_what_is_proposed(model, draft):
    for prompt in ([5, 6, 7], [9, 8, 7, 6] * 5, [3]):
        one, other = model.session(), model.session()
        expected = list(one.generate(prompt, 120))
        assert list(other.generate(prompt, 120, draft=draft)) == expected
        assert other.tokens == one.tokens[: len(other.tokens)]
        assert other.length == len(other.tokens)
    assert "".join(model.answer("hello", limit=60, draft=draft)) == "".join(model.answer("hello", limit=60))


def test_what_repeats_takes_fewer_steps(model, monkeypatch):
    session, other = model.session(), model.session()
    written = list(session.generate([5, 6, 7], 100))
    # With the text itself said before, nearly all is proposed.
    monkeypatch.setattr("zyx_llm.generation.session.Lookup", lambda tokens: Lookup([*tokens, *written, *tokens]))
    assert list(other.generate([5, 6, 7], 100, draft=7)) == written
    assert other.steps <= 100 / 8 + 3 < session.steps
    assert other.traces == session.traces


def test_who_stops_in_the_middle_finds_what_was_given(model):
    session = model.session()
    given = []
    for token in session.generate([9, 8, 7, 6] * 5, 100, draft=7):
        given.append(token)
        assert session.tokens == [9, 8, 7, 6] * 5 + given[:-1]
        assert session.length == len(session.tokens)


def test_a_draft_ends_where_the_context_does(model):
    session, other = model.session(), model.session()
    assert list(session.generate([5] * 590, 100, draft=7)) == list(other.generate([5] * 590, 100))
    assert session.length == 600


def test_drafts_are_for_the_likeliest_tokens(model):
    for sampling, draft in ((Sampling(temperature=1.0), 3), (Sampling(repetition_penalty=2.0), 3), (Sampling(), -1)):
        with pytest.raises(InvalidArgumentError, match=f"draft={draft}: proposed tokens, at least 0, are checked by"):
            next(model.session(sampling).generate([1], 3, draft=draft))
