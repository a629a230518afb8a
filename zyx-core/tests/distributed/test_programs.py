"""What programs of several processes find, each function of them a test of its own."""

import ast
import importlib.util
import json
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
_NAMES = {
    program: [
        part.name
        for part in ast.parse((PROGRAMS / program).read_text(encoding="utf-8")).body
        if isinstance(part, ast.FunctionDef) and part.name.startswith("test_")
    ]
    for program in ("values.py", "order.py", "meshes.py", "training.py", "sharded.py")
}
#: Processes that programs are run in; those that train take their time.
_SIZES = {"values.py": (2, 4), "order.py": (2, 4), "meshes.py": (2, 4), "training.py": (2,), "sharded.py": (2, 4)}
_SLOW = {("sharded.py", 4)}
_CASES = [
    pytest.param(program, size, name, marks=[pytest.mark.slow] if (program, size) in _SLOW else [])
    for program in _NAMES
    for size in _SIZES[program]
    for name in _NAMES[program]
]


@pytest.fixture(scope="session")
def reports(run_program, tmp_path_factory):
    """Return what runs a program, once for each number of processes, and gives what each process wrote."""
    known = {}

    def reports_of(program, size):
        if program in ("training.py", "sharded.py"):
            if importlib.util.find_spec("sklearn") is None:
                pytest.skip("the digits come with scikit-learn, which is not installed")
        if (program, size) not in known:
            folder = tmp_path_factory.mktemp("reports")
            patience = {"limit_s": 600, "ZYX_COLLECTIVE_TIMEOUT_S": "300"} if program == "sharded.py" else {}
            done = run_program(program, size, str(folder), **patience)
            assert done.returncode == 0, done.stdout + done.stderr
            known[program, size] = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(size)]
        return known[program, size]

    return reports_of


@pytest.mark.parametrize(("program", "size", "name"), _CASES)
def test_programs_pass_in_each_process(reports, run_program, program, size, name):
    failures = {rank: found[name] for rank, found in enumerate(reports(program, size)) if found[name]}
    assert not failures, "\n".join(f"rank {rank}: {text}" for rank, text in failures.items())


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4])
def test_every_operation_dtype_and_size_is_that_of_numpy(run_program, size):
    # The longest arrays, which take minutes, are combined by the threads of a process, in test_threads.
    done = run_program("matrix.py", size, "--largest", "1", limit_s=600, ZYX_DEVICE="c", ZYX_COLLECTIVE_TIMEOUT_S="300")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"920 combinations are those of NumPy, in each of {size}\n" in done.stdout
