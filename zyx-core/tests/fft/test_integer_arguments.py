"""Integer arguments of transforms: what is one is taken, and what is none is refused by name."""

from __future__ import annotations

import numpy as np
import pytest

import zyx
from zyx import fft
from zyx.errors import IntegerError


@pytest.mark.parametrize("change", [np.int64, zyx.Tensor])
def test_what_is_an_integer_is_taken_as_one(change):
    x = zyx.Tensor(np.arange(12.0).reshape(3, 4))
    for given, expected in (
        (fft.rfft(x, change(3), change(0)), fft.rfft(x, 3, 0)),
        (fft.fftfreq(change(5)), fft.fftfreq(5)),
        (fft.fftshift(x, change(1)), fft.fftshift(x, 1)),
    ):
        assert given.numpy().tolist() == expected.numpy().tolist()


@pytest.mark.parametrize("change", [float, bool, str])
def test_what_is_no_integer_is_refused_by_name(change):
    x = zyx.Tensor(np.arange(12.0).reshape(3, 4))
    for call, text in (
        (lambda: fft.rfft(x, change(1)), "rfft: n is an integer"),
        (lambda: fft.rfft(x, None, change(1)), "rfft: axis is an integer"),
        (lambda: fft.fftfreq(change(1)), "fftfreq: n is an integer"),
        (lambda: fft.fftshift(x, change(1)), "fftshift: axis is an integer"),
    ):
        with pytest.raises(IntegerError, match=text):
            call()
