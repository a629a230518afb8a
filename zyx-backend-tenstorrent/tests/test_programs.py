"""Programs of tiles on the simulator: what they compute, what they move, and in which words they are written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zyx
from zyx.runtime.runtime import use
from zyx_backend_tenstorrent.program import TenstorrentProgram

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.runtime.runtime import Runtime
    from zyx_backend_tenstorrent.device import TenstorrentDevice

RNG = np.random.default_rng(0)
A, B = (RNG.standard_normal((150, 70)).astype(np.float32) for _ in range(2))
W = RNG.standard_normal((70, 200)).astype(np.float32)
ROW = RNG.standard_normal(70).astype(np.float32)
STACK = RNG.standard_normal((3, 40, 70)).astype(np.float32)
EXP = np.exp(A)
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0], np.float32)

#: Each is one launch on the device, with what NumPy makes of it.
WHOLE: dict[str, tuple[Callable[[], zyx.Tensor], object]] = {
    "chain": (lambda: zyx.exp(zyx.Tensor(A) + zyx.Tensor(B) * 2.7), np.exp(A + B * np.float32(2.7))),
    "row": (lambda: zyx.Tensor(A) * zyx.Tensor(ROW), A * ROW),
    "column": (lambda: zyx.Tensor(A) - zyx.Tensor(B)[:, :1], A - B[:, :1]),
    "vector": (lambda: zyx.Tensor(ROW) / 3.0, ROW / 3),
    "transposition": (lambda: zyx.Tensor(A).T + 1, A.T + 1),
    "part": (lambda: zyx.Tensor(A)[3:140, 5:60] * 2, A[3:140, 5:60] * 2),
    "product": (lambda: zyx.Tensor(A) @ zyx.Tensor(W), A @ W),
    "layer": (lambda: zyx.maximum(zyx.Tensor(A) @ zyx.Tensor(W) + 0.3, 0.0), np.maximum(A @ W + np.float32(0.3), 0)),
    "transposed factor": (lambda: zyx.Tensor(A).T @ zyx.Tensor(B), A.T @ B),
    "products": (lambda: zyx.Tensor(STACK) @ zyx.Tensor(W), STACK @ W),
    "sum of rows": (lambda: zyx.Tensor(A).sum(axis=1), A.sum(1)),
    "sum of columns": (lambda: zyx.Tensor(A).sum(axis=0), A.sum(0)),
    "sum of all": (lambda: zyx.Tensor(A).sum(), A.sum()),
    "greatest of rows": (lambda: zyx.Tensor(A - 9).max(axis=1), (A - 9).max(1)),
    "least of columns": (lambda: zyx.Tensor(A + 9).min(axis=0), (A + 9).min(0)),
    "mean of squares": (lambda: (zyx.Tensor(A) * zyx.Tensor(A)).mean(axis=1), (A * A).mean(1)),
    "softmax": (lambda: zyx.softmax(zyx.Tensor(A), axis=1), EXP / EXP.sum(1, keepdims=True)),
    "log of softmax": (lambda: zyx.log_softmax(zyx.Tensor(A), axis=1), np.log(EXP / EXP.sum(1, keepdims=True))),
    "layer norm": (
        lambda: zyx.nn.LayerNorm(70)(zyx.Tensor(A)),
        (A - A.mean(1, keepdims=True)) / np.sqrt(A.var(1, keepdims=True) + np.float32(1e-5)),
    ),
    "RMS norm": (
        lambda: zyx.nn.RMSNorm(70, eps=1e-6)(zyx.Tensor(A)),
        A / np.sqrt((A * A).mean(1, keepdims=True) + np.float32(1e-6)),
    ),
    "choice": (lambda: zyx.where(zyx.Tensor(A) > 0, zyx.Tensor(B), 0.5), np.where(A > 0, B, np.float32(0.5))),
    "bounds": (lambda: zyx.clip(zyx.Tensor(A), -1, 1), np.clip(A, -1, 1)),
    "gradient of relu": (
        lambda: zyx.grad(lambda x: (zyx.relu(x) * zyx.Tensor(B)).sum())(zyx.Tensor(A)),
        np.where(A > 0, B, 0),
    ),
    "padding": (
        lambda: zyx.pad(zyx.Tensor(A), ((1, 2), (3, 4)), value=2.0) + 1,
        np.pad(A, ((1, 2), (3, 4)), constant_values=2) + 1,
    ),
    "side by side": (lambda: zyx.cat([zyx.Tensor(A), zyx.Tensor(B)], axis=1) + 1, np.concatenate([A, B], 1) + 1),
    "triangle": (lambda: zyx.tril(zyx.Tensor(A)), np.tril(A)),
}

#: What the simulator has and the language's compiler does not: specification, appendix D.
BEYOND_THE_COMPILER = (
    r"%", r"//", r"\*\*", r"\bwhere\b", r"\bmask", r"\bclamp\b", r"ttl\.math\.(gt|lt|eq|ne)\b", r"logp1", r"rsub",
    r"relu_", r"\belu\b", r"softplus", r"\bround\b", r"threshold", r"GroupTransfer",
)  # fmt: skip


def programs_of(runtime: Runtime) -> list[TenstorrentProgram]:
    """Return the programs of this backend that are kept."""
    found = (known.future.result() for known in runtime.compiler._programs.values() if known.future.done())
    return [program for program in found if isinstance(program, TenstorrentProgram)]


@pytest.mark.parametrize("name", WHOLE)
def test_one_program_computes(name: str, runtime: Runtime):
    make, wanted = WHOLE[name]
    found = make()
    steps = zyx.explain_plan(found)["steps"]
    assert [(step["kind"], step["device"]) for step in steps] == [("launch", "tenstorrent:0")]
    np.testing.assert_allclose(found.numpy(), wanted, rtol=2e-5, atol=3e-5)


@pytest.mark.parametrize("name", ["layer", "products", "sum of rows", "sum of all", "chain"])
def test_more_cores_share_the_blocks(name: str, fresh):
    make, wanted = WHOLE[name]
    with use(fresh(grid_rows=2, grid_columns=3)):
        np.testing.assert_allclose(make().numpy(), wanted, rtol=2e-5, atol=3e-5)


@pytest.mark.parametrize("op", ["less", "less_equal", "equal", "not_equal"])
def test_comparisons_are_those_of_ieee(op: str, runtime: Runtime):
    x, y = np.meshgrid(SPECIAL, SPECIAL)
    found = getattr(zyx, op)(zyx.Tensor(x), zyx.Tensor(y)).numpy()
    np.testing.assert_array_equal(found, getattr(np, op)(x, y))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_is_not_chosen_may_be_nan(dtype: str, runtime: Runtime):
    x = A.copy()
    x[3, 4], x[5], x[6], x[7] = np.nan, np.inf, -np.inf, -0.0

    def chosen(device: str) -> zyx.Tensor:
        left, right = (zyx.Tensor(each, device=device).astype(dtype) for each in (x, B))
        return zyx.where(right > 0, right * 2, left)

    found = chosen("tenstorrent").realize()
    assert sum(program.repeated for program in programs_of(runtime)) > 0
    wanted = chosen("interpreter").astype(zyx.float32).numpy()
    np.testing.assert_array_equal(found.astype(zyx.float32).numpy(), wanted)


def test_choices_without_nan_are_not_repeated(fresh):
    runtime = fresh(grid_rows=2, grid_columns=2)
    x = A.copy()
    x[5], x[6] = np.inf, -np.inf
    with use(runtime):
        for _ in range(2):
            found = zyx.where(zyx.Tensor(x) > 0, zyx.Tensor(x), zyx.Tensor(B) @ zyx.Tensor(B).T[:, :70])
            np.testing.assert_allclose(found.numpy(), np.where(x > 0, x, B @ B.T[:, :70]), rtol=1e-5, atol=1e-5)
        zyx.grad(lambda x: zyx.cross_entropy(x, zyx.arange(150) % 70))(zyx.Tensor(A)).realize()
        assert not any(program.repeated for program in programs_of(runtime))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_short_floats_round_after_every_operation(dtype: str, runtime: Runtime):
    def compute(device: str) -> np.ndarray:
        x, y = (zyx.Tensor(each, device=device).astype(dtype) for each in (A, B))
        return ((x * y + x) / 3.1).astype(zyx.float32).numpy()

    np.testing.assert_array_equal(compute("tenstorrent"), compute("interpreter"))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_products_of_short_floats_are_added_up_in_float32(dtype: str, runtime: Runtime):
    x, w = (zyx.Tensor(each).astype(dtype) for each in (A, W))
    wanted = x.astype(zyx.float32).numpy() @ w.astype(zyx.float32).numpy()
    found = (x @ w).astype(zyx.float32).numpy()
    np.testing.assert_allclose(found, wanted, rtol=2**-8, atol=1e-3)


def test_texts_have_what_the_compiler_has_alone(runtime: Runtime):
    for make, _ in WHOLE.values():
        make().numpy()
    (zyx.Tensor(A) <= zyx.Tensor(B)).numpy()
    texts = [program.source for program in programs_of(runtime)]
    assert len(texts) > len(WHOLE) // 2
    for text in texts:
        for pattern in BEYOND_THE_COMPILER:
            assert re.search(pattern, text) is None, f"{pattern} in\n{text}"


def test_a_chain_moves_each_tile_once(fresh):
    runtime = fresh()
    x, y = (np.ones((256, 256), np.float32) for _ in range(2))
    with use(runtime):
        (zyx.Tensor(x) * zyx.Tensor(y) + zyx.Tensor(x)[:1]).numpy()
        (program,) = programs_of(runtime)
    assert 3 * 64 <= program.tiles_moved <= 3 * 64 + 4 * 8  # and the row once for each block of rows


def test_results_stay_tiles_until_they_are_read(device: TenstorrentDevice, runtime: Runtime):
    x = zyx.Tensor(np.ones((64, 64), np.float32)).realize()
    before = device.pool.staged_tiles
    for _ in range(5):
        x = (x * 2.0).realize()
    assert device.pool.staged_tiles - before == 4  # of the first
    np.testing.assert_array_equal(x.numpy(), np.full((64, 64), 32, np.float32))


def test_transposed_results_are_not_staged_again(device: TenstorrentDevice, runtime: Runtime):
    w = zyx.Tensor(np.ones((64, 64), np.float32)).realize()
    x = (w * 2.0).realize()
    before = device.pool.staged_tiles
    (w.T @ x.T).realize()
    assert device.pool.staged_tiles == before


def test_a_buffer_is_read_as_another_matrix_than_it_was_written(runtime: Runtime):
    x = zyx.Tensor(A).realize()
    doubled = (x * 2).realize()
    other = doubled.reshape((70, 150)) + 1.0
    np.testing.assert_array_equal(other.numpy(), (A * 2).reshape(70, 150) + 1)


def test_the_rest_is_the_hosts(runtime: Runtime):
    numbers = RNG.integers(-9, 9, (150, 70), dtype=np.int32)
    found = (zyx.Tensor(numbers) ^ 5).astype(zyx.float32) * zyx.Tensor(A)
    steps = zyx.explain_plan(found)["steps"]
    devices = {step["device"] for step in steps if step["kind"] == "launch"}
    assert "tenstorrent:0" in devices
    assert len(devices) == 2
    np.testing.assert_array_equal(found.numpy(), (numbers ^ 5).astype(np.float32) * A)


def test_a_network_is_what_it_is_elsewhere(runtime: Runtime):
    def loss(w: zyx.Tensor, x: zyx.Tensor) -> zyx.Tensor:
        return zyx.tanh(x @ w).sum()

    def gradient(device: str) -> np.ndarray:
        w, x = zyx.Tensor(W, device=device), zyx.Tensor(A, device=device)
        return zyx.grad(loss)(w, x).numpy()

    np.testing.assert_allclose(gradient("tenstorrent"), gradient("cpu"), rtol=1e-4, atol=1e-4)
