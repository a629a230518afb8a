"""What is timed is filled so that wrong results show, and what differs is said."""

import numpy as np
import pytest

import zyx
from zyx import dtype as dtypes
from zyx.autotune.measure import Scratch, differs
from zyx.nest.data import params_of
from zyx.runtime.profile import Profile


@pytest.fixture
def nests_of(opened):
    """``nests_of(compute)`` returns the nests of the one launch of a computation, and its device, in a runtime."""

    def record(compute):
        class Noting(Profile):
            def started(self, future, nests, device, schedule, winner):
                super().started(future, nests, device, schedule, winner)
                self.noted = tuple(nests), device

        profile = Noting()
        runtime = zyx.runtime.runtime.current()
        with runtime.profiled(profile):
            compute().realize()
        return *profile.noted, runtime.compiler

    with opened():
        yield record


def numbers(*shape, dtype="float32"):
    return zyx.Tensor(np.arange(1, 1 + int(np.prod(shape))).reshape(shape)).astype(dtype).realize()


def test_the_kernel_and_the_interpreter_give_the_same_on_drawn_values(nests_of):
    x = numbers(9, 33)
    nests, device, compiler = nests_of(lambda: (x * 2.0 + 1.0).sum(1))
    program = compiler.result(compiler.start(nests, "sum", device))
    scratch = Scratch(device, nests, params_of(nests), {})
    found = scratch.reference(program)
    assert differs(found, scratch.interpreted()) == ""
    assert found[0].shape == (9,)
    assert np.ptp(found[0]) > 0
    assert scratch.seconds(program, 3) > 0
    scratch.close()


def test_values_are_positive_where_others_give_nothing_to_see(nests_of):
    x = numbers(20, 40)
    nests, device, compiler = nests_of(lambda: x.log().sum(1))
    program = compiler.result(compiler.start(nests, "sum", device))
    scratch = Scratch(device, nests, params_of(nests), {})
    assert np.isfinite(scratch.reference(program)[0]).all()
    scratch.close()


def test_places_are_those_of_the_program_or_zero(nests_of):
    x, places = numbers(50, 3), zyx.Tensor(np.array([49, 0, 7])).realize()
    nests, device, compiler = nests_of(lambda: x[places] * 1.5)
    program = compiler.result(compiler.start(nests, "take", device))
    (number,) = [p.number for p in params_of(nests) if p.dtype.kind in "iu"]
    for values, rows in (({}, [0, 0, 0]), ({number: np.array([49, 0, 7])}, [49, 0, 7])):
        scratch = Scratch(device, nests, params_of(nests), values)
        (found,) = scratch.results(program)
        contents = [c for c in scratch._contents if c.size == 150]
        np.testing.assert_allclose(found.reshape(3, 3), contents[0].reshape(50, 3)[rows] * 1.5, rtol=1e-6)
        scratch.close()


def test_buffers_are_freed(nests_of):
    x = numbers(64, 64)
    nests, device, _ = nests_of(lambda: x + 1.0)
    before = device.memory_pool.free_bytes
    scratch = Scratch(device, nests, params_of(nests), {})
    assert device.memory_pool.free_bytes <= before - 2 * 64 * 64 * 4
    scratch.close()
    assert device.memory_pool.free_bytes >= before


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int32", "bool"])
def test_one_wrong_element_is_seen(dtype):
    numpy = dtypes.as_dtype(dtype).numpy
    right = (
        np.random.default_rng(0).integers(0, 2, 1000).astype(numpy)
        if dtype in ("int32", "bool")
        else (np.random.default_rng(0).standard_normal(1000).astype(numpy))
    )
    assert differs([right.copy()], [right]) == ""
    wrong = right.copy()
    wrong[-1] = right[-1] + numpy.type(1) if dtype != "bool" else not right[-1]
    assert differs([wrong], [right]).startswith("result 0 differs in 1 of 1000")


def test_orders_of_sums_are_no_difference_but_missing_numbers_are():
    right = np.array([1.0, np.nan, np.inf, -np.inf, 3.0], np.float32)
    assert differs([right * np.float32(1 + 1e-6)], [right]) == ""
    for place, value in ((1, 0.0), (2, -np.inf), (3, np.nan), (0, np.nan)):
        wrong = right.copy()
        wrong[place] = value
        assert "differs in 1 of 5" in differs([wrong], [right])
