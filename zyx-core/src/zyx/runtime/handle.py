"""What tensors are to everything below them: a mutable reference to a node.

`Tensor` derives from `Handle` and adds the operations. Autograd, jit and the runtime know handles only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Self

from zyx.shape import VaryingSize, size_of, sizes_called

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DType
    from zyx.graph.node import Node
    from zyx.runtime.runtime import Runtime
    from zyx.runtime.tracing import Tracing
    from zyx.shape import Shape

#: Deeper graphs than this are computed on their own, so that a loop that never reads its result stays small.
MAX_DEPTH: Final = 4000
_new: Final = object.__new__


class Size(int):
    """A number of elements, which can be called for the sizes that it is the product of."""

    _shape: Shape

    @classmethod
    def of(cls, shape: Shape) -> Self:
        """Return the number of elements of a shape; what stands in for it where that varies."""
        count = size_of(shape)
        if isinstance(count, VaryingSize):
            return count.of_shape(shape)  # type: ignore[return-value]  # an int to all who use it
        size = cls(count)
        size._shape = shape
        return size

    def __call__(self, dim: int | None = None) -> Shape | int:
        """Return the shape, or the size of an axis, as PyTorch's method ``size`` does.

        Raises:
            ShapeError: There is no such axis.
        """
        return sizes_called(self._shape, dim)

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return (int, (int(self),))


class Handle:
    """A reference to the node that a tensor stands for now.

    The node changes when the tensor is assigned to, and when it was computed: then it becomes a leaf, and the way it
    was computed is forgotten unless a tape keeps it.

    Attributes:
        runtime: What it belongs to.
        tracing: The trace of a function in which it was made; None for all others.
        result_class: What is computed from it is of this class: its own, unless that says otherwise.
    """

    result_class: ClassVar[type[Handle]]

    __slots__ = ("__weakref__", "_node", "runtime", "tracing")

    def __init_subclass__(cls) -> None:
        if cls.result_class in cls.__bases__ and "result_class" not in vars(cls):
            cls.result_class = cls

    def __init__(self, node: Node, runtime: Runtime) -> None:
        self._node = node
        self.runtime = runtime
        self.tracing: Tracing | None = runtime.tracing if runtime.traces else None
        self._begin()

    @classmethod
    def of(cls, node: Node, runtime: Runtime) -> Self:
        """Return a new handle of `node`, for what is computed from those of this class."""
        handle: Self = _new(cls.result_class)  # type: ignore[assignment]  # of a `Parameter`, what that is derived from
        handle._node = node
        handle.runtime = runtime
        handle.tracing = runtime.tracing if runtime.traces else None
        if runtime.observers.references or node.depth > MAX_DEPTH:
            handle._begin()
        return handle

    @staticmethod
    def of_each(nodes: Sequence[Node], like: Sequence[Handle]) -> list[Handle]:
        """Return new handles of several nodes, each for what is computed from one of `like`.

        Deep graphs are computed together: those of gradients have most of what they need in common.
        """
        made = [_new(handle.result_class) for handle in like]
        for handle, node, old in zip(made, nodes, like, strict=True):
            handle._node, handle.runtime = node, old.runtime
            handle.tracing = old.runtime.tracing if old.runtime.traces else None
        deep = [handle for handle in made if handle._node.depth > MAX_DEPTH and handle.tracing is None]
        if deep:
            deep[0].runtime.realize(deep)
        for handle in made:
            handle._begin()
        return made

    def like(self, node: Node) -> Self:
        """Return a new handle of `node` that belongs where this one does. Operations do so: it is faster than `of`."""
        handle: Self = _new(self.result_class)  # type: ignore[assignment]  # as in `of`
        handle._node = node
        runtime = handle.runtime = self.runtime
        handle.tracing = runtime.tracing if runtime.traces else None
        if runtime.observers.references or node.depth > MAX_DEPTH:
            handle._begin()
        return handle

    def _begin(self) -> None:
        """Tell those who follow handles of a new one, and compute it if its graph has become deep."""
        runtime = self.runtime
        if runtime.observers.references:
            runtime.observers.created(self)
        if self._node.depth > MAX_DEPTH and self.tracing is None:
            runtime.realize([self])

    @property
    def node(self) -> Node:
        """The node, for building on it."""
        return self.runtime.current_node(self)

    # ---- what the node is

    @property
    def shape(self) -> Shape:
        """Sizes of the axes."""
        return self.node.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.node.shape)

    @property
    def size(self) -> Size:
        """Number of elements, as in NumPy; to call it, as ``x.size()`` or ``x.size(0)``, gives what PyTorch does."""
        return Size.of(self.node.shape)

    def numel(self) -> int:
        """Return the number of elements."""
        return size_of(self.node.shape)

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.node.dtype

    @property
    def device(self) -> str:
        """Name of the device that holds or computes the values."""
        return self.node.device

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.node.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return size_of(self.node.shape) * self.node.dtype.itemsize

    @property
    def is_realized(self) -> bool:
        """Whether the values lie in memory, or are being computed."""
        return self.node.storage is not None


Handle.result_class = Handle
