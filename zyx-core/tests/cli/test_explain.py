"""``zyx explain``, and ``ZYX_DEBUG=stages``: the text of every kernel at every stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planting import command

from zyx.kernel.parse import parse_kernel

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import numpy as np
import zyx

x = zyx.Tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
for _ in range(2):
    (x * 2).sum(1).numpy()
x.sort().numpy()
"""
FILES = ["1-graph.txt", "2-nests.txt", "3-scheduled.txt", "4-lowered.txt", "5-passes.txt", "6-source.txt"]


def test_each_kernel_has_a_folder_with_a_file_a_stage(tmp_path: Path) -> None:
    done = command(tmp_path, "explain", PROGRAM, "--out", "stages")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout == "4 kernels written to stages; stages/index.txt lists them\n"
    folder = tmp_path / "stages"
    assert sorted(path.name for path in folder.iterdir()) == [
        "001-sum_3", "002-binary_3x4x1", "003-sort_network_4", "004-gather_3x4", "index.txt",
    ]  # fmt: skip
    head, *rows = [line.split() for line in (folder / "index.txt").read_text(encoding="utf-8").splitlines()]
    assert head == ["KERNEL", "DEVICE", "LINES"]
    assert rows[0][:3] == ["001-sum_3", "interpreter:0", "program.py:7"]
    own = folder / "001-sum_3"
    assert sorted(path.name for path in own.iterdir()) == FILES
    graph, nests, scheduled, lowered, passes, source = [(own / name).read_text(encoding="utf-8") for name in FILES]
    assert "= reduce %" in graph
    assert nests.splitlines()[0] == "p0: f32[3] mutable, p1: f32[12]"
    assert scheduled.startswith("schedule: the schedule chosen for what it computes\n")
    assert parse_kernel(lowered).name == "sum_3"
    changed, _, kernel = passes.partition("\n\n")
    assert changed.startswith("changed by: simplify")
    assert parse_kernel(kernel).name == "sum_3"
    by_hand = [path.name for path in (folder / "003-sort_network_4").iterdir()]
    assert sorted(by_hand) == [FILES[0], *FILES[3:]]
    assert source == "no source: interpreter:0 is given the kernel itself\n"


def test_what_is_kept_on_disk_is_made_anew(tmp_path: Path) -> None:
    """Else the stages would be those of the present source, and the program that of an earlier one."""
    for folder in ("first", "second"):
        assert command(tmp_path, "explain", PROGRAM, "--out", folder).returncode == 0
    names = [f"001-sum_3/{name}" for name in FILES]
    first, second = ([(tmp_path / each / name).read_text() for name in names] for each in ("first", "second"))
    assert first == second


def test_a_folder_that_has_something_in_it_is_refused(tmp_path: Path) -> None:
    done = command(tmp_path, "explain", "print('it ran')\n", "--out", ".")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("zyx explain: . is not empty: name a folder that is new")


def test_the_kernels_of_a_program_that_fails_are_written_and_the_status_is_its_own(tmp_path: Path) -> None:
    done = command(tmp_path, "explain", f"{PROGRAM}\nraise SystemExit(7)\n", "--out", "stages")
    assert done.returncode == 7
    assert (tmp_path / "stages" / "004-gather_3x4").is_dir()
