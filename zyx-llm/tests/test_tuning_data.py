"""Texts to learn from: read, packed into rows, and split."""

from __future__ import annotations

import json
import sys
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zyx.errors import FormatError, InvalidArgumentError, TransferError
from zyx_llm import load
from zyx_llm.tuning import Text, batch_of, packed, read_tokens, split
from zyx_llm.tuning.reading import LONGEST_LINE

sys.path.insert(0, str(Path(__file__).parent))

import networks
from vocabularies import of_pieces


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load(networks.save(tmp_path_factory.mktemp("model") / "small.gguf"))


def written(path, *lines):
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines))
    return path


def test_a_text_file_is_one_text_with_its_end(model, tmp_path):
    text = "hello\n\n<|im_end|> world\n"
    (read,) = read_tokens(written(tmp_path / "story.txt", text), model)
    assert read.counts is None
    tokens = read.tokens
    assert tokens[-1] == model.tokenizer.special.eos
    assert model.tokenizer.decode(tokens) == text
    assert tokens.count(model.tokenizer.special.eos) == 1


def test_a_line_is_a_text_or_a_talk_through_the_chat_template(model, tmp_path):
    talk = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hé"}]
    lines = (json.dumps({"text": "hello", "source": 1}), json.dumps({"messages": talk}), "")
    first, second = read_tokens(written(tmp_path / "talks.jsonl", *lines), model)
    assert model.tokenizer.decode(first.tokens, keep_special=True) == "hello<|im_end|>"
    # The template of the tests puts the beginning of an answer at the end, whoever asks.
    whole = "user: hello<|im_end|>assistant: hé<|im_end|>assistant:"
    assert model.tokenizer.decode(second.tokens, keep_special=True) == whole
    assert second.tokens.count(model.tokenizer.special.eos) == 2
    assert first.counts is None
    assert counted(model, second) == [" hé<|im_end|>"]


def counted(model, text):
    """Return the runs of tokens that count, as text."""
    runs = groupby(zip(text.tokens, text.counts, strict=True), key=itemgetter(1))
    return [model.tokenizer.decode([token for token, _ in run], keep_special=True) for counts, run in runs if counts]


LONG = [
    {"role": "system", "content": "Be hello."},
    {"role": "user", "content": "hé?"},
    {"role": "assistant", "content": " hello\n world"},
    {"role": "user", "content": "assistant: user"},
    {"role": "assistant", "content": "日<|im_end|>本"},
    {"role": "user", "content": "hello"},
]


@pytest.fixture(scope="module")
def asking(tmp_path_factory):
    folder = tmp_path_factory.mktemp("asking")
    return load(networks.save(folder / "small.gguf", **{"tokenizer.chat_template": networks.ASKING}))


def test_of_a_talk_the_tokens_of_the_assistant_count_up_to_its_end(asking, tmp_path):
    path = written(tmp_path / "talks.jsonl", json.dumps({"messages": LONG}), GOOD)
    talk, text = read_tokens(path, asking)
    assert asking.tokenizer.decode(talk.tokens, keep_special=True) == asking.talk(LONG, asks=False)
    # The line break behind the end is the template's, and nobody reads on to it.
    assert counted(asking, talk) == [" hello\n world<|im_end|>", "日<|im_end|>本<|im_end|>"]
    assert talk.counted == sum(talk.counts)
    assert text.counts is None
    whole, _ = read_tokens(path, asking, "all")
    assert (whole.tokens, whole.counts) == (talk.tokens, None)
    with pytest.raises(InvalidArgumentError, match="what is learned of talks is answers or all, not 'users'"):
        read_tokens(path, asking, "users")


def test_a_token_over_the_border_is_the_assistants_if_it_ends_there(tmp_path):
    # "he" is one token, whose "h" is the template's.
    template = "{% for m in messages %}{% if m.role == 'user' %}h{% endif %}{{ m.content }}{% endfor %}"
    model = load(networks.save(tmp_path / "small.gguf", **{"tokenizer.chat_template": template}))
    talk = [{"role": "user", "content": ""}, {"role": "assistant", "content": "ex"}, {"role": "user", "content": "y"}]
    (text,) = read_tokens(written(tmp_path / "a.jsonl", json.dumps({"messages": talk})), model)
    assert [model.tokenizer.decode([token]) for token in text.tokens] == ["he", "x", "h", "y"]
    assert text.counts == [True, True, False, False]


