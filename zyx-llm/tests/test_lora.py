"""Adapters: their gradients beside PyTorch's, and weights with what they add."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import zyx
from zyx import io
from zyx.errors import FormatError, InvalidArgumentError
from zyx.quantize import QuantizedTensor, quantize
from zyx_llm import load
from zyx_llm.model import NoCache
from zyx_llm.tuning import Adapter, merged, new_adapters, save_merged

sys.path.insert(0, str(Path(__file__).parent))

import networks

RANK, SCALE = 4, 1.5
#: Blocks of GGUF; and None for floats.
FORMATS = [None, "Q4_0", "Q4_1", "Q8_0"]


def values(tensors):
    """Return tensors as NumPy has them, packed ones as numbers."""
    return {
        name: (tensor.dequantize() if isinstance(tensor, QuantizedTensor) else tensor).numpy()
        for name, tensor in tensors.items()
    }


def of_format(form, seed=1):
    """Return the tensors of the small network, its matrices packed."""
    return {
        name: quantize(zyx.Tensor(array), form) if form and array.ndim == 2 else zyx.Tensor(array)
        for name, array in networks.tensors(seed).items()
    }


def learned(network, seed=3):
    """Return adapters that add something."""
    random = np.random.default_rng(seed)
    return {
        name: Adapter(each.a, zyx.Tensor(random.standard_normal(each.b.shape).astype(np.float32) * 0.1), SCALE)
        for name, each in new_adapters(network, RANK, SCALE * RANK).items()
    }


def logits(network, tokens):
    start = zyx.zeros((), dtype=zyx.int32)
    return network.logits(network.hidden(zyx.Tensor(tokens), start, NoCache(tokens.shape[1])))


def loss_of(network, tokens):
    found = logits(network, tokens[:, :-1])
    return zyx.cross_entropy(found.reshape((-1, found.shape[-1])), zyx.Tensor(tokens[:, 1:].reshape(-1)))


def assert_close(found, expected, tolerance=1e-3):
    """Check that numbers differ by no more than `tolerance` of the greatest one."""
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("rows", [3, 40])  # few rows are multiplied by another kernel
@pytest.mark.parametrize("traced", [False, True])
def test_gradients_of_one_layer_are_those_of_pytorch(form, rows, traced):
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(rows)
    x, w, a, b, up = (
        random.standard_normal(shape).astype(np.float32)
        for shape in ((rows, 64), (48, 64), (4, 64), (48, 4), (rows, 48))
    )
    weight = quantize(zyx.Tensor(w), form) if form else zyx.Tensor(w)
    given = [zyx.Tensor(each) for each in (x, a, b)]

    def gradients(x, a, b, up):
        with zyx.Tape() as tape:
            y = zyx.nn.functional.linear(x, weight) + Adapter(a, b, SCALE)(x)
            loss = (zyx.tanh(y) * up).sum()
        return loss, tape.gradient(loss, [x, a, b])

    loss, found = (zyx.jit(gradients) if traced else gradients)(*given, zyx.Tensor(up))

    theirs = [torch.tensor(each, dtype=torch.float64, requires_grad=True) for each in (x, a, b)]
    frozen = torch.tensor(values({"w": weight})["w"], dtype=torch.float64)
    y = theirs[0] @ frozen.T + SCALE * (theirs[0] @ theirs[1].T) @ theirs[2].T
    expected = (torch.tanh(y) * torch.tensor(up, dtype=torch.float64)).sum()
    expected.backward()
    assert abs(loss.item() - expected.item()) <= 1e-4 * abs(expected.item())
    for mine, their in zip(found, theirs, strict=True):
        assert_close(mine.numpy(), their.grad.numpy(), 1e-4)


def loss_of_torch(torch, weights, tokens, adapters):
    """Return the loss of the small Llama, written out with PyTorch; adapters are pairs of A and B."""
    heads, keys, head = networks.HEADS, networks.KEYS, networks.WIDTH // networks.HEADS
    given, told = torch.tensor(tokens[:, :-1]).long(), torch.tensor(tokens[:, 1:]).long()
    n = given.shape[1]
    angles = torch.arange(n)[:, None] * 10000.0 ** (-torch.arange(0, head, 2, dtype=torch.float64) / head)
    turns = torch.polar(torch.ones_like(angles), angles)

    def norm(x, name):
        return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * weights[f"{name}.weight"]

    def linear(x, name):
        a, b = adapters[name]
        return x @ weights[f"{name}.weight"].T + SCALE * (x @ a.T) @ b.T

    def turned(x):
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
        return torch.view_as_real(pairs * turns).flatten(-2)

    x = weights["token_embd.weight"][given]
    for layer in range(networks.LAYERS):
        start = f"blk.{layer}."
        y = norm(x, f"{start}attn_norm")
        q, k, v = (
            linear(y, f"{start}attn_{name}").reshape(len(given), n, count, head).transpose(1, 2)
            for name, count in (("q", heads), ("k", keys), ("v", keys))
        )
        k, v = (each.repeat_interleave(heads // keys, 1) for each in (turned(k), v))
        y = torch.nn.functional.scaled_dot_product_attention(turned(q), k, v, is_causal=True)
        x = x + linear(y.transpose(1, 2).flatten(-2), f"{start}attn_output")
        y = norm(x, f"{start}ffn_norm")
        y = torch.nn.functional.silu(linear(y, f"{start}ffn_gate")) * linear(y, f"{start}ffn_up")
        x = x + linear(y, f"{start}ffn_down")
    found = norm(x, "output_norm") @ weights["token_embd.weight"].T
    return torch.nn.functional.cross_entropy(found.flatten(0, 1), told.flatten())


@pytest.mark.parametrize("form", [None, "Q4_1"])
def test_gradients_of_a_whole_network_are_those_of_pytorch(form, tmp_path):
    torch = pytest.importorskip("torch")
    network = load(networks.save(tmp_path / "small.gguf", tensors=of_format(form))).network
    adapters = learned(network)
    assert len(adapters) == 7 * networks.LAYERS
    tokens = np.random.default_rng(5).integers(0, network.config.vocabulary, (2, 24)).astype(np.int32)
    parts = [part for each in adapters.values() for part in (each.a, each.b)]
    with zyx.Tape() as tape:
        loss = loss_of(network.adapted(adapters), tokens)
    found = tape.gradient(loss, parts)

    weights = {name: torch.tensor(each, dtype=torch.float64) for name, each in values(of_format(form)).items()}
    theirs = [torch.tensor(part.numpy(), dtype=torch.float64, requires_grad=True) for part in parts]
    pairs = dict(zip(adapters, zip(theirs[::2], theirs[1::2], strict=True), strict=True))
    expected = loss_of_torch(torch, weights, tokens, pairs)
    expected.backward()
    assert abs(loss.item() - expected.item()) <= 1e-4
    for mine, their in zip(found, theirs, strict=True):
        assert_close(mine.numpy(), their.grad.numpy())


def test_new_adapters_change_nothing_and_are_the_same_for_a_seed(tmp_path):
    network = load(networks.save(tmp_path / "small.gguf", tensors=of_format("Q4_1"))).network
    tokens = np.arange(12, dtype=np.int32)[None]
    adapters = new_adapters(network, RANK, seed=2)
    assert_close(logits(network.adapted(adapters), tokens).numpy(), logits(network, tokens).numpy(), 1e-5)
    for name, each in new_adapters(network, RANK, seed=2).items():
        assert (each.a.numpy() == adapters[name].a.numpy()).all()
        assert np.abs(each.a.numpy()).max() <= 1.0 / np.sqrt(each.a.shape[1])
    assert adapters["blk.0.attn_q"].scale == 1.0
    chosen = new_adapters(network, RANK, 8, targets=("attn_q", "attn_v"))
    assert [*chosen] == [f"blk.{layer}.attn_{name}" for layer in range(networks.LAYERS) for name in "qv"]
    assert chosen["blk.1.attn_v"].scale == 2.0


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"rank": 0}, "the rank of adapters for this network is 1 to 16, not 0"),
        ({"rank": 17}, "is 1 to 16, not 17"),
        ({"alpha": 0.0}, "alpha is a positive number, not 0"),
        ({"alpha": float("nan")}, "alpha is a positive number, not nan"),
        ({"targets": ("attn_x",)}, "no adapters for 'attn_x'; there are for attn_q, "),
        ({"targets": ("attn_qkv",)}, "the network has no attn_qkv"),
        ({"targets": ()}, "the network has no matrices, if no targets are given"),
    ],
)
def test_what_adapters_cannot_be_is_refused(tmp_path, how, message):
    network = load(networks.save(tmp_path / "small.gguf")).network
    with pytest.raises(InvalidArgumentError, match=message):
        new_adapters(network, **({"rank": RANK} | how))


@pytest.mark.parametrize("form", [None, "Q4_1"])
def test_a_merged_file_is_the_network_with_its_adapters(form, tmp_path):
    source = networks.save(tmp_path / "small.gguf", tensors=of_format(form), **{"general.file_type": 3})
    network = load(source).network
    adapters = learned(network)
    path = tmp_path / "merged.gguf"
    save_merged(path, source, adapters)
    tokens = np.random.default_rng(5).integers(0, network.config.vocabulary, (1, 24)).astype(np.int32)
    expected = logits(network.adapted(adapters), tokens).numpy()
    assert_close(logits(load(path).network, tokens).numpy(), expected, 5e-3 if form else 1e-5)
    assert np.abs(logits(network, tokens).numpy() - expected).max() > 0.05 * np.abs(expected).max()
    assert io.read_metadata(path) == io.read_metadata(source) | {"general.file_type": 1 if form else 3}
    kept = io.load_gguf(path, packed=True)["token_embd.weight"]
    assert getattr(kept, "format", None) == form  # what has no adapter is as it was


def test_a_merged_file_is_read_by_others(tmp_path):
    gguf = pytest.importorskip("gguf")
    source = networks.save(tmp_path / "small.gguf", tensors=of_format("Q4_1"))
    adapters = learned(load(source).network)
    save_merged(tmp_path / "merged.gguf", source, adapters)
    read = {tensor.name: tensor for tensor in gguf.GGUFReader(tmp_path / "merged.gguf").tensors}
    assert {*read} == {*networks.tensors()}
    own = read["blk.1.ffn_down.weight"]
    assert own.tensor_type == gguf.GGMLQuantizationType.F16
    expected = merged(of_format("Q4_1")["blk.1.ffn_down.weight"], adapters["blk.1.ffn_down"])
    assert (own.data == expected.numpy()).all()
    assert read["token_embd.weight"].tensor_type == gguf.GGMLQuantizationType.Q4_1


def test_adapters_of_another_network_and_sums_that_are_too_large_are_not_merged(tmp_path):
    source = networks.save(tmp_path / "small.gguf", tensors=of_format("Q4_1"))
    a, b = zyx.ones(RANK, networks.WIDTH), zyx.ones(networks.WIDTH, RANK)
    for name, adapter, message in (
        ("blk.7.attn_q", Adapter(a, b, 1.0), "blk.7.attn_q.weight is not there, and the adapter is for"),
        ("blk.0.attn_k", Adapter(a, b, 1.0), r"blk.0.attn_k.weight is \(16, 32\), and the adapter is for \(32, 32\)"),
        ("blk.0.attn_q", Adapter(a, b, 1e5), "blk.0.attn_q.weight with what was learned has numbers that float16"),
    ):
        with pytest.raises(FormatError, match=message):
            save_merged(tmp_path / "merged.gguf", source, {name: adapter})
    assert not (tmp_path / "merged.gguf").exists()
