"""Library kernels: what a vendor's library computes in one call, offered as a candidate beside generated kernels.

A backend says which family of problems a library kernel serves. Core finds products of matrices (`Gemm`) and
convolutions in what a kernel computes, and attention where it would take a hand-written kernel for it, and asks for a
program of each. Where schedules are searched by measuring (`zyx.tune`), it is timed beside the kernel of ours, and its
results are compared; where nothing was measured, the backend says which of the two is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.backend.device import Program
    from zyx.dtype import DType


@dataclass(frozen=True, slots=True)
class Gemm:
    """``c[g, i, j] = sum over l of a[g, i, l] * b[g, l, j]``, all row-major without gaps. Launch arguments: a, b, c.

    Attributes:
        batch: Number of independent products; extent of g.
        m: Extent of i.
        n: Extent of j.
        k: Extent of l.
        dtype: Of a and b. Products of float16 and bfloat16 are added up in float32.
        out_dtype: Of c.
        transpose_a: Whether a is stored as ``a[g, l, i]``.
        transpose_b: Whether b is stored as ``b[g, j, l]``.
        shared_b: Whether all products read the same b, stored once.
    """

    batch: int
    m: int
    n: int
    k: int
    dtype: DType
    out_dtype: DType
    transpose_a: bool = False
    transpose_b: bool = False
    shared_b: bool = False


@dataclass(frozen=True, slots=True)
class Convolution:
    """Cross-correlation of images x with filters w. Launch arguments: x, w, y.

    x is ``(batch, groups * in_channels, *size)``, w ``(groups * out_channels, in_channels, *kernel)``, and the result y
    ``(batch, groups * out_channels, *out)`` with, along each spatial axis,
    ``out = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1``.

    Attributes:
        batch: Number of images.
        groups: Groups of channels that do not see each other.
        in_channels: Input channels of one group.
        out_channels: Output channels of one group.
        size: Spatial sizes of x.
        kernel: Spatial sizes of w.
        stride: Step between windows, along each spatial axis.
        padding: Zeros around x, on both sides of each spatial axis.
        dilation: Step between the elements of a window.
        dtype: Of x, w and y. float16 and bfloat16 are added up in float32.
    """

    batch: int
    groups: int
    in_channels: int
    out_channels: int
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class Attention:
    """``softmax(scale * q @ k^T + mask) @ v`` for each batch and head. Launch arguments: q, k, v, y.

    q and y are ``(batch, heads, queries, width)``, k and v ``(batch, key_heads, keys, width)``.

    Attributes:
        batch: Number of sequences.
        heads: Query heads.
        key_heads: Key and value heads; divides `heads`, and head h reads key head ``h * key_heads // heads``.
        queries: Length of q.
        keys: Length of k and v.
        width: Elements of one head.
        causal: Whether query i sees only the keys up to ``i + keys - queries``: the last query sees them all.
        scale: Factor of the scores.
        dtype: Of all four.
    """

    batch: int
    heads: int
    key_heads: int
    queries: int
    keys: int
    width: int
    causal: bool
    scale: float
    dtype: DType


Problem: TypeAlias = Gemm | Convolution | Attention


@dataclass(frozen=True, slots=True)
class LibraryKernel:
    """A vendor's implementation of a family of problems.

    Attributes:
        name: For people, such as ``cublasLt 13.0``.
        serves: The family.
        prepare: Makes the program of one problem of that family; the device launches it as any other, and is asked to
            release it when nothing launches it any more. Raises `UnsupportedError` for what the library cannot do.
            Called when a plan is made, so it may be slow, and once for a problem as long as its program is kept: it
            need not remember anything, and must not return a program that was released.
        unmeasured: Whether it is taken where nothing was measured: True for a
            library that is about as fast as generated kernels at its worst, and many times as fast at its best.
    """

    name: str
    serves: type[Problem]
    prepare: Callable[[Problem], Program]
    unmeasured: bool = False
