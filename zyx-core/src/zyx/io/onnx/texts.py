"""Texts, which are NumPy's arrays of objects on the host."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from zyx.io.onnx.patterns import matcher
from zyx.io.onnx.registry import operator
from zyx.io.onnx.values import to_host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zyx.functions.operands import Array
    from zyx.io.onnx.node import NodeCall
    from zyx.io.onnx.values import Value


def of_objects(items: Iterable[object], shape: tuple[int, ...]) -> Array:
    """Return an array of objects, also of what NumPy would make arrays of."""
    listed = list(items)
    array = np.empty(len(listed), object)
    array[:] = listed
    return array.reshape(shape)


@operator("StringConcat", raw=True)
def concat(_: NodeCall, x: Array, y: Array) -> Value:
    """Append texts, with broadcasting."""
    x, y = np.broadcast_arrays(x, y)
    return of_objects((str(a) + str(b) for a, b in zip(x.reshape(-1), y.reshape(-1), strict=True)), x.shape)


@operator("StringSplit", raw=True)
def split(node: NodeCall, x: Array) -> Value:
    """Split texts into parts along a new axis, filled up with empty ones, and say how many there are."""
    delimiter, most = node.get("delimiter") or None, node.get("maxsplit", -1)
    parts = [str(text).split(delimiter, -1 if most is None else most) for text in x.reshape(-1)]
    width = max((len(words) for words in parts), default=0)
    filled = [word for words in parts for word in [*words, *[""] * (width - len(words))]]
    counts = np.array([len(words) for words in parts], np.int64).reshape(x.shape)
    return of_objects(filled, (*x.shape, width)), counts


@operator("RegexFullMatch", raw=True)
def full_match(node: NodeCall, x: Array) -> Value:
    """Return which texts match a pattern as a whole."""
    matches = matcher(node["pattern"])
    return np.array([matches(str(item)) for item in x.reshape(-1)], np.bool_).reshape(x.shape)


@operator("StringNormalizer", raw=True)
def normalize(node: NodeCall, x: Array) -> Value:
    """Leave out words, and change case."""
    case: dict[str, Callable[[str], str]] = {"LOWER": str.lower, "UPPER": str.upper}
    change = case.get(node.get("case_change_action", "NONE"), str)
    stops = set(node.get("stopwords") or ())
    folded = {word.lower() for word in stops}
    sensitive = bool(node.get("is_case_sensitive", 0))
    words = [str(word) for word in x.reshape(-1)]
    kept = [change(word) for word in words if (word not in stops if sensitive else word.lower() not in folded)]
    kept = kept or [""]
    return of_objects(kept, (1, len(kept)) if x.ndim == 2 else (len(kept),))


@operator("TfIdfVectorizer", raw=True)
def count_grams(node: NodeCall, x: Value) -> Value:
    """Count sequences of words that a pool lists, and weigh them."""
    array = to_host(x)
    pool = node.get("pool_strings") or node.get("pool_int64s") or []
    starts = [*node["ngram_counts"], len(pool)]
    places = node["ngram_indexes"]
    grams: dict[tuple[object, ...], int] = {}
    for length, (begin, end) in enumerate(itertools.pairwise(starts), 1):
        for first in range(begin, end, length):
            grams[tuple(pool[first : first + length])] = places[len(grams)]
    rows = array.reshape((1, -1)) if array.ndim == 1 else array
    counts = np.zeros((len(rows), max(places) + 1), np.float32)
    shortest, longest, skips = node["min_gram_length"], node["max_gram_length"], node["max_skip_count"]
    for row, items in enumerate(rows.tolist()):
        for length in range(shortest, longest + 1):
            for step in range(1, (skips if length > 1 else 0) + 2):
                for first in range(len(items) - (length - 1) * step):
                    gram = tuple(items[first : first + (length - 1) * step + 1 : step])
                    if gram in grams:
                        counts[row, grams[gram]] += 1
    weights = np.ones(counts.shape[1], np.float32)
    if node.get("weights"):
        for number, place in enumerate(places):
            weights[place] = node["weights"][number]
    mode = node["mode"]
    result = counts if mode == "TF" else (counts > 0) * weights if mode == "IDF" else counts * weights
    return result.astype(np.float32).reshape(counts.shape[1:] if array.ndim == 1 else counts.shape)
