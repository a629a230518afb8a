"""Faults of what only a backend with source has: ``zyx bisect`` names a wrong legalisation, and a wrong renderer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planting import Fault, command

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import numpy as np
import zyx

x = zyx.Tensor(np.linspace(-3, 3, 1600, dtype=np.float32).reshape(8, 200))
(x.exp() - 1).numpy()
"""
EXPONENTIAL = Fault("zyx.passes.math.exponential", "1.0, 1.0, 0.4999999403953552,", "1.0, 1.0, 0.4899999403953552,")
RENDERER = Fault("zyx.render.llvm.math", 'BinaryOp.SUB: "fsub"', 'BinaryOp.SUB: "fadd"')


def test_a_program_that_is_right_has_status_0(tmp_path: Path) -> None:
    done = command(tmp_path, "bisect", PROGRAM, "--every-stage", device="c")
    assert (done.returncode, done.stdout) == (0, "1 launch compared, none of them differ\n"), done.stderr


def test_a_wrong_legalisation_is_found(tmp_path: Path) -> None:
    done = command(tmp_path, "bisect", PROGRAM, fault=EXPONENTIAL, device="c")
    assert done.returncode == 1, done.stderr
    first, hint = done.stdout.splitlines()[:2]
    assert first.startswith("kernel binary_8x200 on c:0, computed for program.py:6, launch 1: pass simplify: ")
    assert hint.startswith("by the rule passes.decompose_transcendentals.Functions.write: exp %")


def test_a_wrong_renderer_is_found_after_all_passes(tmp_path: Path) -> None:
    done = command(tmp_path, "bisect", PROGRAM, fault=RENDERER, device="c")
    assert done.returncode == 1, done.stderr
    before, after = done.stdout.split("---- before device\n")[1].split("---- after device\n")
    assert done.stdout.startswith("kernel binary_8x200 on c:0, computed for program.py:6, launch 1: device: result 0 ")
    assert before.startswith("kernel binary_8x200\n")
    assert "define" in after  # LLVM's text


def test_what_is_kept_on_disk_does_not_hide_a_fault(tmp_path: Path) -> None:
    assert command(tmp_path, "bisect", PROGRAM, device="c").returncode == 0
    assert command(tmp_path, "bisect", PROGRAM, fault=RENDERER, device="c").returncode == 1
