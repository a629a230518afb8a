"""``zyx bisect``: faults that are planted into a stage are found by one command, which names the stage."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from planting import Fault, command

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import numpy as np
import zyx

x = zyx.Tensor(np.linspace(-3, 3, 1600, dtype=np.float32).reshape(8, 200))
y = (x - x.max(1, keepdims=True)).exp()
(y / y.sum(1, keepdims=True)).numpy()
(x / 4).numpy()
n = zyx.Tensor(np.full(12, 60, np.int32))
(n // zyx.Tensor(np.arange(-3, 9, dtype=np.int32))).numpy()
(x[:, 3:] * 2).numpy()
"""

#: By name: what is planted; then the kernel, the line of the program, what is named, and how the results differ.
FAULTS = {
    "a wrong rule": (
        Fault(
            "zyx.passes.algebra.floats",
            "s.binary(BinaryOp.MUL, x, s.like(inverse, x))",
            "s.binary(BinaryOp.MUL, x, s.like(inverse * 2, x))",
        ),
        ("binary_8x200", 8, "pass simplify", r"1600 of 1600 .* most at \[0, 0\]: -1.5 for -0.75, off by 0.75"),
    ),
    "a wrong legalisation": (
        Fault(
            "zyx.passes.guard_integer_division",
            "rewriter.where(tests[0], rewriter.like(0, op.x), result)",
            "rewriter.where(tests[0], rewriter.like(1, op.x), result)",
        ),
        ("binary_12", 10, "pass simplify", r"1 of 12 .* most at \[3\]: 1 for 0, off by 1"),
    ),
    "a wrong move": (
        Fault(
            "zyx.schedule.moves.ranges",
            "guard = None if old.size % factor == 0 else pool.less(value, old.size)",
            "guard = None if old.size % factor == 0 else pool.less(value, old.size - 1)",
        ),
        ("max_sum_8x200", 7, "move Split(range='r1', factor=32)", r"\d+ of 1600 "),
    ),
    "a wrong lowering": (
        Fault(
            "zyx.lowering.accumulate",
            "return self._emitter.constant(identity(statement.op, dtype), dtype)",
            "return self._emitter.constant(100.0, dtype)",
        ),
        ("max_sum_8x200", 7, "lowering", r"\d+ of 1600 "),
    ),
    "a wrong fusion": (
        Fault("zyx.fusion.movement", "pool.shift(at, start) for", "pool.shift(at, start - 1) for"),
        ("binary_8x197", 11, "fusion", r"VerifyError: a read reaches -198\.\.1398 of p1\[1600\]$"),
    ),
    "a wrong device": (
        Fault(
            "zyx.builtin.interpreter",
            "self.executable = Executable(kernel)",
            "import zyx.ir.parser as p; "
            "self.executable = Executable(p.parse_kernel(str(kernel).replace('div %', 'mul %')))",
        ),
        ("max_sum_8x200", 7, "device", r"\d+ of 1600 "),
    ),
}
#: What `zyx bisect` says of `simplify`, which is made of several passes.
HINTS = {
    "a wrong rule": "by itself, so is simplify_algebra",
    "a wrong legalisation": "by itself, so is guard_integer_division",
}


def test_a_program_that_is_right_has_status_0(tmp_path: Path) -> None:
    done = command(tmp_path, "bisect", PROGRAM, "--every-stage")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "4 launches compared, none of them differ\n"


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_and_its_stage_named(tmp_path: Path, name: str) -> None:
    fault, (kernel, line, stage, difference) = FAULTS[name]
    done = command(tmp_path, "bisect", PROGRAM, fault=fault)
    assert done.returncode == 1, done.stderr
    first, hint, *texts = done.stdout.splitlines()
    assert first.startswith(f"kernel {kernel} on interpreter:0, computed for program.py:{line}"), first
    assert re.search(rf", launch 1: {re.escape(stage)}: .*{difference}", first), first
    assert (hint == HINTS[name]) if name in HINTS else hint == f"---- before {stage}"
    assert f"---- before {stage}" in [hint, *texts]
    assert f"---- after {stage}" in texts
    assert any(row.startswith("4 launches compared, ") for row in texts), texts
