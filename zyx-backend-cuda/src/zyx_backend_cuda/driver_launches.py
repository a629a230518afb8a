"""Modules, kernels and launches, straight from the driver's library: what a binding adds is felt at each launch.

Python packages (pycuda, cuda-bindings) serve everything else; their sessions derive from `Programs`.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import TYPE_CHECKING, Any, Final

from zyx_backend_cuda.errors import CODES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx_backend_cuda.argument_block import ArgumentBlock
    from zyx_backend_cuda.driver import Function, GraphExec, Module, Shape

_LIBRARY: Final = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
#: Numbers of ``CU_FUNC_ATTRIBUTE_``.
_ATTRIBUTES: Final = {"MAX_THREADS_PER_BLOCK": 0}


@functools.cache
def _libraries() -> tuple[ctypes.CDLL, ctypes.PyDLL]:
    """Return the driver's library, twice: functions of the second keep Python's lock, since they return at once."""
    return ctypes.CDLL(_LIBRARY), ctypes.PyDLL(_LIBRARY)


def _call(function: str, *args: Any) -> None:  # noqa: ANN401  # of ctypes
    status = getattr(_libraries()[0], function)(*args)
    if status != 0:
        raise CODES.fault(status, function)


class NodeParameters(ctypes.Structure):
    """The first version of the driver's ``CUDA_KERNEL_NODE_PARAMS``."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("groups", ctypes.c_uint * 3),
        ("threads", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("arguments", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
    )


class Programs:
    """Modules and kernels in the context that is current, known by the driver's numbers."""

    def load(self, image: bytes) -> Module:
        """Return a module."""
        module = ctypes.c_void_p()
        _call("cuModuleLoadData", ctypes.byref(module), image)
        return module

    def unload(self, module: Module) -> None:
        """Free a module."""
        _call("cuModuleUnload", module)

    def function(self, module: Module, name: str) -> Function:
        """Return a kernel of a module."""
        function = ctypes.c_void_p()
        _call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def function_attribute(self, function: Function, name: str) -> int:
        """Return a number of a kernel."""
        value = ctypes.c_int()
        _call("cuFuncGetAttribute", ctypes.byref(value), _ATTRIBUTES[name], function)
        return value.value

    def launch(self, function: Function, groups: Shape, threads: Shape, block: ArgumentBlock, stream: int) -> None:
        """Queue a kernel on the stream of this number."""
        _call("cuLaunchKernel", *_launch_arguments(function, groups, threads, block, stream))

    def current_context(self) -> int:
        """Return the number of the context that is current, 0 if none is."""
        context = ctypes.c_void_p()
        _call("cuCtxGetCurrent", ctypes.byref(context))
        return context.value or 0

    def launcher_in(
        self, context: int, function: Function, groups: Shape, threads: Shape, block: ArgumentBlock, stream: int
    ) -> Callable[[Sequence[int | bytes]], None]:
        """Return what puts arguments into `block` and queues a kernel, wherever `context` need not be current.

        It is made so where it is not; and stays so where none was, as with CUDA's runtime, so that most launches only
        ask which is. One thread at a time calls what is returned.
        """
        library, holding = _libraries()
        launch_kernel, get_current, set_current = (
            library.cuLaunchKernel,
            holding.cuCtxGetCurrent,
            holding.cuCtxSetCurrent,
        )
        native = _launch_arguments(function, groups, threads, block, stream)
        current, own = ctypes.c_void_p(), ctypes.c_void_p(context)
        where = ctypes.byref(current)
        fill = block.fill

        def launch(values: Sequence[int | bytes]) -> None:
            fill(values)
            get_current(where)
            other = current.value
            if other == context:
                status = launch_kernel(*native)
            elif (status := set_current(own)) == 0:
                status = launch_kernel(*native)
                if other is not None:
                    set_current(ctypes.c_void_p(other))
            if status != 0:
                raise CODES.fault(status, "cuLaunchKernel")

        return launch

    # ---- launches in graphs

    def can_change(self, graph: GraphExec, functions: Sequence[Function]) -> bool:
        """Return whether a graph is launches of these kernels in their order, whose arguments can be changed."""
        if len(graph.nodes) != len(functions):
            return False
        found = NodeParameters()
        for node, function in zip(graph.nodes, functions, strict=True):
            status = _libraries()[0].cuGraphKernelNodeGetParams(ctypes.c_void_p(node), ctypes.byref(found))
            if status != 0 or found.function != function.value:
                return False
        return True

    def change(
        self, graph: GraphExec, number: int, function: Function, groups: Shape, threads: Shape, block: ArgumentBlock
    ) -> None:
        """Give a launch of a graph the arguments that `block` holds, from the next time on that it is queued."""
        made = NodeParameters(function, (*groups,), (*threads,), 0, block.pointers, None)
        node = ctypes.c_void_p(graph.nodes[number])
        _call("cuGraphExecKernelNodeSetParams", ctypes.c_void_p(graph.number), node, ctypes.byref(made))


def _launch_arguments(
    function: Function, groups: Shape, threads: Shape, block: ArgumentBlock, stream: int
) -> tuple[object, ...]:
    sizes = [ctypes.c_uint(size) for size in (*groups, *threads, 0)]
    return (function, *sizes, ctypes.c_void_p(stream), ctypes.c_void_p(block.pointers), ctypes.c_void_p())
