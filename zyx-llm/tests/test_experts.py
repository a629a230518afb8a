"""Mixtures of experts whose matrices are packed, and what is compiled for them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import zyx
from zyx import quantize
from zyx.errors import FormatError
from zyx.runtime.runtime import current
from zyx_llm import load
from zyx_llm.model import load_transformer
from zyx_llm.model.weights import stacked

sys.path.insert(0, str(Path(__file__).parent))

import networks
from test_logits import TOKENS, logits

COUNT, USED = 8, 2
SAID = {"llama.expert_count": COUNT, "llama.expert_used_count": USED}


def tensors():
    """Return a small Llama, of each of whose layers' networks there are eight."""
    found, random = {}, np.random.default_rng(4)
    for name, value in networks.tensors().items():
        if ".ffn_" in name and "norm" not in name:
            more = random.standard_normal((COUNT, *value.shape)).astype(np.float32) * 0.3
            found[name.replace(".weight", "_exps.weight")] = more
        else:
            found[name] = value
    for layer in range(networks.LAYERS):
        router = random.standard_normal((COUNT, networks.WIDTH))
        found[f"blk.{layer}.ffn_gate_inp.weight"] = router.astype(np.float32)
    return found


@pytest.mark.parametrize("sizes", [(9,), (1, 1, 1)], ids=["all experts", "those that are chosen"])
def test_packed_experts_are_the_numbers_they_stand_for(sizes, tmp_path):
    packed = {
        name: quantize.quantize(zyx.Tensor(t), "Q8_0") if name.endswith("_exps.weight") else t
        for name, t in tensors().items()
    }
    whole = {
        name: t.dequantize().numpy() if isinstance(t, quantize.QuantizedTensor) else t for name, t in packed.items()
    }
    one, other = (
        load_transformer(networks.save(tmp_path / f"{name}.gguf", tensors=each, **SAID))
        for name, each in (("packed", packed), ("whole", whole))
    )
    assert one.weight_bytes < other.weight_bytes / 2
    tokens = TOKENS[:1, : sum(sizes)]
    np.testing.assert_allclose(logits(one, tokens, sizes), logits(other, tokens, sizes), rtol=1e-5, atol=1e-5)


def test_nothing_is_compiled_for_other_experts(tmp_path):
    session = load(networks.save(tmp_path / "mixture.gguf", tensors=tensors, **SAID)).session()
    found = [(session.traces, current().compiler.compiled) for _ in session.generate([1, 2, 3], 30)]
    assert found[1:] == [found[1]] * 29


def test_experts_that_are_missing_are_said():
    part = np.zeros((2, 2), np.float32)
    with pytest.raises(FormatError, match=r"the experts of blk\.0\.ffn_up_exps\.weight are \[0, 2\]"):
        stacked({f"blk.0.ffn_up.{number}.weight": zyx.Tensor(part) for number in (0, 2)})
