"""When a vendor's kernel takes the place of a generated one."""

from types import SimpleNamespace

import numpy as np
import pytest

import zyx
from zyx.backend import Program
from zyx.backend.library import Gemm, LibraryKernel
from zyx.errors import UnsupportedError
from zyx.runtime.candidates import Candidates
from zyx.runtime.planner import Planner
from zyx.settings.record import Autotune


class VendorProgram(Program):
    """What the devices of these tests launch: a function of arrays, and the parameters."""

    __slots__ = ("executable", "params")


def prepare(problem):
    """Return a program of a product; of the small ones there are none."""
    if problem.m < 4:
        raise UnsupportedError(f"vendor has no {problem}")
    program = VendorProgram("vendor")
    sizes = problem.m * problem.k, problem.k * problem.n, problem.m * problem.n
    program.params = [SimpleNamespace(length=size, dtype=problem.dtype) for size in sizes]

    def executable(arrays):
        a, b, c = arrays
        a = a.reshape(problem.k, problem.m).T if problem.transpose_a else a.reshape(problem.m, problem.k)
        b = b.reshape(problem.n, problem.k).T if problem.transpose_b else b.reshape(problem.k, problem.n)
        c[:] = (a @ b).ravel()

    program.executable = executable
    return program


@pytest.fixture
def launched(lab, device, monkeypatch):
    """Return a function that returns the name of the kernel that a product launches, whose values are checked.

    `seconds` are what a launch of the library's and of the generated kernel take, by a clock that is asked in turn.
    """

    def run(*, unmeasured, rows=8, seconds=(), **autotune):
        times = iter(seconds)
        monkeypatch.setattr(Candidates, "_time", lambda *_: next(times))
        offered = [LibraryKernel("vendor 1.0", Gemm, prepare, unmeasured=unmeasured)]
        candidates = Candidates(Autotune(**autotune), lambda _: offered, lab.memory)
        lab._planner = Planner(lab.device, lab.compiler, candidates)
        a, b = (np.arange(n * k, dtype=np.float32).reshape(n, k) for n, k in ((rows, 16), (16, 8)))
        np.testing.assert_array_equal((zyx.Tensor(a) @ zyx.Tensor(b)).numpy(), a @ b)
        (name,) = device.launched
        if not seconds:  # what is not measured is not compiled either, but for what is launched
            assert device.compiled == ([] if name == "vendor" else [name])
        return name

    return run


def test_a_library_is_not_taken_unmeasured_unless_it_says_so():
    kernel = LibraryKernel("vendor 1.0", Gemm, prepare)
    assert not kernel.unmeasured


@pytest.mark.parametrize(
    ("policy", "unmeasured", "is_taken"),
    [
        ("measure", True, True), ("measure", False, False), ("off", True, False), ("prefer", False, True),
        ("prefer", True, True),
    ],
)  # fmt: skip
def test_with_the_tuner_off_the_policy_and_the_library_decide(policy, unmeasured, is_taken, launched):
    assert (launched(unmeasured=unmeasured, library_kernels=policy) == "vendor") == is_taken


@pytest.mark.parametrize("unmeasured", [False, True])
@pytest.mark.parametrize(("seconds", "is_taken"), [((1.0, 2.0), True), ((2.0, 1.0), False), ((1.0, 1.0), False)])
def test_with_the_tuner_on_the_faster_one_is_taken(unmeasured, seconds, is_taken, launched):
    name = launched(unmeasured=unmeasured, seconds=seconds, enabled=True)
    assert (name == "vendor") == is_taken


def test_what_the_library_cannot_do_is_generated(launched):
    assert launched(unmeasured=True, rows=3) != "vendor"
