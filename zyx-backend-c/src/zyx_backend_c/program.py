"""What a kernel becomes: source text, then a program that can be launched.

A program is a table of *steps* in native memory, and the argument slots that the steps point to. A compiled kernel is
one step, a captured sequence has one a launch; both are run by a single native call::

    words:   | count cost | function  args  groups  chunk  cost  first | function  args ... | slot slot | slot slot |
                            step 0        |                              step 1      |        ^           ^
                                          +--------------------------------------------------+           |
                                                                                     +-------------------+

The slots that hold launch arguments are written when a launch brings other arguments than the one before.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from zyx import dtype as dtypes
from zyx.backend import Program
from zyx.dtype import DType  # noqa: TC001  # msgspec looks for it
from zyx.errors import LaunchError
from zyx_backend_c import driver

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.backend import Argument, MemoryPool
    from zyx.dtype import Scalar
    from zyx.kernel.data import Kernel
    from zyx_backend_c.analysis import Analysis

#: Turns a scalar argument into the 8 bytes of its slot, as an unsigned integer.
Encoder: TypeAlias = "Callable[[Scalar], int]"

#: Words before the steps, and of a step.
FIRST_WORDS: Final = 2
STEP_WORDS: Final = 6
#: Stands for a number where an entry is told how many bytes a buffer must have.
_NUMBER: Final = 2**64 - 1
_FLOAT_FORMATS: Final = {dtypes.float16: "<e", dtypes.float32: "<f", dtypes.float64: "<d"}


class HostBuffer(Protocol):
    """A buffer of the pool that CPU devices share.

    Attributes:
        pool: The pool.
        nbytes: Size.
        freed: Whether it was given back.
        extent: Address and size; zeros once it is freed.
    """

    pool: MemoryPool
    nbytes: int
    freed: bool
    extent: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a native function over all groups.

    Attributes:
        code: The machine code, which has to stay loaded.
        function: Address.
        args: Argument slots; launch arguments are written over.
        groups: Number of groups.
        chunk: Groups that a thread takes at a time.
        cost_ns: Estimated nanoseconds on one thread.
    """

    code: driver.Code
    function: int
    args: tuple[int, ...]
    groups: int
    chunk: int
    cost_ns: int


@dataclass(frozen=True, slots=True)
class Parameter:
    """A launch argument.

    Attributes:
        places: The slots to write it to, each as (number of the step, number of the slot in it).
        nbytes: Size that a buffer must have.
        scalar: Dtype of a number; None means a buffer.
        is_needed: Whether the values that a buffer has before the launch are read.
        is_written: Whether a buffer gets other values.
    """

    places: tuple[tuple[int, int], ...]
    nbytes: int = 0
    scalar: DType | None = None
    is_needed: bool = True
    is_written: bool = True


@dataclass(frozen=True, slots=True)
class Rendered:
    """Source text of a kernel, and what is needed to launch it.

    Attributes:
        name: The kernel's name.
        text: LLVM IR or C.
        parameters: The launch arguments.
        groups: Number of groups.
        scratch_bytes: Scratch memory that a thread needs.
        work: Estimate of the vector instructions that all groups run.
        traffic: Estimate of the bytes that they move between memory and the processor.
    """

    name: str
    text: str
    parameters: tuple[Parameter, ...]
    groups: int
    scratch_bytes: int
    work: float
    traffic: float

    @classmethod
    def of(cls, kernel: Kernel, text: str, analysis: Analysis) -> Rendered:
        """Return the record of a kernel whose source is `text`."""
        groups = analysis.group_count
        work = analysis.work * groups
        return cls(kernel.name, text, parameters_of(kernel), groups, analysis.scratch_bytes, work, analysis.traffic)


class Enters(NamedTuple):
    """What an entry takes.

    Attributes:
        entries: What makes it.
        workers_address: Of the worker pool, which counts calls.
        pool: Where its buffers lie.
    """

    entries: driver.Builtins
    workers_address: int
    pool: MemoryPool


