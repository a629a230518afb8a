"""Attention as one hand-written kernel, on a device on paper whose warps multiply matrices, against NumPy."""

import contextlib

import numpy as np
import pytest

import zyx
from zyx import dtype as dtypes
from zyx.backend import Program
from zyx.backend.library import Attention, LibraryKernel
from zyx.builtin.interpreter import InterpreterProgram
from zyx.errors import UnsupportedError
from zyx.hookspecs import hookimpl
from zyx.kernel.data import Define, Memory
from zyx.kernel.run import Executable
from zyx.kernels.attention.kernel import attention_kernel
from zyx.kernels.attention.problem import Sizes
from zyx.nn import functional as F
from zyx.runtime.dividing import Dividing
from zyx.runtime.runtime import use
from zyx.testing.opening import open_runtime
from zyx.testing.paper import PAPER, PaperBackend, PaperDevice, open_paper
from zyx.testing.races import run_without_races

CARD = "card with tensor cores"
#: Of the norm of results: scores are exact to float32, weights are rounded once, and results once.
TOLERANCE = {zyx.float16: 1e-3, zyx.bfloat16: 8e-3}


def reference(q, k, v, *, scale=None, mask=None, causal=False):
    """Attention in float64; 0 where a query sees no key."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    n_q, n_k = scores.shape[-2:]
    if causal:
        scores = np.where(np.arange(n_k) <= np.arange(n_q)[:, None] + n_k - n_q, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = powers.sum(-1, keepdims=True)
    return powers / np.where(total == 0, 1, total) @ v


def error(actual, wanted):
    assert actual.shape == wanted.shape
    return np.linalg.norm(actual.astype(np.float64) - wanted) / np.linalg.norm(wanted)


class TestKernel:
    # Whole and ragged blocks of queries and keys; one and two tiles of rows; widths that are whole parts, and not;
    # values that all threads copy the same number of, and not.
    SIZES = (
        (2, 128, 128, 64, 64), (1, 100, 150, 64, 32), (3, 130, 70, 32, 64), (1, 200, 64, 128, 128),
        (2, 70, 100, 96, 40), (1, 33, 65, 8, 80), (1, 129, 257, 120, 8),
    )  # fmt: skip

    @pytest.mark.parametrize("sizes", SIZES)
    @pytest.mark.parametrize("causal", [False, True])
    @pytest.mark.parametrize("rows", [64, 128])
    def test_results_are_those_of_numpy(self, sizes, causal, rows):
        heads, n_q, n_k, width, wide = sizes
        rng = np.random.default_rng(3)
        q, k, v = (rng.standard_normal(shape).astype(np.float16) for shape in (
            (heads, n_q, width), (heads, n_k, width), (heads, n_k, wide)
        ))  # fmt: skip
        shape = (heads, n_q, wide)
        behind = n_k - n_q if causal else None
        kernel = attention_kernel(Sizes(*sizes, behind, 0.3, True, rows), shape, dtypes.float16, None).kernel
        out = np.zeros(heads * n_q * wide, np.float16)
        Executable(kernel)([out, q.ravel(), k.ravel(), v.ravel()])
        assert error(out.reshape(shape), reference(q, k, v, scale=0.3, causal=causal)) < TOLERANCE[zyx.float16]

    def test_a_query_that_sees_nothing_has_nan_or_if_guarded_zero(self):
        rng = np.random.default_rng(4)
        q, k, v = (rng.standard_normal((1, n, 16)).astype(np.float16) for n in (96, 64, 64))
        for is_guarded in (False, True):
            sizes = Sizes(1, 96, 64, 16, 16, 64 - 96, 1.0, is_guarded)
            kernel = attention_kernel(sizes, (1, 96, 16), dtypes.float16, None).kernel
            out = np.ones(96 * 16, np.float16)
            Executable(kernel)([out, q.ravel(), k.ravel(), v.ravel()])
            blind = out.reshape(96, 16)[:32]
            assert (blind == 0).all() if is_guarded else np.isnan(blind).all()
            assert error(out.reshape(1, 96, 16)[:, 32:], reference(q, k, v, scale=1.0, causal=True)[:, 32:]) < 1e-3

    @pytest.mark.parametrize("poison", [np.nan, np.inf])
    def test_what_is_no_number_stays_in_its_rows(self, poison):
        rng = np.random.default_rng(5)
        q, k, v = (rng.standard_normal((1, n, 16)).astype(np.float16) for n in (64, 100, 100))
        q[0, 7, 3] = poison
        sizes = Sizes(1, 64, 100, 16, 16, None, 1.0, False)
        out = np.zeros(64 * 16, np.float16)
        Executable(attention_kernel(sizes, (1, 64, 16), dtypes.float16, None).kernel)(
            [out, q.ravel(), k.ravel(), v.ravel()]
        )
        out = out.reshape(64, 16)
        assert np.isnan(out[7]).all()
        assert np.isfinite(np.delete(out, 7, 0)).all()

    @pytest.mark.parametrize("width", [64, 128])
    def test_threads_do_not_race(self, width):
        rng = np.random.default_rng(6)
        q, k, v = (
            rng.standard_normal(count).astype(np.float16) for count in (130 * width, 100 * width, 100 * (width - 8))
        )
        sizes = Sizes(1, 130, 100, width, width - 8, -30, 1.0, True)
        kernel = attention_kernel(sizes, (1, 130, width - 8), dtypes.float16, None).kernel
        run_without_races(kernel, [np.zeros(130 * (width - 8), np.float16), q, k, v])


@pytest.fixture
def card(monkeypatch):
    """Give the names of kernels that a card compiles."""
    names = []
    compile_ = PaperDevice.compile

    def noted(self, kernel):
        names.append(kernel.name)
        return compile_(self, kernel)

    monkeypatch.setattr(PaperDevice, "compile", noted)
    with open_paper(CARD) as runtime, use(runtime):
        yield names


def drawn(*shape, dtype=zyx.bfloat16, seed=0):
    values = np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)
    x = zyx.Tensor(values).astype(dtype)
    x.realize()
    return x, x.numpy().astype(np.float64)


class TestFound:
    @pytest.mark.parametrize("dtype", [zyx.float16, zyx.bfloat16])
    @pytest.mark.parametrize("kind", ["plain", "causal", "keys", "queries and keys", "added", "heads"])
    def test_attention_is_one_kernel(self, card, dtype, kind):
        rng = np.random.default_rng(1)
        (q, q_), (k, k_), (v, v_) = (drawn(2, 3, n, w, dtype=dtype) for n, w in ((70, 32), (100, 32), (100, 24)))
        mask, causal, options = None, kind == "causal", {}
        if kind == "keys":
            mask = rng.random((2, 1, 1, 100)) < 0.5
        elif kind == "queries and keys":
            mask = rng.random((3, 70, 100)) < 0.3
            mask[1, :40] = False
        elif kind == "added":
            mask, causal = rng.standard_normal((70, 100)).astype(np.float32), True
        elif kind == "heads":
            options = {"enable_gqa": True}
            k, v = k[:, :1], v[:, :1]
            k_, v_ = k_[:, :1], v_[:, :1]
        del card[:]
        given = None if mask is None else zyx.Tensor(mask)
        out = F.scaled_dot_product_attention(q, k, v, given, causal_lower_right=causal, **options)
        wanted = reference(q_, k_, v_, mask=mask, causal=causal)
        assert error(out.numpy(), wanted) < TOLERANCE[dtype]
        assert sum(name.startswith("attention") for name in card) == 1
        assert not any("sum" in name or "max" in name for name in card)

    @pytest.mark.parametrize(("queries", "keys"), [(70, 100), (100, 70)])
    def test_of_other_lengths_the_first_query_may_see_the_first_key(self, card, queries, keys):
        (q, q_), (k, k_), (v, v_) = (drawn(2, 3, n, 32, dtype=zyx.float16) for n in (queries, keys, keys))
        del card[:]
        with pytest.warns(FutureWarning, match="first query"):
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        wanted = reference(q_, k_, v_, mask=np.tri(queries, keys, dtype=bool))
        assert error(out.numpy(), wanted) < TOLERANCE[zyx.float16]
        assert sum(name.startswith("attention") for name in card) == 1

    def test_what_users_write_is_found_too(self, card):
        (q, q_), (k, k_), (v, v_) = (drawn(2, 64, 16, seed=seed) for seed in range(3))
        bias = zyx.Tensor(np.arange(2, dtype=np.float32).reshape(2, 1, 1))
        scores = zyx.matmul(q, k.mT, dtype=zyx.float32) / 4.0
        distance = zyx.abs(zyx.arange(64)[:, None] - zyx.arange(64)[None]).astype(zyx.float32)
        out = zyx.nn.functional.softmax(scores - bias * distance, -1).astype(zyx.bfloat16) @ v
        places = np.arange(64)
        mask = -np.arange(2).reshape(2, 1, 1) * np.abs(places[:, None] - places).astype(np.float64)
        assert error(out.numpy(), reference(q_, k_, v_, scale=0.25, mask=mask)) < TOLERANCE[zyx.bfloat16]
        assert sum(name.startswith("attention") for name in card) == 1

    def test_a_softmax_of_rounded_scores_rounds_them(self, card):
        (q, q_), (k, k_), (v, v_) = (drawn(1, 64, 16, dtype=zyx.float16, seed=seed) for seed in range(3))
        out = F.softmax(q @ k.mT, -1) @ v
        rounded = (q_ @ k_.swapaxes(-1, -2)).astype(np.float16)
        powers = np.exp(rounded.astype(np.float64) - rounded.max(-1, keepdims=True))
        wanted = powers / powers.sum(-1, keepdims=True) @ v_
        assert error(out.numpy(), wanted) < TOLERANCE[zyx.float16]
        assert sum(name.startswith("attention") for name in card) == 1

    @pytest.mark.parametrize("kind", ["float32", "short", "wide", "weights", "dropout", "gradient", "hidden scores"])
    def test_other_programs_are_as_ever(self, card, kind):
        dtype = zyx.float32 if kind == "float32" else zyx.bfloat16
        n = 8 if kind == "short" else 64
        width = 136 if kind == "wide" else 16
        (q, q_), (k, k_), (v, v_) = (drawn(2, n, width, dtype=dtype, seed=seed) for seed in range(3))
        wanted = reference(q_, k_, v_)
        if kind == "weights":
            weights = F.softmax(zyx.matmul(q, k.mT, dtype=zyx.float32) * width**-0.5, -1).astype(dtype)
            out = weights @ v
            zyx.realize(out, weights)
        elif kind == "hidden scores":
            scores = zyx.matmul(q, k.mT, dtype=zyx.float32) * width**-0.5
            out = F.softmax(scores, -1).astype(dtype) @ v
            zyx.realize(out, scores)
        elif kind == "dropout":
            out = F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
            wanted = None
        elif kind == "gradient":
            out = zyx.grad(lambda q: F.scaled_dot_product_attention(q, k, v).astype(zyx.float32).sum())(q)
            wanted = None
        else:
            out = F.scaled_dot_product_attention(q, k, v)
        actual = out.numpy()
        assert not any(name.startswith("attention") for name in card)
        assert wanted is None or error(actual, wanted) < 1e-2

    def test_what_the_device_refuses_is_computed_by_other_kernels(self, card, monkeypatch, capsys):
        compile_ = PaperDevice.compile

        def refusing(self, kernel):
            if kernel.name.startswith("attention"):
                raise UnsupportedError("too large")
            return compile_(self, kernel)

        monkeypatch.setattr(PaperDevice, "compile", refusing)
        (q, q_), (k, k_), (v, v_) = (drawn(1, 64, 16, seed=seed) for seed in range(3))
        with zyx.debug("plan"):
            out = F.scaled_dot_product_attention(q, k, v)
            assert error(out.numpy(), reference(q_, k_, v_)) < TOLERANCE[zyx.bfloat16]
        assert "next: with fewer hand-written kernels" in capsys.readouterr().err

    def test_matrices_of_two_axes_are_one_head(self, card):
        (q, q_), (k, k_), (v, v_) = (drawn(n, 16, seed=n) for n in (65, 66, 66))
        out = F.scaled_dot_product_attention(q, k, v)
        assert error(out.numpy(), reference(q_, k_, v_)) < TOLERANCE[zyx.bfloat16]
        assert sum(name.startswith("attention") for name in card) == 1

    def test_a_jitted_function_with_it_computes_with_other_values(self, card):
        attend = zyx.jit(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))
        for seed in range(4):
            (q, q_), (k, k_), (v, v_) = (drawn(2, 64, 32, seed=3 * seed + number) for number in range(3))
            assert error(attend(q, k, v).numpy(), reference(q_, k_, v_, causal=True)) < TOLERANCE[zyx.bfloat16]
        assert sum(name.startswith("attention") for name in card) == 1


class Vendor(PaperBackend):
    """A card whose vendor has a library for attention."""

    def __init__(self, *, unmeasured):
        super().__init__(PAPER[CARD])
        self.asked, self._unmeasured = [], unmeasured

    @hookimpl
    def zyx_library_kernels(self, device):
        return [LibraryKernel("vendor 1.0", Attention, self.prepare, self._unmeasured)]

    def prepare(self, problem):
        self.asked.append(problem)
        heads, width = problem.batch * problem.heads, problem.width
        sizes = [heads * count * width for count in (problem.queries, problem.keys, problem.keys, problem.queries)]
        params = tuple(Define(Memory.GLOBAL, problem.dtype, size, n == 3) for n, size in enumerate(sizes))

        def executable(arrays):
            q, k, v, y = arrays
            given = (x.reshape(heads, -1, width).astype(np.float64) for x in (q, k, v))
            y[:] = reference(*given, scale=problem.scale, causal=problem.causal).ravel()

        program = InterpreterProgram.__new__(InterpreterProgram)
        Program.__init__(program, "vendor")
        program.params, program.executable = params, executable
        return program


@pytest.fixture
def vendor(tmp_path):
    """``with vendor(unmeasured=...) as (backend, _)`` opens a card with such a library, and a cache of this test."""

    @contextlib.contextmanager
    def open_(*, unmeasured, **settings):
        backend = Vendor(unmeasured=unmeasured)
        few = {"n_launches": 1, "n_seeds": 1, "n_total_opts": 1}
        given = {"cache": {"directory": str(tmp_path)}, "autotune": few} | settings
        runtime = open_runtime("paper:0", [backend], given)
        with use(runtime):
            yield backend, runtime
        runtime.close()

    return open_


def attention(causal):
    (q, q_), (k, k_), (v, v_) = (drawn(2, 3, n, 32, seed=n) for n in (70, 100, 100))
    y = F.scaled_dot_product_attention(q, k, v, causal_lower_right=causal)
    assert error(y.numpy().astype(np.float64), reference(q_, k_, v_, causal=causal)) < TOLERANCE[zyx.bfloat16]


class TestLibrary:
    @pytest.mark.parametrize("causal", [False, True])
    def test_a_library_is_taken_by_what_it_says_of_itself(self, vendor, causal):
        with vendor(unmeasured=True) as (backend, _):
            attention(causal)
        (problem,) = backend.asked
        assert problem == Attention(1, 6, 6, 70, 100, 32, causal, float(np.float32(32**-0.5)), zyx.bfloat16)
        with vendor(unmeasured=False) as (backend, _):
            attention(causal)
        with vendor(unmeasured=True, autotune={"library_kernels": "off"}) as (other, _):
            attention(causal)
        assert not backend.asked and not other.asked

    @pytest.mark.parametrize("unmeasured", [False, True])
    def test_what_is_faster_by_measuring_is_taken_from_then_on(self, vendor, monkeypatch, unmeasured):
        monkeypatch.setattr(Dividing, "_in_turns", lambda *_: ([2.0] * 5, [1.0] * 5))
        with vendor(unmeasured=unmeasured) as (backend, _):
            with zyx.tune(1) as tuning:
                attention(False)
            (row,) = [row for row in tuning.results() if row.kernel.startswith("graph")]
            assert row.gain > 1.0 and not row.wrong
            assert "the other kernel for custom" in row.why
        with vendor(unmeasured=unmeasured) as (backend, _):
            attention(False)
            assert bool(backend.asked) != unmeasured

    def test_scores_that_are_changed_and_other_widths_have_no_library(self, vendor):
        with vendor(unmeasured=True) as (backend, _):
            (q, _), (k, _), (v, _) = (drawn(2, 3, n, w) for n, w in ((70, 32), (100, 32), (100, 24)))
            F.scaled_dot_product_attention(q, k, v).realize()
            (v, _) = drawn(2, 3, 100, 32)
            F.scaled_dot_product_attention(q, k, v, zyx.Tensor(np.eye(70, 100, dtype=np.float32))).realize()
            assert not backend.asked
