"""Products of few rows: threads that share a line of the other factor use it for all of them."""

from __future__ import annotations

import numpy as np
import pytest

from zyx.ir.nest import Kind
from zyx.schedule.heuristics.few_rows import COLUMNS_OF_A_UNIT, FEW_ROWS


def turned(bench, rows, columns, depth, dtype=np.float32):
    """Return x @ w.T."""
    x, w = bench.normal(rows, depth, dtype=dtype), bench.normal(columns, depth, dtype=dtype)
    return bench.matmul(x, bench.graph.permute(w, (1, 0)))


def share_lines(counted):
    """Whether all rows are written out, and threads stand along the sum."""
    statement = counted.nest.statements[0]
    kinds = [counted.nest.kind(range_) for range_ in statement.reduced]
    rows = statement.value.ranges[0]
    return Kind.LOCAL in kinds and counted.nest.kind(rows) is Kind.UNROLL


@pytest.mark.parametrize("rows", [2, 3, FEW_ROWS])
@pytest.mark.parametrize(("columns", "depth"), [(64, 256), (37, 131), (12, 64), (130, 1000)])
def test_each_line_is_read_once_for_all_rows(card, rows, columns, depth):
    product = turned(card, rows, columns, depth)
    (counted,) = card.counted(product)
    assert share_lines(counted)
    (param,) = [p for p in counted.nest.params if p.length == columns * depth and not p.mutable]
    sectors = -(-columns * depth * 4 // 32)
    assert counted.traffic.sectors[param.number] <= 1.6 * sectors  # lines of odd lengths begin within sectors


@pytest.mark.parametrize(
    ("rows", "columns", "depth"),
    [(1, 64, 256), (FEW_ROWS + 1, 64, 256), (4, COLUMNS_OF_A_UNIT - 1, 256), (4, 64, 63)],
)
def test_other_products_are_not(card, rows, columns, depth):
    product = turned(card, rows, columns, depth)
    for counted in card.counted(product):
        assert not share_lines(counted)


def test_columns_side_by_side_are_no_lines(card):
    product = card.matmul(card.normal(4, 256), card.normal(256, 64))
    for counted in card.counted(product):
        assert not share_lines(counted)


def test_a_deep_sum_is_cut_only_where_columns_are_few(card_with):
    for units, parts in (1, 1), (64, 2):
        product = turned(card_with(units=units), 3, 40, 4096)
        assert len(card_with(units=units).schedule(product).parts) == parts


def test_what_follows_comes_along(card):
    product = turned(card, 4, 64, 300)
    (counted,) = card.counted(card.tanh(card.add(product, card.normal(64))))
    assert share_lines(counted)
