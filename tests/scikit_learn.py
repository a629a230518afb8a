"""Call scikit-learn with tensors, and with NumPy's arrays; print a line for each call whose results differ.

    SCIPY_ARRAY_API=1 python tests/scikit_learn.py

SciPy reads the variable as it is imported, so this is a process of its own. Results are tensors where scikit-learn's
are arrays, and within 1e-4 of them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn import config_context, metrics, preprocessing
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.metrics import pairwise
from sklearn.model_selection import train_test_split

import zyx

if TYPE_CHECKING:
    from collections.abc import Callable

_RANDOM = np.random.default_rng(0)
ROWS = _RANDOM.normal(size=(40, 5)).astype(np.float32)
LABELS = (_RANDOM.random(40) < 0.5).astype(np.int64)
GUESSES = (_RANDOM.random(40) < 0.5).astype(np.int64)
TARGETS = _RANDOM.normal(size=40).astype(np.float32)
FITTED = TARGETS + _RANDOM.normal(size=40).astype(np.float32)


def transform(model: Any) -> Callable[..., Any]:
    return model.fit_transform  # type: ignore[no-any-return]  # scikit-learn has no types


def predict(model: Any) -> Callable[..., Any]:
    return lambda rows, targets: model.fit(rows, targets).predict(rows)


CALLS: dict[str, tuple[Callable[..., Any], *tuple[np.ndarray[Any, Any], ...]]] = {
    "MinMaxScaler": (transform(preprocessing.MinMaxScaler()), ROWS),
    "MaxAbsScaler": (transform(preprocessing.MaxAbsScaler()), ROWS),
    "StandardScaler": (transform(preprocessing.StandardScaler()), ROWS),
    "Normalizer": (transform(preprocessing.Normalizer()), ROWS),
    "Binarizer": (transform(preprocessing.Binarizer()), ROWS),
    "PolynomialFeatures": (transform(preprocessing.PolynomialFeatures()), ROWS),
    "KernelCenterer": (transform(preprocessing.KernelCenterer()), ROWS @ ROWS.T),
    "LabelEncoder": (transform(preprocessing.LabelEncoder()), LABELS),
    "PCA": (transform(PCA(3, svd_solver="full")), ROWS),
    "PCA by eigenvectors": (transform(PCA(3, svd_solver="covariance_eigh")), ROWS),
    "LinearDiscriminantAnalysis": (predict(LinearDiscriminantAnalysis()), ROWS, LABELS),
    "Ridge": (predict(Ridge(solver="svd")), ROWS, TARGETS),
    "train_test_split": (lambda *arrays: train_test_split(*arrays, random_state=0)[1], ROWS, LABELS),
    "accuracy_score": (metrics.accuracy_score, LABELS, GUESSES),
    "f1_score": (metrics.f1_score, LABELS, GUESSES),
    "zero_one_loss": (metrics.zero_one_loss, LABELS, GUESSES),
    "r2_score": (metrics.r2_score, TARGETS, FITTED),
    "mean_squared_error": (metrics.mean_squared_error, TARGETS, FITTED),
    "mean_absolute_error": (metrics.mean_absolute_error, TARGETS, FITTED),
    "cosine_similarity": (pairwise.cosine_similarity, ROWS, ROWS[:7]),
    "euclidean_distances": (pairwise.euclidean_distances, ROWS, ROWS[:7]),
    "rbf_kernel": (pairwise.rbf_kernel, ROWS, ROWS[:7]),
}


def difference(function: Callable[..., Any], *arrays: np.ndarray[Any, Any]) -> str | None:
    """Return how the results differ, or None."""
    expected = function(*arrays)
    with config_context(array_api_dispatch=True):
        found = function(*(zyx.asarray(array) for array in arrays))
    if isinstance(expected, np.ndarray) is not isinstance(found, zyx.Tensor):
        return f"the result is {type(found)}, not of the class of {type(expected)}"
    if np.allclose(np.asarray(found), expected, rtol=1e-4, atol=1e-4):
        return None
    return f"{found} is not {expected}"


def main() -> int:
    wrong = 0
    for name, (function, *arrays) in CALLS.items():
        try:
            text = difference(function, *arrays)
        except Exception as error:  # noqa: BLE001  # of any kind: scikit-learn lies between
            text = f"{type(error).__name__}: {error}"
        if text is not None:
            wrong += 1
            print(f"{name}: {text}")
    print(f"{len(CALLS) - wrong} of {len(CALLS)} calls are right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