class CpuProgram(Program):
    """A table of steps, ready to run.

    Attributes:
        steps: The steps.
        parameters: The launch arguments.
        scratch_bytes: Scratch memory that a thread needs.
        cost_ns: Estimated nanoseconds on one thread, of all steps.
        address: Of the words.
        words: The words of the native table.
        count: Number of steps.
        is_released: Whether it was given back.
        entry: The builtin function that runs it on the calling thread, see `entry.ll`; None unless it is one step,
            which was made with `enters`.
    """

    __slots__ = (
        "_bound", "_encoders", "_entry", "_has_numbers", "_least", "_overwrites_fixed", "_owner", "_slots", "address",
        "assembly", "cost_ns", "count", "entry", "is_released", "parameters", "scratch_bytes", "steps", "words",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        source: str,
        steps: Sequence[Step],
        parameters: Sequence[Parameter],
        scratch_bytes: int = 0,
        assembly: Callable[[], str] = str,
        *,
        overwrites_fixed: bool = False,
        enters: Enters | None = None,
    ) -> None:
        super().__init__(name, source)
        self._overwrites_fixed = overwrites_fixed  # as `overwrites`, for buffers that are no launch arguments
        self.steps = tuple(steps)
        self.parameters = tuple(parameters)
        self.scratch_bytes = scratch_bytes
        self.assembly = assembly
        self.cost_ns = sum(step.cost_ns for step in steps)
        self.count = len(self.steps)
        self.is_released = False
        starts = []
        length = FIRST_WORDS + STEP_WORDS * self.count
        for step in self.steps:
            starts.append(length)
            length += len(step.args)
        self._owner = driver.NativeWords(length)
        self.address = self._owner.address
        self.words = words = self._owner.words
        words[0], words[1] = self.count, self.cost_ns
        for number, (step, start) in enumerate(zip(self.steps, starts, strict=True)):
            row = (step.function, self.address + 8 * start, step.groups, step.chunk, step.cost_ns)
            for column, value in enumerate(row):
                words[FIRST_WORDS + STEP_WORDS * number + column] = value
            for column, value in enumerate(step.args):
                words[start + column] = value
        self._slots = tuple(
            tuple(starts[step] + slot for step, slot in parameter.places) for parameter in self.parameters
        )
        self._least = tuple(parameter.nbytes for parameter in self.parameters)
        self._encoders = tuple(
            None if parameter.scalar is None else encoder(parameter.scalar) for parameter in self.parameters
        )
        self._bound: list[object] = [None] * len(self.parameters)
        self._has_numbers = any(encode is not None for encode in self._encoders)
        self.entry: Callable[..., bool] | None = None
        if enters is not None:
            self._entry = enters, driver.NativeWords(4 + len(self.parameters))
            demand = self._entry[1].words
            demand[0], demand[1], demand[2] = self.address, enters.workers_address, id(enters.pool)
            demand[3] = len(self.parameters)
            for number, parameter in enumerate(self.parameters, 4):
                demand[number] = parameter.nbytes if parameter.scalar is None else _NUMBER
            self.entry = enters.entries.make(self._entry[1].address)

    @property
    def takes_numbers(self) -> bool:
        """Whether an argument is a number, of which the entry takes the word."""
        return self._has_numbers

    def enter(self, args: Sequence[Argument]) -> bool:
        """Run it on the calling thread, by its entry; return False if it has none, or the arguments do not fit."""
        entry = self.entry
        if entry is None:
            return False
        if self._has_numbers:
            try:
                args = [
                    arg if encode is None else encode(arg)  # type: ignore[arg-type]  # may raise
                    for arg, encode in zip(args, self._encoders, strict=True)
                ]
            except (TypeError, ValueError, struct.error, OverflowError):
                return False
        return entry(*args)

    def bind(self, args: Sequence[Argument], pool: MemoryPool) -> None:
        """Write launch arguments to their slots, those that are others than at the last launch.

        Raises:
            LaunchError: They are too few or too many, or one is no living buffer of `pool`, or too small.
        """
        bound, least, slots, words = self._bound, self._least, self._slots, self.words
        if len(args) != len(bound):
            raise LaunchError(f"{self.name} takes {self._signature()}; it was given {len(args)}")
        try:
            for number, (arg, encode, before) in enumerate(zip(args, self._encoders, bound, strict=True)):
                value: Any = arg.extent if encode is None else encode(arg)  # type: ignore[union-attr, arg-type]  # may raise
                if value is before:
                    continue
                word = value
                if encode is None:
                    if value[1] < least[number] or arg.pool is not pool:  # type: ignore[union-attr]
                        check_buffer(arg, least[number], pool, f"argument {number} of {self.name}")
                    word = value[0]
                bound[number] = None  # an exception of a signal handler may come in between
                for place in slots[number]:
                    words[place] = word
                bound[number] = value
        except (AttributeError, TypeError, ValueError, struct.error, OverflowError) as error:
            raise LaunchError(f"{self.name} takes {self._signature()}: {error}") from error

    @property
    def overwrites(self) -> bool:
        """Whether the arguments bound now make it write to a buffer whose values from before it reads."""
        bound = list(zip(self._bound, self.parameters, strict=True))
        needed = {extent for extent, parameter in bound if parameter.is_needed}
        return self._overwrites_fixed or any(parameter.is_written and extent in needed for extent, parameter in bound)

    def arguments(self) -> tuple[list[object], bytes]:
        """Return the arguments bound now, for `restore`."""
        return list(self._bound), self.words.tobytes()

    def restore(self, arguments: tuple[list[object], bytes]) -> None:
        """Put back what `arguments` returned."""
        self._bound[:] = arguments[0]
        self.words[:] = memoryview(arguments[1]).cast("Q")

    def _signature(self) -> str:
        kinds = [f"a buffer of {p.nbytes} bytes" if p.scalar is None else "a number" for p in self.parameters]
        return f"{len(kinds)} arguments: {', '.join(kinds)}" if kinds else "no arguments"


