"""`ctc_loss` is a loop over time: values and gradients of all lengths, by the same programs."""

import math

import numpy as np
import pytest

import zyx
from zyx.graph.walk import topological
from zyx.nn import functional as F

COUNT, CLASSES = 5, 6
TARGETS = np.array([[1, 2, 2], [4, 3, 1], [1, 1, 1], [5, 0, 0], [2, 0, 0]])
LENGTHS = np.array([3, 2, 3, 1, 0])


def by_hand(scores, target, end):
    """Return minus the logarithm of the probability of a target, in linear space, step after step."""
    spaced = [0, *(label for each in target for label in (each, 0))]
    state = [1.0, *([0.0] * (len(spaced) - 1))]
    for t in range(end):
        if t:
            old, state = state, []
            for s, label in enumerate(spaced):
                skips = s >= 2 and label != 0 and label != spaced[s - 2]
                state.append(sum(old[max(s - 1, 0) : s + 1]) + (old[s - 2] if skips else 0.0))
        else:
            state = [1.0 if s < 2 else 0.0 for s in range(len(spaced))]
        state = [part * math.exp(scores[t, label]) for part, label in zip(state, spaced, strict=True)]
    total = sum(state[-2:])
    return -math.log(total) if total else math.inf


def case(steps):
    random = np.random.default_rng(steps)
    scores = random.standard_normal((steps, COUNT, CLASSES))
    ends = np.array([steps, max(steps - 3, 1), steps, steps // 2, max(steps - 1, 1)])
    return scores - np.log(np.exp(scores).sum(-1, keepdims=True)), ends


def loss_of(scores, ends, **options):
    return F.ctc_loss(scores, zyx.Tensor(TARGETS), zyx.asarray(ends), zyx.Tensor(LENGTHS), **options)


@pytest.mark.parametrize("steps", [1, 2, 9, 40])
def test_losses_of_all_lengths_are_those_by_hand(steps):
    scores, ends = case(steps)
    wanted = [by_hand(scores[:, n], TARGETS[n, : LENGTHS[n]], ends[n]) for n in range(COUNT)]
    wanted[3] = math.inf if ends[3] == 0 else wanted[3]
    np.testing.assert_allclose(loss_of(zyx.Tensor(scores), ends, reduction="none").numpy(), wanted, rtol=1e-10)


@pytest.mark.parametrize("steps", [1, 5, 12])
def test_gradients_are_differences_and_0_behind_the_end(steps):
    scores, ends = case(steps)
    found = zyx.grad(lambda x: loss_of(x, ends, reduction="sum", zero_infinity=True))(zyx.Tensor(scores)).numpy()
    for t, n, c in np.random.default_rng(1).integers(0, scores.shape, (40, 3)):
        step = np.zeros_like(scores)
        step[t, n, c] = 1e-5
        target, end = TARGETS[n, : LENGTHS[n]], ends[n]
        above, below = (by_hand((scores + by * step)[:, n], target, end) for by in (1, -1))
        wanted = (above - below) / 2e-5 if end and math.isfinite(above) else 0.0
        assert found[t, n, c] == pytest.approx(wanted, rel=1e-5, abs=1e-8), (t, n, c)
    for n, end in enumerate(ends):
        assert (found[end:, n] == 0.0).all()


def test_lengths_share_their_programs_and_the_graph_stays_small(interpreter):
    seen, nodes = [], []
    for steps in (9, 23, 64):
        scores, ends = case(steps)
        before = interpreter.compiler.compiled
        x = zyx.Tensor(scores.astype(np.float32), device="interpreter")
        loss, slope = zyx.value_and_grad(lambda x, ends=ends: loss_of(x, ends))(x)
        nodes.append(len(topological([loss.node, slope.node])))
        assert np.isfinite(slope.numpy()).all()
        seen.append(interpreter.compiler.compiled - before)
    assert nodes[1] == nodes[2] <= nodes[0] + 8
    assert seen[2] <= seen[0]  # what gathers and reduces is of the shape; steps are not


def test_a_traced_loss_is_the_same():
    scores, ends = case(9)
    x, places = zyx.Tensor(scores), zyx.Tensor(ends)
    run = zyx.jit(lambda x, places: loss_of(x, places, reduction="none"))
    wanted = loss_of(x, ends, reduction="none").numpy()
    for _ in range(3):
        np.testing.assert_allclose(run(x, places).numpy(), wanted)
