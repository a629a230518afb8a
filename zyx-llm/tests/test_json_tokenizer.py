"""Tokenizers of folders, as models are published beside safetensors."""

from __future__ import annotations

import json

import pytest
import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors

from zyx.errors import FormatError, TransferError
from zyx_llm.tokenizer import tokenizer_of_folder

TEXTS = ["", "hello world", "  two  spaces ", "héllo", "日本語", "👍🏽", "a\n\n b\t"]


@pytest.fixture(params=["bytes", "pieces"])
def folder(request, tmp_path):
    """A tokenizer that begins texts with <s>, and knows a special token and one of the user's."""
    if request.param == "bytes":
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        merges = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o")]
        pieces = ["<s>", "</s>", *alphabet, *("".join(pair) for pair in merges)]
        made = tokenizers.Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, merges))
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = decoders.ByteLevel()
    else:
        pieces = ["<s>", "</s>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "h", "e", "l", "o", "he"]
        numbers = {piece: i for i, piece in enumerate(pieces)}
        made = tokenizers.Tokenizer(models.BPE(numbers, [("h", "e")], unk_token="<unk>", byte_fallback=True))
        made.normalizer = tokenizers.normalizers.Sequence(
            [tokenizers.normalizers.Prepend("▁"), tokenizers.normalizers.Replace(" ", "▁")]
        )
        made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    made.add_special_tokens(["<s>", "</s>", "<|end|>"])
    made.add_tokens([AddedToken("<given>", normalized=False)])
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    made.save(str(tmp_path / "tokenizer.json"))
    config = {"bos_token": "<s>", "eos_token": {"content": "</s>"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, made.token_to_id("<|end|>")]}))
    return tmp_path


@pytest.mark.parametrize("text", [*TEXTS, "a<|end|>b", "<given>x"])
def test_tokens_are_those_of_the_package(folder, text):
    reference = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer = tokenizer_of_folder(folder)
    assert len(tokenizer) == reference.get_vocab_size()
    assert tokenizer.encode(text) == reference.encode(text).ids


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_comes_back_whole_and_in_parts(folder, text):
    tokenizer = tokenizer_of_folder(folder)
    tokens = tokenizer.encode(text)
    assert tokenizer.decode(tokens) == text
    stream = tokenizer.stream(is_start=True)
    assert "".join(stream.push(token) for token in tokens) + stream.finish() == text


def test_special_tokens_are_known(folder):
    tokenizer = tokenizer_of_folder(folder)
    end = len(tokenizer) - 2
    assert tokenizer.special.bos == 0
    assert tokenizer.special.ends == {1, end}
    assert tokenizer.special.adds_bos
    assert not tokenizer.special.adds_eos
    assert tokenizer.encode("<|end|>", add_special=False)[-1] == end
    assert end not in tokenizer.encode("<|end|>", parse_special=False)
    assert tokenizer.decode([0, end]) == ""


def test_what_is_no_tokenizer_is_refused(folder):
    described = (folder / "tokenizer.json").read_text()
    for text, message in (
        ("{", r"tokenizer\.json is no JSON"),
        ("[]", "holds a list, not an object"),
        ('{"model": {"type": "Martian"}}', r"tokenizer\.json is not understood"),
    ):
        (folder / "tokenizer.json").write_text(text)
        with pytest.raises(FormatError, match=message):
            tokenizer_of_folder(folder)
    (folder / "tokenizer.json").write_text(described)
    (folder / "tokenizer_config.json").write_text('{"bos_token": "<nowhere>"}')
    with pytest.raises(FormatError, match="has '<nowhere>' for bos_token, which is no token"):
        tokenizer_of_folder(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(TransferError, match=r"tokenizer\.json is not there"):
        tokenizer_of_folder(folder)
