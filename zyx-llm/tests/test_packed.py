"""Networks that multiply by packed weights, beside the same numbers unpacked."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import zyx
from zyx import io, quantize
from zyx.errors import InvalidArgumentError
from zyx.runtime.runtime import current
from zyx_llm import load
from zyx_llm.model import load_transformer

sys.path.insert(0, str(Path(__file__).parent))

import networks
from test_logits import logits

WIDE = 256
TOKENS = np.random.default_rng(5).integers(0, 200, (1, 20)).astype(np.int32)


def blocks(random, name, shape):
    """Return random blocks of a format of GGUF; scales are such that numbers are of the size of weights."""
    if name in quantize.encode.MADE:
        return quantize.quantize(zyx.Tensor((random.standard_normal(shape) * 0.05).astype(np.float32)), name)
    layout = quantize.layout_for(name, shape[-1])
    data = random.integers(0, 256, (*shape[:-1], shape[-1] // layout.count, layout.nbytes)).astype(np.uint8)
    for at in (layout.scale, layout.offset):
        if at is not None:
            scales = random.uniform(1e-5, 1e-4, data.shape[:-1]).astype(np.float16)
            data[..., at : at + 2] = scales[..., None].view(np.uint8)
    return quantize.QuantizedTensor(zyx.Tensor(data.reshape((*shape[:-1], -1))), name)


def save(path, name, monkeypatch):
    """Write a network of one layer, whose matrices are blocks of a format."""
    monkeypatch.setattr(networks, "LAYERS", 1)
    monkeypatch.setattr(networks, "WIDTH", WIDE)
    monkeypatch.setattr(networks, "INNER", WIDE)
    random = np.random.default_rng(3)
    tensors = {
        key: blocks(random, name, value.shape) if value.ndim == 2 else value
        for key, value in networks.tensors().items()
    }
    return networks.save(path, tensors=tensors)


def test_activations_are_rounded_where_a_matrix_is_for_it_and_refused_otherwise(tmp_path, monkeypatch):
    file = save(tmp_path / "blocks.gguf", "Q8_0", monkeypatch)
    exact, near = (
        logits(load_transformer(file, activations=each), TOKENS[:, :3], (1, 1, 1)) for each in (None, "int8")
    )
    assert 1e-4 < np.linalg.norm(near - exact) / np.linalg.norm(exact) < 0.05
    with pytest.raises(InvalidArgumentError, match=r"with dtype=float32, none of .* leave activations out, or dtype"):
        load_transformer(file, dtype=zyx.float32, activations="int8")
    with pytest.raises(InvalidArgumentError, match="not to 'int4'"):
        load_transformer(file, activations="int4")
    with pytest.raises(InvalidArgumentError, match=r"with dtype=None, none of"):
        load_transformer(save(tmp_path / "k.gguf", "Q4_K", monkeypatch), activations="int8")


@pytest.mark.parametrize("name", quantize.GGUF)
def test_logits_are_those_of_the_same_numbers_unpacked(name, tmp_path, monkeypatch):
    file = save(tmp_path / "blocks.gguf", name, monkeypatch)
    packed, unpacked = (load_transformer(file, dtype=dtype) for dtype in (None, zyx.float32))
    for chunks in ((20,), (1, 1, 1)):  # numbers made once for many rows, and for each row
        tokens = TOKENS[:, : sum(chunks)]
        found, expected = (logits(each, tokens, chunks) for each in (packed, unpacked))
        assert np.linalg.norm(found - expected) <= 1e-5 * np.linalg.norm(expected)


def test_weights_take_the_bytes_of_their_blocks(tmp_path, monkeypatch):
    file = save(tmp_path / "blocks.gguf", "Q4_1", monkeypatch)
    stored = {name: entry.nbytes for name, entry in io.load_gguf(file, packed=True).items()}
    assert load_transformer(file).weight_bytes == sum(stored.values())
    numbers = sum(entry.size for entry in io.load_gguf(file, packed=True).values())
    assert load_transformer(file, dtype=zyx.float32).weight_bytes == 4 * numbers


def test_keys_and_values_may_take_half_the_bytes(tmp_path, monkeypatch):
    file = save(tmp_path / "blocks.gguf", "Q8_0", monkeypatch)
    wide, narrow = (load(file, cache_dtype=dtype).session() for dtype in (zyx.float32, zyx.bfloat16))
    assert wide.cache_bytes == 2 * narrow.cache_bytes
    assert len(list(narrow.generate([1, 2, 3], 4))) == 4


def test_nothing_is_compiled_after_the_second_token(tmp_path, monkeypatch):
    session, compiler = load(save(tmp_path / "blocks.gguf", "Q4_K", monkeypatch)).session(), current().compiler
    counts = [(session.traces, compiler.compiled) for _ in session.generate([1, 2, 3], 40)]
    assert counts[1:] == [counts[1]] * 39
