"""The tests of `onnx.backend.test` pass on the default device, but for those that onnx_not_passed.txt lists.

Each eighth is run, with ``--slow`` all of them. The numbers are those of onnx 1.23.2; the tests of other versions are
others.
"""

import pytest

onnx = pytest.importorskip("onnx", reason="onnx, whose tests these are, is not installed")

import onnx_backend  # noqa: E402

VERSION = "1.23.2"
#: How many tests do not pass at most.
MOST_NOT_PASSED = 40

pytestmark = pytest.mark.skipif(onnx.__version__ != VERSION, reason=f"these are the tests of onnx {VERSION}")


def held_to_the_list(names):
    listed = onnx_backend.listed()
    outcomes = onnx_backend.run(names, processes=1)
    assert {name: reason for name, reason in outcomes.items() if reason and name not in listed} == {}
    passing = [name for name, reason in outcomes.items() if not reason and name in listed]
    assert [name for name in passing if not listed[name].startswith(("random", "rounding"))] == [], "no longer true"


def test_each_eighth_test_passes_or_is_listed():
    held_to_the_list(sorted(onnx_backend.cases())[::8])


@pytest.mark.slow
def test_all_tests_pass_or_are_listed():
    held_to_the_list(sorted(onnx_backend.cases()))


def test_every_reason_is_of_a_test_and_says_something():
    listed = onnx_backend.listed()
    assert listed.keys() <= onnx_backend.cases().keys()
    assert all(len(reason) > 20 for reason in listed.values())
    assert len(onnx_backend.cases()) == 2033
    assert len(listed) <= MOST_NOT_PASSED
