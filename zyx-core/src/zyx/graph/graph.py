"""Make nodes: check arguments, infer shapes, leave out what changes nothing, return equal nodes only once."""

from __future__ import annotations

import weakref
from math import prod
from typing import TYPE_CHECKING, ClassVar, Final

from zyx import dtype as dtypes
from zyx import ops
from zyx import shape as shapes
from zyx.errors import DTypeError, ShapeError
from zyx.graph import making
from zyx.graph import node as n
from zyx.integers import check_numbers
from zyx.lazy_import import lazy_import
from zyx.ops import BinaryOp, FourierKind, UnaryOp
from zyx.scalar import fold_cast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DType, Number
    from zyx.graph import fourier
    from zyx.graph.base import AliasRule
    from zyx.ops import ReduceOp
    from zyx.shape import Shape
else:
    fourier = lazy_import("zyx.graph.fourier", globals())

#: So many nodes more than were alive at the last look are made before those that died are forgotten.
_LEAST_FORGOTTEN: Final = 1000

_REDUCE_OPS: Final = {dtype.name: ops.reduce_ops(dtype) for dtype in (*dtypes.ALL, *dtypes.COMPLEX)}
_PRODUCT: Final = ops.ReduceOp.PROD
_new: Final = object.__new__
_NUMBERS: Final = frozenset({float, int, bool})
#: Types of attributes of nodes that need no look.
_PAIR: Final = [int, int]
_PLAIN: Final = frozenset({int, bool, float, str, type(None), ops.ReduceOp, ops.UnaryOp, ops.BinaryOp, FourierKind})


