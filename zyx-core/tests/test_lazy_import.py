"""Modules that are imported when something of them is used first, and that tools see as imports nevertheless."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import zyx
from zyx.lazy_import import lazy_import

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCES = Path(zyx.__file__).parent


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a module that nobody has imported."""
    (tmp_path / "put_off_until_used.py").write_text("value = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "put_off_until_used", raising=False)
    return "put_off_until_used"


def test_a_module_is_imported_when_something_of_it_is_used(module: str) -> None:
    namespace: dict[str, object] = {}
    stands = namespace["alias"] = lazy_import(module, namespace)
    assert module not in sys.modules
    assert stands.value == 3
    assert module in sys.modules


def test_it_takes_its_place_so_that_the_next_use_costs_nothing(module: str) -> None:
    namespace: dict[str, object] = {"other": 1}
    stands = namespace["alias"] = namespace["again"] = lazy_import(module, namespace)
    assert stands.value == 3
    assert namespace == {"other": 1, "alias": sys.modules[module], "again": sys.modules[module]}
    assert stands.value == 3  # whoever holds on to it finds the same


def test_what_a_module_lacks_is_an_error_as_of_any_module(module: str) -> None:
    with pytest.raises(AttributeError, match=r"put_off_until_used.*has no attribute 'other'"):
        _ = lazy_import(module, {}).other


def test_a_module_that_is_missing_is_an_error_where_it_is_used() -> None:
    stands = lazy_import("zyx.no_such_module", {})
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        _ = stands.value


def named_lazily(node: ast.If) -> Iterator[tuple[str, str]]:
    """Yield aliases and modules of the other branch of a test for type checkers."""
    for each in node.orelse:
        assert isinstance(each, ast.Assign) and isinstance(each.value, ast.Call)
        (target,), (name, _) = each.targets, each.value.args
        assert isinstance(target, ast.Name) and isinstance(name, ast.Constant)
        yield target.id, str(name.value)


def test_type_checkers_and_the_contract_of_layers_see_each_of_them_as_an_import() -> None:
    """What is named at run time alone would have no types, and could go around the contract."""
    calls = seen = 0
    for path in SOURCES.rglob("*.py"):
        if path.name == "lazy_import.py":
            continue
        text = path.read_text(encoding="utf-8")
        calls += text.count("lazy_import(")
        for node in ast.parse(text).body:
            if isinstance(node, ast.If) and "lazy_import(" in ast.unparse(node):
                assert ast.unparse(node.test) == "TYPE_CHECKING", path
                imported = {
                    alias.asname or alias.name: f"{statement.module}.{alias.name}"
                    for statement in node.body
                    if isinstance(statement, ast.ImportFrom)
                    for alias in statement.names
                }
                for alias, module in named_lazily(node):
                    assert imported.get(alias) == module, f"{path}: {alias}"
                    seen += 1
    assert seen == calls > 0
