"""Open a runtime for one device, of an installed backend or of one that is still being written."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from zyx.errors import NoDeviceError
from zyx.plugins.discover import Found, installed
from zyx.plugins.manager import PluginManager
from zyx.plugins.opening import OpenedBackends
from zyx.runtime.runtime import Runtime
from zyx.settings.load import load_settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def open_runtime(device: str, plugins: Sequence[object] = (), settings: Mapping[str, Any] | None = None) -> Runtime:
    """Return a runtime whose default device is `device`, and which keeps nothing on disk.

    Args:
        device: Name of a device or backend.
        plugins: Objects or modules with hooks, or names of modules, that are to be found beside the installed backends;
            one that has the name of an installed one takes its place.
        settings: More settings.

    Raises:
        NoDeviceError: There is no such device; the text says what was tried.
    """
    given = {"devices": {"default": device}, "cache": {"enabled": False}, **(settings or {})}
    runtime = Runtime(given)
    if plugins:
        ours = [_found(importlib.import_module(plugin) if isinstance(plugin, str) else plugin) for plugin in plugins]
        names = {found.name for found in ours}
        others = [found for found in installed()[0] if found.name not in names]
        # What the runtime would open by itself, with more entry points than are installed.
        runtime._opened = OpenedBackends(PluginManager(load_settings(given), [*others, *ours]))
    try:
        _ = runtime.default_device
    except NoDeviceError:
        runtime.close()
        raise
    return runtime


def _found(plugin: Any) -> Found:  # noqa: ANN401  # any object with hooks; the plugin manager checks it
    info = plugin.zyx_backend_info()
    return Found(info.name, repr(plugin), f"zyx-backend-{info.name}", info.version, lambda: plugin)
