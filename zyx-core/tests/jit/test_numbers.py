"""Numbers among the arguments of a traced function: each is a trace, but not many of them are compiled."""

import numpy as np

import zyx


def test_traces_that_differ_in_numbers_share_kernels(interpreter):
    @zyx.jit
    def scaled(x, number):
        return ((x * number).tanh() @ x).sum() - number

    x = np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3)
    compiled = []
    for number in range(1, 31):
        found = scaled(zyx.Tensor(x), number / 8)
        np.testing.assert_allclose(
            found.numpy(), (np.tanh(x * number / 8) @ x).sum() - number / 8, rtol=1e-5, atol=1e-5
        )
        compiled.append(interpreter.compiler.compiled)
    assert compiled[5:] == [compiled[5]] * 25
    assert len(scaled.traces) == 30
    for number in (30, 1, 17):
        found = scaled(zyx.Tensor(x + 1), number / 8)
        expected = (np.tanh((x + 1) * number / 8) @ (x + 1)).sum() - number / 8
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_what_is_assigned_is_right_with_numbers_that_change(interpreter):
    weight = zyx.Tensor(np.ones((4, 4), np.float32))

    @zyx.jit
    def step(x, rate):
        with zyx.Tape() as tape:
            loss = ((weight @ x) ** 2).sum()
        weight.assign(weight - tape.gradient(loss, [weight])[0] * rate)
        return loss

    x, expected = np.eye(4, dtype=np.float32) / 2, np.ones((4, 4))
    compiled = []
    for number in range(20):
        rate = 0.1 / (1 + number)
        loss = step(zyx.Tensor(x), rate)
        np.testing.assert_allclose(loss.numpy(), ((expected @ x) ** 2).sum(), rtol=1e-4)
        expected -= rate * 2 * (expected @ x) @ x.T
        np.testing.assert_allclose(weight.numpy(), expected, rtol=1e-4)
        compiled.append(interpreter.compiler.compiled)
    assert compiled[5:] == [compiled[5]] * 15
