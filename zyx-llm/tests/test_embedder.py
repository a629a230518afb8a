"""Vectors of texts: a small random BERT beside transformers, out of a folder and out of GGUF, and those of decoders."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

import zyx
from zyx import io
from zyx.errors import FormatError, InvalidArgumentError, ShapeError
from zyx_llm import load, load_embedder
from zyx_llm.config import encoder_of_json, encoder_of_metadata
from zyx_llm.model import Cache
from zyx_llm.model.encoder import named_tensors
from zyx_llm.program.main import main
from zyx_llm.tokenizer import tokenizer_of_folder, tokenizer_of_metadata

sys.path.insert(0, str(Path(__file__).parent))

import networks

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PIECES = (
    *SPECIAL,
    "a",
    "cat",
    "sat",
    "on",
    "the",
    "mat",
    ".",
    "un",
    "##believ",
    "##able",
    "##s",
    "zurich",
    "日",
    "[",
    "]",
)
SIZES = {
    "vocab_size": len(PIECES), "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 40,
}  # fmt: skip
TEXTS = ["a cat sat on the mat.", "Unbelievable CATS", "Zürich", "日日 martian", "", "[CLS] cat"]
#: Of the file's tokens: where it starts, what it cuts, and that all that is written like a special token is text.
TOKENS = [
    [2, 5, 6, 7, 8, 9, 10, 11, 3], [2, 12, 13, 14, 6, 15, 3], [2, 16, 3], [2, 17, 17, 1, 3], [2, 3],
    [2, 18, 1, 19, 6, 3],
]  # fmt: skip


def save_tokenizer(folder):
    made = tokenizers.Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    made.add_special_tokens(list(SPECIAL))
    made.decoder = decoders.WordPiece()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    made.enable_padding(length=16)
    made.enable_truncation(16)
    made.save(str(folder / "tokenizer.json"))
    said = {"cls_token": "[CLS]", "sep_token": "[SEP]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(said))


def said_by_gguf(**more):
    tokens = [piece[2:] if piece[:2] == "##" else piece if piece in SPECIAL else f"▁{piece}" for piece in PIECES]
    return {
        "general.architecture": "bert", "bert.block_count": 2, "bert.embedding_length": 48,
        "bert.feed_forward_length": 80, "bert.attention.head_count": 4, "bert.attention.layer_norm_epsilon": 1e-12,
        "bert.context_length": 40, "tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if piece in SPECIAL else 1 for piece in PIECES],
        "tokenizer.ggml.token_type_count": 2, "tokenizer.ggml.cls_token_id": 2, "tokenizer.ggml.seperator_token_id": 3,
        **more,
    }  # fmt: skip


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A folder with a network of transformers, and what it makes of `TEXTS`: for each ``(tokens, width)``."""
    transformers = pytest.importorskip("transformers", reason="transformers, which vectors are of, is not installed")
    torch = pytest.importorskip("torch", reason="PyTorch, which transformers runs on, is not installed")
    folder = tmp_path_factory.mktemp("bert")
    torch.manual_seed(3)
    model = transformers.BertModel(transformers.BertConfig(**SIZES)).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.3 + ("LayerNorm.weight" in key))
        hidden = [model(torch.tensor([tokens])).last_hidden_state[0].numpy() for tokens in TOKENS]
    model.save_pretrained(folder)
    save_tokenizer(folder)
    return folder, hidden


def near(found, expected):
    expected = np.stack(expected)
    expected = expected / np.linalg.norm(expected, axis=-1, keepdims=True)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_vectors_are_those_of_transformers(bert):
    folder, hidden = bert
    model = load_embedder(folder)
    near(model.embed(TEXTS), [each.mean(0) for each in hidden])
    near(model.embed(TEXTS[1:2]), [hidden[1].mean(0)])
    plain = model.embed(TEXTS, normalize=False)
    np.testing.assert_allclose(plain, np.stack([each.mean(0) for each in hidden]), rtol=0, atol=1e-4)
    assert model.embed([]).shape == (0, 48)


