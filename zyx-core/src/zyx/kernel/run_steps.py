"""Turn the operations of a kernel into Python closures that compute with NumPy; a part of `zyx.kernel.run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from zyx.errors import LaunchError
from zyx.kernel import data as k
from zyx.kernel.run_memory import OutOfBoundsError, Storage, spread
from zyx.kernel.text import print_op
from zyx.kernel.wmma import multiply_fragments
from zyx.ops import BinaryOp
from zyx.semantics import apply_bitcast, binary_function, cast_function, reduce_ufunc, unary_function

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.dtype import DType
    from zyx.kernel.data import Kernel, Op, ValueId
    from zyx.semantics import Array

#: Runs one operation for the threads that the mask names, or for all.
Step: TypeAlias = "Callable[[RunState, Array | None], None]"
#: Steps in order, each with the values that nothing needs after it.
Region: TypeAlias = "list[tuple[Step, tuple[ValueId, ...]]]"
#: Computes a value from all values there are.
Computation: TypeAlias = "Callable[[list[Any]], Array]"


class RunState:
    """The state of some groups while they run.

    Attributes:
        values: What each operation gave, if it is still needed: an array [thread or one row, lane].
        arrays: The storage of each `Define`.
        rows: Number of threads, of all these groups together.
    """

    def __init__(self, kernel: Kernel, rows: int) -> None:
        self.values: list[Any] = [None] * len(kernel.ops)
        self.arrays: dict[ValueId, Storage] = {}
        self.rows = rows


def run_region(region: Region, machine: RunState, active: Array | None) -> None:
    """Run the steps of a region for the threads that `active` names."""
    values = machine.values
    for step, dead in region:
        step(machine, active)
        for value in dead:
            values[value] = None


def translate(kernel: Kernel, at_barrier: Step | None = None) -> Region:
    """Return the steps of the kernel's body; Defines, Variables and Indices are set before they run.

    `at_barrier` runs where groups meet: nothing has to be done there, but somebody may want to know.
    """
    ops = kernel.ops
    dead = _dead_after(ops)
    regions: list[Region] = [[]]
    openers: list[ValueId] = []
    for number, op in enumerate(ops):
        match op:
            case k.Loop() | k.If():
                openers.append(number)
                regions.append([])
                continue
            case k.EndLoop() | k.EndIf():
                opener, body = openers.pop(), regions.pop()
                head = ops[opener]
                if isinstance(head, k.Loop):
                    step = _loop(opener, head, body)
                else:
                    assert isinstance(head, k.If)
                    step = _branch(head, body)
            case k.Define() | k.Variable() | k.Index():
                continue
            case k.Barrier():
                if at_barrier is None:
                    continue
                step = at_barrier
            case k.Load() | k.Store() | k.Atomic():
                step = _with_place(kernel, number, _access(number, op))
            case k.Swap():
                step = _swap(number, op)
            case k.Wmma():
                step = _wmma(number, op)
            case _:
                step = _assignment(number, computation(ops, op))
        regions[-1].append((step, dead.get(number, ())))
    return regions[0]


def _dead_after(ops: Sequence[Op]) -> dict[int, tuple[ValueId, ...]]:
    """Return, for each position, the values that are not used after it.

    A value that is used inside of a region dies at the end of that region at the earliest, since a loop comes back.
    Values that are set before the body runs never die.
    """
    openers: list[int] = []
    region_of: list[tuple[int, ...]] = []
    ends: dict[int, int] = {}
    for number, op in enumerate(ops):
        if isinstance(op, k.EndLoop | k.EndIf):
            ends[openers.pop()] = number
        region_of.append(tuple(openers))
        if isinstance(op, k.Loop | k.If):
            openers.append(number)
    last_use: dict[ValueId, tuple[int, ...]] = {}
    for number, op in enumerate(ops):
        for value in k.operands(op):
            last_use[value] = (*region_of[number], number)
    dead: dict[int, list[ValueId]] = {}
    for value, path in last_use.items():
        if not isinstance(ops[value], k.Define | k.Variable | k.Index | k.Loop):
            position = path[len(region_of[value])]
            dead.setdefault(ends.get(position, position), []).append(value)
    return {position: tuple(values) for position, values in dead.items()}


def _loop(number: ValueId, op: k.Loop, body: Region) -> Step:
    iterations = np.arange(op.size).astype(op.type.dtype.numpy).reshape(-1, 1, 1)

    def step(machine: RunState, active: Array | None) -> None:
        for iteration in iterations:
            machine.values[number] = iteration
            run_region(body, machine, active)

    def step_to_end(machine: RunState, active: Array | None) -> None:
        assert op.end is not None
        end = machine.values[op.end]
        for iteration in iterations[: max(int(end.max()), 0)]:
            machine.values[number] = iteration
            running = iteration < end
            if len(end) == 1:
                run_region(body, machine, active)
            elif (running := running if active is None else running & active).any():
                run_region(body, machine, running)

    return step if op.end is None else step_to_end


def _branch(op: k.If, body: Region) -> Step:
    condition = op.condition

    def step(machine: RunState, active: Array | None) -> None:
        taken = machine.values[condition]
        if len(taken) == 1:
            if taken[0, 0]:
                run_region(body, machine, active)
            return
        taken = taken if active is None else taken & active
        if taken.any():
            run_region(body, machine, taken)

    return step


def _assignment(number: ValueId, compute: Computation) -> Step:
    def step(machine: RunState, active: Array | None) -> None:
        machine.values[number] = compute(machine.values)

    return step


def _with_place(kernel: Kernel, number: ValueId, inner: Step) -> Step:
    def step(machine: RunState, active: Array | None) -> None:
        try:
            inner(machine, active)
        except OutOfBoundsError as error:
            line = print_op(number, kernel.ops[number])
            raise LaunchError(f"kernel {kernel.name}: operation {number}, {line!r}, reaches {error}") from error

    return step


def _access(number: ValueId, op: k.Load | k.Store | k.Atomic) -> Step:
    index = op.index

    def mask_of(machine: RunState, active: Array | None) -> Array | None:
        if op.mask is None:
            return active
        mask: Array = machine.values[op.mask]
        return mask if active is None else mask & active

    match op:
        case k.Load(source=source):
            lanes = op.type.lanes

            def load(machine: RunState, active: Array | None) -> None:
                mask = mask_of(machine, active)
                machine.values[number] = machine.arrays[source].load(machine.values[index], lanes, mask)

            return load
        case k.Store(target=target, value=value):

            def store(machine: RunState, active: Array | None) -> None:
                values = machine.values
                machine.arrays[target].store(values[index], values[value], mask_of(machine, active))

            return store
        case k.Atomic(target=target, value=value):
            function = reduce_ufunc(op.op)

            def combine(machine: RunState, active: Array | None) -> None:
                mask, values = mask_of(machine, active), machine.values
                machine.arrays[target].combine(function, values[index], values[value], mask, machine.rows)

            return combine


def _swap(number: ValueId, op: k.Swap) -> Step:
    def step(machine: RunState, active: Array | None) -> None:
        value = machine.values[op.x]
        # Threads are rows, neighbours along axis 0 neighbouring ones; a value that is the same for all has one row.
        machine.values[number] = value if len(value) == 1 else value[np.arange(machine.rows) ^ op.distance]

    return step


def _wmma(number: ValueId, op: k.Wmma) -> Step:
    def step(machine: RunState, active: Array | None) -> None:
        fragments = []
        for operand in (op.a, op.b, op.c):
            value = machine.values[operand]
            fragments.append(np.broadcast_to(value, (machine.rows, value.shape[1])))
        machine.values[number] = multiply_fragments(op.dims, *fragments)

    return step


def computation(ops: Sequence[Op], op: k.Pure) -> Computation:
    """Return what computes a pure operation from the values before it: arrays [thread or one row, lane]."""
    match op:
        case k.Const(value=literal):
            array = np.empty((1, op.type.lanes), op.type.dtype.numpy)
            array.fill(literal)  # takes half as long as np.full
            return lambda values: array
        case k.Unary(x=x):
            unary = unary_function(op.op, op.type.dtype)
            return lambda values: unary(values[x])
        case k.Binary(x=x, y=y):
            binary = binary_function(op.op, _dtype(ops, x))
            return lambda values: binary(values[x], values[y])
        case k.Where(condition=condition, x=x, y=y):
            return lambda values: _choose(values[condition], values[x], values[y])
        case k.Cast(x=x):
            cast = cast_function(_dtype(ops, x), op.type.dtype)
            return lambda values: cast(values[x])
        case k.Bitcast(x=x):
            target = op.type.dtype
            return lambda values: apply_bitcast(values[x], target)
        case k.Mad(x=x, y=y, z=z):
            multiply, add = (binary_function(kind, op.type.dtype) for kind in (BinaryOp.MUL, BinaryOp.ADD))
            return lambda values: add(multiply(values[x], values[y]), values[z])
        case k.Vectorize(items=items):
            return lambda values: _side_by_side([values[item] for item in items])
        case k.Devectorize(x=x, lane=lane):
            return lambda values: values[x][:, lane : lane + 1]
        case k.Shuffle(x=x, y=y):
            lanes = np.array(op.lanes)
            return lambda values: _side_by_side([values[x], values[y]])[:, lanes]


def _dtype(ops: Sequence[Op], value: ValueId) -> DType:
    op = ops[value]
    assert isinstance(op, k.Value)
    return op.type.dtype


def _choose(condition: Array, x: Array, y: Array) -> Array:
    return np.where(condition, x, y)


def _side_by_side(parts: list[Array]) -> Array:
    """Return the lanes of all parts as lanes of one value."""
    rows = max(map(len, parts))
    return np.concatenate([spread(part, (rows, part.shape[1])) for part in parts], axis=1)
