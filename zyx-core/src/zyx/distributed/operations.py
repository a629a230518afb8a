"""What processes do together. All of it is exact copies, but for reductions, and each process gets the same bits.

What a program must keep to:

1. **Every process calls the same operations in the same order**, with tensors of one shape and dtype; `send` and
   `recv` are called by two. An ``if group.rank == 0`` must have none of the others in it. Where processes call
   different ones, all of them raise `CollectiveError`, with what each has called. For one that does not come, the
   others raise `CollectiveTimeoutError` after `collectives.timeout_s` of the settings; the group cannot be used any
   more after that, and when one of these ends, all processes are ended.
2. **One thread calls them.** Two threads of a process have no order, and one waits until the other is through. While
   an operation waits for other processes, other threads of this process compute.
3. Whether values are read makes no difference: an operation is done where it is called, and under `zyx.jit` at each
   call of the function, in the order of the trace; results that nobody uses included. The function is traced by each
   process for itself, and must do the same operations in each.
4. Gradients are operations, too: those of `all_reduce`, `all_gather`, `reduce_scatter`, `broadcast` and `all_to_all`
   are done where the gradient is taken, and each process must take the same ones. They are those of the sum of what all
   processes take gradients of. Inside of `zyx.vmap` and `zyx.checkpoint`, which call a function once for many examples,
   or again on the way back, operations are refused.

The host carries the data: tensors of any device are copied there and back. Where the tensors of all processes lie on
devices of one backend that has a library for it, such as NCCL, that library carries it from device to device; what is
missing, if they do not, says ``ZYX_DEBUG=devices`` at the first operation on a device, which is one in all processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.distributed import calls
from zyx.distributed.calls import CallPlace
from zyx.distributed.group import Group, init
from zyx.distributed.reductions import OPS
from zyx.errors import DTypeError, InvalidArgumentError, ShapeError
from zyx.functions.operands import require, wrap
from zyx.integers import as_index
from zyx.runtime.runtime import current
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DType
    from zyx.shape import Shape

__all__ = ["all_gather", "all_reduce", "all_to_all", "barrier", "broadcast", "recv", "reduce_scatter", "send"]


# ---- what users call


def all_reduce(x: Tensor, op: str = "sum", group: Group | None = None) -> Tensor:
    """Return the combination of `x` of all processes, element by element; all get the same bits.

    Args:
        x: Of one shape and dtype in all processes.
        op: ``"sum"``, ``"mean"``, ``"prod"``, ``"max"`` or ``"min"``. Sums of float16 and bfloat16 are computed in
            float32; those of integers wrap. NaN is the maximum and the minimum of whatever it is among.
        group: The processes; None is all.

    Returns:
        A tensor shaped like `x`, of its dtype. Gradients pass sums and means: that of a sum is the sum of gradients.

    Raises:
        InvalidArgumentError: There is no such `op`.
        DTypeError: `op` is not defined for the dtype: of bools there are ``"max"``, which is or, and ``"min"``, which
            is and; means are of floats and complex numbers; complex numbers have no order.
        CollectiveError: Processes call different operations, or one is gone; see the module.

    >>> zyx.distributed.all_reduce(zyx.Tensor([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    tensor = require(x, "all_reduce")
    _check_op("all_reduce", op, tensor.node.dtype)
    where = _where(tensor, group)
    return tensor if where is None else wrap(calls.all_reduce(where, tensor.node, op), tensor)


def all_gather(x: Tensor, axis: int = 0, group: Group | None = None) -> Tensor:
    """Return `x` of all processes, joined along `axis` in the order of their ranks.

    Args:
        x: Of one shape and dtype in all processes, of at least one axis.
        axis: Along which they are joined.
        group: The processes; None is all.

    Returns:
        A tensor of `size` times the length along `axis`. Its gradient is what `reduce_scatter` makes of gradients.

    Raises:
        AxisError: There is no such axis.
        CollectiveError: Processes call different operations, or one is gone; see the module.

    >>> zyx.distributed.all_gather(zyx.Tensor([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    tensor = require(x, "all_gather")
    place = shapes.normalize_axis(axis, len(tensor.node.shape))
    where = _where(tensor, group)
    return tensor if where is None else wrap(calls.all_gather(where, tensor.node, place), tensor)


def reduce_scatter(x: Tensor, axis: int = 0, op: str = "sum", group: Group | None = None) -> Tensor:
    """Return this process' part of the combination of `x` of all processes: part number `rank` along `axis`.

    Args:
        x: Of one shape and dtype in all processes, of a length along `axis` that is divisible by the size of the group.
        axis: Along which the result is divided.
        op: As in `all_reduce`.
        group: The processes; None is all.

    Returns:
        A tensor of the length along `axis` divided by `size`. Gradients pass sums and means, by `all_gather`.

    Raises:
        AxisError: There is no such axis.
        ShapeError: It cannot be divided into as many equal parts as there are processes.
        InvalidArgumentError, DTypeError, CollectiveError: As `all_reduce` does.

    >>> zyx.distributed.reduce_scatter(zyx.Tensor([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    tensor = require(x, "reduce_scatter")
    _check_op("reduce_scatter", op, tensor.node.dtype)
    place = shapes.normalize_axis(axis, len(tensor.node.shape))
    where = _where(tensor, group)
    if where is None:
        return tensor
    _check_parts("reduce_scatter", tensor.node.shape, place, where.group.size)
    return wrap(calls.reduce_scatter(where, tensor.node, place, op), tensor)


def broadcast(x: Tensor, root: int = 0, group: Group | None = None) -> Tensor:
    """Return `x` of process `root` in all processes.

    Args:
        x: Of one shape and dtype in all processes; the values of those other than `root` are not looked at.
        root: The rank of the process that has it.
        group: The processes; None is all.

    Returns:
        A tensor shaped like `x`. Its gradient at `root` is the sum of gradients, elsewhere 0.

    Raises:
        InvalidArgumentError: There is no such rank.
        CollectiveError: Processes call different operations, or one is gone; see the module.

    >>> zyx.distributed.broadcast(zyx.Tensor([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    tensor = require(x, "broadcast")
    chosen = _group(group)
    rank = _rank("broadcast", "root", root, chosen)
    where = _where(tensor, chosen)
    return tensor if where is None else wrap(calls.broadcast(where, tensor.node, rank), tensor)


def all_to_all(x: Tensor, axis: int = 0, group: Group | None = None) -> Tensor:
    """Give part number i of `x` to process i; return what each has for this one, joined in the order of their ranks.

    Args:
        x: Of one shape and dtype in all processes, of a length along `axis` that is divisible by the size of the group.
        axis: Along which `x` is divided, and the result joined.
        group: The processes; None is all.

    Returns:
        A tensor shaped like `x`. Its gradient goes the same way back.

    Raises:
        AxisError: There is no such axis.
        ShapeError: It cannot be divided into as many equal parts as there are processes.
        CollectiveError: Processes call different operations, or one is gone; see the module.

    >>> zyx.distributed.all_to_all(zyx.Tensor([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    tensor = require(x, "all_to_all")
    place = shapes.normalize_axis(axis, len(tensor.node.shape))
    where = _where(tensor, group)
    if where is None:
        return tensor
    _check_parts("all_to_all", tensor.node.shape, place, where.group.size)
    return wrap(calls.all_to_all(where, tensor.node, place), tensor)


def send(x: Tensor, to: int, group: Group | None = None) -> None:
    """Give `x` to process `to`, which calls `recv`; return once it is on its way. Gradients do not follow it.

    Of two processes that exchange something, one sends first and the other receives first: large messages wait until
    they are received.

    Args:
        x: What is sent, of any shape and dtype.
        to: The rank of another process.
        group: The processes; None is all.

    Raises:
        InvalidArgumentError: There is no such rank, or it is that of this process.
        CollectiveError: The other process does not receive it, or is gone.

    Example::

        if group.rank == 0:
            zyx.distributed.send(x, to=1)
        else:
            x = zyx.distributed.recv((3,), zyx.float32, source=0)
    """
    tensor = require(x, "send")
    chosen = _group(group)
    rank = _other("send", "to", to, chosen)
    where = _where(tensor, chosen)
    assert where is not None  # a group of one has no other rank
    calls.send(where, tensor.node, rank)


def recv(
    like: Tensor | Sequence[int], dtype: DType | None = None, source: int = 0, group: Group | None = None
) -> Tensor:
    """Return the tensor that process `source` sends next to this one by `send`.

    Args:
        like: A tensor of the same shape, dtype and device, whose values are not looked at; or the shape.
        dtype: Where `like` is a shape, the dtype; by default float32.
        source: The rank of another process.
        group: The processes; None is all.

    Returns:
        A tensor of that shape, without history; given a shape, on the default device.

    Raises:
        InvalidArgumentError: There is no such rank, or it is that of this process.
        DTypeError: `dtype` is given beside a tensor of another one.
        CollectiveError: The other process sends something of another size, or nothing, or is gone.

    Example::

        x = zyx.distributed.recv((3,), zyx.float32, source=0)
    """
    chosen = _group(group)
    rank = _other("recv", "source", source, chosen)
    if isinstance(like, Tensor):
        shape, kind, device, runtime = like.node.shape, like.node.dtype, like.node.device, like.runtime
        if dtype is not None and dtypes.as_dtype(dtype) is not kind:
            raise DTypeError(f"recv: like is of {kind}, and dtype says {dtypes.as_dtype(dtype)}; leave out dtype")
    else:
        shape = shapes.as_shape(like)
        kind = dtypes.float32 if dtype is None else dtypes.as_dtype(dtype)
        runtime = current()
        device = runtime.default_device
    return Tensor.of(calls.receive(CallPlace(runtime, chosen, device), shape, kind, rank), runtime)


def barrier(group: Group | None = None) -> None:
    """Return when all processes have come here, all operations before it done.

    Args:
        group: The processes; None is all.

    Raises:
        CollectiveError: Processes call different operations, or one is gone; see the module.

    >>> zyx.distributed.barrier()
    """
    chosen = _group(group)
    if chosen.engine is not None:
        runtime = current()
        calls.barrier(CallPlace(runtime, chosen, runtime.default_device))


# ---- checks


def _group(group: Group | None) -> Group:
    return init() if group is None else group


def _where(x: Tensor, group: Group | None) -> CallPlace | None:
    """Return where an operation on `x` belongs; None if there is nothing to do, in a group of one."""
    chosen = _group(group)
    return None if chosen.engine is None else CallPlace(x.runtime, chosen, x.node.device)


def _check_op(what: str, op: str, dtype: DType) -> None:
    if op not in OPS:
        raise InvalidArgumentError(f"{what}: op is {op!r}; it is one of {', '.join(map(repr, OPS))}")
    if dtype.is_bool and op not in ("max", "min"):
        raise DTypeError(
            f"{what}: {op} is not defined for bool; 'max' is or, 'min' is and; to count, convert: .astype(zyx.int32)"
        )
    if op == "mean" and not dtype.is_inexact:
        raise DTypeError(f"{what}: means are of floats and complex numbers, not {dtype}; convert: .astype(zyx.float32)")
    if dtype.is_complex and op in ("max", "min"):
        raise DTypeError(f"{what}: {op} is not defined for {dtype}: complex numbers have no order")


def _check_parts(what: str, shape: Shape, axis: int, count: int) -> None:
    if shape[axis] % count:
        raise ShapeError(
            f"{what}: axis {axis} of {shape} has {shape[axis]} places, which {count} processes cannot divide equally; "
            f"pad it to {-(-shape[axis] // count) * count}"
        )


def _rank(what: str, name: str, rank: int, group: Group) -> int:
    index = as_index(rank, name)
    if not 0 <= index < group.size:
        raise InvalidArgumentError(f"{what}: {name} is {index}; the group has the ranks 0 to {group.size - 1}")
    return index


def _other(what: str, name: str, rank: int, group: Group) -> int:
    index = _rank(what, name, rank, group)
    if index == group.rank:
        raise InvalidArgumentError(f"{what}: {name} is {index}, which is the rank of this process")
    return index
