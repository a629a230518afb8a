"""Arguments that make no sense are refused where they are given, by an error that has the value."""

import pytest

import zyx
from zyx.errors import ArgumentError, AxisError, DTypeError, ShapeError

V = zyx.Tensor([1.0, 2.0])
M = zyx.ones(2, 3)


@pytest.mark.parametrize("base", [-1, 0, 1, "e"])
def test_a_logarithm_has_a_base_above_0_other_than_1(base):
    with pytest.raises(ArgumentError, match=rf"log: base is a number above 0 other than 1, not {base!r}"):
        zyx.log(V, base)


def test_what_is_no_tensor_is_refused_by_name():
    with pytest.raises(DTypeError, match=r"ravel takes a zyx\.Tensor, not list"):
        zyx.ravel([1])
    with pytest.raises(DTypeError, match="not NoneType"):
        zyx.polyval(V, None)


@pytest.mark.parametrize("function", [zyx.polyder, zyx.polyint, lambda p: zyx.polyval(p, V)])
@pytest.mark.parametrize("p", [M, zyx.Tensor(1.0)])
def test_coefficients_are_a_vector(function, p):
    with pytest.raises(ShapeError, match="coefficients are one axis, not of shape"):
        function(p)


@pytest.mark.parametrize("places", [zyx.Tensor([0.5]), zyx.Tensor([True])])
def test_places_are_integers(places):
    with pytest.raises(DTypeError, match="unravel_index: places are integers, not"):
        zyx.unravel_index(places, (2, 3))


@pytest.mark.parametrize("factor", [M, V])
def test_the_inverse_of_a_triangle_is_of_square_matrices(factor):
    with pytest.raises(ShapeError, match="cholesky_inverse takes square matrices, not shape"):
        zyx.cholesky_inverse(factor)


@pytest.mark.parametrize("sizes", [(-1, 2), (2, -1)])
def test_places_of_a_diagonal_are_of_no_negative_size(sizes):
    with pytest.raises(ShapeError, match="diag_indices: n and ndim are at least 0, not"):
        zyx.diag_indices(*sizes)


@pytest.mark.parametrize("axes", [(0, 5), (-3, 1)])
def test_an_axis_of_a_transform_that_there_is_not_is_an_axis_error(axes):
    with pytest.raises(AxisError, match=r"fft2: axis -?[0-9] of an array of 2 axes; expected -2 to 1"):
        zyx.fft.fft2(M, axes=axes)


@pytest.mark.parametrize("window", [zyx.hann_window, zyx.bartlett_window, zyx.blackman_window])
def test_windows_are_of_floats(window):
    with pytest.raises(DTypeError, match="makes floats, not int32"):
        window(3, dtype="int32")


def test_what_names_no_dtype_is_refused():
    with pytest.raises(DTypeError, match="no dtype 3; there are bool"):
        zyx.can_cast(3, "int8")
