"""The table of random programs: nearly all of the public API is in it, and what goes wrong is found and made small."""

from __future__ import annotations

import inspect
import math
import re
from pathlib import Path

import fuzz
import numpy as np
import pytest
from fuzz import invalid
from fuzz.campaign import TABLE, Campaign
from fuzz.drawing import Draw
from fuzz.program import Call, Program
from fuzz.properties import PROPERTIES
from fuzz.rows import Family
from fuzz.running import Way, check
from fuzz.shrinking import as_text

import zyx
import zyx.nn.functional as F
from zyx import dtype as dtypes
from zyx.runtime.runtime import use
from zyx.testing.choices import Seeded
from zyx.testing.opening import open_runtime
from zyx.testing.paper import open_paper

#: Public functions that compute no tensors from tensors, or are tested as a family of their own, as those of complex
#: numbers are: not in the table.
ELSEWHERE = {
    "angle", "broadcast_shapes", "complex", "conj", "imag", "is_complex", "real", "view_as_complex", "view_as_real",
    "__array_namespace_info__", "backends", "debug", "default_device", "default_generator", "devices", "empty",
    "empty_cache", "empty_like", "explain_device", "explain_plan", "from_dlpack", "implicit_casts", "isdtype", "istft",
    "jit", "device_info", "kaiming_normal", "load", "manual_seed", "memory_stats", "plot_dot_graph", "plot_dot_plan",
    "profile", "randn", "save", "set_implicit_casts", "settings", "shard", "stft", "unshard", "synchronize", "tune",
    "close", "print_graph", "realize_all", "supports_dtype", "unique_counts", "unique_inverse",
    "hessian", "jacobian", "jvp", "vjp", "enable_grad", "inference_mode",
    "is_floating_point", "is_tensor",
    "is_grad_enabled", "no_grad", "checkpoint", "custom_gradient", "set_grad_enabled", "vmap",
    # made of functions in the table, and compared with PyTorch's in tests/test_beside_torch.py
    "adaptive_max_pool", "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "affine_grid",
    "alpha_dropout", "channel_shuffle", "cosine_embedding_loss", "ctc_loss", "dropout1d", "dropout2d", "dropout3d",
    "embedding_bag", "feature_alpha_dropout", "fold", "fractional_max_pool2d", "fractional_max_pool3d",
    "gaussian_nll_loss", "glu", "grid_sample", "gumbel_softmax", "hardshrink", "hinge_embedding_loss",
    "linear_cross_entropy", "local_response_norm", "lp_pool1d", "lp_pool2d", "lp_pool3d", "margin_ranking_loss",
    "max_unpool", "max_unpool1d", "max_unpool2d", "max_unpool3d", "multi_head_attention_forward",
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "pairwise_distance", "pdist",
    "pixel_shuffle", "pixel_unshuffle", "poisson_nll_loss", "rrelu", "soft_margin_loss", "softshrink", "tanhshrink",
    "threshold", "triplet_margin_with_distance_loss",
}  # fmt: skip
#: Modules of functions put together from those of the table; zyx-core/tests/functions/test_more_of_numpy.py has them.
COMPOSED = (
    "zyx.functions.rearranging", "zyx.functions.nan_reductions", "zyx.functions.statistics", "zyx.functions.sets",
    "zyx.functions.special", "zyx.functions.signals", "zyx.functions.updates", "zyx.linalg.fitting",
    "zyx.functions.stacking", "zyx.functions.counting", "zyx.functions.parts", "zyx.functions.polynomials",
    "zyx.tensor.ranges",
)  # fmt: skip


@pytest.fixture(scope="module")
def runtime():
    opened = open_runtime("interpreter")
    yield opened
    opened.close()


