"""Reductions, scans, sorting and searching."""

from __future__ import annotations

from typing import Final

from meanings import reductions

from fuzz.rows import Family

ROWS: Final = (
    (Family("total", reductions.SUMS), 6), (Family("product", reductions.PRODUCTS), 1),
    (Family("extreme", reductions.EXTREMES), 4), (Family("span", reductions.SPANS), 1),
    (Family("truth", reductions.TRUTHS), 1),
    (Family("place_of_extreme", reductions.PLACES_OF_EXTREMES), 2), (Family("average", reductions.AVERAGES), 5),
    (Family("average_of_integers", reductions.AVERAGES_OF_INTEGERS), 1), (Family("norm", reductions.NORMS), 3),
    (Family("similarity", reductions.SIMILARITIES), 1), (Family("scan", reductions.SCANS), 4),
    (Family("differences", reductions.DIFFERENCES), 1), (Family("order", reductions.ORDERS), 3),
    (Family("search", reductions.SEARCHES), 1),
)  # fmt: skip
