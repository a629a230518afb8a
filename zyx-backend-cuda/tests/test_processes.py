"""What processes exchange from device to device is what they exchange by the host: the programs of core, on paper GPUs.

Each process has a GPU of paper and an NCCL of paper; see `run_on_paper`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROGRAMS = HERE.parents[1] / "zyx-core" / "tests" / "distributed" / "programs"
LIMIT_S = 120
#: Of a child of a fork, the drivers are gone before it could say that it is in no group.
NOT_HERE = {"test_children_of_a_fork_are_not_in_the_group"}


def launcher() -> str | None:
    return shutil.which("mpiexec", path=os.fspath(Path(sys.executable).parent)) or shutil.which("mpiexec")


def run(size: int, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a program in `size` processes; skip the test where that takes what is not there."""
    if importlib.util.find_spec("mpi4py") is None or launcher() is None:
        pytest.skip("several processes take mpi4py and mpiexec")
    if not PROGRAMS.exists():
        pytest.skip("the programs are in the repository, beside the tests of zyx-core")
    own = {"ZYX_DEVICE": "cuda", "ZYX_COLLECTIVE_TIMEOUT_S": "20", "ZYX_NUM_THREADS": "1"}
    command = [str(launcher()), "-n", str(size), sys.executable, "-m", "mpi4py", str(HERE / "run_on_paper.py")]
    return subprocess.run(
        [*command, *arguments],
        env=os.environ | own | environ,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.mark.parametrize(("program", "size"), [("values.py", 2), ("order.py", 2), ("training.py", 2)])
def test_programs_of_several_processes_find_the_same_on_devices(program: str, size: int, tmp_path: Path):
    if program == "training.py" and importlib.util.find_spec("sklearn") is None:
        pytest.skip("the digits come with scikit-learn, which is not installed")
    done = run(size, str(PROGRAMS / program), str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    for rank in range(size):
        found = json.loads((tmp_path / f"{rank}.json").read_text())
        assert len(found) > 3
        failures = [text for name, text in found.items() if text and name not in NOT_HERE]
        assert not failures, f"rank {rank}: {failures[0]}"


PROGRAM = """
import sys

import zyx
import zyx.distributed as dist
from zyx.runtime.runtime import current

group = dist.init()
what = sys.argv[1]
x = zyx.Tensor([1.0, 2.0, 3.0]) * (group.rank + 1)
assert dist.all_reduce(x).tolist() == [3.0, 6.0, 9.0]
if what == "captured":
    step = zyx.jit(lambda x: dist.all_reduce((x * 2 + 1).sum(0, keepdim=True)) * 3)
    session = current().device("cuda").pool.session
    for number in range(10):
        before = session.calls.count("launch")
        assert step(x).tolist() == [3 * (2 * 18 + 6)]
    assert session.calls.count("play") >= 4
    assert session.calls.count("launch") == before
    print(f"rank {group.rank} plays graphs")
if what == "mixed":
    with zyx.device("interpreter") if group.rank else zyx.device("cuda"):
        y = zyx.ones(2)
    try:
        dist.all_reduce(y)
    except zyx.errors.CollectiveError as error:
        print(f"rank {group.rank}: {error}")
"""


def test_a_traced_step_with_an_exchange_is_one_graph(tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = run(2, str(program), "captured")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rank 0 plays graphs" in done.stdout
    assert "rank 1 plays graphs" in done.stdout


def test_the_first_operation_on_a_device_is_one_in_all_processes(tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = run(2, str(program), "mixed")
    assert "all_reduce sum of float32 [2], the first one on a device" in done.stdout, done.stdout + done.stderr


def test_how_tensors_are_exchanged_is_shown(tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = run(2, str(program), "nothing", ZYX_DEBUG="devices")
    assert "tensors on cuda:0 are exchanged by NCCL 2.28.9, between 2 processes" in done.stderr, done.stderr


def test_tensors_go_by_the_host_if_one_process_has_no_library_and_it_is_said_why(tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = run(2, str(program), "nothing", ZYX_DEBUG="devices", PAPER_WITHOUT_NCCL="1")
    assert done.returncode == 0, done.stdout + done.stderr
    start = "tensors on cuda:0 are exchanged by MPI through the host"
    assert f"{start}: NCCL is not found (libnccl.so.2): pip install 'zyx-backend-cuda[nccl]'" in done.stderr
    assert f"{start}: other processes have their tensors elsewhere, or no library for them" in done.stderr


def test_tensors_go_by_the_host_if_one_process_cannot_connect_and_it_is_said_why(tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = run(2, str(program), "nothing", ZYX_DEBUG="devices", PAPER_UNCONNECTED="0")
    assert done.returncode == 0, done.stdout + done.stderr
    start = "tensors on cuda:0 are exchanged by MPI through the host"
    assert f"{start}: NCCL 2.28.9 cannot connect cuda:0: ncclCommInitRank: ncclSystemError" in done.stderr
    assert f"{start}: other processes could not connect their devices" in done.stderr
