"""Plan a loop: the kernels of its body are made once, and launched for each step.

    out[i] = h = tanh(given[i] + h @ w)         2 kernels
    3 steps                                     6 launches, with 3 places of `given` and `out` among their numbers

What a step reads and writes of sequences lies at places that are numbers of the launch, in buffers of which a kernel
knows no length. So loops of all lengths have the same kernels. Carries go to and fro between two buffers.
"""

from __future__ import annotations

import math
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Final, TypeAlias

from zyx import dtype as dtypes
from zyx.fusion.cost import is_source
from zyx.fusion.materialise import below_movement
from zyx.graph import Graph
from zyx.graph import node as n
from zyx.graph.given import Box, Front, Number
from zyx.graph.loop import Lie
from zyx.graph.node import Leaf
from zyx.graph.rebuild import rebuild
from zyx.graph.walk import topological
from zyx.ops import BinaryOp
from zyx.shape import size_of, strides_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from zyx.dtype import DType
    from zyx.fusion.partition import KernelPart
    from zyx.graph.loop import Body, Loop, LoopStep
    from zyx.graph.node import Node
    from zyx.runtime.memory_planning import Launched
    from zyx.shape import Shape

#: Elements of a sequence that kernels may reach, where their places fit 32 bits, and where they do not.
_MOST_SHORT: Final = (1 << 31) - 1
_MOST_LONG: Final = 1 << 48
#: Bytes of the longest vectors that have to lie at multiples of their size.
_LONGEST_VECTOR: Final = 16

#: From the nodes of a body, and what is to be noted of them, to its launches.
Plan: TypeAlias = "Callable[[Sequence[Node], WrittenRows], list[Launched]]"


class WrittenRows:
    """What becomes of the outputs of a body while it is planned.

    Args:
        carried: Those of carries, which have buffers of their own.
        rows: Those of rows, with where they lie.

    Attributes:
        stored: For each output, the node that is stored for it.
    """

    def __init__(self, carried: Sequence[Node], rows: Sequence[tuple[Node, Box]]) -> None:
        self._carried = carried
        self._rows = rows
        self.stored: Mapping[Node, Node] = {}

    def prepared(self, stored: Mapping[Node, Node]) -> None:
        """Note what is stored for each output."""
        self.stored = stored

    def note(self, launches: Sequence[Sequence[KernelPart]]) -> None:
        """Note in the parts which of their nodes are rows."""
        boxes: dict[Node, list[Box]] = {}
        for row, box in self._rows:
            boxes.setdefault(self.stored[row], []).append(box)
        needed = {self.stored[node] for node in self._carried}
        needed.update(node for launch in launches for part in launch for node in part.reads)
        for launch in launches:
            for part in launch:
                part.rows = {node: boxes[node] for node in part.stored if node in boxes}
                part.only_rows = set(part.rows) - needed


