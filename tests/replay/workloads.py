"""Programs whose schedules are replayed: what people run, and what no rule was made for. Values do not matter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import zyx
from zyx import dtype as dtypes
from zyx.nn import functional as F
from zyx.runtime.runtime import current
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx import Tensor
    from zyx.dtype import DType


def given(*shape: int, dtype: DType = dtypes.float32) -> Tensor:
    """Return a tensor that lies in memory, with whatever is there."""
    runtime = current()
    device = runtime.default_device
    buffer = runtime.allocate(device, size_of(shape) * dtype.itemsize)
    return zyx.Tensor.of(runtime.graph.leaf(shape, dtype, device, buffer), runtime)


def half(*shape: int) -> Tensor:
    """Return one of 16-bit floats."""
    return given(*shape, dtype=dtypes.float16)


def index(*shape: int) -> Tensor:
    """Return one of integers."""
    return given(*shape, dtype=dtypes.int32)


def gradients(function: Callable[..., Tensor], *sources: Tensor) -> list[Tensor]:
    """Return the gradients of the sum of what a function gives."""
    with zyx.Tape() as tape:
        loss = function(*sources).sum()
    return list(tape.gradient(loss, sources))


def gravity(count: int) -> Tensor:
    """Return accelerations, by the differences of all pairs."""
    x, mass = given(count, 3), given(count)
    d = x[None] - x[:, None]
    squares = (d * d).sum(-1) + 1e-3
    return (d * (mass[None] / (squares * squares.sqrt()))[..., None]).sum(1)


def k_means(points: int, centres: int) -> Tensor:
    """Return the nearest centre of each point, by differences."""
    x, c = given(points, 8), given(centres, 8)
    return ((x[:, None] - c[None]) ** 2).sum(-1).argmin(1)


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    """Return rows over the root of their mean square."""
    return x * (x.square().mean(-1, keepdims=True) + 1e-6).rsqrt() * weight


def attention(causal: bool, *shape: int, dtype: DType = dtypes.float32) -> Tensor:
    """Return attention of a batch of heads."""
    q, k, v = (given(*shape, dtype=dtype) for _ in range(3))
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal)


def linear_attention(length: int, width: int) -> Tensor:
    """Return causal linear attention, by a scan."""
    q, k, v = (given(length, width) for _ in range(3))
    return (q[:, :, None] * (k[:, :, None] * v[:, None, :]).cumsum(0)).sum(1)


def banded(length: int, width: int) -> Tensor:
    """Return a banded matrix times a matrix."""
    i, j = zyx.arange(length)[:, None], zyx.arange(length)[None]
    return zyx.where((i - j <= width) & (j - i <= width), given(length, length), 0.0) @ given(length, 64)


def batch_norm(x: Tensor) -> Tensor:
    """Return images over their deviation, by channels."""
    mean = x.mean((0, 2, 3), keepdims=True)
    return (x - mean) / ((x - mean).square().mean((0, 2, 3), keepdims=True) + 1e-5).sqrt()


def logarithms(x: Tensor) -> Tensor:
    """Return the logarithm of the softmax along a middle axis."""
    return x - x.logsumexp(1, keepdims=True)


def correlation(x: Tensor) -> Tensor:
    """Return the products of all pairs of rows, less their means."""
    centred = x - x.mean(1, keepdims=True)
    return centred @ centred.mT


def stencil(x: Tensor) -> Tensor:
    """Return the Laplacian of a picture."""
    return x[1:-1, 1:-1] * 4 - x[:-2, 1:-1] - x[2:, 1:-1] - x[1:-1, :-2] - x[1:-1, 2:]


def block(x: Tensor, wide: Tensor, narrow: Tensor) -> Tensor:
    """Return a feed-forward block with a residual."""
    return x + F.gelu(rms_norm(x, given(x.shape[-1])) @ wide) @ narrow


WORKLOADS: Final[dict[str, Callable[[], object]]] = {
    "add": lambda: given(1 << 20) + given(1 << 20),
    "add broadcast": lambda: given(1000, 1003) + given(1003),
    "chain": lambda: (given(777, 1024).exp() * 2.0 + given(777, 1)).tanh() - 1.0,
    "gelu half": lambda: F.gelu(half(512, 4096)),
    "where": lambda: zyx.where(given(513, 511) > 0, given(513, 511), given(511)),
    "cast": lambda: given(4096, 512).astype(dtypes.float16),
    "integer": lambda: index(100_003) // 7 + index(100_003) % 5,
    "scalar": lambda: given(7) * 2.0,
    "transpose": lambda: given(1024, 777).mT + 1.0,
    "permute": lambda: given(32, 64, 48, 20).permute_dims((0, 2, 3, 1)).contiguous(),
    "flip strided": lambda: zyx.flip(given(2048, 512), axis=1)[::2] + 1.0,
    "concat": lambda: zyx.concat([given(300, 70), given(200, 70)], axis=0),
    "pad": lambda: zyx.pad(given(8, 3, 61, 61), ((0, 0), (0, 0), (1, 2), (1, 2))) * 2.0,
    "sum all": lambda: given(1 << 22).sum(),
    "sum rows": lambda: given(4096, 1024).sum(1),
    "sum columns": lambda: given(4096, 1024).sum(0),
    "sum middle": lambda: given(64, 500, 96).sum(1),
    "sum few rows": lambda: given(8, 300_000).sum(1),
    "mean half": lambda: half(2048, 2048).mean(1),
    "max two axes": lambda: given(16, 32, 57, 57).max((2, 3)),
    "argmax": lambda: given(4096, 1000).argmax(1),
    "variance": lambda: given(1000, 777).var(1),
    "any": lambda: (given(3000, 1000) > 0).any(1),
    "log-sum-exp": lambda: given(512, 10_000).logsumexp(1),
    "log-sum-exp middle": lambda: logarithms(given(256, 241, 64)),
    "softmax": lambda: F.softmax(given(4096, 4096), axis=-1),
    "softmax short": lambda: F.softmax(given(20_000, 83), axis=-1),
    "softmax middle": lambda: F.softmax(given(64, 300, 96), axis=1),
    "layer norm": lambda: F.layer_norm(given(8192, 1024), (1024,), given(1024), given(1024)),
    "rms norm gate": lambda: rms_norm(given(2048, 1536), given(1536)) * F.silu(given(2048, 1536)),
    "batch norm": lambda: batch_norm(given(16, 32, 40, 40)),
    "cross entropy": lambda: F.cross_entropy(given(4096, 1000), index(4096)),
    "cumsum rows": lambda: given(1000, 3000).cumsum(1),
    "cumsum columns": lambda: given(3000, 100).cumsum(0),
    "cumsum long": lambda: given(1 << 20).cumsum(0),
    "cummax": lambda: zyx.cummax(given(500, 2000), 1)[0],
    "sort": lambda: zyx.sort(given(100, 5000), axis=1),
    "topk": lambda: zyx.topk(given(1000, 3000), 10)[0],
    "matmul 64": lambda: given(64, 64) @ given(64, 64),
    "matmul 1024": lambda: given(1024, 1024) @ given(1024, 1024),
    "matmul odd": lambda: given(1003, 517) @ given(517, 771),
    "matmul transposed": lambda: given(512, 700).mT @ given(512, 300),
    "matmul half": lambda: half(1024, 1024) @ half(1024, 1024),
    "matmul bias gelu": lambda: F.gelu(given(512, 1024) @ given(1024, 512) + given(512)),
    "matmul deep": lambda: given(32, 20_000) @ given(20_000, 32),
    "matvec": lambda: given(4096, 4096) @ given(4096),
    "vecmat": lambda: given(1, 2048) @ given(2048, 8192),
    "few rows": lambda: given(3, 4096) @ given(1000, 4096).mT,
    "batched matmul": lambda: given(32, 256, 256) @ given(32, 256, 256),
    "outer batched": lambda: given(16, 151, 1) @ given(16, 1, 2000),
    "einsum": lambda: zyx.einsum("bij,bkj->bik", given(8, 200, 64), given(8, 300, 64)),
    "conv 3x3": lambda: zyx.conv2d(given(8, 32, 56, 56), given(64, 32, 3, 3), padding=1),
    "conv 1x1": lambda: zyx.conv2d(given(4, 64, 28, 28), given(128, 64, 1, 1)),
    "conv strided": lambda: zyx.conv2d(given(4, 3, 224, 224), given(32, 3, 7, 7), stride=2, padding=3),
    "conv depthwise": lambda: zyx.conv2d(given(8, 64, 56, 56), given(64, 1, 3, 3), padding=1, groups=64),
    "conv 1d": lambda: zyx.conv1d(given(8, 16, 4000), given(32, 16, 9)),
    "conv 3d": lambda: zyx.conv3d(given(2, 8, 16, 32, 32), given(16, 8, 3, 3, 3)),
    "max pool": lambda: F.max_pool2d(given(8, 64, 112, 112), 2),
    "stencil": lambda: stencil(given(1000, 1200)),
    "gather rows": lambda: zyx.take(given(32_000, 512), index(5000), axis=0),
    "embedding sum": lambda: zyx.take(given(10_000, 64), index(3000, 20), axis=0).sum(1),
    "scatter add": lambda: zyx.scatter_add(given(1000, 64), 0, index(5000, 64), given(5000, 64)),
    "attention": lambda: attention(False, 2, 4, 256, 64),
    "attention causal half": lambda: attention(True, 2, 4, 512, 64, dtype=dtypes.float16),
    "linear attention": lambda: linear_attention(500, 32),
    "gravity": lambda: gravity(1531),
    "k-means": lambda: k_means(5000, 40),
    "correlation": lambda: correlation(given(300, 2000)),
    "banded": lambda: banded(1000, 8),
    "block": lambda: block(given(256, 384), given(384, 1536), given(1536, 384)),
    "softmax gradient": lambda: gradients(lambda x: F.softmax(x, axis=-1).square(), given(1000, 512)),
    "layer norm gradient": lambda: gradients(
        lambda x, w, b: F.layer_norm(x, (512,), w, b).square(), given(1000, 512), given(512), given(512)
    ),
    "conv gradient": lambda: gradients(
        lambda x, w: zyx.conv2d(x, w, padding=1).square(), given(4, 16, 28, 28), given(32, 16, 3, 3)
    ),
    "block gradient": lambda: gradients(block, given(128, 256), given(256, 512), given(512, 256)),
    "max pool gradient": lambda: gradients(lambda x: F.max_pool2d(x, 2).square(), given(4, 16, 56, 56)),
    "fft": lambda: zyx.fft.rfft(given(64, 4096)),
}
