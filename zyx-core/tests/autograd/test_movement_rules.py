from __future__ import annotations

import numpy as np
import pytest

from zyx.autograd import gradient


@pytest.mark.parametrize(
    "move",
    [
        lambda graph, x: graph.reshape(x, (4, 3)),
        lambda graph, x: graph.reshape(x, (12,)),
        lambda graph, x: graph.permute(x, (1, 0)),
        lambda graph, x: graph.pad(x, [(1, 0), (2, 3)], 7.0),
        lambda graph, x: graph.shrink(x, [(1, 3), (0, 2)]),
        lambda graph, x: graph.flip(x, (0,)),
        lambda graph, x: graph.flip(x, (0, 1)),
        lambda graph, x: graph.expand(graph.reshape(x, (3, 1, 4)), (3, 5, 4)),
        lambda graph, x: graph.expand(graph.reshape(x, (1, 3, 1, 4)), (2, 3, 2, 4)),
        lambda graph, x: graph.permute(graph.reshape(x, (3, 2, 2)), (2, 0, 1)),
    ],
)
def test_movements_bring_gradients_back_to_where_the_elements_came_from(lab, move):
    lab.check(move, lab.normal(3, 4))


@pytest.mark.parametrize(
    ("size", "stride", "dilation"), [(5, 1, 1), (3, 1, 2), (3, 2, 1), (2, 2, 2), (1, 1, 1), (2, 1, 1)]
)
@pytest.mark.parametrize(("axis", "window"), [(0, 1), (1, 0)])
def test_windows_add_up_where_they_overlap(lab, size, stride, dilation, axis, window):
    def windows(graph, x):
        rows = graph.expand(graph.reshape(x, (7, 1) if axis == 0 else (1, 7)), (7, 3) if axis == 0 else (3, 7))
        return graph.slide(rows, axis, window, size, stride, dilation)

    lab.check(windows, lab.normal(7))


@pytest.mark.parametrize(("size", "stride", "dilation"), [(6, 1, 1), (9, 2, 1), (12, 1, 3), (14, 3, 2)])
def test_what_windows_were_put_together_from_is_found_again(lab, size, stride, dilation):
    lab.check(lambda graph, x: graph.unslide(x, 1, 2, size, stride, dilation), lab.normal(2, 4, 3))


def test_slide_and_unslide_are_adjoint(lab):
    graph = lab.graph
    x, y = lab.leaf(lab.normal(8, 3)), lab.leaf(lab.normal(3, 3))
    there = lab.value(graph.slide(x, 0, 1, 3, 2, 1))
    back = lab.value(graph.unslide(y, 0, 1, 8, 2, 1))
    assert (there * y.storage).sum() == pytest.approx((x.storage * back).sum())


def test_movements_of_nothing_have_gradients_of_nothing(lab):
    x = lab.leaf(np.zeros((0, 3)))
    graph = lab.graph
    moved = graph.flip(graph.permute(graph.pad(x, [(0, 0), (1, 1)]), (1, 0)), (0,))
    (found,) = gradient(graph, moved, [x], lab.leaf(np.zeros((5, 0))))
    assert lab.value(found).shape == (0, 3)


def test_repeating_zero_times_gives_the_gradient_zero(lab):
    x = lab.leaf(np.ones((1, 2)))
    (found,) = gradient(lab.graph, lab.graph.expand(x, (0, 2)), [x], lab.leaf(np.zeros((0, 2))))
    assert lab.value(found).tolist() == [[0.0, 0.0]]
