"""Programs of tiles on the simulator: what they compute, what they move, and in which words they are written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zyx
from zyx.runtime.runtime import use
from zyx.testing.tile_programs import CHOICES, ROWS, WHOLE, compute, on_the_interpreter, operands
from zyx_backend_tenstorrent.program import TenstorrentProgram

if TYPE_CHECKING:
    from zyx.runtime.runtime import Runtime
    from zyx_backend_tenstorrent.device import TenstorrentDevice

RNG = np.random.default_rng(0)
A, B = (RNG.standard_normal((150, 70)).astype(np.float32) for _ in range(2))
W = RNG.standard_normal((70, 200)).astype(np.float32)
#: Rows and columns of what programs are given: several tiles each way.
SIZES = (150, 200)
PROGRAMS = (*WHOLE, *ROWS, *CHOICES)
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0], np.float32)

#: What the simulator has and the language's compiler does not: specification, appendix D.
BEYOND_THE_COMPILER = (
    r"%", r"//", r"\*\*", r"\bwhere\b", r"\bmask", r"\bclamp\b", r"ttl\.math\.(gt|lt|eq|ne)\b", r"logp1", r"rsub",
    r"relu_", r"\belu\b", r"softplus", r"\bround\b", r"threshold", r"GroupTransfer",
)  # fmt: skip


def programs_of(runtime: Runtime) -> list[TenstorrentProgram]:
    """Return the programs of this backend that are kept."""
    found = (known.future.result() for known in runtime.compiler._programs.values() if known.future.done())
    return [program for program in found if isinstance(program, TenstorrentProgram)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_program_computes(name: str, runtime: Runtime):
    found = compute(name, operands(*SIZES))
    steps = zyx.explain_plan(found)["steps"]
    assert {(step["kind"], step["device"]) for step in steps} == {("launch", "tenstorrent:0")}
    assert len(steps) == (2 if name == "share of all" else 1)  # a sum over several blocks has to be whole first
    wanted = on_the_interpreter(lambda: compute(name, operands(*SIZES)))
    np.testing.assert_allclose(found.numpy(), wanted, rtol=2e-5, atol=3e-5)


@pytest.mark.parametrize("name", ["layer", "products", "sum of rows", "sum of all", "chain"])
def test_more_cores_share_the_blocks(name: str, fresh):
    with use(fresh(grid_rows=2, grid_columns=3)):
        found = compute(name, operands(*SIZES)).numpy()
        wanted = on_the_interpreter(lambda: compute(name, operands(*SIZES)))
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=3e-5)


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
    for name in PROGRAMS:
        compute(name, operands(*SIZES)).numpy()
    (zyx.Tensor(A) <= zyx.Tensor(B)).numpy()
    texts = [program.source for program in programs_of(runtime)]
    assert len(texts) > len(PROGRAMS) // 2
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