@pytest.mark.parametrize("pooling", [1, 2])
def test_gguf_gives_the_same(bert, tmp_path, pooling):
    folder, hidden = bert
    tensors = {key: t.numpy() for key, t in named_tensors(zyx.load(folder / "model.safetensors")).items()}
    io.save_gguf(tmp_path / "bert.gguf", tensors, said_by_gguf(**{"bert.pooling_type": pooling}))
    found = load_embedder(tmp_path / "bert.gguf").embed(TEXTS)
    near(found, [each.mean(0) if pooling == 1 else each[0] for each in hidden])
    with pytest.raises(FormatError, match=r"of architecture 'bert'.*; `zyx-llm embed` reads it"):
        load(tmp_path / "bert.gguf")


def test_words_are_cut_into_the_longest_pieces(tmp_path):
    save_tokenizer(tmp_path)
    for tokenizer in (tokenizer_of_folder(tmp_path), tokenizer_of_metadata(said_by_gguf())):
        assert [tokenizer.encode(text, parse_special=False) for text in TEXTS] == TOKENS
        assert tokenizer.encode("[CLS] cat") == [2, 2, 6, 3]
        assert tokenizer.decode(TOKENS[1]) == "unbelievable cats"
    tokens = ["▁a", "[CLS]"]
    with pytest.raises(FormatError, match=r"the file has no token \[UNK\]"):
        tokenizer_of_metadata({"tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": tokens})


def test_the_vector_of_a_decoder_is_the_mean_of_what_tokens_become(tmp_path, capsys):
    file = networks.save(tmp_path / "small.gguf")
    model, texts = load(file), ["hello world", "hello", "who goes there, and why"]
    expected = []
    for text in texts:
        tokens = np.array([model.tokenizer.encode(text)], np.int32)
        cache = Cache(model.network.config, 1, tokens.shape[1], zyx.float32, model.network.device)
        expected.append(model.network.hidden(zyx.Tensor(tokens), zyx.Tensor(np.int32(0)), cache).numpy()[0].mean(0))
    near(model.embed(texts), expected)
    assert main(["embed", str(file), *texts]) == 0
    near(np.array([json.loads(line) for line in capsys.readouterr().out.splitlines()]), expected)


def test_texts_that_have_no_vector_are_refused(tmp_path):
    model = load(networks.save(tmp_path / "small.gguf"))
    with pytest.raises(InvalidArgumentError, match="embed takes a list of texts"):
        model.embed("hello")
    for text, count in (("", 0), ("x" * 601, 601)):
        with pytest.raises(ShapeError, match=f"has {count} tokens, of which there are 1 to 600"):
            model.embed(["hello", text])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"general.architecture": "t5"}, "of architecture 't5'; encoders are bert"),
        ({"bert.pooling_type": 4}, "has 4 for bert.pooling_type; 1, the mean, and 2, the first, are read"),
        ({"bert.attention.head_count": 5}, "48 numbers of a token are no multiple of 5 heads"),
        ({"bert.attention.layer_norm_epsilon": "x"}, "has 'x' for bert.attention.layer_norm_epsilon"),
        ({"bert.context_length": 0}, "context of at least 1, not 0"),
    ],
)
def test_what_is_no_encoder_is_refused(change, message):
    with pytest.raises(FormatError, match=message):
        encoder_of_metadata(said_by_gguf(**change))


@pytest.mark.parametrize(
    ("change", "pooling", "message"),
    [
        ({"model_type": "roberta"}, {}, "has 'roberta' for model_type; encoders are bert"),
        ({"hidden_act": "relu"}, {}, "has 'relu' for hidden_act; 'gelu' is read"),
        ({"position_embedding_type": "relative_key"}, {}, "for position_embedding_type; 'absolute' is read"),
        ({}, {"pooling_mode_max_tokens": True}, "the pooling 'max' is not known; mean, cls are"),
        ({}, {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, "has cls and mean; one is read"),
    ],
)
def test_what_config_json_says_otherwise_is_refused(change, pooling, message):
    with pytest.raises(FormatError, match=message):
        encoder_of_json({"model_type": "bert", **SIZES, **change}, pooling)
