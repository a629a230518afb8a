"""Choices, masks, padding and places, on a device that has nothing but tiles."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zyx
from zyx.nest import expr as e
from zyx.nest.pool import Pool
from zyx.runtime.runtime import use
from zyx.testing.tile_programs import CHOICES, on_the_interpreter
from zyx.testing.tiles import open_tiles
from zyx.tiles.data import Matrix, Pads
from zyx.tiles.expressions import is_number
from zyx.tiles.staging import elements_in_tiles, has_pads, to_tiles
from zyx.tiles.views import boxes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zyx.runtime.runtime import Runtime

RNG = np.random.default_rng(0)
A, B = (RNG.standard_normal((50, 70)).astype(np.float32) for _ in range(2))
SPECIAL = A.copy()
SPECIAL[3, 4] = np.nan
SPECIAL[5], SPECIAL[6], SPECIAL[7], SPECIAL[8] = np.inf, -np.inf, -0.0, np.nan


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    with open_tiles() as opened, use(opened):
        yield opened


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("x", [A, SPECIAL], ids=["numbers", "special"])
def test_choices_stay_on_the_device(name: str, x: np.ndarray, runtime: Runtime):
    found = CHOICES[name](zyx.Tensor(x), zyx.Tensor(B))
    steps = zyx.explain_plan(found)["steps"]
    assert {step["device"] for step in steps} == {"tiles:0"}
    wanted = on_the_interpreter(lambda: CHOICES[name](zyx.Tensor(x), zyx.Tensor(B)))
    np.testing.assert_allclose(found.numpy(), wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("name", "ulps"), [("erf", 3), ("log1p", 3)])
def test_functions_that_are_written_in_others_are_exact_to_some_ulps(name: str, ulps: int, runtime: Runtime):
    reference = {"erf": math.erf, "log1p": lambda x: math.log1p(x) if x > -1 else -math.inf}[name]
    magnitudes = np.geomspace(1e-12, 50, 4000).astype(np.float32)
    x = np.concatenate([magnitudes, -magnitudes if name == "erf" else -magnitudes[magnitudes <= 1]])
    found = getattr(zyx, name)(zyx.Tensor(x)).numpy()
    wanted = np.array([reference(float(each)) for each in x])
    distance = np.abs(found - wanted) / np.spacing(np.abs(wanted).astype(np.float32))
    assert distance.max() <= ulps
    special = np.array([np.nan, np.inf, 0.0, -np.inf if name == "erf" else -1.0], np.float32)
    with zyx.device("interpreter"):
        wanted = getattr(zyx, name)(zyx.Tensor(special)).numpy()
    np.testing.assert_array_equal(getattr(zyx, name)(zyx.Tensor(special)).numpy(), wanted)


def test_what_is_not_chosen_may_be_nan(runtime: Runtime):
    x, y = zyx.Tensor(A), zyx.Tensor(np.full_like(A, np.nan))
    np.testing.assert_array_equal(zyx.where(x > 0, x, y).numpy(), np.where(A > 0, A, np.nan))


def test_whole_numbers_are_compared_with_numbers_and_places(runtime: Runtime):
    edge = 1 << 24
    labels = np.array([0, 1, 69, -1, 5, edge - 1, edge, edge + 1, -edge - 1, (1 << 62) + 1, -(1 << 62)])
    x, places = zyx.Tensor(labels), zyx.arange(70)
    for found, wanted in (
        (x[:, None] == places, labels[:, None] == np.arange(70)),
        (x < 5, labels < 5),
        (x >= edge - 1, labels >= edge - 1),
        (x != 69, labels != 69),
    ):
        assert {step["device"] for step in zyx.explain_plan(found)["steps"]} == {"tiles:0"}
        np.testing.assert_array_equal(found.numpy(), wanted)
    np.testing.assert_array_equal((x == edge + 1).numpy(), labels == edge + 1)
    np.testing.assert_array_equal((x == zyx.Tensor(labels[::-1].copy())).numpy(), labels == labels[::-1])


def test_cross_entropy_stays_on_the_device(runtime: Runtime):
    labels = RNG.integers(0, 70, 50)

    def loss(x: zyx.Tensor) -> zyx.Tensor:
        return zyx.cross_entropy(x, zyx.Tensor(labels, device=x.device))

    found = zyx.grad(loss)(zyx.Tensor(A))
    assert {step["device"] for step in zyx.explain_plan(found)["steps"]} == {"tiles:0"}
    wanted = zyx.grad(loss)(zyx.Tensor(A, device="interpreter")).numpy()
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-7)


def test_masked_rows_of_scores_are_shares(runtime: Runtime):
    def shares(x: zyx.Tensor) -> zyx.Tensor:
        lower = zyx.tril(zyx.ones((50, 70), device=x.device)) > 0
        return zyx.softmax(zyx.where(lower, x, -float("inf")), axis=1)

    found = shares(zyx.Tensor(A))
    assert [step["device"] for step in zyx.explain_plan(found)["steps"]] == ["tiles:0"]
    np.testing.assert_allclose(found.numpy(), shares(zyx.Tensor(A, device="interpreter")).numpy(), rtol=2e-5)


def test_masks_are_boxes_of_ranges():
    pool = Pool()
    row, column = pool.range(9), pool.range(20)

    def at_least(range_: e.Range, factor: int, start: int) -> e.Expr:
        return pool.non_negative(pool.affine([(pool.ref(range_), factor)], start))

    mask = pool.both(pool.both(at_least(row, 1, -2), at_least(column, -1, 15)), at_least(column, 2, -7))
    assert boxes_of(mask) == {row: (2, 9), column: (4, 16)}


def test_views_within_a_buffer_are_zero_elsewhere():
    flat = np.arange(12, dtype=np.float32)
    view = Matrix(zyx.float32, zyx.float32, -5, (4, 6), (4, 1), within=((1, 4), (1, 5)))
    wanted = np.zeros((4, 6), np.float32)
    wanted[1:4, 1:5] = flat.reshape(3, 4)
    np.testing.assert_array_equal(to_tiles(flat, view, (4, 4))[:4, :6], wanted)


@pytest.mark.parametrize(("pads", "beside"), [(Pads.ZERO, 0.0), (Pads.LAST, 9.0)])
def test_pads_of_a_folded_vector_are_as_asked_for(pads: Pads, beside: float):
    view = Matrix(zyx.float32, zyx.float32, 0, (3, 4), (4, 1), count=10)
    found = to_tiles(np.arange(10, dtype=np.float32), view, (4, 4), pads)
    is_element = elements_in_tiles(view, (4, 4))
    assert has_pads(view, (4, 4))
    assert is_element.sum() == 10
    np.testing.assert_array_equal(found[is_element], np.arange(10))
    assert found[2, 2] == beside
    if pads is Pads.ZERO:
        assert not found[~is_element].any()


def test_numbers_are_told_from_what_may_be_nan():
    pool = Pool()
    read = pool.read(e.Param(0, zyx.float32, 4, mutable=False), pool.ref(pool.range(4)))
    assert is_number(pool.literal(1.0, zyx.float32), {})
    assert not is_number(pool.literal(float("nan"), zyx.float32), {})
    assert not is_number(read, {})
