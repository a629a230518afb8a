"""Texts to learn from: read, packed into rows, and split."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zyx.errors import FormatError, InvalidArgumentError, TransferError
from zyx_llm import load
from zyx_llm.tuning import batch_of, packed, read_tokens, split
from zyx_llm.tuning.reading import LONGEST_LINE

sys.path.insert(0, str(Path(__file__).parent))

import networks


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load(networks.save(tmp_path_factory.mktemp("model") / "small.gguf"))


def written(path, *lines):
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines))
    return path


def test_a_text_file_is_one_text_with_its_end(model, tmp_path):
    text = "hello\n\n<|im_end|> world\n"
    (tokens,) = read_tokens(written(tmp_path / "story.txt", text), model)
    assert tokens[-1] == model.tokenizer.special.eos
    assert model.tokenizer.decode(tokens) == text
    assert tokens.count(model.tokenizer.special.eos) == 1


def test_a_line_is_a_text_or_a_talk_through_the_chat_template(model, tmp_path):
    talk = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hé"}]
    lines = (json.dumps({"text": "hello", "source": 1}), json.dumps({"messages": talk}), "")
    first, second = read_tokens(written(tmp_path / "talks.jsonl", *lines), model)
    assert model.tokenizer.decode(first, keep_special=True) == "hello<|im_end|>"
    # The template of the tests puts the beginning of an answer at the end, whoever asks.
    assert model.tokenizer.decode(second, keep_special=True) == "user: hello<|im_end|>assistant: hé<|im_end|>assistant:"
    assert second.count(model.tokenizer.special.eos) == 2


GOOD = '{"text": "hello"}'


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("a.txt", (), r"a.txt is empty: there is no text"),
        ("a.txt", (" \n",), r"a.txt is empty: there is no text"),
        ("a.txt", (b"caf\xe9",), r"a.txt is no text in UTF-8: .* at byte 3"),
        ("a.jsonl", (), r"a.jsonl is empty: there is no text"),
        ("a.jsonl", (GOOD, "", GOOD), r"line 2 is empty: JSON lines have an object in each line"),
        ("a.jsonl", (GOOD, "hello"), r"line 2 is no JSON: .*'hello'"),
        ("a.jsonl", (GOOD, "{"), r"line 2 is no JSON: "),
        ("a.jsonl", (GOOD, "[" * 100_000), r"line 2 is no JSON: "),
        ("a.jsonl", (GOOD, b"\xff"), r"line 2 is no text in UTF-8"),
        ("a.jsonl", ("[1]",), r'line 1 has to be an object with either "text" or "messages", not \[1\]'),
        ("a.jsonl", (GOOD, '{"txt": ""}'), r'line 2 has to be an object with either "text" or "messages"'),
        ("a.jsonl", ('{"text": "x", "messages": []}',), r'line 1 has to be an object with either "text" or'),
        ("a.jsonl", ('{"text": 3}',), r'line 1: "text" is a text that is not empty, not 3'),
        ("a.jsonl", ('{"text": ""}',), r'line 1: "text" is a text that is not empty'),
        ("a.jsonl", ('{"text": "\\ud800"}',), r"line 1: .*half of a surrogate pair"),
        ("a.jsonl", ('{"messages": []}',), r'line 1: "messages" are objects with the texts "role" and "content"'),
        ("a.jsonl", ('{"messages": [{"role": "user"}]}',), r'line 1: "messages" are objects with'),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_line(model, tmp_path, name, lines, message):
    with pytest.raises(FormatError, match=message):
        read_tokens(written(tmp_path / name, *lines), model)


def test_a_line_of_ten_megabytes_is_refused_before_it_is_held(model, tmp_path):
    long = json.dumps({"text": "a" * 10_000_000})
    assert len(long) > LONGEST_LINE
    with pytest.raises(FormatError, match=r"line 2 is longer than 8000000 bytes: .*cut it into several"):
        read_tokens(written(tmp_path / "a.jsonl", GOOD, long), model)


def test_a_file_that_is_not_there_or_is_a_folder_cannot_be_read(model, tmp_path):
    for name in ("none.txt", "none.jsonl"):
        with pytest.raises(TransferError, match=f"{name} cannot be read: No such file"):
            read_tokens(tmp_path / name, model)
    with pytest.raises(TransferError, match="cannot be read"):
        read_tokens(tmp_path, model)


def test_a_talk_needs_a_template(tmp_path):
    plain = load(networks.save(tmp_path / "plain.gguf", **{"tokenizer.chat_template": ""}))
    line = '{"messages": [{"role": "user", "content": "x"}]}'
    with pytest.raises(FormatError, match=r"line 1: the model has no chat template"):
        read_tokens(written(tmp_path / "a.jsonl", line), plain)


@given(lengths=st.lists(st.integers(0, 20), min_size=1, max_size=9), length=st.integers(1, 9))
def test_rows_tell_every_token_once_but_the_rest(lengths, length):
    count = sum(lengths)
    texts, start = [], 0
    for each in lengths:
        texts.append(list(range(start, start + each)))
        start += each
    if count <= length:
        with pytest.raises(FormatError, match=f"there are {count} tokens to learn from, and a sequence of {length}"):
            packed(texts, length)
        return
    rows = packed(texts, length)
    assert rows.shape == ((count - 1) // length, length + 1)
    assert (rows[:, 1:].reshape(-1) == np.arange(1, rows.shape[0] * length + 1)).all()
    assert (rows[:, 1:] == rows[:, :-1] + 1).all()


@given(count=st.integers(2, 40), share=st.floats(0, 0.9), seed=st.integers(0, 5))
def test_a_split_has_each_row_on_one_side(count, share, seed):
    rows = np.arange(count, dtype=np.int32)[:, None]
    expected = max(1, round(count * share)) if share else 0
    if expected >= count:
        with pytest.raises(InvalidArgumentError, match="none would be left to learn from"):
            split(rows, share, seed)
        return
    train, validation = split(rows, share, seed)
    assert len(validation) == expected
    assert sorted([*train[:, 0], *validation[:, 0]]) == [*range(count)]
    assert (split(rows, share, seed)[1] == validation).all()


@given(count=st.integers(1, 12), size=st.integers(1, 7), seed=st.integers(0, 3))
def test_all_rows_come_once_before_any_comes_again(count, size, seed):
    rows = np.arange(count, dtype=np.int32)[:, None]
    seen = np.concatenate([batch_of(rows, step, size, seed)[:, 0] for step in range(2 * count)])
    for turn in range(len(seen) // count):
        assert sorted(seen[turn * count : (turn + 1) * count]) == [*range(count)]


def test_lengths_and_shares_have_their_ranges():
    with pytest.raises(InvalidArgumentError, match="at least 1, not 0"):
        packed([[1, 2]], 0)
    with pytest.raises(InvalidArgumentError, match=r"0 to below 1, not 1\.0"):
        split(np.zeros((3, 2), np.int32), 1.0)