def test_nearly_all_public_functions_are_in_the_table():
    text = "\n".join(path.read_text() for path in Path(fuzz.__file__).parent.glob("*.py"))
    named = {name for pair in re.findall(r"\.([a-zA-Z_0-9]+)[({]|\"([a-z_0-9]+)\"", text) for name in pair}
    named |= {row.name for draw, _ in TABLE if isinstance(draw, Family) for row in draw.rows}
    stems = ("conv", "max_pool", "avg_pool", "adaptive_avg_pool")  # f"zyx.conv{axes}d(" and its like
    missing = {
        name
        for module in (zyx, F)
        for name in (zyx.__all__ if module is zyx else dir(F))
        if inspect.isfunction(getattr(module, name)) and name not in named and not name.startswith(stems)
    }
    composed = {name for module in COMPOSED for name in zyx._LAZY[module]}
    assert {name for name in missing if not name.startswith("_")} <= ELSEWHERE | composed


def test_every_row_of_the_table_is_drawn(runtime):
    campaign = Campaign(runtime)
    with use(runtime):
        for seed in range(500):
            campaign.draw(Seeded(seed))
            if not campaign.rows_never_drawn:
                break
    assert campaign.rows_never_drawn == []


def test_one_seed_is_one_program(runtime):
    campaign = Campaign(runtime)
    with use(runtime):
        first, second = (campaign.draw(Seeded(7))[0] for _ in range(2))
    assert first.source() == second.source()
    for x, y in zip(first.inputs, second.inputs, strict=True):
        np.testing.assert_array_equal(x, y)


def test_some_programs_agree(runtime):
    campaign = Campaign(runtime, most_elements=200, most_calls=5)
    campaign.run(range(12))
    assert campaign.programs == 12
    assert not campaign.failures, campaign.summary()


def test_some_programs_agree_on_a_device_on_paper():
    with open_paper("tiny card") as tiny:
        campaign = Campaign(tiny, most_elements=200, most_calls=5)
        campaign.run(range(12))
    assert not campaign.failures, campaign.summary()


@pytest.mark.parametrize("text", invalid.REFUSED)
def test_what_is_not_valid_is_refused_with_an_error_of_zyx(text, runtime, monkeypatch):
    monkeypatch.setattr(invalid, "REFUSED", (text,))
    with use(runtime):
        for seed in range(3):
            invalid.check_refusals(Seeded(seed), 1)


@pytest.mark.parametrize("check_one", dict.fromkeys(PROPERTIES), ids=lambda function: function.__name__.strip("_"))
def test_properties_hold(check_one, runtime):
    if check_one.__name__ == "_large_sums":
        pytest.skip("the interpreter takes seconds for that many elements")
    with use(runtime):
        check_one(Seeded(1), dtypes.ALL)


# ---- what is found


def program(*calls, inputs=None):
    """Return a program of calls, each a text, a meaning and numbers of operands, over (4, 5) floats."""
    x = np.random.default_rng(1).standard_normal((4, 5)).astype(np.float32)
    made = Program([x] if inputs is None else inputs)
    for text, meaning, *operands in calls:
        made.calls.append(Call(text, meaning, tuple(operands)))
        made.dtypes.append(dtypes.float32)
    made.outputs = [len(made.inputs) + len(calls) - 1]
    return made


RIGHT = ("zyx.sin({0})", np.sin)
WRONG = ("zyx.cos({0})", lambda x: np.cos(x) * (1 + 2e-5))


@pytest.mark.parametrize("way", [way for way in Way if way not in (Way.GRADIENT, Way.MAPPED_GRADIENT)])
def test_a_small_relative_error_is_found_in_every_way(way, runtime):
    with use(runtime):
        check(program((*RIGHT, 0), (*RIGHT, 1), ("{0} * 2.0", lambda x: x * 2, 2)), way)
        with pytest.raises(AssertionError, match=r"zyx\.cos"):
            check(program((*RIGHT, 0), (*WRONG, 1)), way)


