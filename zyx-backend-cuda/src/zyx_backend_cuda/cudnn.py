"""Convolutions by cuDNN, as candidates where schedules are measured. Found at run time; absent, there are none.

These are the functions of cuDNN 9 on descriptors. The library names an algorithm of each problem that it expects to be
fast; the first that has room in the workspace is taken. Signatures and constants are those of its headers
``cudnn_ops_v9.h`` and ``cudnn_cnn_v9.h``.
"""

from __future__ import annotations

import ctypes
import logging
import math
from contextlib import suppress
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int, c_size_t, c_void_p
from typing import TYPE_CHECKING, Any, Final

from zyx import dtype as dtypes
from zyx.backend.library import Convolution, LibraryKernel
from zyx.drivers.arguments import Parameter
from zyx.drivers.faults import Cause, Fault
from zyx.errors import UnsupportedError
from zyx_backend_cuda.libraries import load_library
from zyx_backend_cuda.program import CudaProgram
from zyx_backend_cuda.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.library import Problem
    from zyx_backend_cuda.driver import Stream
    from zyx_backend_cuda.memory import CudaPool
    from zyx_backend_cuda.program import Native

logger: Final = logging.getLogger("zyx")

#: Major versions of the library that have these functions.
MAJORS: Final = (9,)
#: Bytes that an algorithm may work in.
WORKSPACE_BYTES: Final = 64 << 20
#: Algorithms that are named at most: as many as there are.
_MOST_ALGORITHMS: Final = 8

#: ``cudnnDataType_t``.
_TYPES: Final = {dtypes.float32: 0, dtypes.float64: 1, dtypes.float16: 2, dtypes.bfloat16: 9}
#: ``cudnnMathType_t``: what it takes where nothing is said, tensor cores, and products of all bits of float32.
_DEFAULT_MATH: Final = 0
_TENSOR_OP_MATH: Final = 1
_FMA_MATH: Final = 3
#: ``CUDNN_TENSOR_NCHW`` and ``CUDNN_CROSS_CORRELATION``.
_ROW_MAJOR: Final = 0
_CROSS_CORRELATION: Final = 1
#: The driver's code of what is not known.

#: What is not in the list takes and gives handles of descriptors; every function returns a status.
_FUNCTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "Create": (POINTER(c_void_p),),
    "Destroy": (c_void_p,),
    "SetStream": (c_void_p, c_void_p),
    **{
        f"{what}{kind}Descriptor": (POINTER(c_void_p) if what == "Create" else c_void_p,)
        for kind in ("Tensor", "Filter", "Convolution")
        for what in ("Create", "Destroy")
    },
    "SetTensorNdDescriptor": (c_void_p, c_int, c_int, POINTER(c_int), POINTER(c_int)),
    "SetFilterNdDescriptor": (c_void_p, c_int, c_int, c_int, POINTER(c_int)),
    "SetConvolutionNdDescriptor": (c_void_p, c_int, *(POINTER(c_int),) * 3, c_int, c_int),
    "SetConvolutionGroupCount": (c_void_p, c_int),
    "SetConvolutionMathType": (c_void_p, c_int),
    "GetConvolutionForwardAlgorithm_v7": (*(c_void_p,) * 5, c_int, POINTER(c_int), c_void_p),
    "GetConvolutionForwardWorkspaceSize": (*(c_void_p,) * 5, c_int, POINTER(c_size_t)),
    "ConvolutionForward": (
        c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_int, c_void_p, c_size_t, c_void_p,
        c_void_p, c_void_p,
    ),
}  # fmt: skip


class Algorithm(ctypes.Structure):
    """``cudnnConvolutionFwdAlgoPerf_t``: what the library says of an algorithm."""

    _fields_ = (
        ("algorithm", c_int), ("status", c_int), ("time", c_float), ("memory", c_size_t), ("determinism", c_int),
        ("math", c_int), ("reserved", c_int * 3),
    )  # fmt: skip


class DnnError(Exception):
    """A call that did not return ``CUDNN_STATUS_SUCCESS``."""


