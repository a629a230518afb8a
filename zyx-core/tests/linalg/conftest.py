"""Tensors whose values are computed by the NumPy oracle, so that these tests are about tensors and nothing below."""

import pytest


@pytest.fixture(autouse=True)
def _oracle(oracle):
    """Make the oracle the current runtime of every test."""
