"""Every exception that zyx raises on purpose.

All derive from `ZyxError`; most derive as well from the built-in class that callers already catch. A message names the
value, the limit and the name concerned, and says what to do next.
"""

from __future__ import annotations

from zyx import numpy_threads  # noqa: F401  # before NumPy is imported

# isort: split
import numpy as np


class ZyxError(Exception):
    """Base class of all errors of zyx."""


class ShapeError(ZyxError, ValueError):
    """Shapes, axes or sizes do not fit together."""


class AxisError(ShapeError, IndexError):
    """An axis that there is not, as NumPy's error of this name."""


class MaskError(ShapeError, IndexError):
    """A mask of another shape than the axes that it is to choose from."""


class IterationError(ShapeError, TypeError):
    """What has no first axis is iterated over. It is a `TypeError` as well, by which Python tells what is iterable."""


class DimError(ShapeError):
    """A length is not as its `zyx.Dim` says, or the Dim itself makes no sense; the text has the name and bounds."""


class LinAlgError(ZyxError, np.linalg.LinAlgError):
    """A matrix has no such decomposition, inverse or solution: it is singular, or not positive definite, for one.

    It is NumPy's error of that name, too, and so a `ValueError`.
    """


class DTypeError(ZyxError, TypeError):
    """A dtype is not accepted here, or two dtypes have no common one."""


class IntegerError(ShapeError, TypeError):
    """An argument that counts something is no integer; the text has the function, the argument and what it is."""


class ArgumentError(ZyxError, TypeError):
    """A call with an argument that a function lacks, or that means different things in different libraries."""


class DeviceError(ZyxError, ValueError):
    """What is to be computed together lies on different devices; the text names them."""


class InvalidArgumentError(ZyxError, ValueError):
    """An argument of the flat interface is wrong; the text has the call, the argument, the value and what is expected.

    Also of handles that were freed, or never given out.
    """


class IndexRangeError(ZyxError, IndexError):
    """An index that is known when the graph is built lies outside its axis."""


class SharingError(ZyxError, BufferError, ValueError):
    """Memory cannot be handed over without the copy, or to the device, that the caller wants."""


class GradientError(ZyxError, RuntimeError):
    """A gradient was asked for where there is none: no rule, or history that is gone."""


class TraceError(ZyxError, RuntimeError):
    """A traced function did what cannot be replayed, such as reading a value."""


class SettingsError(ZyxError, ValueError):
    """A configuration file, variable or argument is wrong; the text has its source, key and reason."""


class FormatError(ZyxError, ValueError):
    """A file does not hold what its format promises."""


class PackageMissingError(ZyxError, ModuleNotFoundError):
    """An optional package is not installed; the text says how it is."""


class CollectiveError(ZyxError, RuntimeError):
    """Several processes do not do the same, or cannot reach each other; the text has the operation and the ranks."""


class CollectiveTimeoutError(CollectiveError, TimeoutError):
    """Another process did not come to an operation in time; the text has the operation, the ranks and the seconds."""


class DataError(ZyxError, RuntimeError):
    """A sample of a data set could not be made, or samples make no batch; the cause is the error that said so.

    Attributes:
        indices: The numbers of the samples.
    """

    def __init__(self, message: str, indices: tuple[int, ...] = ()) -> None:
        """Say which samples."""
        super().__init__(message)
        self.indices = indices


class StateError(ZyxError, ValueError):
    """Saved values do not fit the model or optimiser that takes them over; the text has the names and shapes."""


class VerifyError(ZyxError, AssertionError):
    """A graph, nest or kernel breaks a rule of its representation; the text has the rule and the place."""


class ParseError(ZyxError, ValueError):
    """The text of a kernel does not follow the grammar; the text has the line."""


class ScheduleError(ZyxError, ValueError):
    """A schedule move does not apply to this nest."""


class BackendError(ZyxError, RuntimeError):
    """Something below the hook interface failed.

    The subclasses say at which step; `device` and `kernel` in their texts say where.
    """


class NoDeviceError(BackendError):
    """No device of that name, or no device at all; the text lists what was tried and why it failed."""


class DriverNotFoundError(BackendError):
    """A vendor library or compiler is missing; the text says which package brings it."""


class InitializationError(BackendError):
    """A driver, context or device refused to start."""


class NotInitializedError(BackendError):
    """A flat interface to a device is used before `init`, or after `close`."""


class AllocationError(BackendError, MemoryError):
    """A pool has no room: the text has the pool, the bytes asked for and the bytes free."""


class InvalidBufferError(BackendError, ValueError):
    """A buffer does not belong to this pool, was freed before, or is too small."""


class InvalidEventError(BackendError, ValueError):
    """An event was used twice, or belongs to another device."""


class TransferError(BackendError, OSError):
    """An upload, download or copy failed."""


class FileChangedError(TransferError):
    """A file that was loaded without its values was written to or replaced before they were read: load it anew."""


class UnsupportedError(BackendError, NotImplementedError):
    """A device cannot do this: the text has the kernel, the op or dtype, and the limit."""


class CompileError(BackendError):
    """A compiler refused a kernel: the text has its log, and where the source is."""


class LaunchError(BackendError):
    """A kernel could not be queued, or failed while running."""


class DeviceLostError(BackendError):
    """A device stopped answering while it was in use.

    Attributes:
        place: Name of the device, or of its pool. A backend that knows it better than its caller says so; empty until
            then.
    """

    def __init__(self, text: str, place: str = "") -> None:
        super().__init__(text)
        self.place = place


def locate(error: BackendError, place: str) -> None:
    """Note in `error`, if a device is lost, that it is the one called `place`, unless the error says which.

    >>> error = zyx.errors.DeviceLostError("no answer")
    >>> zyx.errors.locate(error, "cuda:0")
    >>> error.place
    'cuda:0'
    """
    if isinstance(error, DeviceLostError) and not error.place:
        error.place = place
