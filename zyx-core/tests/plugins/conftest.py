"""Packages with backends, written to disk as an installer would leave them."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: A backend that works; `{name}` is its name.
GOOD = """
from zyx.builtin.dummy import DummyDevice, DummyPool
from zyx.hookspecs import API_VERSION, BackendInfo, hookimpl

@hookimpl
def zyx_backend_info():
    return BackendInfo("{name}", "1.5", API_VERSION, "a toy")

@hookimpl
def zyx_memory_pools():
    return [DummyPool("{name} memory")]

@hookimpl
def zyx_devices(pools):
    return [DummyDevice("{name}:0", pools["{name} memory"])]
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """A function that installs a package: a module with `code`, and metadata with an entry point.

    ``package(name, code)`` gives distribution ``zyx-backend-<name>`` 1.5 with the module ``zyx_toy_<name>``; `replace`
    maps parts of the code to others. It returns the folder.
    """
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    before = set(sys.modules)

    def make(
        name: str,
        code: str = GOOD,
        replace: dict[str, str] | None = None,
        distribution: str | None = None,
        module: str | None = None,
    ) -> Path:
        module = module or f"zyx_toy_{name}"
        distribution = distribution or f"zyx-backend-{name}"
        code = textwrap.dedent(code).replace("{name}", name)
        for old, new in (replace or {}).items():
            assert old in code
            code = code.replace(old, new)
        (folder / f"{module}.py").write_text(code, encoding="utf-8")
        info = folder / f"{distribution.replace('-', '_')}-1.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.5\n", encoding="utf-8")
        (info / "entry_points.txt").write_text(f"[zyx.backends]\n{name} = {module}\n", encoding="utf-8")
        return folder

    yield make
    for imported in set(sys.modules) - before:
        if imported.startswith("zyx_toy_"):
            del sys.modules[imported]