class Graph:
    """A factory of nodes, held weakly, of which equal ones are one. What does not fit is a Shape- or DTypeError.

    Attributes:
        merges: Whether a move of a moved node, or a cast back, is one of what that was made of. What tensors stand for
            is not merged: a gradient at a tensor in between would be lost. Plans merge it.
    """

    merges: ClassVar[bool] = True

    # Comprehensions stand in brackets in here: a generator is a call at each element, and nodes are made by thousands.

    def __init__(self) -> None:
        # By what makes nodes equal. Sources are named by their id, so that no key keeps one alive: while a node lives,
        # so do its sources, and their ids are nobody else's; the key of a node that died means nothing. To be told of
        # each death, as `weakref.WeakValueDictionary` is, would take longer than to make the node.
        self._nodes: dict[object, weakref.ref[n.Node]] = {}
        self._most = _LEAST_FORGOTTEN
        self.calls_host = False  # whether there ever was a `HostCall`; see `zyx.graph.host_call`

    def _intern(self, node: n.Node) -> n.Node:
        # As `key_of` has it; by the dtype's name, whose hash is that of a text.
        sources, attributes = node.sources, node.attributes
        key = (type(node), attributes, node.shape, node.dtype.name, node.device, *map(id, sources))
        if making.SIZED_TRACES:
            key = making.sized_key(key)
        known = self._nodes.get(key)
        found = None if known is None else known()
        if found is not None:
            return found
        for source in sources:  # as `_depth` has it
            least = 1 if source.storage is not None else source.depth + 1
            if least > node.depth:  # noqa: PLR1730  # max() takes three times as long
                node.depth = least
        for number in node.shape:  # without a call, as they mostly are ints
            if type(number) is not int:
                check_numbers(node.shape)
        for attribute in attributes:
            if type(attribute) is tuple:
                for part in attribute:  # a number, or a pair of them
                    if type(part) is not int and (type(part) is not tuple or [type(each) for each in part] != _PAIR):
                        check_numbers((part,))
            elif type(attribute) not in _PLAIN:
                check_numbers((attribute,))
        return self._keep(key, node)

    def _keep(self, key: object, node: n.Node) -> n.Node:
        """Return `node` from now on where one of that key is asked for, and now."""
        nodes = self._nodes
        nodes[key] = weakref.ref(node)
        if len(nodes) > self._most:
            self._forget_dead()
        return node

    def _forget_dead(self) -> None:
        # Of the keys alone: pairs are objects for the garbage collector, and what that runs, in this thread or another,
        # may make nodes meanwhile.
        for key in list(self._nodes):
            reference = self._nodes.get(key)
            if reference is not None and reference() is None:
                self._nodes.pop(key, None)
        self._most = 2 * len(self._nodes) + _LEAST_FORGOTTEN

    def adopt(self, node: n.Node) -> None:
        """Return `node`, of another graph, where an equal one is asked for, unless its values lie in memory."""
        if node.storage is None and not isinstance(node, n.Leaf):
            key = making.key_of(node)
            known = self._nodes.get(key)
            if known is None or known() is None:
                self._keep(key, node)

    # ---- sources

    def const(self, value: Number, dtype: DType, device: str, shape: Shape = ()) -> n.Node:
        """Return `value`, converted to `dtype`, over `shape`; what stands in for a number (`zyx.jit`) has a node.

        A complex number is made of two real constants, so that there are no others.
        """
        if dtype.is_complex:
            parts = (value.real, value.imag) if type(value) is complex else (value, 0.0)
            return self.complex(*(self.const(part, dtype.part, device, shape) for part in parts))
        if type(value) not in _NUMBERS and (node_of := getattr(type(value), "as_constant", None)) is not None:
            return node_of(value, self, dtype, device, shape)  # type: ignore[no-any-return]
        value = dtype.to_scalar(value)
        # As `_intern` does, by `key_of`, but in no more calls: numbers are operands as often as tensors are.
        if making.SIZED_TRACES:
            return self._intern(n.Const(shape, dtype, device, (), value))
        key = (n.Const, (value.hex() if type(value) is float else value,), shape, dtype.name, device)
        known = self._nodes.get(key)
        if known is not None and (found := known()) is not None:
            return found
        for number in shape:
            if type(number) is not int:
                check_numbers(shape)
        return self._keep(key, n.Const(shape, dtype, device, (), value))

    def iota(self, shape: Shape, axis: int, dtype: DType, device: str) -> n.Node:
        """Return the coordinate along `axis`, in an integer type."""
        if not dtype.is_integer:
            raise DTypeError(f"coordinates are integers, not {dtype}")
        return self._intern(n.Iota(shape, dtype, device, (), axis))

    def leaf(
        self, shape: Shape, dtype: DType, device: str, storage: object | None = None, *, history_lost: bool = False
    ) -> n.Leaf:
        """Return a new leaf; no two leaves are equal."""
        node: n.Leaf = _new(n.Leaf)  # as the constructor makes it, see `new_binary`
        node.shape = shape
        node.dtype = dtype
        node.device = device
        node.sources = ()
        node.depth = 0
        node.storage = storage
        node.reader = node.plans = node.history = None
        node.history_lost = history_lost
        return node

    # ---- movement

    def reshape(self, x: n.Node, shape: Shape) -> n.Node:
        """Return the elements of `x` in row-major order under `shape`."""
        if shape == x.shape:
            return x
        if prod(shape) != prod(x.shape):
            raise ShapeError(
                f"cannot reshape {x.shape} ({shapes.size_of(x.shape)} elements) to {shape} "
                f"({shapes.size_of(shape)} elements)"
            )
        match x:
            case n.Const():
                return self.const(x.value, x.dtype, x.device, shape)
            case n.Reshape() if self.merges and x.storage is None:
                return self.reshape(x.sources[0], shape)
        return self._intern(n.Reshape(shape, x.dtype, x.device, (x,)))

    def expand(self, x: n.Node, shape: Shape) -> n.Node:
        """Return `x` with its axes of size 1 repeated to `shape`, which has the same rank."""
        if shape == x.shape:
            return x
        if len(shape) != len(x.shape):
            raise ShapeError(f"cannot expand {x.shape} to {shape}: the ranks differ")
        for axis, size in enumerate(x.shape):
            if size not in (1, shape[axis]):
                raise ShapeError(f"cannot expand {x.shape} to {shape}: sizes other than 1 must stay")
        match x:
            case n.Const():
                return self.const(x.value, x.dtype, x.device, shape)
            case n.Expand() if self.merges and x.storage is None:
                return self.expand(x.sources[0], shape)
        return self._intern(n.Expand(shape, x.dtype, x.device, (x,)))

    def permute(self, x: n.Node, order: tuple[int, ...]) -> n.Node:
        """Return `x` with axis ``order[i]`` moved to position i."""
        axes = list(range(len(x.shape)))
        if sorted(order) != axes:
            raise ShapeError(f"{order} is no order of the {x.ndim} axes of {x.shape}")
        if list(order) == axes:
            return x
        if self.merges and isinstance(x, n.Permute) and x.storage is None:
            return self.permute(x.sources[0], tuple([x.order[axis] for axis in order]))
        shape = tuple([x.shape[axis] for axis in order])
        if isinstance(x, n.Const):
            return self.const(x.value, x.dtype, x.device, shape)
        return self._intern(n.Permute(shape, x.dtype, x.device, (x,), order))

    def pad(self, x: n.Node, widths: Sequence[tuple[int, int]], value: Number = 0) -> n.Node:
        """Return `x` with ``widths[i]`` = (before, after) elements of `value` added along axis i."""
        if type(value) is complex and not value.imag:
            value = value.real
        if type(value) is complex:  # a complex constant is two
            real, imaginary = self.component(x, False), self.component(x, True)
            return self.complex(self.pad(real, widths, value.real), self.pad(imaginary, widths, value.imag))
        if len(widths) != x.ndim or any(before < 0 or after < 0 for before, after in widths):
            raise ShapeError(f"padding {list(widths)} does not fit shape {x.shape}: one pair of widths >= 0 an axis")
        if not any(before or after for before, after in widths):
            return x
        shape = tuple(size + before + after for size, (before, after) in zip(x.shape, widths, strict=True))
        return self._intern(n.Pad(shape, x.dtype, x.device, (x,), tuple(widths), x.dtype.to_scalar(value)))

    def shrink(self, x: n.Node, bounds: Sequence[tuple[int, int]]) -> n.Node:
        """Return the box ``bounds[i]`` = (start, stop) along axis i of `x`."""
        if len(bounds) != len(x.shape) or not all(
            [0 <= start <= stop <= size for (start, stop), size in zip(bounds, x.shape, strict=True)]
        ):
            raise ShapeError(f"bounds {list(bounds)} do not lie within shape {x.shape}")
        shape = tuple([stop - start for start, stop in bounds])
        if shape == x.shape:
            return x
        match x:
            case n.Const():
                return self.const(x.value, x.dtype, x.device, shape)
            case n.Shrink() if self.merges and x.storage is None:
                inner = tuple(
                    [(start + outer, stop + outer) for (start, stop), (outer, _) in zip(bounds, x.bounds, strict=True)]
                )
                return self.shrink(x.sources[0], inner)
        return self._intern(n.Shrink(shape, x.dtype, x.device, (x,), tuple(bounds)))

    def flip(self, x: n.Node, axes: tuple[int, ...]) -> n.Node:
        """Return `x` reversed along `axes`."""
        axes = tuple(sorted([axis for axis in shapes.normalize_axes(axes, len(x.shape)) if x.shape[axis] > 1]))
        if not axes or isinstance(x, n.Const):
            return x
        if self.merges and isinstance(x, n.Flip) and x.storage is None:
            return self.flip(x.sources[0], tuple(set(axes) ^ set(x.axes)))
        return self._intern(n.Flip(x.shape, x.dtype, x.device, (x,), axes))

    def slide(self, x: n.Node, axis: int, window: int, size: int, stride: int = 1, dilation: int = 1) -> n.Node:
        """Return ``out[.., o, .., k] = x[.., o * stride + k * dilation, .., k]``, o < `size` along `axis`."""
        making.check_slide(x, axis, window, stride, dilation)
        reach = (size - 1) * stride + (x.shape[window] - 1) * dilation
        if size > 0 and x.shape[window] > 0 and not reach < x.shape[axis]:
            raise ShapeError(
                f"{size} windows of {x.shape[window]} with stride {stride} and dilation {dilation} reach past "
                f"axis {axis} of {x.shape}"
            )
        shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
        return self._intern(n.Slide(shape, x.dtype, x.device, (x,), axis, window, stride, dilation))

    def unslide(self, x: n.Node, axis: int, window: int, size: int, stride: int = 1, dilation: int = 1) -> n.Node:
        """Return ``out[.., o * stride + k * dilation, .., k] = x[.., o, .., k]``, else 0, of `size` along `axis`."""
        making.check_slide(x, axis, window, stride, dilation)
        reach = (x.shape[axis] - 1) * stride + (x.shape[window] - 1) * dilation
        if x.shape[axis] > 0 and x.shape[window] > 0 and not reach < size:
            raise ShapeError(
                f"windows of {x.shape} with stride {stride} and dilation {dilation} reach {reach + 1} positions, "
                f"not {size}"
            )
        shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
        return self._intern(n.Unslide(shape, x.dtype, x.device, (x,), axis, window, stride, dilation))

    # ---- element by element

    def unary(self, op: UnaryOp, x: n.Node) -> n.Node:
        """Return `op` of each element."""
        key = (op, id(x))
        known = self._nodes.get(key)
        if known is not None and (found := known()) is not None:
            return found
        return self._keep(key, making.new_unary(op, x))

    def binary(self, op: BinaryOp, x: n.Node, y: n.Node) -> n.Node:
        """Return `op` of each pair of elements of two operands of one shape, dtype and device."""
        key = (op, id(x), id(y))
        known = self._nodes.get(key)
        if known is not None and (found := known()) is not None:
            return found
        return self._keep(key, making.new_binary(op, x, y))

    def where(self, condition: n.Node, x: n.Node, y: n.Node) -> n.Node:
        """Return x where the bool `condition` holds, else y."""
        making.check_alike("where", x, y)
        if not condition.dtype.is_bool:
            raise DTypeError(f"a condition is bool, not {condition.dtype}; compare it with 0")
        if condition.shape != x.shape:
            raise ShapeError(f"where: condition {condition} does not match {x}")
        making.check_devices("where", condition, x)
        if x is y:
            return x
        return self._intern(n.Where(x.shape, x.dtype, x.device, (condition, x, y)))

    def cast(self, x: n.Node, dtype: DType) -> n.Node:
        """Return `x` converted to `dtype`; a real number has the imaginary part 0.

        Raises:
            DTypeError: Complex to real, which would lose the imaginary part; or complex to what is neither.
        """
        if dtype is x.dtype:
            return x
        if dtype.is_complex and not x.dtype.is_complex:
            return self.complex(self.cast(x, dtype.part), self.const(0.0, dtype.part, x.device, x.shape))
        if x.dtype.is_complex and not dtype.is_complex:
            if dtype.is_bool:
                return self.binary(BinaryOp.NE, x, self.const(0, x.dtype, x.device, x.shape))
            raise DTypeError(
                f"a cast of {x.dtype} to {dtype} would lose the imaginary part; take .real or .imag, or zyx.abs(x)"
            )
        if isinstance(x, n.Const):
            return self.const(fold_cast(x.value, x.dtype, dtype), dtype, x.device, x.shape)
        if self.merges and isinstance(x, n.Cast) and x.storage is None and x.sources[0].dtype is dtype:
            if dtype.kind is x.dtype.kind and dtype.bits < x.dtype.bits:
                return x.sources[0]  # longer for a while: the same values
        return self._intern(n.Cast(x.shape, dtype, x.device, (x,)))

    def bitcast(self, x: n.Node, dtype: DType) -> n.Node:
        """Return the bits of `x` read as `dtype`, of the same size; bool has no bits to read."""
        if dtype is x.dtype:
            return x
        making.check_bits(x.dtype, dtype)
        return self._intern(n.Bitcast(x.shape, dtype, x.device, (x,)))

    # ---- complex numbers

    def complex(self, real: n.Node, imaginary: n.Node) -> n.Node:
        """Return the complex number of two nodes of float32, or of float64."""
        making.check_alike("complex", real, imaginary)
        if real.dtype not in (dtypes.float32, dtypes.float64):
            raise DTypeError(f"complex: parts are float32 or float64, not {real.dtype}; use .astype(...)")
        if self.merges and isinstance(real, n.Component) and isinstance(imaginary, n.Component):
            (x,), (y,) = real.sources, imaginary.sources
            if x is y and not real.is_imaginary and imaginary.is_imaginary:
                return x
        dtype = dtypes.complex_of(real.dtype)
        return self._intern(n.Complex(real.shape, dtype, real.device, (real, imaginary)))

    def component(self, x: n.Node, is_imaginary: bool) -> n.Node:
        """Return the real part of a complex `x`, or the imaginary one."""
        if not x.dtype.is_complex:
            raise DTypeError(f"a part of a complex number is asked for of {x}")
        if isinstance(x, n.Complex) and all([isinstance(part, n.Const) for part in x.sources]):
            return x.sources[is_imaginary]
        return self._intern(n.Component(x.shape, x.dtype.part, x.device, (x,), is_imaginary))

    def conjugate(self, x: n.Node) -> n.Node:
        """Return the conjugate of a complex `x`, and others as they are."""
        if not x.dtype.is_complex:
            return x
        return self.complex(self.component(x, False), self.unary(UnaryOp.NEG, self.component(x, True)))

    # ---- combining

    def reduce(self, op: ReduceOp, x: n.Node, axes: tuple[int, ...]) -> n.Node:
        """Return `x` combined along `axes`, which keep size 1. An empty axis gives the identity of `op`."""
        if op not in _REDUCE_OPS[x.dtype.name]:
            raise making.undefined(op, x.dtype)
        shape = list(x.shape)
        combined: list[int] = []
        for axis in sorted(shapes.normalize_axes(axes, len(shape))):
            if shape[axis] != 1:
                shape[axis] = 1
                combined.append(axis)
        if not combined:
            return x
        if 0 in x.shape:
            return self.const(ops.identity(op, x.dtype), x.dtype, x.device, tuple(shape))
        return self._intern(n.Reduce(tuple(shape), x.dtype, x.device, (x,), op, tuple(combined)))

    def scan(self, op: ReduceOp, x: n.Node, axis: int) -> n.Node:
        """Return the running combination of `x` along `axis`."""
        if op not in _REDUCE_OPS[x.dtype.name]:
            raise making.undefined(op, x.dtype)
        axis = shapes.normalize_axis(axis, x.ndim)
        if x.shape[axis] <= 1:
            return x
        return self._intern(n.Scan(x.shape, x.dtype, x.device, (x,), op, axis))

    # ---- indexing

    def gather(self, data: n.Node, index: n.Node, axis: int) -> n.Node:
        """Return ``out[i] = data[i with i[axis] := index[i]]``; the shapes agree but for `axis`."""
        axis = making.check_index("gather", data, index, axis)
        return self._intern(n.Gather(index.shape, data.dtype, data.device, (data, index), axis))

    def scatter(self, base: n.Node, index: n.Node, updates: n.Node, axis: int, op: ReduceOp | None = None) -> n.Node:
        """Return `base` with ``updates[i]`` written to, or combined by `op` into, ``[i with i[axis] := index[i]]``."""
        axis = making.check_index("scatter", base, index, axis)
        if updates.shape != index.shape or updates.dtype is not base.dtype:
            raise ShapeError(f"scatter: updates {updates} do not match index {index.shape} and base {base}")
        making.check_devices("scatter", base, updates)
        if op is not None and (op not in _REDUCE_OPS[base.dtype.name] or (base.dtype.is_complex and op is _PRODUCT)):
            raise DTypeError(f"scatter: {op.value} is not defined for {base.dtype}")
        if 0 in index.shape:
            return base
        return self._intern(n.Scatter(base.shape, base.dtype, base.device, (base, index, updates), axis, op))

    def sort(self, x: n.Node, axis: int, bits: int, count: int) -> n.Node:
        """Return the first `count` places that put `x`, whose elements have `bits` bits, in order; see `Sort`."""
        if x.dtype not in (dtypes.uint32, dtypes.uint64) or not 1 <= bits <= x.dtype.bits:
            raise DTypeError(f"what is put in order is uint32 or uint64 of up to as many bits, not {bits} of {x}")
        axis = shapes.normalize_axis(axis, x.ndim)
        if not 0 <= count <= x.shape[axis] or x.shape[axis] > dtypes.int32.max:
            raise ShapeError(f"sort: {count} of the {x.shape[axis]} elements along axis {axis} of {x.shape}")
        shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
        return self._intern(n.Sort(shape, dtypes.int32, x.device, (x,), axis, bits))

    def fourier(
        self,
        x: n.Node,
        table: n.Node,
        axis: int = 1,
        *,
        is_inverse: bool = False,
        scale: float = 1.0,
        kind: FourierKind = FourierKind.COMPLEX,
        as_pairs: bool = False,
    ) -> n.Node:
        """Return the transform of `x`, see `Fourier`; `as_pairs` says that of a real one.

        Raises:
            DTypeError: As `zyx.graph.fourier.checked` does.
            ShapeError: As that does.
        """
        axis = shapes.normalize_axis(axis, x.ndim)
        like = fourier.checked(x, table, axis, kind, as_pairs=as_pairs)
        making.check_devices("fourier", x, table)
        if kind is not FourierKind.COMPLEX:
            is_inverse = kind is FourierKind.TO_REAL
        return self._intern(n.Fourier(*like, x.device, (x, table), axis, is_inverse, scale, kind))

    # ---- others

    def random_bits(self, state: n.Node, shape: Shape, dtype: DType, offset: int = 0) -> n.Node:
        """Return random words, uint32 or uint64; see `RandomBits`."""
        making.check_random(state, dtype)
        return self._intern(n.RandomBits(shape, dtype, state.device, (state,), offset))

    def contiguous(self, x: n.Node) -> n.Node:
        """Return the values of `x` in a buffer of their own."""
        if isinstance(x, n.Contiguous) or type(x) is n.Leaf:  # what only plans have is no buffer
            return x
        return self._intern(n.Contiguous(x.shape, x.dtype, x.device, (x,)))

    def copy(self, x: n.Node) -> n.Node:
        """Return the values of `x` in a buffer of their own, also if `x` is a leaf; a new node at every call."""
        return making.alone(n.Contiguous(x.shape, x.dtype, x.device, (x,)))

    def to_device(self, x: n.Node, device: str) -> n.Node:
        """Return the values of `x` on `device`."""
        if device == x.device:
            return x
        if isinstance(x, n.Const):
            return self.const(x.value, x.dtype, device, x.shape)
        return self._intern(n.ToDevice(x.shape, x.dtype, device, (x,)))

    def alias(self, x: n.Node, rule: AliasRule | None = None) -> n.Node:
        """Return the values of `x` as a new node, equal to no other: gradients at it are of its uses alone.

        Integers and bools have none, so they are returned as they are. With a `rule`, gradients go where that says.
        """
        if not x.dtype.is_inexact:
            return x
        node = n.Alias(x.shape, x.dtype, x.device, (x,), detached=False)
        node.rule = rule
        return making.alone(node)

    def detach(self, x: n.Node) -> n.Node:
        """Return the values of `x`, cut off from gradients."""
        if not x.dtype.is_inexact or isinstance(x, n.Const) or (isinstance(x, n.Alias) and x.detached):
            return x
        return self._intern(n.Alias(x.shape, x.dtype, x.device, (x,), detached=True))

    def custom(self, kernel: object, sources: tuple[n.Node, ...], output: int, shape: Shape, dtype: DType) -> n.Node:
        """Return output number `output` of a hand-written `kernel`, which is hashable; or of a call of the host."""
        making.check_devices("custom kernel", *sources)
        # It takes buffers: what only plans have, a number or a box of something, is no leaf that lies in one.
        sources = tuple([self.contiguous(source) if isinstance(source, n.Leaf) else source for source in sources])
        return self._intern(n.Custom(shape, dtype, sources[0].device, sources, kernel, output))

    def living_outputs(self, node: n.Custom, outputs: Sequence[tuple[Shape, DType]]) -> list[n.Node]:
        """Return those outputs of the kernel of `node` that are still alive, given the shapes and dtypes of all."""
        found: list[n.Node] = []
        for number, (shape, dtype) in enumerate(outputs):
            key = (n.Custom, (node.kernel, number), shape, dtype.name, node.device, *map(id, node.sources))
            known = self._nodes.get(key)
            if known is not None and (other := known()) is not None:
                found.append(other)
        return found
