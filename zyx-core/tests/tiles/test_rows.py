"""Several reductions in one program of tiles: softmax, norms, and their gradients, whatever stands in the pads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import zyx
from zyx.runtime.runtime import use
from zyx.testing.tile_programs import ROWS, on_the_interpreter
from zyx.testing.tiles import PaperTileDevice, open_tiles, tiles_info

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zyx.runtime.runtime import Runtime
    from zyx.tiles.data import TileProgram

RNG = np.random.default_rng(0)
A, B = (RNG.standard_normal((50, 70)).astype(np.float32) for _ in range(2))
STACK = RNG.standard_normal((3, 33, 40)).astype(np.float32)


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    with open_tiles() as opened, use(opened):
        yield opened


def programs_of(runtime: Runtime) -> list[TileProgram]:
    device = runtime.device()
    assert isinstance(device, PaperTileDevice)
    return device.programs


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("x", [A, STACK, A[:32, :64]], ids=["pads", "batch", "whole tiles"])
def test_one_program_computes(name: str, x: np.ndarray, runtime: Runtime):
    found = ROWS[name](zyx.Tensor(x))
    steps = zyx.explain_plan(found)["steps"]
    assert [(step["kind"], step["device"]) for step in steps] == [("launch", "tiles:0")]
    np.testing.assert_allclose(
        found.numpy(), on_the_interpreter(lambda: ROWS[name](zyx.Tensor(x))), rtol=2e-5, atol=2e-5
    )


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30, -200.0])
def test_special_values_stay_in_their_rows(name: str, value: float, runtime: Runtime):
    x = A.copy()
    x[3, 5] = value
    x[7] = value
    x[9, -1] = value
    found = ROWS[name](zyx.Tensor(x)).numpy()
    np.testing.assert_allclose(found, on_the_interpreter(lambda: ROWS[name](zyx.Tensor(x))), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", ROWS)
def test_rows_longer_than_local_memory_go_in_blocks(name: str):
    x = RNG.standard_normal((600, 1000)).astype(np.float32)
    with open_tiles(tiles_info(local_bytes=1 << 17)) as runtime, use(runtime):
        found = ROWS[name](zyx.Tensor(x)).numpy()
        assert any(len(program.sweeps) > 1 for program in programs_of(runtime))
        assert zyx.explain_plan(ROWS[name](zyx.Tensor(x)))["steps"][0]["device"] == "tiles:0"
    np.testing.assert_allclose(found, on_the_interpreter(lambda: ROWS[name](zyx.Tensor(x))), rtol=5e-5, atol=5e-5)


def test_results_of_rows_are_stored_beside_those_of_elements(runtime: Runtime):
    def both(x: zyx.Tensor) -> zyx.Tensor:
        top = x.max(axis=1, keepdims=True)
        shifted = x - top
        return zyx.cat([top, shifted.sum(axis=1, keepdims=True)], axis=1)

    np.testing.assert_allclose(
        both(zyx.Tensor(A)).numpy(), on_the_interpreter(lambda: both(zyx.Tensor(A))), rtol=1e-5, atol=1e-4
    )


def test_what_is_multiplied_need_not_be_zero_in_pads(runtime: Runtime):
    w = RNG.standard_normal((70, 90)).astype(np.float32)
    found = zyx.exp(zyx.Tensor(A)) @ (zyx.Tensor(w) + 1.0)
    steps = zyx.explain_plan(found)["steps"]
    assert {step["device"] for step in steps} == {"tiles:0"}
    np.testing.assert_allclose(found.numpy(), np.exp(A) @ (w + 1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("rows", "columns"), [(16, 32), (8, 8), (32, 16)])
def test_tiles_may_have_other_sizes(rows: int, columns: int):
    w = RNG.standard_normal((60, 70)).astype(np.float32)

    def shares(device: str) -> zyx.Tensor:
        scores = zyx.softmax(zyx.Tensor(A, device=device), axis=1)
        return zyx.where(scores > 0.01, scores, 1.0)

    wanted = shares("interpreter").numpy()
    with open_tiles(tiles_info(rows, columns)) as runtime, use(runtime):
        found = shares("tiles")
        assert {step["device"] for step in zyx.explain_plan(found)["steps"]} == {"tiles:0"}
        np.testing.assert_allclose(found.numpy(), wanted, rtol=2e-5, atol=2e-5)
        product = (found @ zyx.Tensor(w).T).numpy()  # by the host, where tiles are no squares
    np.testing.assert_allclose(product, wanted @ w.T, rtol=1e-4, atol=1e-4)
