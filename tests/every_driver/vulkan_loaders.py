"""Backends that come to devices by Vulkan's loader: where nothing shows a GPU, nobody opens it for a guess."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

import pytest

from zyx.drivers import vulkan_loader

if TYPE_CHECKING:
    from pathlib import Path

    from every_driver.fixtures import Card


@pytest.mark.skipif(sys.platform != "linux", reason="other systems show their GPUs elsewhere")
def test_where_linux_shows_no_gpu_the_backend_is_not_opened_for_a_guess(
    card: Card, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    plugin = importlib.import_module(f"zyx_backend_{card.name}.plugin")
    for variable in ("VK_DRIVER_FILES", "VK_ADD_DRIVER_FILES", "VK_ICD_FILENAMES"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(vulkan_loader, "DEVICE_FILES", tmp_path)
    assert not plugin.zyx_may_have_devices()
    with monkeypatch.context() as one:
        one.setenv("VK_DRIVER_FILES", "/there/lvp_icd.json")
        assert plugin.zyx_may_have_devices()
    (tmp_path / "dri").mkdir()
    (tmp_path / "dri" / "card0").touch()  # a screen, with nothing that computes
    assert not plugin.zyx_may_have_devices()
    (tmp_path / "dri" / "renderD128").touch()
    assert plugin.zyx_may_have_devices()