@pytest.mark.parametrize("way", [Way.GRADIENT, Way.MAPPED_GRADIENT])
def test_a_wrong_slope_is_found(way, runtime):
    with use(runtime):
        check(program((*RIGHT, 0), ("zyx.sum({0}, 1)", lambda x: x.sum(axis=1), 1)), way)
        with pytest.raises(AssertionError, match="the slope is"):
            check(program((*RIGHT, 0), ("{0} * {0}.detach()", lambda x: x * x, 1)), way)


def test_an_example_that_gets_the_result_of_another_is_found(runtime, monkeypatch):
    vmap = zyx.vmap

    def mixed(f, **given_by_name):
        return lambda *given: [zyx.flip(x, 0) for x in vmap(f, **given_by_name)(*given)]

    monkeypatch.setattr(zyx, "vmap", mixed)
    with use(runtime), pytest.raises(AssertionError, match=r"zyx\.sin"):
        check(program((*RIGHT, 0)), Way.MAPPED)


def test_a_failure_is_made_small_and_its_text_runs(runtime, monkeypatch):
    import builtins

    campaign = Campaign(runtime)
    failing = program((*RIGHT, 0), ("{0} + 1.0", lambda x: x + 1, 1), (*WRONG, 2), ("{0} * 2.0", lambda x: x * 2, 3))
    with use(runtime):
        assert not campaign._check(3, failing, Way.EAGER)
        (failure,) = campaign.failures
        assert failure.seed == 3
        lines = failure.text.splitlines()
        assert len(lines) == 5, failure.text
        assert lines[3] == "t1 = zyx.cos(t0)"
        printed = []
        monkeypatch.setattr(builtins, "print", lambda *values: printed.append(values))
        exec(failure.text, {})
    assert len(printed) == 1


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "bool", "float64"])
@pytest.mark.parametrize("size", [7, 600])
def test_inputs_are_written_as_they_are(dtype, size, runtime):
    with use(runtime):
        array = zyx.Tensor(np.arange(size) % 5).astype(dtype).numpy()
        made = Program([array], outputs=[0])
        names = {}
        exec("\n".join(as_text(made).splitlines()[:-1]), names)
        found = names["t0"].numpy()
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


def test_bounds_follow_cancellation():
    x = np.float32([1000.0, 1000.0])
    y = np.float32([999.9, 1.0])
    made = program(
        ("zyx.exp({0} / 1000)", lambda x: np.exp(x / 1000), 0), ("zyx.exp({0} / 1000)", lambda x: np.exp(x / 1000), 1),
        ("{0} - {1}", np.subtract, 2, 3), inputs=[x, y],
    )  # fmt: skip
    reference = made.known()[-1].reference()
    relative = reference.bound / np.abs(reference.value)
    assert 1e-4 < relative[0] < 1  # most digits are lost
    assert relative[1] < 2e-5


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="C has no type wider than float64 here")
@pytest.mark.parametrize("function", [np.sum, np.mean, np.cumsum])
def test_what_sums_of_float64_should_be_is_exact_to_a_unit(function):
    x = np.random.default_rng(3).random((2049, 3)) + 1
    made = program(("...", lambda x: function(x, axis=0), 0), inputs=[x])
    made.dtypes[0] = dtypes.float64
    found = made.known()[-1].value
    counts = np.arange(1, 2050)[:, None] if function is np.cumsum else 2049
    exact = [[math.fsum(x[:count, column]) for column in range(3)] for count in np.unique(counts)]
    wanted = np.array(exact).reshape(found.shape) / (2049 if function is np.mean else 1)
    np.testing.assert_allclose(found, wanted, rtol=2 * np.finfo(np.float64).eps)


def test_a_draw_checks_shapes(runtime):
    with use(runtime):
        draw = Draw(Seeded(1), 100, dtypes.ALL, zyx.Tensor, lambda text, operands: operands[0].sum())
        x = draw.leaf((2, 3), dtypes.float32)
        with pytest.raises(AssertionError, match="NumPy gives"):
            draw.add(Call("{0}", lambda x: x, (x,)))