class Dnn:
    """The library on one device.

    Args:
        native: It, loaded.
        pool: The device's pool.
        device: The device's name.
        tf32: Whether products of float32 may take 11 significant bits of each factor.

    Raises:
        DnnError: It does not start there.
        AttributeError: It is too old.

    Attributes:
        version: Such as ``9.28.0``.
    """

    def __init__(
        self,
        native: Any,  # noqa: ANN401  # a library of ctypes
        pool: CudaPool,
        device: str,
        *,
        tf32: bool = False,
    ) -> None:
        self._native: Final = native
        for name, arguments in _FUNCTIONS.items():
            function = getattr(native, f"cudnn{name}")
            function.argtypes, function.restype = arguments, c_int
        native.cudnnGetVersion.restype = c_size_t
        native.cudnnGetErrorString.argtypes, native.cudnnGetErrorString.restype = (c_int,), c_char_p
        number = native.cudnnGetVersion()
        self.version: Final = f"{number // 10000}.{number // 100 % 100}.{number % 100}"
        self.pool: Final = pool
        self.device: Final = device
        self.workspace: Final = Workspace(pool, WORKSPACE_BYTES)
        self.takes_tf32: Final = tf32
        self.handle: c_void_p | None = c_void_p()
        with pool.session:
            self.call("Create", byref(self.handle))

    def call(self, name: str, *arguments: object) -> None:
        """Call a function.

        Raises:
            DnnError: It returns an error; the text names both.
        """
        status = getattr(self._native, f"cudnn{name}")(*arguments)
        if status:
            said = self._native.cudnnGetErrorString(status).decode()
            raise DnnError(f"cudnn{name} returned {said} ({status})")

    def prepare(self, problem: Problem) -> ConvolutionProgram:
        """Return the program of a convolution.

        Raises:
            UnsupportedError: It is none that the library computes, or there is no memory for it to work in.
        """
        if not isinstance(problem, Convolution) or problem.dtype not in _TYPES:
            raise UnsupportedError(f"cuDNN on {self.device} computes no {problem}")
        try:
            with self.pool.session:
                return ConvolutionProgram(self, problem, self.workspace.address())
        except (DnnError, Fault) as error:
            raise UnsupportedError(f"cuDNN on {self.device}: {error}") from error

    def close(self) -> None:
        """Free everything; nothing may be running."""
        handle, self.handle = self.handle, None
        if handle is not None:
            with self.pool.session:
                self.call("Destroy", handle)
                self.workspace.close()


