"""A cuDNN that exists on paper: functions in C, as ctypes sees them, that check every call and compute with NumPy."""

from __future__ import annotations

import ctypes
from ctypes import c_double, c_float, c_int, c_size_t, c_void_p
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
from fake_blas import FakeBlas, Refusal, need

from zyx_backend_cuda.cudnn import Algorithm

if TYPE_CHECKING:
    from fake_driver import FakeSession, FakeStream

BAD_PARAM, NOT_SUPPORTED, EXECUTION_FAILED = 2000, 3000, 5000

TYPES = {0: np.float32, 1: np.float64, 2: np.float16, 9: ml_dtypes.bfloat16}
KINDS = ("Tensor", "Filter", "Convolution")

SIGNATURES: dict[str, tuple[Any, ...]] = {
    "Create": (c_void_p,), "Destroy": (c_void_p,), "SetStream": (c_void_p, c_void_p),
    **{f"Create{kind}Descriptor": (c_void_p,) for kind in KINDS},
    **{f"Destroy{kind}Descriptor": (c_void_p,) for kind in KINDS},
    "SetTensorNdDescriptor": (c_void_p, c_int, c_int, c_void_p, c_void_p),
    "SetFilterNdDescriptor": (c_void_p, c_int, c_int, c_int, c_void_p),
    "SetConvolutionNdDescriptor": (c_void_p, c_int, c_void_p, c_void_p, c_void_p, c_int, c_int),
    "SetConvolutionGroupCount": (c_void_p, c_int), "SetConvolutionMathType": (c_void_p, c_int),
    "GetConvolutionForwardAlgorithm_v7": (*(c_void_p,) * 5, c_int, c_void_p, c_void_p),
    "GetConvolutionForwardWorkspaceSize": (*(c_void_p,) * 5, c_int, c_void_p),
    "ConvolutionForward": (*(c_void_p,) * 7, c_int, c_void_p, c_size_t, *(c_void_p,) * 3),
}  # fmt: skip


def ints(address: int, count: int) -> tuple[int, ...]:
    return tuple((c_int * count).from_address(address))


