"""A CUDA driver that exists on paper, with its compiler: it checks what it is asked, and computes on the interpreter.

Streams are lazy: nothing runs until somebody waits for it, and then only as far as the events say. So work that does
not wait for what it needs computes with what was there before, and pinned memory that is filled again too early is sent
as it is then.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections import deque
from threading import RLock, get_ident
from typing import TYPE_CHECKING, Any

import numpy as np

from zyx.kernel.data import Define
from zyx.kernel.run import Executable
from zyx_backend_cuda.errors import CODES
from zyx_backend_cuda.nvrtc import CompilationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.kernel.data import Kernel

NOT_CURRENT, BAD_ADDRESS, BAD_HANDLE, NO_MEMORY, BAD_IMAGE = 201, 700, 400, 2, 200

#: Who runs work, which is all done by those who wait: the others wait for them.
RUNNING = RLock()

#: The kernel of every source that was rendered; `record_kernels` fills it.
KERNELS: dict[str, Kernel] = {}


class FakeEvent:
    """A place in a stream; None before it is recorded."""

    def __init__(self, timing: bool) -> None:
        self.timing = timing
        self.place: tuple[FakeStream, int] | None = None
        self.clock = 0.0


class FakeStream:
    """Work, of which the first `ran` pieces are done."""

    def __init__(self) -> None:
        self.work: deque[Callable[[], None]] = deque()
        self.ran = 0
        self.given = 0
        self.captured: list[Callable[[], None]] | None = None

    def put(self, piece: Callable[[], None]) -> None:
        if self.captured is not None:
            self.captured.append(piece)
            return
        self.work.append(piece)
        self.given += 1

    def run_to(self, place: int, *, waits: bool = True) -> bool:
        """Run pieces, and return whether all ran; one that gives False waits for something elsewhere."""
        with RUNNING:
            while self.ran < place:
                if not self.step():
                    if not waits:
                        return False
                    time.sleep(1e-4)
            return True

    def step(self) -> bool:
        """Run the next piece; return whether it is done."""
        is_done = True
        try:
            is_done = self.work[0]() is not False
        finally:
            if is_done:
                self.work.popleft()
                self.ran += 1  # behind it: others look at this to know what is done
        return is_done


class FakeSession:
    """A device; see `zyx_backend_cuda.driver.Session`.

    Attributes:
        calls: The names of the calls, in order.
        alive: Memory that is allocated.
        streams: Streams, by the numbers that libraries know them by.
        refusals: For names of calls, the codes that the next of them fail with.
        is_lost: Whether a kernel went astray, after which all calls fail.
        runs_when_asked: Whether streams also run when it is asked how far they are.
    """

    can_capture = True

    def __init__(self, name: str = "Paper", total_bytes: int = 1 << 34, capability: int = 90) -> None:
        self.name, self.total_bytes = name, total_bytes
        self.calls: list[str] = []
        self.alive: dict[int, np.ndarray] = {}
        self.streams: dict[int, FakeStream] = {}
        self.refusals: dict[str, list[int]] = {}
        self.depth = 0
        self.is_closed = False
        self.is_lost = False
        self.linked = True
        self.runs_when_asked = False
        self.threads: list[int] = []  # in which it is current
        self._numbers = {
            "COMPUTE_CAPABILITY_MAJOR": capability // 10, "COMPUTE_CAPABILITY_MINOR": capability % 10,
            "MAX_BLOCK_DIM_X": 1024, "MAX_BLOCK_DIM_Y": 1024, "MAX_BLOCK_DIM_Z": 64, "MAX_GRID_DIM_X": (1 << 31) - 1,
            "MULTIPROCESSOR_COUNT": 132, "CLOCK_RATE": 1_980_000, "GLOBAL_MEMORY_BUS_WIDTH": 5120,
            "MEMORY_CLOCK_RATE": 2_619_000, "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 233_472,
            "MAX_SHARED_MEMORY_PER_BLOCK": 49152, "L2_CACHE_SIZE": 52_428_800,
        }  # fmt: skip
        self._next = 0x7F0000000000
        self._clock = 0.0

    def __enter__(self) -> FakeSession:
        assert not self.is_closed, "used after it was closed"
        self.depth += 1
        self.threads.append(get_ident())
        return self

    def __exit__(self, *exception: object) -> None:
        self.depth -= 1
        self.threads.remove(get_ident())

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if not self.depth:
            raise CODES.fault(NOT_CURRENT, name)
        if self.is_lost:
            raise CODES.fault(BAD_ADDRESS, name)
        codes = self.refusals.get(name)
        if codes:
            raise CODES.fault(codes.pop(0), name)

    def attribute(self, name: str, default: int = 0) -> int:
        return self._numbers.get(name, default)

    # ---- memory

    def allocate(self, nbytes: int) -> int:
        self._call("allocate")
        if nbytes <= 0 or sum(len(memory) for memory in self.alive.values()) + nbytes > self.total_bytes:
            raise CODES.fault(NO_MEMORY, "allocate")
        address, self._next = self._next, self._next + -(-nbytes // 512) * 512
        self.alive[address] = np.full(nbytes, 0xA5, np.uint8)
        return address

    def free(self, address: int) -> None:
        self._call("free")
        del self.alive[address]

    def array(self, address: int, param: Define) -> np.ndarray:
        """Return the memory of an array: of one of which a launch may give less, as far as the allocation goes."""
        nbytes, itemsize = param.length * param.dtype.itemsize, param.dtype.itemsize
        if getattr(param, "is_front", False):  # The oldest core that this backend runs on has no word for such arrays.
            there = next((len(memory) + start - address for start, memory in self.alive.items() if start == address), 0)
            nbytes = max(itemsize, min(nbytes, there // itemsize * itemsize))
        return self.at(address, nbytes)

    def at(self, address: int, nbytes: int) -> np.ndarray:
        for start, memory in self.alive.items():
            if start <= address and address + nbytes <= start + len(memory):
                return memory[address - start : address - start + nbytes]
        raise CODES.fault(BAD_ADDRESS, "an access")

    def pinned(self, nbytes: int) -> np.ndarray:
        self._call("pinned")
        return np.full(nbytes, 0x5A, np.uint8)

    # ---- order

    def stream(self) -> FakeStream:
        self._call("stream")
        stream = FakeStream()
        self.streams[id(stream)] = stream
        return stream

    def event(self, *, timing: bool = False) -> FakeEvent:
        self._call("event")
        return FakeEvent(timing)

    def record(self, event: FakeEvent, stream: FakeStream) -> None:
        self._call("record")
        event.place = (stream, stream.given)
        self._clock += 1e-6
        event.clock = self._clock

    def wait(self, stream: FakeStream, event: FakeEvent) -> None:
        self._call("wait")
        assert event.place is not None, "an event was waited for that was never recorded"
        other, place = event.place
        stream.put(lambda: other.run_to(place, waits=False))

    def is_done(self, event: FakeEvent) -> bool:
        self._call("is_done")
        assert event.place is not None
        if self.runs_when_asked:
            event.place[0].run_to(event.place[1], waits=False)
        return event.place[0].ran >= event.place[1]

    def synchronize(self, event: FakeEvent) -> None:
        self._call("synchronize")
        assert event.place is not None
        event.place[0].run_to(event.place[1])

    def drain(self, stream: FakeStream) -> None:
        self._call("drain")
        stream.run_to(stream.given)

    def elapsed(self, start: FakeEvent, end: FakeEvent) -> float:
        self._call("elapsed")
        assert start.timing
        assert end.timing
        return end.clock - start.clock

    # ---- copies

    def upload(self, target: int, source: np.ndarray, stream: FakeStream) -> None:
        self._call("upload")
        self.at(target, source.nbytes)

        def run() -> None:
            self.at(target, source.nbytes)[:] = source

        stream.put(run)

    def download(self, target: np.ndarray, source: int, stream: FakeStream) -> None:
        self._call("download")
        self.at(source, target.nbytes)

        def run() -> None:
            target[:] = self.at(source, target.nbytes)

        stream.put(run)

    def copy_from(self, peer: FakeSession, target: int, source: int, nbytes: int, stream: FakeStream) -> None:
        self._call("copy_from")

        def run() -> None:
            self.at(target, nbytes)[:] = peer.at(source, nbytes)

        stream.put(run)

    def enable_peer(self, peer: FakeSession) -> bool:
        self._call("enable_peer")
        return peer.linked

    # ---- programs

    def load(self, image: bytes) -> Executable:
        self._call("load")
        if image.decode() not in KERNELS:
            raise CODES.fault(BAD_IMAGE, "load")
        return Executable(KERNELS[image.decode()])

    def unload(self, module: Executable) -> None:
        self._call("unload")
        assert all(stream.ran == stream.given for stream in self.streams.values()), "a running kernel was unloaded"

    def function(self, module: Executable, name: str) -> Executable:
        self._call("function")
        assert name == "zyx_kernel"
        return module

    def function_attribute(self, function: Executable, name: str) -> int:
        self._call("function_attribute")
        return {"MAX_THREADS_PER_BLOCK": 1024}[name]

    def launcher(
        self, function: Executable, groups: Any, threads: Any, block: Any, stream: FakeStream
    ) -> Callable[[Any], None]:
        def launch(values: Any) -> None:
            block.fill(values)
            with self:
                self.launch(function, groups, threads, block, stream)

        return launch

    def launch(self, function: Executable, groups: Any, threads: Any, block: Any, stream: FakeStream) -> None:
        self._call("launch")
        kernel = function.kernel
        shapes = tuple(tuple((*sizes, 1, 1, 1)[:3]) for sizes in kernel.grid)
        assert (groups, threads) == shapes, "the grid is not the kernel's"
        arguments, data, end = [], bytes(block.buffer), 0
        pointers = (ctypes.c_void_p * max(1, len(kernel.params))).from_address(block.pointers)
        for number, param in enumerate(kernel.params):
            dtype = None if isinstance(param, Define) else param.type.dtype
            size = 8 if dtype is None else dtype.itemsize
            end += -end % size
            assert pointers[number] == ctypes.addressof(block.buffer) + end, "an argument is not at its place"
            raw, end = data[end : end + size], end + size
            arguments.append(int.from_bytes(raw, "little") if dtype is None else np.frombuffer(raw, dtype.numpy)[0])
        assert end == block.size

        def run() -> None:
            given: list[Any] = []
            for param, argument in zip(kernel.params, arguments, strict=True):
                if isinstance(param, Define):
                    given.append(self.array(argument, param).view(param.dtype.numpy))
                else:
                    given.append(argument.item())
            function(given)

        stream.put(run)

    # ---- graphs

    def capture(self, stream: FakeStream, queue: Callable[[], None]) -> list[Callable[[], None]]:
        self._call("capture")
        assert not stream.work, "a stream that captures must be idle"
        stream.captured = []
        try:
            queue()
            return stream.captured
        finally:
            stream.captured = None

    def play(self, graph: list[Callable[[], None]], stream: FakeStream) -> None:
        self._call("play")
        pieces = list(graph)  # what is changed later does not change it

        for piece in pieces:
            stream.put(piece)

    def can_change(self, graph: list[Callable[[], None]], functions: Sequence[Executable]) -> bool:
        return len(graph) == len(functions)

    def change(
        self, graph: list[Callable[[], None]], number: int, function: Executable, groups: Any, threads: Any, block: Any
    ) -> None:
        self._call("change")
        stream = FakeStream()
        stream.captured = []
        self.launch(function, groups, threads, block, stream)
        graph[number : number + 1] = stream.captured

    def drop(self, graph: list[Callable[[], None]]) -> None:
        self._call("drop")
        graph.clear()

    def stream_handle(self, stream: FakeStream) -> int:
        return id(stream)

    def close(self) -> None:
        assert not self.depth, "closed while it is current"
        self.is_closed = True


class FakeDriver:
    """A driver with the devices given: a class is made anew at each opening, None does not start."""

    name, version = "paper 1.0", (13, 0)

    def __init__(self, sessions: Sequence[FakeSession | type[FakeSession] | None]) -> None:
        self.sessions = sessions

    def count(self) -> int:
        return len(self.sessions)

    def open(self, ordinal: int) -> FakeSession:
        session = self.sessions[ordinal]
        if isinstance(session, type):
            return session()
        if session is None:
            raise CODES.fault(46, "cuDevicePrimaryCtxRetain")
        return session


class FakeCompiler:
    """A compiler whose programs are their sources.

    Attributes:
        compiled: How many it made.
        log: If not empty, what it refuses everything with.
    """

    version = (13, 0)

    def __init__(self) -> None:
        self.compiled = 0
        self.log = ""

    def target(self, capability: int) -> str:
        return f"sm_{capability}"

    def compile(self, source: str, options: Sequence[str]) -> bytes:
        assert any(option.startswith("--gpu-architecture=sm_") for option in options)
        if self.log:
            raise CompilationError(self.log)
        self.compiled += 1
        return source.encode()


@contextlib.contextmanager
def fake_cuda(
    patch: Any,
    sessions: Sequence[FakeSession | type[FakeSession] | None],
    compiler: FakeCompiler | None = None,
    library: object = None,
    dnn: object = None,
    nccl: object = None,
) -> Any:
    """Let the backend open paper devices while the ``with`` block lasts.

    Args:
        patch: pytest's monkeypatch.
        sessions: The devices.
        compiler: NVRTC.
        library: cuBLASLt; a real one knows nothing of paper memory.
        dnn: cuDNN, likewise.
        nccl: NCCL, likewise.
    """
    from zyx_backend_cuda import blas, collectives, cudnn, device, start

    render = device.render

    def recording(kernel: Kernel, dialect: Any) -> str:
        source = render(kernel, dialect)
        KERNELS[source] = kernel
        return source

    with patch.context() as inner:
        inner.setattr(device, "render", recording)
        inner.setattr(blas, "load_library", lambda *_: library)
        inner.setattr(cudnn, "load_library", lambda *_: dnn)
        inner.setattr(collectives, "load_library", lambda *_: nccl)
        inner.setattr(start, "open_driver", lambda choice, note: FakeDriver(sessions))
        inner.setattr(start, "open_nvrtc", lambda driver: compiler or FakeCompiler())
        yield
