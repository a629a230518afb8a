"""Files that are no language models, or not whole ones."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from zyx.errors import FormatError, TransferError, ZyxError
from zyx_llm import load
from zyx_llm.config import ENCODERS
from zyx_llm.config.of_gguf import ARCHITECTURES, config_of_metadata
from zyx_llm.config.of_json import MODELS, config_of_json

sys.path.insert(0, str(Path(__file__).parent))

import networks


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"general.architecture": "mamba"}, "of architecture 'mamba'; there are gemma2, .*llama"),
        ({"general.architecture": 7}, "of architecture 7"),
        ({"llama.block_count": 3}, r"blk.2.attn_norm.weight \(32,\) is missing; .*and 1 more"),
        ({"llama.block_count": 1}, r"blk.1.attn_norm.weight \(32,\) has no use"),
        ({"llama.block_count": 2**32 - 1}, "4294967295 layers, llama.block_count, and 1 to 1024 are read"),
        ({"llama.block_count": -1}, "-1 layers"),
        ({"llama.embedding_length": 2**32 - 1}, r"token_embd.weight is \(266, 32\), not \(266, 4294967295\)"),
        ({"llama.vocab_size": 5, "tokenizer.ggml.tokens": []}, "has no tokens"),
        ({"llama.feed_forward_length": 63}, r"blk.0.ffn_gate.weight is \(64, 32\), not \(63, 32\)"),
        ({"llama.attention.head_count_kv": 3}, "4 heads of queries are no multiple of 3 heads of keys"),
        ({"llama.attention.head_count": 0}, "heads of at least 1, not 0"),
        ({"llama.attention.head_count": [4, 2]}, r"has \[4, 2\] for llama.attention.head_count, which is an integer"),
        ({"llama.rope.dimension_count": 7}, "7 numbers are turned in pairs, of heads of 8"),
        ({"llama.rope.scaling.type": "warp"}, "scales places by 'warp', which is not read; none, linear and yarn are"),
        ({"llama.expert_count": 8}, "does not say llama.expert_used_count, which is an integer"),
        ({"llama.expert_count": 2, "llama.expert_used_count": 3}, "goes through 3 of 2 experts"),
        (
            {"llama.expert_count": 2, "llama.expert_used_count": 1, "llama.expert_gating_func": 2},
            "has 2 for expert_gating_func; 1, softmax, is read",
        ),
        ({"llama.context_length": "long"}, "has 'long' for llama.context_length, which is an integer"),
        ({"llama.context_length": 0}, "context of at least 1, not 0"),
        ({"tokenizer.ggml.model": "t5"}, "has 't5' for tokenizer.ggml.model"),
        ({"tokenizer.chat_template": "{% for %}"}, "the chat template is none, in line 1"),
        ({"tokenizer.chat_template": 3}, "has 3 for tokenizer.chat_template, which is a text"),
    ],
)
def test_a_file_that_cannot_be_a_model_is_refused(tmp_path, change, message):
    with pytest.raises(FormatError, match=message):
        load(networks.save(tmp_path / "bad.gguf", **change))


@pytest.mark.parametrize("name", ["deepseek2", "llama4", "nomic-bert", "bert"])
def test_gguf_that_the_readme_says_is_refused(name):
    with pytest.raises(FormatError, match=f"of architecture '{name}'; there are {', '.join(ARCHITECTURES)}"):
        config_of_metadata({"general.architecture": name})


@pytest.mark.parametrize("name", ["deepseek_v3", "llama4", "bert"])
def test_config_json_that_the_readme_says_is_refused(name):
    with pytest.raises(FormatError, match=f"has '{name}' for model_type; there are {', '.join(MODELS)}"):
        config_of_json({"model_type": name})


def test_the_readme_names_all_that_is_read():
    rows = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8").splitlines()
    for start, known in (("| GGUF |", ARCHITECTURES), ("| a folder with", MODELS), ("| encoders", ENCODERS)):
        (row,) = (row for row in rows if row.startswith(start))
        assert [name for name in known if f"`{name}`" not in row] == []


def test_a_model_without_a_key_says_which(tmp_path):
    from zyx import io

    said = networks.metadata()
    for name in ("general.architecture", "llama.embedding_length", "llama.attention.layer_norm_rms_epsilon"):
        path = tmp_path / "bad.gguf"
        io.save_gguf(path, networks.tensors(), {key: value for key, value in said.items() if key != name})
        with pytest.raises(FormatError, match=name):
            load(path)


def test_a_file_that_was_cut_is_refused(tmp_path):
    path = networks.save(tmp_path / "whole.gguf")
    data = path.read_bytes()
    for part in (0, 3, 10, 300, len(data) // 2, len(data) - 1):
        (tmp_path / "cut.gguf").write_bytes(data[:part])
        with pytest.raises(ZyxError):
            load(tmp_path / "cut.gguf")


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(TransferError, match="nowhere"):
        load(tmp_path / "nowhere.gguf")
    with pytest.raises(TransferError, match=r"tokenizer\.json is not there"):
        load(tmp_path)
    np.save(tmp_path / "x.npy", np.zeros(3))
    with pytest.raises(FormatError, match=r"x\.npy"):
        load(tmp_path / "x.npy")


def test_room_is_made_for_so_many_tokens_as_somebody_asks_for(tmp_path):
    path = networks.save(tmp_path / "long.gguf", **{"llama.context_length": 2**32 - 1})
    assert load(path).network.length == 32768
    assert load(path, context=40000).network.length == 40000


def test_tensors_of_more_tokens_than_there_are_do_not_fit(tmp_path):
    tensors = networks.tensors()
    tensors["token_embd.weight"] = tensors["token_embd.weight"][:-1]
    with pytest.raises(FormatError, match=r"token_embd.weight is \(265, 32\), not \(266, 32\)"):
        load(networks.save(tmp_path / "bad.gguf", tensors=tensors))