class FakeDnn(FakeBlas):
    """The library; see `FakeBlas` for what is noted.

    Attributes:
        algorithms: What is said of algorithms: the number, the status, and the bytes that it works in.
    """

    def __init__(self, session: FakeSession) -> None:
        super().__init__(session, "cudnn", SIGNATURES)
        self.algorithms = [(3, NOT_SUPPORTED, 0), (4, 0, 1 << 40), (1, 0, 1 << 20), (0, 0, 0)]
        self.cudnnGetVersion = ctypes.CFUNCTYPE(c_size_t)(lambda: 92_800)
        self.cudnnGetErrorString = lambda status: f"STATUS_{status}".encode()

    def _guarded(self, name: str) -> Any:
        for kind in KINDS:
            if name == f"Create{kind}Descriptor":
                setattr(self, f"_{name}", lambda place, kind=kind: self._new(place, kind))
            if name == f"Destroy{kind}Descriptor":
                setattr(self, f"_{name}", lambda handle, kind=kind: self._delete(handle, kind))
        return super()._guarded(name)

    def _SetStream(self, handle: int, stream: int) -> None:
        self._find(handle, "handle")["stream"] = stream

    def _SetTensorNdDescriptor(self, handle: int, type_: int, count: int, sizes: int, strides: int) -> None:
        shape = ints(sizes, count)
        need(count >= 4, "a tensor has four axes at least")
        wanted = tuple(int(np.prod(shape[axis + 1 :])) for axis in range(count))
        need(ints(strides, count) == wanted, "it is not row-major")
        self._find(handle, "Tensor").update(type=type_, shape=shape)

    def _SetFilterNdDescriptor(self, handle: int, type_: int, layout: int, count: int, sizes: int) -> None:
        need(layout == 0, "channels lie first")
        self._find(handle, "Filter").update(type=type_, shape=ints(sizes, count))

    def _SetConvolutionNdDescriptor(self, handle: int, count: int, *more: int) -> None:
        padding, stride, dilation, mode, sums = more
        need(mode == 1, "filters are not turned over")
        steps = (ints(place, count) for place in (padding, stride, dilation))
        self._find(handle, "Convolution").update(steps=tuple(steps), sums=sums)

    def _SetConvolutionGroupCount(self, handle: int, count: int) -> None:
        self._find(handle, "Convolution")["groups"] = count

    def _SetConvolutionMathType(self, handle: int, math: int) -> None:
        self._find(handle, "Convolution")["math"] = math

    def _problem(self, x: int, w: int, convolution: int, y: int) -> list[dict[Any, Any]]:
        kinds = ("Tensor", "Filter", "Convolution", "Tensor")
        found = [self._find(each, kind) for each, kind in zip((x, w, convolution, y), kinds, strict=True)]
        images, filters, how, results = found
        need(images["type"] == filters["type"] == results["type"], "dtypes differ")
        need(how["sums"] == (1 if images["type"] == 1 else 0), "sums are of another type")
        need(
            how["math"] == (1 if images["type"] in (2, 9) else 3), "float32 may be rounded, or halves need not be fast"
        )
        need(images["shape"][1] == filters["shape"][1] * how["groups"], "channels differ")
        axes = zip(images["shape"][2:], filters["shape"][2:], *how["steps"], strict=True)
        out = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, p, s, d in axes)
        need(results["shape"] == (images["shape"][0], filters["shape"][0], *out), "results have another shape")
        return found

    def _GetConvolutionForwardAlgorithm_v7(self, handle: int, *arguments: int) -> None:
        x, w, convolution, y, most, count, place = arguments
        self._find(handle, "handle")
        self._problem(x, w, convolution, y)
        need(most >= len(self.algorithms), "there is no room")
        c_int.from_address(count).value = len(self.algorithms)
        rows = (Algorithm * most).from_address(place)
        for row, (number, status, memory) in zip(rows, self.algorithms, strict=False):
            row.algorithm, row.status, row.memory = number, status, memory

    def _GetConvolutionForwardWorkspaceSize(self, handle: int, *arguments: int) -> None:
        x, w, convolution, y, number, place = arguments
        self._find(handle, "handle")
        self._problem(x, w, convolution, y)
        status, memory = {each: rest for each, *rest in self.algorithms}[number]
        if status:
            raise Refusal(status)
        c_size_t.from_address(place).value = memory

    def _ConvolutionForward(self, *arguments: int) -> None:
        handle, alpha, x, x_at, w, w_at, convolution, number, workspace, nbytes, beta, y, y_at = arguments
        stream: FakeStream = self.session.streams[self._find(handle, "handle")["stream"]]
        images, filters, how, results = (dict(each) for each in self._problem(x, w, convolution, y))
        scalar = c_double if images["type"] == 1 else c_float
        need((scalar.from_address(alpha).value, scalar.from_address(beta).value) == (1.0, 0.0), "factors")
        need((number, nbytes) == (1, 1 << 20), "it is not the first algorithm that has room")
        self.session.at(workspace, nbytes)[:] = 0xEE
        views = [self._at(each, place) for each, place in ((images, x_at), (filters, w_at), (results, y_at))]

        def run() -> None:
            data, taps, out = views
            sums = np.float64 if images["type"] == 1 else np.float32
            padding, stride, dilation = how["steps"]
            groups = how["groups"]
            wide = np.pad(data.astype(sums), [(0, 0), (0, 0), *((p, p) for p in padding)])
            wide = wide.reshape(wide.shape[0], groups, -1, *wide.shape[2:])
            parts = taps.astype(sums).reshape(groups, -1, *taps.shape[1:])
            total = np.zeros((wide.shape[0], groups, parts.shape[1], *out.shape[2:]), sums)
            for tap in np.ndindex(*taps.shape[2:]):
                axes = zip(tap, dilation, stride, out.shape[2:], strict=True)
                box = tuple(slice(at * d, at * d + (size - 1) * s + 1, s) for at, d, s, size in axes)
                total += np.einsum("bgc...,goc->bgo...", wide[(..., *box)], parts[(..., *tap)])
            out[:] = total.reshape(out.shape).astype(out.dtype)

        stream.put(run)

    def _at(self, descriptor: dict[Any, Any], address: int) -> np.ndarray:
        dtype = np.dtype(TYPES[descriptor["type"]])
        count = int(np.prod(descriptor["shape"]))
        return self.session.at(address, count * dtype.itemsize).view(dtype).reshape(descriptor["shape"])
