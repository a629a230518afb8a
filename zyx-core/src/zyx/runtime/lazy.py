"""Values that lie in files until somebody needs them.

A leaf of a file is like any other, but for its storage, which is `Unread`: where to find the bytes. When a plan, a
traced function or a read needs them, `Runtime.buffer_of` puts them into the memory of the leaf's device, once.

Where a graph reads nothing of such a leaf but a slice of consecutive bytes, `read_slices_only` makes a leaf of that
slice, so that the rest stays in the file:

    x = leaf of a file, f32[1000, 8]            s = leaf of the same file, f32[10, 8], 320 bytes later
    x[10:20] + 1                         =>     s + 1
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from zyx.errors import FormatError, TraceError
from zyx.graph import Graph
from zyx.graph import node as n
from zyx.integers import as_index
from zyx.lazy_import import lazy_import
from zyx.shape import size_of, strides_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from zyx.builtin.disk import DiskBuffer, DiskFile, DiskPool
    from zyx.dtype import DType
    from zyx.graph import rebuild, walk
    from zyx.graph.node import Leaf, Node
    from zyx.plugins import describe
    from zyx.runtime import copying
    from zyx.runtime.buffer import Buffer
    from zyx.runtime.runtime import Runtime
    from zyx.shape import Shape
else:
    rebuild = lazy_import("zyx.graph.rebuild", globals())
    walk = lazy_import("zyx.graph.walk", globals())
    describe = lazy_import("zyx.plugins.describe", globals())
    copying = lazy_import("zyx.runtime.copying", globals())


class Unread:
    """The storage of a leaf whose values are still in a file.

    Attributes:
        window: The bytes.
        buffer: Where they were read to, once they were; nodes may share an `Unread`.
    """

    __slots__ = ("buffer", "window")

    def __init__(self, window: DiskBuffer) -> None:
        self.window = window
        self.buffer: Buffer | None = None

    def read(self, allocate: Callable[[int], Buffer]) -> Buffer:
        """Return a buffer with the values, reading them into one of `allocate` at the first call.

        Raises:
            AllocationError: No room. Then it can be tried again.
            FileChangedError: The file is another one than it was.
            TransferError: It is gone.
        """
        if self.buffer is None:
            buffer = allocate(self.window.nbytes)
            copying.read_into(self.window, buffer)
            self.buffer = buffer
        return self.buffer

    def part(self, start: int, nbytes: int) -> Unread:
        """Return `nbytes` of the bytes, from number `start` on."""
        return Unread(self.window.part(start, nbytes))


class Called(Unread):
    """The storage of a leaf whose values a function gives, once."""

    __slots__ = ("give", "nbytes")

    def __init__(self, give: Callable[[], object], nbytes: int) -> None:
        self.give = give
        self.nbytes = nbytes
        self.buffer = None

    def read(self, allocate: Callable[[int], Buffer]) -> Buffer:
        """Return a buffer with the values, calling the function at the first call.

        Raises:
            AllocationError: No room.
            FormatError: The function gave something else than so many bytes.
        """
        if self.buffer is None:
            given = self.give()
            try:
                data = memoryview(given).cast("B")  # type: ignore[arg-type]  # the errors are what we are after
            except (TypeError, ValueError) as error:
                raise FormatError(
                    f"read() gave {type(given).__name__}, not contiguous bytes or an array: {error}"
                ) from error
            if data.nbytes != self.nbytes:
                raise FormatError(f"read() gave {data.nbytes} bytes, not {self.nbytes}")
            buffer = allocate(self.nbytes)
            assert buffer.raw is not None
            buffer.pool.sync_events([buffer.pool.host_to_pool(data, buffer.raw)])
            self.buffer = buffer
        return self.buffer


def leaf_of_function(runtime: Runtime, read: Callable[[], object], shape: Shape, dtype: DType, device: str) -> Leaf:
    """Return a leaf of the values that `read` gives, little endian and in row-major order; nothing is called."""
    nbytes = size_of(shape) * dtype.itemsize
    if not nbytes:
        return runtime.graph.leaf(shape, dtype, device, runtime.allocate(device, 0))
    return runtime.graph.leaf(shape, dtype, device, Called(read, nbytes))


def file_of(runtime: Runtime, path: str | os.PathLike[str]) -> DiskFile:
    """Look at a file of which leaves are to be made. It must stay as it is until their values were used.

    Raises:
        TransferError: There is no such file.
        TraceError: A function is being traced.
    """
    if runtime.tracing is not None:
        raise TraceError(f"{path} is read in a function that is being traced; read it before, and pass the tensor")
    return cast("DiskPool", runtime.backends.pools["disk"]).file(path)  # no backend may take the name of that pool


def leaf_of_file(runtime: Runtime, file: DiskFile, offset: int, shape: Shape | None, dtype: DType, device: str) -> Leaf:
    """Return a leaf of the values that the file has from byte `offset` on, little endian and in row-major order.

    Without a shape, the leaf has one axis, to the end of the file. Nothing is read.

    Raises:
        TransferError: The file ends too early.
        FormatError: Without a shape: the bytes are no whole number of elements.
    """
    offset = as_index(offset, "offset")
    if shape is None:
        left = file.nbytes - offset
        if left < 0 or left % dtype.itemsize:
            raise FormatError(f"{file.path}: the {left} bytes from byte {offset} on are no whole number of {dtype}")
        shape = (left // dtype.itemsize,)
    nbytes = size_of(shape) * dtype.itemsize
    if not nbytes:
        return runtime.graph.leaf(shape, dtype, device, runtime.allocate(device, 0))
    return runtime.graph.leaf(shape, dtype, device, Unread(file.window(offset, nbytes)))


def read_slices_only(graph: Graph, outputs: Sequence[Node], order: Sequence[Node]) -> list[Node]:
    """Return `outputs`, of which `order` is all that they need, with leaves of slices where that is enough."""
    together = rebuild.merged(Graph(), outputs, order)
    if together is not outputs:  # a slice of a slice is one
        outputs, order = together, walk.topological(together)
    users: dict[Node, list[Node]] = {}
    for node in order:
        if node.storage is None:
            for source in node.sources:
                users.setdefault(source, []).append(node)
    asked = set(outputs)
    new: dict[Node, Node] = {}
    for node in order:
        storage = node.storage
        if type(storage) is Unread and storage.buffer is None and node not in asked:
            ranges = {user: _bytes_of(user, node) for user in users[node]}
            for user, found in ranges.items():
                if found is not None and None not in ranges.values():
                    new[user] = graph.leaf(user.shape, user.dtype, user.device, storage.part(*found))
        if node not in new:
            kept = node.storage is not None or not node.sources
            new[node] = node if kept else rebuild.rebuild(graph, node, [new[source] for source in node.sources])
    return [new[node] for node in outputs]


def read_unread(runtime: Runtime, leaves: Sequence[Node]) -> None:
    """Read what leaves have in files, and show on a terminal how far that is.

    Raises:
        AllocationError: No room.
        TransferError: A file is gone, or another one than it was.
    """
    unread = [leaf for leaf in leaves if isinstance(leaf.storage, Unread) and leaf.storage.buffer is None]
    sizes = [size_of(leaf.shape) * leaf.dtype.itemsize for leaf in unread]

    def amount(done: float, total: float) -> str:
        return f"{describe.size(int(done))} of {describe.size(int(total))}"

    with runtime.trace.bar("reading files", sum(sizes), amount) as bar:
        for leaf, nbytes in zip(unread, sizes, strict=True):
            runtime.buffer_of(leaf)
            bar.advance(nbytes)


def _bytes_of(user: Node, leaf: Node) -> tuple[int, int] | None:
    """Return (start, size) of the bytes of `leaf` that `user` is a slice of, or None if it is something else."""
    if not isinstance(user, n.Shrink) or 0 in user.shape:
        return None
    cut = [axis for axis, (size, old) in enumerate(zip(user.shape, leaf.shape, strict=True)) if size != old]
    if any(size != 1 for size in user.shape[: max(cut, default=0)]):
        return None
    start = sum(low * step for (low, _), step in zip(user.bounds, strides_of(leaf.shape), strict=True))
    return start * leaf.dtype.itemsize, size_of(user.shape) * leaf.dtype.itemsize
