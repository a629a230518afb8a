"""The simulator of TT-Lang as a servant: the only module that imports it, and torch, which computes for it.

It is one for a process, and runs in one thread at a time. What it gets wrong is put right here:

* it has float16 and bfloat16 computed in float32, for which it changes torch itself, unless it is told not to;
* each of its errors becomes a FileNotFoundError, of a module that its package lacks: what was wrong stands in the
  context of that, or in what it has printed;
* more local memory or buffers than a core has are a warning, which is an error here;
* of some functions it has other parameters than the compiler (`_words`).
"""

from __future__ import annotations

import contextlib
import io
import threading
import warnings
from importlib.metadata import version
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from ttl.sim import program as ttl_program
from ttl.sim import ttl, ttnn

from zyx import dtype as dtypes
from zyx.drivers.faults import Cause, Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from zyx.dtype import DType
    from zyx_backend_tenstorrent.driver import Like, Operation, Tensor

    Array = npt.NDArray[Any]
    _Block = Any  # a block, or what is to become one

#: Local memory of a core that buffers may have, in bytes: what is left of 1,464 KiB (appendix E) beside programs. The
#: simulator warns of more.
LOCAL_BYTES: Final = ttl_program.get_max_l1_bytes()
#: Buffers of a core: TT-Lang's specification, appendix E.
MOST_BUFFERS: Final = ttl_program.get_max_dfbs()
#: Memory of a card with one Blackhole (p150), in bytes.
MEMORY_BYTES: Final = 32 << 30

#: What the simulator prints where kernels wait for each other.
_DEADLOCK: Final = "Deadlock detected"
#: One context for the process: see `ttl.sim.context`.
_LOCK: Final = threading.RLock()


class Simulator:
    """The simulator; see `zyx_backend_tenstorrent.driver.Servant`.

    Args:
        grid: Rows and columns of cores. More of them make nothing faster.
        memory_bytes: How much memory there is to be.
    """

    computes = frozenset({dtypes.float32, dtypes.bfloat16, dtypes.float16})

    def __init__(self, grid: tuple[int, int], memory_bytes: int) -> None:
        self.model = "simulated Blackhole"
        self.version = f"tt-lang-sim {version('tt-lang-sim')}, torch {torch.__version__}"
        self.local_bytes = LOCAL_BYTES
        self.most_buffers = MOST_BUFFERS
        self.grid = grid
        self.memory_bytes = memory_bytes
        with _LOCK:
            ttnn.set_disable_float32_promotion(True)

    def tensor(self, matrix: Array, dtype: DType) -> Tensor:
        """Return a tensor of the simulator, on the memory of `matrix` if that is float32 or float16."""
        with _LOCK:
            data = torch.from_numpy(
                np.ascontiguousarray(matrix if dtype is not dtypes.bfloat16 else matrix.view(np.int16))
            )
            data = data.view(torch.bfloat16) if dtype is dtypes.bfloat16 else data
            return ttnn.from_torch(
                data, dtype=data.dtype, layout=ttnn.TILE_LAYOUT, memory_config=ttnn.DRAM_MEMORY_CONFIG
            )

    def matrix(self, tensor: Tensor, dtype: DType) -> Array:
        """Return the elements of a tensor, on its memory."""
        data = tensor.to_torch()
        is_short = dtype is dtypes.bfloat16
        found: Array = data.view(torch.int16).numpy().view(dtype.numpy) if is_short else data.numpy()
        return found

    def build(self, text: str, name: str, likes: Sequence[Like]) -> Operation:
        """Return the operation that `text` defines, for tensors of any shape."""
        names: dict[str, Any] = {"ttl": _words(), "ttnn": ttnn}
        with _LOCK:
            try:
                exec(compile(text, f"<{name}>", "exec"), names)
            except Exception as error:
                raise Fault(Cause.REFUSED, f"{type(error).__name__}: {error}") from error
        operation: Operation = names[name]
        return operation

    def run(self, operation: Operation, tensors: Sequence[Tensor]) -> None:
        """Run an operation."""
        printed = io.StringIO()
        with _LOCK, contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                operation(*tensors)
            except Exception as error:
                raise fault_of(error, printed.getvalue()) from error

    def close(self) -> None:
        pass  # it is the process's


def _words() -> SimpleNamespace:
    """Return the simulator's `ttl` with the parameters that functions have in the compiler.

    A fill has a dtype there, which here is that of what it meets; a reduction has no shape, which is that of its block
    with 1 along what it reduces.
    """

    def fill(value: float, *, shape: tuple[int, ...], dtype: object) -> _Block:
        return ttl.block.fill(value, shape=shape)

    def reduction(reduce: Callable[..., _Block]) -> Callable[..., _Block]:
        def reduced(block: _Block, *, dims: list[int]) -> _Block:
            return reduce(block, dims=dims, shape=tuple(1 if dim in dims else n for dim, n in enumerate(block.shape)))

        return reduced

    sums, maxima = reduction(ttl.math.reduce_sum), reduction(ttl.math.reduce_max)
    block = SimpleNamespace(**{**vars(ttl.block), "fill": fill})
    math = SimpleNamespace(**{**vars(ttl.math), "reduce_sum": sums, "reduce_max": maxima})
    return SimpleNamespace(**{**vars(ttl), "block": block, "math": math})


def fault_of(error: Exception, printed: str) -> Fault:
    """Return what was wrong where the simulator raised an error, after it had printed something.

    An error of its own comes as a FileNotFoundError, which has the error for its context; a deadlock is printed.
    """
    if _DEADLOCK in printed:
        return Fault(Cause.DEADLOCK, " ".join(printed.split()))
    cause: BaseException = error
    while isinstance(cause, FileNotFoundError) and cause.__context__ is not None:
        cause = cause.__context__
    if _DEADLOCK in str(cause):
        return Fault(Cause.DEADLOCK, str(cause))
    return Fault(Cause.REFUSED, f"{type(cause).__name__}: {cause}")
