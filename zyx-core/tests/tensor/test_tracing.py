"""While a function is being traced, random numbers go on inside the graph, and values cannot be read."""

from contextlib import contextmanager

import numpy as np
import pytest

import zyx
from zyx.errors import TraceError
from zyx.graph.evaluate import evaluate
from zyx.runtime.tracing import Tracing


@contextmanager
def tracing(runtime):
    trace = Tracing(runtime)
    with runtime.traced_by(trace):
        yield trace


@pytest.mark.parametrize("start", [0, 2**32 - 2, 2**64 - 3])
def test_a_replay_draws_the_numbers_that_eager_calls_would(oracle, start):
    state = np.array([5, 6, start & 0xFFFFFFFF, start >> 32], np.uint32)
    source = zyx.Generator(0)
    with tracing(oracle) as trace:
        drawn = [zyx.rand(3, generator=source).node, zyx.randn(2, generator=source).node]
        mask = zyx.dropout(zyx.ones(4), 0.5, training=True, generator=source).node
    new = trace.assigned[id(source.state)][1]
    placeholder = trace.captured[id(source.state)][1]
    values = evaluate([*drawn, mask, new], lambda node: {placeholder: state}[node])
    eager = zyx.Generator(0)
    eager.state.assign(zyx.Tensor(state))
    wanted = [zyx.rand(3, generator=eager), zyx.randn(2, generator=eager)]
    wanted += [zyx.dropout(zyx.ones(4), 0.5, training=True, generator=eager), eager.state]
    for found, tensor in zip(values, wanted, strict=True):
        assert np.array_equal(found, tensor.numpy())


def test_tracing_leaves_the_generator_as_it_was(oracle):
    source = zyx.Generator(3)
    before = source.state.tolist()
    with tracing(oracle):
        zyx.rand(3, generator=source)
    assert source.state.tolist() == before
    assert zyx.rand(2, generator=source).tolist() == zyx.rand(2, generator=zyx.Generator(3)).tolist()


def test_the_default_generator_may_be_met_first_while_tracing(oracle):
    with tracing(oracle) as trace:
        zyx.rand(3)
    assert zyx.default_generator().state.tolist() == [42069, 0, 0, 0]
    assert id(zyx.default_generator().state) in trace.assigned


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.numpy(),
        float,
        lambda x: x[x > 0],
        zyx.nonzero,
        zyx.unique_values,
        np.asarray,
        lambda x: zyx.repeat(x, x.astype("int32"), 0),
        lambda x: x.tolist(),
        bool,
    ],
)
def test_reading_values_names_the_line(oracle, read):
    x = zyx.Tensor([1.0])
    with (
        tracing(oracle),
        pytest.raises(TraceError, match=r"the values of .* are read while the function is being traced"),
    ):
        read(x + 1)


def test_text_says_that_there_are_no_values_yet(oracle):
    x = zyx.ones(2)
    with tracing(oracle):
        y = x + 1
        assert repr(y) == "Tensor(<not computed: being traced>, shape=(2,), dtype=float32, device=oracle:0)"
        assert f"{x}".startswith("Tensor(<not computed")


def test_arrays_become_part_of_the_trace(oracle):
    x = zyx.Tensor([1.0, 2.0, 3.0])
    with tracing(oracle) as trace:
        _ = x[[0, 2]] + np.ones(2, np.float32)
    assert len(trace.constants) == 2
