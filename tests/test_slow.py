"""What is slow runs with ``--slow`` alone, and of combinations of parameters a share runs always."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

PRODUCT = """
import pytest

@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
@pytest.mark.parametrize(("shape", "axis"), [((2, 3), 0), ((2, 3), 1), ((4,), 0), ((5, 1), 1), ((6,), 0), ((7,), 0)])
def test_product(dtype, shape, axis): pass

@pytest.mark.one_in(2)
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_line(size): pass

@pytest.mark.slow
def test_long(): pass

def test_short(): pass
"""


@pytest.fixture
def ran(tmp_path):
    """Return what runs pytest on `PRODUCT` with some arguments, and returns the names of tests that ran."""
    (tmp_path / "test_product.py").write_text(PRODUCT, encoding="utf-8")
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["slow"]', encoding="utf-8")

    def ran(*arguments: str) -> list[str]:
        command = [sys.executable, "-m", "pytest", "-v", "--strict-markers", "-p", "no:cacheprovider", *arguments]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(TESTS)},
            capture_output=True,
            text=True,
            check=True,
        )
        return re.findall(r"::(\S+) PASSED", done.stdout)

    return ran


def test_a_share_of_the_combinations_has_every_value_and_is_the_same_each_time(ran) -> None:
    names = ran()
    product = [name for name in names if name.startswith("test_product")]
    cases, dtypes = zip(*(name.removesuffix("]").rsplit("-", 1) for name in product), strict=True)
    assert set(dtypes) == {"f16", "f32", "f64"}
    assert {re.search(r"shape\d", case)[0] for case in cases} >= {"shape2", "shape3", "shape4", "shape5"}
    assert 4 <= len(product) <= 9  # a quarter of 18, and what brings values that were not there yet
    assert names == ran()


def test_all_values_of_a_single_parameter_run_always(ran) -> None:
    assert len([name for name in ran() if name.startswith("test_line")]) == 4


def test_the_slow_ones_are_those_that_are_marked_and_those_that_are_not_drawn(ran) -> None:
    always, slow = ran(), ran("--slow", "-m", "slow")
    assert "test_long" in slow
    assert "test_short" in always
    assert not {*always} & {*slow}
    assert sorted([*always, *slow]) == sorted(ran("--slow"))


def test_one_combination_that_is_named_runs(ran) -> None:
    slow = next(name for name in ran("--slow", "-m", "slow") if name.startswith("test_product"))
    assert ran(f"test_product.py::{slow}") == [slow]


def test_properties_have_more_examples_where_slow_tests_run(tmp_path) -> None:
    pytest.importorskip("hypothesis", reason="hypothesis is not installed")
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["slow"]', encoding="utf-8")
    (tmp_path / "test_it.py").write_text(
        "from hypothesis import given, settings, strategies as st\n"
        "@given(st.integers())\n"
        "def test_it(number): print('drawn')\n"
        "def test_limits(): print('examples', settings().max_examples, settings().deadline)\n",
        encoding="utf-8",
    )
    found = []
    for arguments in ([], ["--slow"]):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider", *arguments],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(TESTS)},
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(int(re.search(r"examples (\d+) None", done.stdout)[1]))
        assert done.stdout.count("drawn") >= found[-1]
    assert found[0] < found[1]