def check_buffer(arg: object, nbytes: int, pool: MemoryPool, what: str) -> None:
    """Raise `LaunchError` unless `arg` is a living buffer of `pool` of at least `nbytes` bytes."""
    extent = getattr(arg, "extent", None)
    if extent is None:
        raise LaunchError(f"{what} is {arg!r}, not a buffer")
    if getattr(arg, "pool", None) is not pool:
        raise LaunchError(f"{what} is not a buffer of pool {pool.name}")
    if extent[0] == 0:
        raise LaunchError(f"{what} was freed before")
    if extent[1] < nbytes:
        raise LaunchError(f"{what} has {extent[1]} bytes; the kernel reaches {nbytes}")


@cache
def encoder(dtype: DType) -> Encoder:
    """Return what turns numbers of `dtype` into slots."""
    if dtype.is_bool:
        return lambda value: int(bool(value))
    if not dtype.is_float:
        mask = (1 << dtype.bits) - 1
        return lambda value: int(value) & mask
    if dtype is dtypes.bfloat16:
        return lambda value: int.from_bytes(struct.pack("<f", dtype.to_scalar(value))[2:], "little")
    layout = _FLOAT_FORMATS[dtype]
    return lambda value: int.from_bytes(struct.pack(layout, dtype.to_scalar(value)), "little")


def parameters_of(kernel: Kernel) -> tuple[Parameter, ...]:
    """Return the launch arguments of a program of one step, which is `kernel`."""
    from zyx.kernel.data import Atomic, Define, Load, Memory, Store, Variable

    read = {op.source for op in kernel.ops if isinstance(op, Load)}
    written = {op.target for op in kernel.ops if isinstance(op, (Store, Atomic))}
    read |= {op.target for op in kernel.ops if isinstance(op, Atomic)}
    found: list[Parameter] = []
    for value, op in enumerate(kernel.ops):
        place = ((0, len(found)),)
        if isinstance(op, Variable):
            found.append(Parameter(place, 0, op.type.dtype, is_needed=False, is_written=False))
        elif isinstance(op, Define) and op.memory is Memory.GLOBAL:
            nbytes = (1 if op.is_front else op.length) * op.dtype.itemsize
            found.append(Parameter(place, nbytes, is_needed=value in read, is_written=value in written))
    return tuple(found)
