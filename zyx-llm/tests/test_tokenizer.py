"""Tokenizers that GGUF files describe."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from zyx.errors import DTypeError, FormatError, IndexRangeError
from zyx.io import read_metadata
from zyx_llm.tokenizer import tokenizer_of_metadata

sys.path.insert(0, str(Path(__file__).parent))

from vocabularies import of_bytes, of_pieces

TEXTS = ["", "hello world", "  two  spaces ", "héllo", "日本語", "👍🏽", "a\n\n b\t", "\x00\x7f\u0301"]


def written(tokenizer, text, **how):
    return [tokenizer.text_of(token) for token in tokenizer.encode(text, **how)]


def test_bytes_are_merged_in_the_order_of_the_merges():
    tokenizer = tokenizer_of_metadata(of_bytes())
    assert written(tokenizer, "hello world") == ["hello", " wor", "l", "d"]
    assert written(tokenizer, "llhe") == ["ll", "he"]


def test_words_are_cut_before_bytes_are_merged():
    merges = ("1 2", "12 3", "! \u010a", "Ġ Ġ")
    for rule, expected in (
        ("gpt-2", ["123", "4", "!", "\n"]),
        ("smollm", ["1", "2", "3", "4", "!", "\n"]),
        ("qwen2", ["1", "2", "3", "4", "!\n"]),
        ("llama3", ["123", "4", "!\n"]),
    ):
        tokenizer = tokenizer_of_metadata(of_bytes(rule, merges, add_bos_token=False))
        assert written(tokenizer, "1234!\n") == expected, rule


def test_a_word_that_is_a_token_stays_whole_where_the_rule_says_so():
    merges = ("a b", "c d")
    for rule, expected in (("qwen2", ["ab", "cd"]), ("llama-bpe", ["abcd"])):
        metadata = of_bytes(rule, merges, add_bos_token=False)
        metadata["tokenizer.ggml.tokens"].append("abcd")
        metadata["tokenizer.ggml.token_type"].append(1)
        assert written(tokenizer_of_metadata(metadata), "abcd") == expected


def test_pieces_are_merged_by_their_scores():
    tokenizer = tokenizer_of_metadata(of_pieces(add_bos_token=False, add_space_prefix=False))
    assert written(tokenizer, "hello hello") == ["hello", " hello"]
    other = of_pieces(("▁", "h", "e", "l", "el", "he"), add_bos_token=False, add_space_prefix=False)
    assert written(tokenizer_of_metadata(other), "hel") == ["h", "el"]


def test_a_space_is_put_before_a_text_and_taken_away_again():
    tokenizer = tokenizer_of_metadata(of_pieces())
    assert written(tokenizer, "hello") == ["<s>", " hello"]
    assert tokenizer.decode(tokenizer.encode("hello")) == "hello"
    stream = tokenizer.stream(is_start=True)
    assert "".join(stream.push(token) for token in tokenizer.encode(" hello hello")) == " hello hello"


def test_what_is_no_piece_is_bytes():
    tokenizer = tokenizer_of_metadata(of_pieces(add_bos_token=False, add_space_prefix=False))
    assert tokenizer.encode("é") == [3 + 0xC3, 3 + 0xA9]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("make", [of_bytes, of_pieces])
def test_a_text_comes_back(make, text):
    tokenizer = tokenizer_of_metadata(make())
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_special_tokens_are_themselves_or_text():
    tokenizer = tokenizer_of_metadata(of_bytes())
    assert tokenizer.encode("a<|im_end|>b")[1] == 1
    assert 1 not in tokenizer.encode("a<|im_end|>b", parse_special=False)
    assert tokenizer.encode("<given>", parse_special=False) == [2]  # it is text that is one token
    assert tokenizer.decode([0, 2, 1]) == "<given>"
    assert tokenizer.decode([0, 2, 1], keep_special=True) == "<|start|><given><|im_end|>"


def test_a_text_begins_and_ends_as_the_file_says():
    for add_bos, add_eos, expected in ((None, None, [5]), (True, True, [0, 5, 1]), (True, None, [0, 5])):
        more = {"add_bos_token": add_bos, "add_eos_token": add_eos}
        metadata = of_bytes(**{name: value for name, value in more.items() if value is not None})
        metadata["tokenizer.ggml.tokens"][5] = "\u0102"
        tokenizer = tokenizer_of_metadata(metadata)
        assert tokenizer.encode("\x02") == expected
        assert tokenizer.encode("\x02", add_special=False) == [5]
    assert tokenizer_of_metadata(of_bytes("llama-bpe")).encode("") == [0]  # the rule says so


@pytest.mark.parametrize("text", ["日本語 👍🏽 é", "a👨‍👩‍👧‍👦b"])
@pytest.mark.parametrize("make", [of_bytes, of_pieces])
def test_a_stream_gives_whole_characters(make, text):
    tokenizer = tokenizer_of_metadata(make())
    stream = tokenizer.stream(is_start=True)
    parts = [stream.push(token) for token in tokenizer.encode(text)]
    assert "\ufffd" not in "".join(parts)
    assert "".join(parts) + stream.finish() == text


def test_a_stream_that_ends_within_a_character_says_so():
    tokenizer = tokenizer_of_metadata(of_bytes())
    stream = tokenizer.stream()
    token = tokenizer.encode("é")[0]
    assert stream.push(token) == ""
    assert stream.finish() == "\ufffd"
    assert tokenizer.decode([token]) == "\ufffd"


def test_what_ends_an_answer_is_known():
    assert tokenizer_of_metadata(of_bytes()).special.ends == {1}
    assert tokenizer_of_metadata(of_bytes(eos_token_id=0, eot_token_id=5)).special.ends == {0, 1, 5}


def test_bad_texts_and_tokens_are_refused():
    tokenizer = tokenizer_of_metadata(of_bytes())
    with pytest.raises(DTypeError, match="takes a text, not a bytes"):
        tokenizer.encode(b"x")
    with pytest.raises(FormatError, match="at 1, half of a surrogate pair"):
        tokenizer.encode("a\ud800")
    for token in (-1, len(tokenizer)):
        with pytest.raises(
            IndexRangeError, match=f"token {token} is out of range for a vocabulary of {len(tokenizer)}"
        ):
            tokenizer.decode([token])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "t5"}, "has 't5' for tokenizer.ggml.model; bert, gpt2, llama are read"),
        ({"pre": "martian"}, "rule 'martian'.*there are .*llama-bpe.*smollm"),
        ({"tokens": []}, "has no tokens"),
        ({"tokens": 5}, "has 5 for tokenizer.ggml.tokens"),
        ({"token_type": [1]}, "token_type has 1 values for 266 tokens"),
        ({"merges": ["abc"]}, "merge 0 is 'abc', which is no pair"),
        ({"merges": ["h zz"]}, "merge 'h zz' is of 'zz', which is no token"),
        ({"bos_token_id": 266}, "has 266 for tokenizer.ggml.bos_token_id, of 266 tokens"),
        ({"add_bos_token": 3}, "has 3 for tokenizer.ggml.add_bos_token, which is a bool"),
    ],
)
def test_a_file_that_describes_no_tokenizer_is_refused(change, message):
    metadata = of_bytes() | {f"tokenizer.ggml.{name}": value for name, value in change.items()}
    with pytest.raises(FormatError, match=message):
        tokenizer_of_metadata(metadata)


def test_tokens_of_a_real_vocabulary_are_those_of_llama_cpp(smollm2):
    tokenizer = tokenizer_of_metadata(read_metadata(smollm2))
    expected = json.loads((Path(__file__).parent / "data" / "smollm2_tokens.json").read_text(encoding="utf-8"))
    assert len(expected["prompts"]) == 200
    for text, tokens in expected["prompts"]:
        assert tokenizer.encode(text) == tokens, text
        assert tokenizer.decode(tokens, keep_special=True) == text
        stream = tokenizer.stream()
        assert "".join(stream.push(token) for token in tokens) + stream.finish() == tokenizer.decode(tokens)
