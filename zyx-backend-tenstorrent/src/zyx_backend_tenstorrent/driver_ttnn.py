"""Cards as servants: programs by the compiler of TT-Lang (`ttl`), memory and launches by TT-NN (`ttnn`).

The only module that imports either. What a program goes through:

    TT-Lang     `ttl`, in `Card.build`: a reader, a compute kernel and a writer, as C++ of TT-Metalium
    C++         SFPI, the compiler for the cores, which TT-Metalium starts at the first launch; no package has it
    launch      `ttnn`, in `Card.run`

There is float32 and bfloat16, and no float16. What the compiler prints, each kernel that it makes, is not shown; before
this module is loaded, `zyx_backend_tenstorrent.start` keeps TT-Metalium quiet.

A mock chip, which TT-Metalium makes of a description of a cluster, is opened as a card is, and is given programs and
memory; it holds nothing and runs nothing, so a launch on it is a fault.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import threading
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
import ttl
import ttnn
from ttl import kernel_runner, ttl_api

from zyx import dtype as dtypes
from zyx.drivers.faults import Cause, Fault

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from zyx.dtype import DType
    from zyx_backend_tenstorrent.driver import Like, Operation, Tensor

    Array = npt.NDArray[Any]

#: Buffers of a core: TT-Lang's specification, appendix E.
MOST_BUFFERS: Final = 32
#: Names the description of a cluster, of which TT-Metalium makes chips that are none.
MOCK: Final = "TT_METAL_MOCK_CLUSTER_DESC_PATH"
#: Makes the compiler of TT-Lang stop before the launch, at each call.
_COMPILE_ONLY: Final = "TTLANG_COMPILE_ONLY"
#: What TT-Metalium says where there is no card, and where there is no memory.
_NO_CARD: Final = "No chips detected"
_NO_MEMORY: Final = "Out of Memory"
_NO_SFPI: Final = "sfpi not found"
#: What it says where a card does not answer any more.
_LOST: Final = ("timed out", "timeout", "Device hang", "hang detected", "Read 0xffffffff")

_DTYPES: Final = {dtypes.float32: ttnn.float32, dtypes.bfloat16: ttnn.bfloat16}

#: Both packages have state of the process: the compiler its threads and buffers, TT-Metalium its cluster.
_LOCK: Final = threading.RLock()

# The compiler prints by `print`, in whichever thread it runs: what these modules call by that name does nothing.
for _module in (kernel_runner, ttl_api):
    _module.print = lambda *_, **_options: None


def count_cards() -> int:
    """Return how many cards there are.

    Raises:
        Fault: There are some, and they cannot be asked.
    """
    with _LOCK:
        try:
            found: int = ttnn.GetNumAvailableDevices()
        except RuntimeError as error:
            if _NO_CARD in str(error):
                return 0
            raise fault_of(error) from error
    return found


class Card:
    """A card; see `zyx_backend_tenstorrent.driver.Servant`.

    Args:
        number: Which one, from 0.
    """

    computes = frozenset(_DTYPES)
    most_buffers = MOST_BUFFERS

    def __init__(self, number: int) -> None:
        with _LOCK, _faults():
            self._device = ttnn.open_device(device_id=number)
            memory = ttnn.get_memory_view(self._device, ttnn.BufferType.DRAM)
            local = ttnn.get_memory_view(self._device, ttnn.BufferType.L1)
            grid = self._device.compute_with_storage_grid_size()
            name = str(self._device.arch()).rpartition(".")[2].capitalize()
        self._is_mock = MOCK in os.environ
        self.model = f"mock {name}" if self._is_mock else name
        self.version = f"tt-lang {version('tt-lang')}, ttnn {version('ttnn')}"
        self.grid = (grid.y, grid.x)
        self.memory_bytes = memory.num_banks * memory.total_bytes_per_bank
        self.local_bytes = local.largest_contiguous_bytes_free_per_bank

    def tensor(self, matrix: Array, dtype: DType) -> Tensor:
        """Return a tensor in memory of the card, in tiles."""
        is_short = dtype is dtypes.bfloat16
        data = torch.from_numpy(np.ascontiguousarray(matrix.view(np.int16) if is_short else matrix))
        with _LOCK, _faults():
            return ttnn.from_torch(
                data.view(torch.bfloat16) if is_short else data,
                dtype=_dtype_of(dtype),
                layout=ttnn.TILE_LAYOUT,
                device=self._device,
                memory_config=ttnn.DRAM_MEMORY_CONFIG,
            )

    def matrix(self, tensor: Tensor, dtype: DType) -> Array:
        """Return the elements of a tensor, copied from the card."""
        with _LOCK, _faults():
            data = ttnn.to_torch(tensor)
        is_short = dtype is dtypes.bfloat16
        found: Array = data.view(torch.int16).numpy().view(dtype.numpy) if is_short else data.numpy()
        return found

    def build(self, text: str, name: str, likes: Sequence[Like]) -> Operation:
        """Return the operation that `text` defines, compiled to C++ for tensors of these shapes and dtypes.

        Raises:
            Fault: The compiler of TT-Lang refused the text, or there is none for what it has made of it.
        """
        file = f"<{name}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)  # the compiler reads the text
        names: dict[str, Any] = {"ttl": ttl, "ttnn": ttnn}
        with _LOCK, _faults():
            tensors = [
                ttnn.allocate_tensor_on_device(
                    ttnn.TensorSpec((rows, columns), _dtype_of(dtype), ttnn.TILE_LAYOUT, ttnn.BufferType.DRAM),
                    self._device,
                )
                for (rows, columns), dtype in likes
            ]
            exec(compile(text, file, "exec"), names)
            operation: Operation = names[name]
            os.environ[_COMPILE_ONLY] = "1"
            try:
                operation(*tensors)
            finally:
                del os.environ[_COMPILE_ONLY]
                for tensor in tensors:
                    ttnn.deallocate(tensor)
        if not sfpi_folders():
            raise Fault(Cause.REFUSED, _missing_sfpi())
        return operation

    def run(self, operation: Operation, tensors: Sequence[Tensor]) -> None:
        """Run an operation, and wait until it is done."""
        if self._is_mock:
            raise Fault(Cause.REFUSED, f"a mock chip runs nothing: {MOCK} is set")
        with _LOCK, _faults():
            operation(*tensors)
            ttnn.synchronize_device(self._device)

    def close(self) -> None:
        """Close the card."""
        with _LOCK, _faults():
            ttnn.close_device(self._device)


def sfpi_folders() -> list[Path]:
    """Return the folders with SFPI: TT-Metalium looks below its root, which a variable may name, and below /opt."""
    root = Path(os.environ.get("TT_METAL_RUNTIME_ROOT") or Path(ttnn.__file__).parent)
    return [path for path in (root / "runtime" / "sfpi", Path("/opt/tenstorrent/sfpi")) if path.is_dir()]


def _missing_sfpi() -> str:
    return (
        "SFPI is missing, the compiler for the cores of a card, which no package has. Tenstorrent publishes it with "
        f"TT-Metalium, where ttnn.download_sfpi of ttnn {version('ttnn')} fetches it from; it belongs into "
        "/opt/tenstorrent/sfpi"
    )


def _dtype_of(dtype: DType) -> ttnn.DataType:
    try:
        return _DTYPES[dtype]
    except KeyError:
        raise Fault(Cause.REFUSED, f"cards have no tiles of {dtype}") from None


@contextlib.contextmanager
def _faults() -> Iterator[None]:
    """Turn what the two packages raise into faults. The boundary with their code: they raise what they like."""
    try:
        yield
    except Fault:
        raise
    except Exception as error:
        raise fault_of(error) from error


def fault_of(error: Exception) -> Fault:
    """Return what was wrong, in the words of TT-Metalium or the compiler, without the calls that led there."""
    text = " ".join(str(error).partition("backtrace:")[0].split())
    if _NO_SFPI in text:
        return Fault(Cause.REFUSED, _missing_sfpi())
    cause = Cause.REFUSED
    if _NO_MEMORY in text:
        cause = Cause.MEMORY
    elif any(words in text for words in _LOST):
        cause = Cause.LOST
    return Fault(cause, f"{type(error).__name__}: {text}")
