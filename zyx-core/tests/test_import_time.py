"""What importing the library costs."""

import subprocess
import sys

import pytest

#: Modules that are put off until they are used. Of ours, those that bring them.
PUT_OFF = {
    *("argparse", "importlib.metadata", "ml_dtypes", "msgspec", "platformdirs", "pluggy", "rich", "safetensors"),
    *("sqlite3", "zyx.cli", "zyx.hookspecs", "zyx.plugins.manager", "zyx.settings.record"),
}


def imported_by(statement: str) -> set[str]:
    code = f"import numpy, sys; before = set(sys.modules); {statement}; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


def test_importing_zyx_imports_nothing_that_can_be_put_off() -> None:
    imported = imported_by("import zyx")
    assert "zyx" in imported
    assert not imported & PUT_OFF
    assert not {name for name in imported if name.startswith("zyx_backend_")}


@pytest.mark.parametrize(
    "module", ["zyx.settings.debug", "zyx.settings", "zyx.plugins", "zyx.plugins.state", "zyx.backend"]
)
def test_cheap_modules_stay_cheap(module: str) -> None:
    assert not imported_by(f"import {module}") & {"msgspec", "pluggy", "rich", "platformdirs", "importlib.metadata"}
