"""Products of few rows: threads that share a line of the other factor use it for all of them."""

from __future__ import annotations

import numpy as np
import pytest

from zyx.schedule.seeds.skinny_products import FEW_ROWS


def turned(bench, rows, columns, depth, dtype=np.float32):
    """Return x @ w.T."""
    x, w = bench.normal(rows, depth, dtype=dtype), bench.normal(columns, depth, dtype=dtype)
    return bench.matmul(x, bench.graph.permute(w, (1, 0)))


@pytest.mark.parametrize("rows", [2, 3, FEW_ROWS])
@pytest.mark.parametrize(("columns", "depth"), [(64, 256), (37, 131), (22, 64), (130, 1000)])
def test_each_line_is_read_once_for_all_rows(card_with, only, rows, columns, depth):
    only("skinny_product_seeds")
    card = card_with(units=4)
    product = turned(card, rows, columns, depth)
    (counted,) = card.counted(product)
    (param,) = [p for p in counted.nest.params if p.length == columns * depth and not p.mutable]
    sectors = -(-columns * depth * 4 // 32)
    assert counted.traffic.sectors[param.number] <= 1.6 * sectors  # lines of odd lengths begin within sectors


def test_a_deep_sum_is_cut_only_where_columns_are_few(card_with):
    for units, parts in (1, 1), (64, 2):
        product = turned(card_with(units=units), 3, 40, 4096)
        assert len(card_with(units=units).schedule(product).parts) == parts
