"""Tensors whose values are computed by the NumPy oracle, so that these tests are about tensors and nothing below."""

import pytest


@pytest.fixture(autouse=True)
def _oracle(oracle):
    """Make the oracle the current runtime of every test."""


@pytest.fixture
def agrees():
    """Return what asserts that `vmap` of a function is a loop over the examples, and returns what that gives."""
    import numpy as np

    import zyx

    def check(f, *args, in_axes=0):
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
        found = zyx.vmap(f, in_axes=in_axes)(*args)
        size = next(x.shape[axis] for x, axis in zip(args, axes, strict=True) if axis is not None)
        assert found.shape[0] == size
        for i in range(size):
            # Values of their own, at which gradients can be taken whatever `f` does first.
            example = [
                x if axis is None else zyx.take(x, zyx.Tensor(i), axis=axis).realize()
                for x, axis in zip(args, axes, strict=True)
            ]
            wanted = f(*example).numpy()
            scale = max(1.0, float(np.abs(wanted).max(initial=0)))
            np.testing.assert_allclose(found[i].numpy(), wanted, rtol=2e-5, atol=2e-5 * scale)
        return found

    return check
