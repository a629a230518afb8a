"""Parts of a range are as alike as their lengths allow."""

import pytest

from zyx.arithmetic.parts import divisor_among, even_length


def test_the_first_length_that_divides_is_taken():
    assert divisor_among(24, [5, 6, 8, 4]) == 6
    assert divisor_among(23, [5, 6, 8, 4]) is None
    assert divisor_among(24, []) is None


@pytest.mark.parametrize("size", [1, 2, 7, 24, 97, 1000])
@pytest.mark.parametrize("most", [1, 2, 5, 16, 99])
def test_even_parts_are_the_fewest_and_differ_least(size, most):
    length = even_length(size, most)
    count = -(-size // length)
    assert length <= most
    assert count == -(-size // most)
    assert (length - 1) * count < size  # a shorter one would need more parts