class _Sequence:
    """A sequence as the kernels of a body know it.

    Args:
        leaf: What a step has of it: a leaf that reads, or a node that is written.
        shape: Of all of it.
        lie: How it lies there.
        skipped: How many places in front are read as 0, where some are.
        most_bytes: Of the largest array that a kernel may have and a launch give less of; 0 if that must not be.
    """

    def __init__(self, leaf: Node, shape: Shape, lie: Lie, skipped: Number | None, *, most_bytes: int) -> None:
        axis = lie.axis
        self._step = size_of(shape[axis + 1 :])  # from a place to the next one
        strides = strides_of(shape)
        # Sums of a start and two strides fit 32 bits, too.
        short = _MOST_SHORT if lie == Lie(0) else _MOST_SHORT // 4
        is_short = size_of(shape) <= short
        most = min(short if is_short else _MOST_LONG, most_bytes // leaf.dtype.itemsize)
        number: DType = dtypes.int32 if is_short else dtypes.int64
        self._unit = math.gcd(
            self._step if lie == Lie(0) else shape[-1], max(_LONGEST_VECTOR // leaf.dtype.itemsize, 1)
        )
        # What is known of one axis is all that kernels know; a row of the others is one of their elements.
        self._strides = () if lie == Lie(0) else (strides[1], strides[0]) if lie.is_turned else strides[:2]
        row = () if self._strides else leaf.shape[1:]
        if most_bytes:
            self.data: Leaf = Front((most // size_of(row), *row), leaf.dtype, leaf.device, ())
        else:
            self.data = Leaf((size_of(shape) // size_of(row), *row), leaf.dtype, leaf.device, ())
        self._start = Number((), number, leaf.device)
        self._apart = tuple(Number((), number, leaf.device) for _ in self._strides)
        kind = (leaf.shape, leaf.dtype, leaf.device)
        self.box = Box(*kind, self.data, self._start, self._apart, self._unit, skipped)
        self._pieces: list[tuple[Number, Number, int, int]] = []
        self._skipped = skipped
        self._rows = size_of(leaf.shape[1:-1])

    def piece(self, node: Node, offset: int) -> Box:
        """Return where a piece of a row lies that begins somewhere along its last axis; `node` is ``(rows, width)``."""
        unit = math.gcd(self._unit, offset, self.box.shape[-1])
        start, apart = (Number((), self._start.dtype, node.device) for _ in range(2))
        self._pieces.append((start, apart, offset, unit))
        return Box(node.shape, node.dtype, node.device, self.data, start, (apart,), unit)

    def numbers(self, step: LoopStep) -> dict[Node, int]:
        """Return what the kernels of a step are given for it."""
        found: dict[Node, int] = {self._start: step.first * self._step // self._unit}
        for start, apart, offset, unit in self._pieces:
            found[start] = (step.first * self._step + offset) // unit
            found[apart] = self.box.shape[-1] // unit
        for number, stride in zip(self._apart, self._strides, strict=True):
            found[number] = stride // self._unit
        if self._skipped is not None:
            found[self._skipped] = step.skipped * self._rows
        return found


def steps_of(
    loop: Loop, wanted: Mapping[int, Node], sources: Sequence[Node], plan: Plan, *, most_bytes: int
) -> list[Launched]:
    """Return the launches of a loop, in order.

    Args:
        loop: The loop.
        wanted: The node of each of its outputs that anybody needs. Rows that nobody needs are not computed.
        sources: Its sources.
        plan: Plans the body.
        most_bytes: Of the largest array that a kernel may have and a launch give less of. If it is 0, launches give all
            of an array, and each length has its own kernels.
    """
    body, count = loop.body, len(loop.body.carries)
    live = _live_carries(body, wanted)
    graph = Graph()
    new: dict[Node, Node] = {leaf: graph.leaf(leaf.shape, leaf.dtype, leaf.device) for leaf in body.carries}
    carried = [new[body.carries[place]] for place in live]
    buffers: dict[Node, Node] = {}  # what is the same in all steps
    sequences: list[_Sequence] = []
    for leaf, lie, source in zip(body.slices, body.slice_lies, sources[count:], strict=False):
        skipped = Number((), dtypes.int32, leaf.device) if leaf in body.masked else None
        sequences.append(_Sequence(leaf, source.shape, lie, skipped, most_bytes=most_bytes))
        new[leaf] = sequences[-1].box
        buffers[sequences[-1].data] = source
    for leaf, source in zip(body.constants, sources[count + len(body.slices) :], strict=True):
        new[leaf] = leaf
        buffers[leaf] = source
    rows = [(number, row) for number, row in enumerate(body.rows, count) if number in wanted]
    outputs = [*(body.new[place] for place in live), *(row for _, row in rows)]
    for node in topological(outputs):
        if node not in new:
            new[node] = rebuild(graph, node, [new[source] for source in node.sources]) if node.sources else node
    outputs = _stored_apart(graph, [new[node] for node in outputs], len(live))
    stages = _Stages(graph, outputs[: len(live)])
    for (number, row), output in zip(rows, outputs[len(live) :], strict=True):
        lie = body.row_lies[number - count]
        sequence = _Sequence(row, wanted[number].shape, lie, None, most_bytes=most_bytes)
        sequences.append(sequence)
        buffers[sequence.data] = wanted[number]
        stages.write(output, sequence, is_plain=lie == Lie(0))
    launches, stored = stages.planned(plan)
    state = [sources[place] for place in live]
    turns: list[list[Node]] = [[graph.leaf(leaf.shape, leaf.dtype, leaf.device) for leaf in carried] for _ in range(2)]
    ends: list[Node] = [wanted.get(place, leaf) for place, leaf in zip(live, turns[0], strict=True)]
    steps = list(loop.steps)
    result: list[Launched] = []
    for turn, step in enumerate(steps, 1):
        following = turns[(len(steps) - turn) % 2] if turn < len(steps) else ends
        lies_in = buffers | dict(zip(carried, state, strict=True)) | dict(zip(stored, following, strict=True))
        numbers: dict[Node, int] = {}
        for sequence in sequences:
            numbers |= sequence.numbers(step)
        for launch in launches:
            result.append(
                replace(
                    launch,
                    buffers=tuple(lies_in.get(node, node) for node in launch.buffers),
                    stored=tuple(lies_in.get(node, node) for node in launch.stored),
                    numbers=(),
                    starts=(*(numbers[node] for node in launch.numbers), *launch.starts),
                )
            )
        state = following
    return result


class _Stages:
    """What a step computes, in two parts, the second of which reads rows that the first has written.

    A row that is put together of pieces is written piece by piece, and read as a whole.

    Args:
        graph: Makes nodes.
        carried: The outputs of carries.
    """

    def __init__(self, graph: Graph, carried: Sequence[Node]) -> None:
        self._graph = graph
        self._carried = list(carried)
        self._rows: list[tuple[Node, Box]] = []
        self._pieces: list[tuple[Node, Box]] = []
        self._whole: dict[Node, Node] = {}

    def write(self, row: Node, sequence: _Sequence, *, is_plain: bool) -> None:
        """Note where a row lies; `is_plain` says that its elements lie there side by side."""
        found = _pieces_of(row) if is_plain else None
        if found is None or found[0] in self._whole:
            self._rows.append((row, sequence.box))
            return
        whole, pieces = found
        self._whole[whole] = self._graph.reshape(sequence.box, whole.shape)
        self._pieces += [(piece, sequence.piece(piece, offset)) for offset, piece in pieces]

    def planned(self, plan: Plan) -> tuple[list[Launched], list[Node]]:
        """Return the launches of a step, and the node that is stored for each carry."""
        read = {box.sources[0] if box.sources else box for box in self._whole.values()}
        new = dict(self._whole)
        outputs = [*self._carried, *(row for row, _ in self._rows)]
        for node in topological(outputs):
            if node not in new:
                sources = [new[source] for source in node.sources]
                new[node] = rebuild(self._graph, node, sources) if sources else node
        launches: list[Launched] = []
        stored: dict[Node, Node] = {}
        for is_second in (False, True):
            carried, rows = [], [] if is_second else list(self._pieces)
            for place, node in enumerate(outputs):
                if read.isdisjoint(topological([new[node]])) is not is_second:
                    if place < len(self._carried):
                        carried.append(new[node])
                    else:
                        rows.append((new[node], self._rows[place - len(self._carried)][1]))
            if carried or rows:
                noted = WrittenRows(carried, rows)
                launches += plan([*carried, *(row for row, _ in rows)], noted)
                stored |= noted.stored
        return launches, [stored[new[node]] for node in self._carried]


def _pieces_of(row: Node) -> tuple[Node, list[tuple[int, Node]]] | None:
    """Return the node that a row is another shape of, and its pieces along the last axis, if that is a sum of them."""
    whole = row
    while isinstance(whole, n.Reshape):
        whole = whole.sources[0]
    pieces: list[tuple[int, Node]] = []
    stack = [whole]
    while stack:
        node = stack.pop()
        if isinstance(node, n.Binary) and node.op is BinaryOp.ADD:
            stack += node.sources
        elif isinstance(node, n.Pad) and node.ndim == 2 and node.value == 0 and not any(node.widths[0]):
            (piece,) = node.sources
            if isinstance(piece, n.Reshape) or is_source(below_movement(piece)):
                return None
            pieces.append((node.widths[1][0], piece))
        else:
            return None
    pieces.sort(key=itemgetter(0))
    end = 0
    for offset, piece in pieces:
        if offset != end:
            return None
        end += piece.shape[1]
    return (whole, pieces) if end == whole.shape[1] == row.shape[-1] else None


def _live_carries(body: Body, wanted: Container[int]) -> list[int]:
    """Return which carries anything depends on that is wanted."""
    count = len(body.carries)
    live = {place for place in range(count) if place in wanted}
    needed = [row for number, row in enumerate(body.rows, count) if number in wanted]
    needed += [body.new[place] for place in live]
    while needed:
        reached = set(topological(needed))
        more = {place for place, leaf in enumerate(body.carries) if leaf in reached} - live
        needed = [body.new[place] for place in more]
        live |= more
    return sorted(live)


def _stored_apart(graph: Graph, outputs: Sequence[Node], count: int) -> list[Node]:
    """Return the outputs of a body, the first so many of carries: what is there already, or twice, as a copy."""
    seen: set[Node] = set()
    result: list[Node] = []
    for place, node in enumerate(outputs):
        if is_source(below_movement(node)) or (place < count and node in seen):
            # In another shape: of what lies in memory as it is, no copy would be made.
            result.append(graph.contiguous(graph.reshape(node, ((1,) * (place + 1) + node.shape))))
        else:
            result.append(node)
        seen.add(node)
    return result
