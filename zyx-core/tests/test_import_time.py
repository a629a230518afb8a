"""What importing the library costs."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

#: Modules that are put off until they are used. Of ours, those that bring them.
PUT_OFF = {
    *("argparse", "importlib.metadata", "ml_dtypes", "msgspec", "numpy.typing", "pathlib", "platformdirs", "pluggy"),
    *("rich", "safetensors", "sqlite3", "string", "urllib.parse"),
    *("zyx.autograd", "zyx.autotune", "zyx.backend", "zyx.cli", "zyx.compute", "zyx.graph.evaluate", "zyx.hookspecs"),
    *("zyx.io", "zyx.kernel.data", "zyx.nest.data", "zyx.nn", "zyx.optim", "zyx.passes", "zyx.plugins", "zyx.render"),
    *("zyx.runtime.compiler", "zyx.runtime.plan", "zyx.runtime.planner", "zyx.schedule", "zyx.testing"),
    *("zyx.settings.check", "zyx.settings.debug", "zyx.settings.load", "zyx.settings.record", "zyx.tensor.control"),
    *("zyx.graph.batching", "zyx.runtime.mapping", "zyx.tree"),
}

#: Most modules of ours that `import zyx` may load.
MOST_MODULES = 64


def imported_by(statement: str) -> set[str]:
    code = f"import numpy, sys; before = set(sys.modules); {statement}; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


def test_importing_zyx_imports_nothing_that_can_be_put_off() -> None:
    imported = imported_by("import zyx")
    assert "zyx" in imported
    assert not imported & PUT_OFF
    assert not {name for name in imported if name.startswith("zyx_backend_")}
    assert sum(name.split(".")[0] == "zyx" for name in imported) <= MOST_MODULES


def test_importing_zyx_makes_no_dataclasses() -> None:
    """Each of them compiles half a dozen functions, and takes as long as two modules."""
    code = (
        "import dataclasses; made = []; make = dataclasses._process_class\n"
        "dataclasses._process_class = lambda cls, *args: made.append(cls) or make(cls, *args)\n"
        "import zyx; print(*(cls.__name__ for cls in made if cls.__module__.startswith('zyx')))\n"
        "import zyx.kernel.data; print(len(made))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    made, with_kernels = done.stdout.split("\n")[:2]
    assert not made
    assert int(with_kernels) > 10  # they would have been seen


def test_every_run_of_pytest_imports_our_plugin_and_neither_zyx_nor_numpy() -> None:
    settings = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    (plugin,) = settings["project"]["entry-points"]["pytest11"].values()
    code = (
        f"import sys, pytest; before = set(sys.modules); import {plugin} as plugin\n"
        "assert not {name.split('.')[0] for name in sys.modules} & {'zyx', 'numpy', 'hypothesis'}, sys.modules\n"
        "assert (plugin.SUITE / 'test_ops.py').exists()\n"
        "print(*(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == [plugin]


@pytest.mark.parametrize(
    ("before", "given", "seen"),
    [("", None, "20"), ("", "4", "4"), ("import numpy", None, "None")],
    ids=["by default", "set by the program", "after NumPy"],
)
def test_numpys_threads_are_told_once_when_to_sleep(before: str, given: str | None, seen: str) -> None:
    """The variable is set while NumPy is imported, and only if nobody else has a say."""
    code = f"""
{before}
import importlib.abc, os, sys

class Watch(importlib.abc.MetaPathFinder):
    seen = None

    def find_spec(self, name, path, target=None):
        if name == "numpy":
            Watch.seen = os.environ.get("OPENBLAS_THREAD_TIMEOUT")

sys.meta_path.insert(0, Watch())
import zyx
print(Watch.seen, os.environ.get("OPENBLAS_THREAD_TIMEOUT"))
"""
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_THREAD_TIMEOUT"}
    if given is not None:
        environment["OPENBLAS_THREAD_TIMEOUT"] = given
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == [seen, str(given)]


@pytest.mark.parametrize(
    "module", ["zyx.settings.debug", "zyx.settings", "zyx.plugins", "zyx.plugins.state", "zyx.backend"]
)
def test_cheap_modules_stay_cheap(module: str) -> None:
    assert not imported_by(f"import {module}") & {"msgspec", "pluggy", "rich", "platformdirs", "importlib.metadata"}
