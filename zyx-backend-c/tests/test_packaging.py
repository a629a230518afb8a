"""Where Python is not as it mostly is: zyx in a zip file, and no SQLite."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import zyx
import zyx_backend_c

_COMPUTE = """
import sys
import zyx
assert (zyx.arange(5, device="c") * 2 + 1).numpy().tolist() == [1, 3, 5, 7, 9]
print(zyx.__file__, sorted({"sqlite3", "zyx.drivers.disk_cache"} & set(sys.modules)))
"""
_WITHOUT_SQLITE = "import sys; sys.modules['_sqlite3'] = None"
_BLOCKED = """
import importlib.abc, sys
class Without(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "_sqlite3":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Without())
"""


def _run(program: str, **environ: str) -> str:
    given = {**os.environ, **environ}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=300, check=False,
        env=given,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("cache", ["0", "1"])
def test_zyx_computes_from_a_zip_file(tmp_path, cache):
    archive = tmp_path / "packages.zip"
    with zipfile.ZipFile(archive, "w") as written:
        for package in (zyx, zyx_backend_c):
            folder = Path(package.__file__).parent
            for file in sorted(folder.rglob("*")):
                if "__pycache__" not in file.parts:
                    written.write(file, file.relative_to(folder.parent))
    said = _run(_COMPUTE, PYTHONPATH=str(archive), ZYX_CACHE=cache, ZYX_CACHE_DIR=str(tmp_path / "cache"))
    assert said.startswith(str(archive))


@pytest.mark.parametrize("block", [_WITHOUT_SQLITE, _BLOCKED])
@pytest.mark.parametrize("cache", ["0", "1"])
def test_zyx_computes_without_sqlite(tmp_path, block, cache):
    assert "[]" in _run(block + _COMPUTE, ZYX_CACHE=cache, ZYX_CACHE_DIR=str(tmp_path / "cache"))


def test_without_a_cache_nothing_of_it_is_imported(tmp_path):
    assert "[]" in _run(_COMPUTE, ZYX_CACHE="0")
    assert "sqlite3" in _run(_COMPUTE, ZYX_CACHE="1", ZYX_CACHE_DIR=str(tmp_path))
