"""Modules that are imported when something of them is used first; what `import zyx` puts off, and drivers are not.

A module that most programs do without, or that brings much, is named where imports stand, once for types and for the
contract of layers, and once for the run:

    if TYPE_CHECKING:
        from zyx.runtime import profile
    else:
        profile = lazy_import("zyx.runtime.profile", globals())

    def begin() -> None:
        profile.Profile()          # is imported here, and from then on an attribute of a module as any other

`importlib.util.LazyLoader` does the same with an entry of `sys.modules`: there the module looks imported before it is,
and its package does not have it as an attribute. PEP 562 serves names that others ask a module for, not its own.
"""

from __future__ import annotations

import importlib
from types import ModuleType


class _LazyModule(ModuleType):
    """Stands for a module, in the globals of one that names it, until something of it is used."""

    def __init__(self, name: str, namespace: dict[str, object]) -> None:
        super().__init__(name)
        self.__dict__["_namespace"] = namespace

    def __getattr__(self, name: str) -> object:
        module = importlib.import_module(self.__name__)
        namespace: dict[str, object] = self.__dict__["_namespace"]
        for alias in [alias for alias, value in list(namespace.items()) if value is self]:
            namespace[alias] = module  # so that the next use costs what any module's does
        return getattr(module, name)


def lazy_import(name: str, namespace: dict[str, object]) -> ModuleType:
    """Return what stands for a module until something of it is used, and is replaced by it then.

    Args:
        name: The whole name, such as ``zyx.runtime.profile``.
        namespace: The globals of the module that names it. ``import ... as`` is by the name that it has there.
    """
    return _LazyModule(name, namespace)
