"""SmolLM2-135M-Instruct, beside the same network written down in NumPy, whose weights the package `gguf` unpacks."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import zyx
from zyx.runtime.runtime import current
from zyx_llm import load
from zyx_llm.model import Cache

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))  # scripts, not a package

import language_models_numpy

TEXT = (
    "A tensor library computes with arrays of numbers. Its users write down what they want, and it finds out how it is "
    "done quickly on the machine at hand: which loops there are, which of them run side by side, and what is kept. "
    "Some machines have one core, some have thousands, and all of them should give the same answer."
)


#: The first layers have all the kernels; that of the whole is compiled and run for minutes.
FILES = ["shallow", pytest.param("smollm2", marks=pytest.mark.slow)]


@pytest.fixture(scope="module")
def model(smollm2):
    return load(smollm2, context=512)


@pytest.fixture(params=FILES)
def file(request):
    """Return the first layers of the model, or all of it."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def rounding(request):
    """Return the model in a file that rounds activations, and the network in NumPy."""
    file = request.getfixturevalue(request.param)
    return load(file, context=256, activations="int8"), language_models_numpy.Decode(file)


def numpy_logits(numpy, tokens, rounded):
    numpy.clear()
    numpy.rounded = rounded
    return numpy.logits(tokens)


def test_logits_are_those_of_numpy(file):
    model = load(file, context=512)
    tokens = model.tokenizer.encode(TEXT)[:64]
    assert len(tokens) == 64
    expected = language_models_numpy.Decode(file).logits(tokens)
    cache = Cache(model.network.config, 1, 64, zyx.float32, model.network.device)
    given = zyx.Tensor(np.array([tokens], np.int32))
    found = model.network.logits(model.network.hidden(given, zyx.Tensor(np.int32(0)), cache))[0].numpy()
    assert np.linalg.norm(found - expected) <= 1e-4 * np.linalg.norm(expected)

    def perplexity(logits):
        shares = logits - logits.max(-1, keepdims=True)
        shares = shares - np.log(np.exp(shares).sum(-1, keepdims=True))
        return np.exp(-shares[np.arange(63), tokens[1:]].mean())

    assert abs(perplexity(found) / perplexity(expected) - 1) < 1e-4


def test_a_question_is_answered(model):
    prompt = model.talk([{"role": "user", "content": "What is the capital of France?"}])
    assert prompt.startswith("<|im_start|>system\nYou are a helpful AI assistant named SmolLM")
    assert "".join(model.answer(prompt, limit=20)) == "The capital of France is Paris."


def test_nothing_is_compiled_after_the_second_of_three_hundred_tokens(file):
    model = load(file, context=512)
    session, compiler = model.session(), current().compiler
    counts = [
        (session.traces, compiler.compiled) for _ in session.generate(model.tokenizer.encode("Once upon a time"), 300)
    ]
    assert len(counts) == 300
    assert counts[1:] == [counts[1]] * 299


@pytest.mark.parametrize("rounding", FILES, indirect=True)
@pytest.mark.parametrize("prompt", ["The capital of France is", "Once upon a time", "Water boils at a temperature of"])
def test_tokens_of_rounded_activations_are_as_good_as_those_of_numpy_rounded_likewise(rounding, prompt):
    model, numpy = rounding
    tokens = model.tokenizer.encode(prompt)
    session = model.session()
    for token in tokens[:-1]:  # one row at a time: many are not rounded
        session.feed([token])
    found = list(session.generate(tokens[-1:], 16))
    told, places = [*tokens, *found[:-1]], slice(len(tokens) - 1, None)
    exact, rounded = (numpy_logits(numpy, told, rounded)[places] for rounded in (False, True))
    spread = (rounded - exact).std(-1)
    lost = rounded.max(-1) - rounded[np.arange(len(found)), found]
    assert (lost <= 3 * spread).all()
    assert (rounded.argmax(-1) == found).mean() >= 0.75
