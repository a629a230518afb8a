"""Run long programs piece by piece, so that signals are noticed: Ctrl-C, for one.

A program is one native call, during which Python cannot run the handlers of signals. What is estimated to take long is
therefore run in several calls: first the steps that are short, as many as together take no longer than a piece, then a
long step by ranges of its groups, then again short ones, and so on. Between two calls all workers are idle, and Python
runs whatever handlers wait; if one raises, the rest is left out.

How many groups make a piece is estimated for the first one, and measured from then on. A group is never divided, so a
kernel of few groups that take minutes each cannot be interrupted.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from zyx_backend_c.driver import NativeWords
from zyx_backend_c.program import FIRST_WORDS, STEP_WORDS

if TYPE_CHECKING:
    from zyx_backend_c.program import CpuProgram, Step
    from zyx_backend_c.workers import WorkerPool

#: Estimated nanoseconds on one thread from which a program is run in pieces: so that a second is not missed although
#: estimates may be a few times too low.
LONG_NS: Final = 200_000_000
#: Nanoseconds that a piece is to take.
_PIECE_NS: Final = 100_000_000
#: Chunks that a piece is cut into, a thread: more than a whole step, since each piece waits for its last chunk.
_CHUNKS: Final = 16


def run_in_pieces(workers: WorkerPool, program: CpuProgram) -> None:
    """Run `program`, whose arguments are bound. Call with the lock of `workers` held.

    Raises whatever the handlers of signals raise; then a part of it was run.
    """
    steps = program.steps
    table = NativeWords(FIRST_WORDS + STEP_WORDS * program.count)
    table.words[1] = program.cost_ns
    start = 0
    while start < program.count:
        end, cost_ns = start, 0
        while end < program.count and cost_ns + steps[end].cost_ns <= _PIECE_NS:
            cost_ns += steps[end].cost_ns
            end += 1
        rows = max(end, start + 1) - start
        size = STEP_WORDS * rows
        first = FIRST_WORDS + STEP_WORDS * start
        table.words[0] = rows
        table.words[FIRST_WORDS : FIRST_WORDS + size] = program.words[first : first + size]
        if end > start:
            workers.run(workers.address, table.address)
        else:
            _run_long_step(workers, table, steps[start])
        start += rows


def _run_long_step(workers: WorkerPool, table: NativeWords, step: Step) -> None:
    """Run the only step in `table` by ranges of its groups."""
    is_shared = step.chunk < step.groups
    size = max(1, int(step.groups * _PIECE_NS / step.cost_ns))
    first = 0
    while first < step.groups:
        end = min(first + size, step.groups)
        chunk = -(-(end - first) // (workers.threads * _CHUNKS)) if is_shared else end - first
        table.words[FIRST_WORDS + 2] = end
        table.words[FIRST_WORDS + 3] = min(chunk, step.chunk) if is_shared else chunk
        table.words[FIRST_WORDS + 5] = first
        started = time.perf_counter_ns()
        workers.run(workers.address, table.address)
        taken_ns = max(time.perf_counter_ns() - started, 1)
        size = max(1, min(2 * size, int((end - first) * _PIECE_NS / taken_ns)))
        first = end