class Descriptors:
    """The library's descriptors of one problem: of x, w, the convolution and y."""

    def __init__(self, dnn: Dnn, problem: Convolution) -> None:
        self._dnn = dnn
        self._made: list[tuple[str, c_void_p]] = []
        filled = 1 if len(problem.size) == 1 else 0  # images have two axes at least: the first has one place
        size, kernel = (1,) * filled + problem.size, (1,) * filled + problem.kernel
        stride, dilation = (1,) * filled + problem.stride, (1,) * filled + problem.dilation
        padding = (0,) * filled + problem.padding
        out = tuple(
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, p, d, k, s in zip(size, padding, dilation, kernel, stride, strict=True)
        )
        channels, outputs = problem.groups * problem.in_channels, problem.groups * problem.out_channels
        self.shapes: Final = (
            (problem.batch, channels, *size),
            (outputs, problem.in_channels, *kernel),
            (problem.batch, outputs, *out),
        )
        of_data, of_sums = _TYPES[problem.dtype], _TYPES[max(problem.dtype, dtypes.float32, key=lambda d: d.bits)]
        math_type = _TENSOR_OP_MATH if problem.dtype.bits == 16 else _DEFAULT_MATH if dnn.takes_tf32 else _FMA_MATH
        try:
            self.x = self._tensor(of_data, self.shapes[0])
            self.w = self._make("Filter")
            dnn.call("SetFilterNdDescriptor", self.w, of_data, _ROW_MAJOR, len(self.shapes[1]), _ints(self.shapes[1]))
            self.convolution = self._make("Convolution")
            steps = (_ints(padding), _ints(stride), _ints(dilation))
            dnn.call(
                "SetConvolutionNdDescriptor", self.convolution, len(size), *steps, _CROSS_CORRELATION, of_sums
            )  # fmt: skip
            dnn.call("SetConvolutionGroupCount", self.convolution, problem.groups)
            dnn.call("SetConvolutionMathType", self.convolution, math_type)
            self.y = self._tensor(of_data, self.shapes[2])
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Destroy them."""
        made, self._made = self._made, []
        for kind, handle in reversed(made):
            self._dnn.call(f"Destroy{kind}Descriptor", handle)

    def _make(self, kind: str) -> c_void_p:
        handle = c_void_p()
        self._dnn.call(f"Create{kind}Descriptor", byref(handle))
        self._made.append((kind, handle))
        return handle

    def _tensor(self, type_: int, shape: Sequence[int]) -> c_void_p:
        handle = self._make("Tensor")
        strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        self._dnn.call("SetTensorNdDescriptor", handle, type_, len(shape), _ints(shape), _ints(strides))
        return handle


class ConvolutionProgram(CudaProgram):
    """One convolution. Its arguments are x, w, y."""

    __slots__ = ("_descriptors", "_dnn", "_factors", "_first", "_second")

    def __init__(self, dnn: Dnn, problem: Convolution, workspace: int) -> None:
        self._dnn = dnn
        self._descriptors = Descriptors(dnn, problem)
        parameters = [Parameter(math.prod(shape) * problem.dtype.itemsize) for shape in self._descriptors.shapes]
        name = f"cudnn_{'x'.join(map(str, self._descriptors.shapes[2]))}"
        super().__init__(name, "", f"{name} on {dnn.device}", dnn.pool, parameters)
        scalar = c_double if problem.dtype is dtypes.float64 else c_float
        self._factors = scalar(1.0), scalar(0.0)
        try:
            algorithm, nbytes = self._algorithm()
        except BaseException:
            self._descriptors.close()
            raise
        given = self._descriptors
        # What stays the same from launch to launch, around x, w and y.
        self._first = (dnn.handle, byref(self._factors[0]), given.x)
        self._second = (given.convolution, algorithm, workspace, nbytes, byref(self._factors[1]), given.y)

    def _algorithm(self) -> tuple[int, int]:
        """Return the first algorithm that has room, and the bytes that it works in."""
        given, count = self._descriptors, c_int()
        found = (Algorithm * _MOST_ALGORITHMS)()
        of_problem = (self._dnn.handle, given.x, given.w, given.convolution, given.y)
        self._dnn.call("GetConvolutionForwardAlgorithm_v7", *of_problem, _MOST_ALGORITHMS, byref(count), found)
        for each in found[: count.value]:
            nbytes = c_size_t()
            with suppress(DnnError):
                self._dnn.call("GetConvolutionForwardWorkspaceSize", *of_problem, each.algorithm, byref(nbytes))
                if not each.status and nbytes.value <= self._dnn.workspace.nbytes:
                    return each.algorithm, nbytes.value
        raise DnnError(f"no algorithm works in {self._dnn.workspace.nbytes} bytes")

    def enqueue(self, natives: Sequence[Native], stream: Stream) -> None:
        x, w, y = natives
        dnn = self._dnn
        try:
            dnn.call("SetStream", dnn.handle, dnn.pool.session.stream_handle(stream))
            dnn.call("ConvolutionForward", *self._first, x, self._descriptors.w, w, *self._second, y)
        except DnnError as error:
            with dnn.pool.session as session:
                session.is_done(dnn.pool.compute.mark())  # it says so if the device is lost
            raise Fault(Cause.REFUSED, str(error)) from error

    def free(self) -> None:
        """Destroy the descriptors."""
        with self.pool.session:
            self._descriptors.close()


def open_cudnn(pool: CudaPool, device: str, *, tf32: bool = False) -> Dnn | None:
    """Return the library on a device; None if it is not found or does not start there, which is said once."""
    native = load_library("cudnn", MAJORS)
    if native is None:
        return None
    try:
        return Dnn(native, pool, device, tf32=tf32)
    except (DnnError, Fault, AttributeError) as error:
        logger.warning(
            "cuDNN is found, and does not start on %s: %s; convolutions are generated kernels'", device, error
        )
        return None


def convolutions(dnn: Dnn) -> LibraryKernel:
    """Return what the library offers: it is taken where it was measured to be faster."""
    return LibraryKernel(f"cuDNN {dnn.version}", Convolution, dnn.prepare)


def _ints(values: Sequence[int]) -> ctypes.Array[c_int]:
    return (c_int * len(values))(*values)