def test_tokens_of_sentencepiece_count_by_their_places_too(tmp_path):
    pieces = of_pieces(add_bos_token=True, add_eos_token=True)
    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    more = {"tokenizer.chat_template": template, "tokenizer.ggml.merges": [], **pieces}
    count = len(pieces["tokenizer.ggml.tokens"])
    blocks = networks.tensors() | {"token_embd.weight": np.zeros((count, networks.WIDTH), np.float32)}
    model = load(networks.save(tmp_path / "small.gguf", tensors=blocks, **more))
    talk = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hello wé"}]
    path = written(tmp_path / "a.jsonl", json.dumps({"messages": talk}), json.dumps({"messages": talk[:1]}))
    text, asked = read_tokens(path, model)
    special = model.tokenizer.special
    assert (text.tokens[0], text.tokens[-1]) == (special.bos, special.eos)
    # There is no beginning of an answer to ask with, so it is the assistant's; and so is the end of the whole.
    assert counted(model, text) == ["assistant: hello wé\n</s>"]
    assert not any(asked.counts)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (
            "{{ messages | length }}{% for m in messages %}{{ m.content }}{% endfor %}",
            r"line 2: where message 2, an answer, begins and ends is not shown .*; --learn all learns what all say",
        ),
        (
            "{% if messages | length < 2 %}{{ raise_exception('too short') }}{% endif %}"
            "{% for m in messages %}{{ m.content }}{% endfor %}",
            r"line 2: where message 2, an answer, .* alone \(the chat template refuses the talk: too short\); --learn",
        ),
        (
            "{% if messages | length > 1 %}{{ raise_exception('too long') }}{% endif %}",
            r"line 2: the chat template refuses the talk: too long",
        ),
    ],
)
def test_a_template_that_does_not_show_the_answers_is_refused_with_the_line(tmp_path, template, message):
    model = load(networks.save(tmp_path / "small.gguf", **{"tokenizer.chat_template": template}))
    talk = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hello"}]
    path = written(tmp_path / "a.jsonl", GOOD, json.dumps({"messages": talk}))
    with pytest.raises(FormatError, match=message):
        read_tokens(path, model)
    if "too long" not in template:
        assert read_tokens(path, model, "all")[1].counts is None


def test_the_template_of_a_real_model_shows_its_answers(smollm2, tmp_path):
    model = load(smollm2)
    talk = [
        {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": "Bye"}, {"role": "assistant", "content": "\nSee you."},
    ]  # fmt: skip
    (text,) = read_tokens(written(tmp_path / "talks.jsonl", json.dumps({"messages": talk})), model)
    assert counted(model, text) == ["Hello!<|im_end|>", "\nSee you.<|im_end|>"]
    # What the template puts first, where no system speaks, is not the assistant's; nor is what asks for an answer.
    head = model.tokenizer.encode(model.talk(talk[:1]))
    assert text.tokens[: len(head)] == head
    assert text.counts[: len(head) + 1] == [False] * len(head) + [True]


def test_earlier_answers_that_are_written_otherwise_do_not_count_in_silence(model, tmp_path):
    talk = [{"role": role, "content": "hello"} for role in ("user", "assistant", "user", "assistant")]
    with pytest.raises(FormatError, match=r"line 1: where message 2, an answer, .* is not how the text of all begins"):
        read_tokens(written(tmp_path / "a.jsonl", json.dumps({"messages": talk})), model)


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
    texts = [Text(each) for each in texts]
    if count <= length:
        with pytest.raises(FormatError, match=f"there are {count} tokens to learn from, and a sequence of {length}"):
            packed(texts, length)
        return
    rows = packed(texts, length)
    assert rows.shape == ((count - 1) // length, length + 1)
    assert rows["counts"].all()
    rows = rows["token"]
    assert (rows[:, 1:].reshape(-1) == np.arange(1, rows.shape[0] * length + 1)).all()
    assert (rows[:, 1:] == rows[:, :-1] + 1).all()


def test_rows_say_which_tokens_count_and_those_without_any_are_left_out():
    counts = [True, False, False, True, False, False, False, False, False, True, True, True]
    rows = packed([Text([0, 1, 2, 3, 4, 5, 6, 7], counts[:8]), Text([8, 9, 10, 11], counts[8:]), Text([12])], 3)
    # Of the row 3 to 6 the first token is only read: none that is told counts.
    assert rows["token"].tolist() == [[0, 1, 2, 3], [6, 7, 8, 9], [9, 10, 11, 12]]
    assert rows["counts"].tolist() == [[True, False, False, True], [False, False, False, True], [True] * 4]
    with pytest.raises(
        FormatError, match=r"none of 4 tokens is one to learn: .* of 3; --learn all learns what all say"
    ):
        packed([Text([0, 1, 2, 3], [True, False, False, False])], 3)


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
        packed([Text([1, 2])], 0)
    with pytest.raises(InvalidArgumentError, match="a text of 2 tokens says of 1 what counts"):
        Text([1, 2], [True])
    with pytest.raises(InvalidArgumentError, match=r"0 to below 1, not 1\.0"):
        split(np.zeros((3, 2), np.int32), 1.0)
