"""``zyx bisect``: faults that are planted into a stage are found by one command, which names the stage."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

import pytest
from planting import Fault, command

from zyx.kernel.parse import parse_kernel

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
            "import zyx.kernel.parse as p; "
            "self.executable = Executable(p.parse_kernel(str(kernel).replace('div %', 'mul %')))",
        ),
        ("max_sum_8x200", 7, "device", r"\d+ of 1600 "),
    ),
}
#: What `zyx bisect` says of `simplify`, which is made of many rules: which one it is, and what that did.
HINTS = {
    "a wrong rule": "by the rule passes.simplify_algebra._binary: div %8, %4 : f32 => %10 = mul %8, %9 : f32",
    "a wrong legalisation": "by the rule passes.guard_integer_division.SafeDivisors.write: div %7, %5 : i32 => "
    "%23 = where %10, %12, %22 : i32",
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


def test_a_graph_that_is_prepared_wrongly_is_found(tmp_path: Path) -> None:
    fault = Fault(
        "zyx.fusion.prepare",
        "return sorting.sort_order(graph, node, info, variant)",
        "return graph.flip(sorting.sort_order(graph, node, info, variant), (node.axis,))",
    )
    program = "import numpy as np, zyx\nzyx.Tensor(np.float32([[3, 1, 2]])).sort(1).numpy()\n"
    assert command(tmp_path, "bisect", program).returncode == 0
    done = command(tmp_path, "bisect", program, fault=fault)
    assert done.returncode == 1, done.stderr
    first, *texts = done.stdout.splitlines()
    assert first.startswith("graph of 1 on interpreter:0, computed for program.py:2: preparation: result 0 differs in ")
    before, after = "\n".join(texts).split("---- before preparation\n")[1].split("---- after preparation\n")
    assert "= sort %" in before
    assert "= flip %" in after


def test_what_differs_is_written_to_a_file_with_all_texts(tmp_path: Path) -> None:
    fault, _ = FAULTS["a wrong rule"]
    command(tmp_path, "bisect", PROGRAM, "--out", "found.txt", fault=fault)
    text = (tmp_path / "found.txt").read_text(encoding="utf-8")
    before, after = text.split("---- before pass simplify\n")[1].split("---- after pass simplify\n")
    kernels = [parse_kernel(each) for each in (before, after)]
    assert [kernel.name for kernel in kernels] == ["binary_8x200"] * 2
    assert kernels[0] != kernels[1]


def test_kernels_above_the_limit_are_named_and_a_fault_in_them_is_not_looked_for(tmp_path: Path) -> None:
    fault, _ = FAULTS["a wrong rule"]
    done = command(tmp_path, "bisect", PROGRAM, "--points", "1599", fault=fault)
    assert done.returncode == 0, done.stderr
    first, *others = done.stdout.splitlines()
    assert first == "2 launches compared, none of them differ"
    named = [re.match(r"not looked at: (\w+) on .*: (\d+) points are more than 1599, the limit", row) for row in others]
    assert [(found[1], found[2]) for found in named if found] == [("max_sum_8x200", "6400"), ("binary_8x200", "1600")]


def test_each_kernel_is_looked_at_as_often_as_is_asked_for(tmp_path: Path) -> None:
    program = """
        import numpy as np, zyx
        for number in range(5):
            (zyx.Tensor(np.full(7, number, np.float32)) * 2).numpy()
    """
    program = textwrap.dedent(program)
    for asked, said in (
        (
            (),
            "1 launch compared, none of them differ\nnot looked at: 4 more launches of the same kernels (--launches)\n",
        ),
        (("--launches", "5"), "5 launches compared, none of them differ\n"),
    ):
        assert command(tmp_path, "bisect", program, *asked).stdout == said


def test_how_far_floats_may_be_off_can_be_set(tmp_path: Path) -> None:
    fault, _ = FAULTS["a wrong rule"]
    slight = fault._replace(new="s.binary(BinaryOp.MUL, x, s.like(inverse * 1.00002, x))")
    assert command(tmp_path, "bisect", PROGRAM, fault=slight).returncode == 0
    done = command(tmp_path, "bisect", PROGRAM, "--tolerance", "1e-5", fault=slight)
    assert done.returncode == 1
    assert "elements by more than 1e-05 of their size" in done.stdout


def test_a_program_that_fails_has_its_own_status(tmp_path: Path) -> None:
    done = command(tmp_path, "bisect", "import sys, zyx\n(zyx.Tensor([1.0]) + 1).numpy()\nsys.exit(3)\n")
    assert done.returncode == 3
    assert done.stdout.splitlines()[1] == "the program ended with status 3: what it launched until then was compared"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--points", "0"), "--points 0: it is at least 1"),
        (("--launches", "0"), "--launches 0: it is at least 1"),
        (("--tolerance", "1.5"), "--tolerance 1.5: it is a part, from 0 to below 1"),
        (("--out", "missing/found.txt"), "missing/found.txt cannot be written: No such file or directory"),
        (("missing.py",), "there is no file missing.py"),
    ],
)
def test_wrong_arguments_are_refused_before_the_program_runs(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    done = command(tmp_path, "bisect", "print('it ran')\n", *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"zyx bisect: {said}\n")


def test_loops_sorts_lengths_and_replayed_plans_are_compared_too(tmp_path: Path) -> None:
    program = """
        import numpy as np, zyx
        from zyx import nn

        zyx.manual_seed(0)
        x = zyx.randn(16, 16)
        f = zyx.jit(lambda x: (x @ x.T).softmax(-1))
        for _ in range(3):
            x = f(x)
        x.numpy(), x.sort().numpy(), x.argmax(1).numpy()
        nn.LSTM(4, 5)(zyx.randn(7, 2, 4))[0].numpy()
        for length in (20, 31, 25):
            zyx.randn(length).cumsum(0).numpy()
        zyx.fft.fft(zyx.randn(12)).numpy()
        zyx.zeros(5).scatter_add(0, zyx.Tensor([0, 1, 1]), zyx.randn(3)).numpy()
    """
    done = command(tmp_path, "bisect", textwrap.dedent(program), "--launches", "100", "--every-stage")
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.fullmatch(r"(\d+) launches compared, none of them differ\n", done.stdout)
    assert found, done.stdout
    assert int(found[1]) >= 25
