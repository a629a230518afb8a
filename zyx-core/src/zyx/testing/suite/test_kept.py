"""Rendered kernels on disk: who comes later schedules, lowers and renders nothing, and gets the same values."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zyx
from zyx.drivers.rendered import SupportsRendering
from zyx.runtime.runtime import use
from zyx.testing.faults import Faults

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from zyx.backend import Device
    from zyx.runtime.runtime import Runtime
    from zyx.testing.values import Array


@pytest.fixture
def opened(device: Device, open_again: Callable[..., Runtime], tmp_path: Path) -> Callable[[], Runtime]:
    """A function that opens the device with a cache of this test's own."""
    if not isinstance(device, SupportsRendering):
        pytest.skip(f"{device.name} does not compile text")
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    settings: Mapping[str, Any] = {"cache": {"directory": str(folder)}}
    return lambda: open_again(settings)


def _programs() -> list[Array]:
    """Return the values of some programs with kernels of many kinds."""
    random = np.random.default_rng(5)
    x = zyx.Tensor(random.standard_normal((33, 70)).astype(np.float32))
    w = zyx.Tensor(random.standard_normal((70, 41)).astype(np.float32))
    places = zyx.Tensor(random.integers(0, 33, 50).astype(np.int32))
    results = [
        (x @ w).softmax(axis=1), x.sort(axis=1), x.cumsum(axis=0), (x * x).sum(axis=0), x.argmax(axis=1), x[places] + 1,
        zyx.where(x > 0, x.exp(), x), x.T.contiguous(), x.astype("int32") % 7, zyx.var(x),
    ]  # fmt: skip
    found = [result.numpy() for result in results]
    return found + [(x[start : start + 9] * factor).numpy() for start, factor in ((0, 1.5), (3, 2.5), (7, 3.5))]


def test_later_processes_schedule_lower_and_render_nothing(
    opened: Callable[[], Runtime], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = opened()
    with use(first):
        wanted = _programs()
    assert first.compiler.scheduled > 0
    assert first.compiler.restored == 0
    made = first.compiler.compiled
    first.close()
    second = opened()
    rendered: list[object] = []
    device: Any = second.device()
    monkeypatch.setattr(device, "render", rendered.append)
    with use(second):
        found = _programs()
    assert second.compiler.scheduled == 0
    assert second.compiler.restored == second.compiler.compiled == made
    assert not rendered
    for there, before in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(there, before)


def test_what_is_kept_and_cannot_be_built_is_made_anew(opened: Callable[[], Runtime]) -> None:
    x = np.arange(60, dtype=np.float32).reshape(4, 15)
    first = opened()
    with use(first):
        zyx.Tensor(x).sum(axis=1).realize()
    first.close()
    second = opened()
    device = second.device()
    with use(second), Faults(device) as faults, faults.failing("compile", 1):
        np.testing.assert_array_equal(zyx.Tensor(x).sum(axis=1).numpy(), x.sum(1))
    assert faults.calls["compile"] == 2
    assert second.compiler.scheduled == 1


def test_what_is_kept_for_a_device_is_not_taken_by_one_with_another_record(
    opened: Callable[[], Runtime], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.arange(60, dtype=np.float32).reshape(4, 15)
    first = opened()
    with use(first):
        zyx.Tensor(x).sum(axis=1).realize()
    first.close()
    second = opened()
    device = second.device()
    other = replace(device.info, registers=device.info.registers + 1)
    monkeypatch.setattr(type(device), "info", property(lambda _: other))
    with use(second):
        np.testing.assert_array_equal(zyx.Tensor(x).sum(axis=1).numpy(), x.sum(1))
    assert second.compiler.scheduled == 1
    assert second.compiler.restored == 0
