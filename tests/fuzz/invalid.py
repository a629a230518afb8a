"""Calls that are not valid: each must raise an error of zyx, when it is made or when it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

import zyx
import zyx.nn.functional as F
from zyx.errors import ZyxError

if TYPE_CHECKING:
    from zyx.testing.choices import Seeded

#: Of a and b, float32 of (3, 4) and (5,); i, int64 of (3,); m, bool of (3, 4); n, an axis that there is not; s, a size
#: that fits nothing.
REFUSED: Final = (
    "a + b", "a * b[:s]", "a @ b", "a @ a", "zyx.matmul(b, zyx.ones(s))", "zyx.sum(a, n)", "zyx.max(a, n)",
    "zyx.sum(a, (0, 0))", "zyx.argmax(a, n)", "zyx.max(zyx.zeros(0))", "zyx.argmin(zyx.zeros((0, 3)), 0)",
    "zyx.mean(m.astype('nothing'))", "zyx.reshape(a, (s, s))", "zyx.reshape(a, (-1, -1))", "zyx.reshape(a, (-1, 5))",
    "zyx.permute_dims(a, (0, 0))", "zyx.permute_dims(a, (0,))", "zyx.flip(a, n)", "zyx.squeeze(a, 0)",
    "zyx.expand_dims(a, s)", "zyx.broadcast_to(a, (3, s))", "zyx.concat([a, b], 0)", "zyx.stack([a, b])",
    "zyx.concat([], 0)", "zyx.split(a, [1, 1], 0)", "zyx.narrow(a, 0, 1, s)", "zyx.take(a, i, n)",
    "a[s]", "a[0, 0, 0]", "a[s, s]", "a[1.5]", "a['x']", "a[m, m]", "zyx.gather(a, 0, b)", "zyx.gather(a, n, i)",
    "zyx.scatter(a, 0, i, a)", "zyx.scatter(a, 0, i[:, None], a, 'other')", "zyx.one_hot(a, 3)", "zyx.cumsum(a, n)",
    "zyx.diff(a, -1, 0)", "zyx.sort(a, n)", "zyx.topk(a, s, 0)", "zyx.median(zyx.zeros((0,)))",
    "zyx.searchsorted(a, b)", "zyx.einsum('ij,jk->ik', a, b)", "zyx.einsum('ij->', b)", "zyx.einsum('i,i', b)[s]",
    "zyx.tensordot(a, a, axes=s)", "zyx.cross(a, a)", "zyx.trace(b)", "zyx.matrix_power(a, 2)", "a.T.T[s]", "b.T",
    "zyx.conv2d(a, a)", "zyx.conv1d(zyx.ones((1, 2, 3)), zyx.ones((1, 3, 1)))",
    "zyx.conv1d(zyx.ones((1, 2, 3)), zyx.ones((1, 2, 9)))", "zyx.max_pool2d(zyx.ones((1, 1, 2, 2)), 5)",
    "zyx.avg_pool1d(zyx.ones((1, 1, 8)), 2, padding=2)", "zyx.pad(a, [(1, 2, 3)])",
    "zyx.pad(a, ((9, 9), (9, 9)), 'reflect')",
    "zyx.pad(a, 1, 'other')", "zyx.tile(a, -1)", "zyx.repeat(a, -1, 0)", "zyx.full((-1,), 0)", "zyx.arange(0, 5, 0)",
    "zyx.linspace(0, 1, -1)", "zyx.asarray([[1], [2, 3]])", "zyx.asarray('text')", "zyx.asarray(300, dtype='uint8')",
    "zyx.softmax(a, n)", "F.layer_norm(a, (s,))", "F.group_norm(zyx.ones((1, 3, 2)), 2)", "F.layer_norm(i, (3,))",
    "zyx.mse_loss(a, b)", "zyx.mse_loss(a, a, 'other')", "zyx.cross_entropy(a, b)", "zyx.nll_loss(a, m[:, 0])",
    "F.linear(a, b)", "F.embedding(a, a)", "zyx.bitwise_and(a, a)", "~a", "a << 1", "zyx.where(m, a, b)",
    "a.astype('float8')", "zyx.sin('x')", "zyx.clip(a, 'x')", "zyx.bernoulli(i)", "zyx.randint(5, 2)",
    "zyx.rand(2, dtype='int32')", "int(a)", "a.item()", "bool(a)", "a.unflatten(0, (2, 2))", "zyx.diagonal(b)",
    "zyx.windows(a, (1, 1, 1))", "F.interpolate(a, 3)", "zyx.meshgrid(a, a)", "zyx.grad(lambda x: x)(a)",
    "zyx.from_numpy(np.array(['x']))",
)  # fmt: skip


def check_refusals(choices: Seeded, count: int = 12) -> None:
    """Assert that some calls raise errors of zyx, and that the device works on after them.

    Raises:
        AssertionError: A call gave a result, or raised an error of another class.
    """
    names: dict[str, Any] = {
        "zyx": zyx, "F": F, "np": np, "a": zyx.ones((3, 4)) * 2.0, "b": zyx.arange(5, dtype="float32"),
        "i": zyx.arange(3), "m": zyx.ones((3, 4)) > 0, "n": choices.pick((2, 5, -3, -9, 100)),
        "s": choices.pick((7, 9, 100)),
    }  # fmt: skip
    for _ in range(count):
        text = choices.pick(REFUSED)
        try:
            result = eval(text, dict(names))
            read = result.numpy() if isinstance(result, zyx.Tensor) else result
        except ZyxError:
            continue
        except Exception as error:
            raise AssertionError(f"{text} with n = {names['n']}, s = {names['s']} raised {error!r}") from error
        raise AssertionError(f"{text} with n = {names['n']}, s = {names['s']} gave {read!r}")
    assert float(names["a"].sum().item()) == 24.0, "the device computes on"
