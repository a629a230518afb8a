"""Collecting less often while plans are made."""

import gc
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

import zyx
from zyx.runtime.collector import rare_collections
from zyx.runtime.plan import Plan
from zyx.runtime.planner import Planner


@pytest.fixture(autouse=True)
def python_defaults() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_collections_are_rare_within_the_block_and_as_before_behind_it() -> None:
    with rare_collections():
        first, _, third = gc.get_threshold()
        assert first > 10_000
        assert third > 10
    assert gc.get_threshold() == (700, 10, 10)


def test_an_exception_leaves_collections_as_they_were() -> None:
    with suppress(KeyError), rare_collections():
        raise KeyError
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("wanted", [(0, 10, 10), (10_000_000, 5, 5)])
def test_who_collects_more_rarely_or_never_is_left_alone(wanted: tuple[int, int, int]) -> None:
    gc.set_threshold(*wanted)
    with rare_collections():
        assert gc.get_threshold() == wanted
    assert gc.get_threshold() == wanted


def test_what_is_set_within_the_block_stays() -> None:
    with rare_collections():
        gc.set_threshold(50, 5, 5)
    assert gc.get_threshold() == (50, 5, 5)


def test_blocks_within_blocks_end_with_the_outermost() -> None:
    with rare_collections():
        with rare_collections():
            pass
        assert gc.get_threshold()[0] > 10_000
    assert gc.get_threshold() == (700, 10, 10)


def test_plans_are_made_with_rare_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    make = Planner.make

    def watched(self: Planner, *args: Any, **kwargs: Any) -> Plan:
        seen.append(gc.get_threshold()[0])
        return make(self, *args, **kwargs)

    monkeypatch.setattr(Planner, "make", watched)
    x = zyx.Tensor([[1.0, 2.0], [3.0, 4.5]])
    assert (x @ x + 0.25).tolist() == [[7.25, 11.25], [16.75, 26.5]]
    assert seen
    assert min(seen) > 10_000
    assert gc.get_threshold() == (700, 10, 10)
