"""``zyx devices``: every device that can be used, and what became of every backend."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from zyx.errors import NoDeviceError
from zyx.plugins.choose import SlowDeviceWarning, choose_device
from zyx.plugins.describe import columns, device_rows, explanation
from zyx.plugins.manager import PluginManager
from zyx.plugins.opening import open_backends
from zyx.settings.load import load_settings

if TYPE_CHECKING:
    import argparse

    from rich.console import Console

    from zyx.plugins.opening import OpenedBackends


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments: there are none."""


def run(_: argparse.Namespace, console: Console) -> int:
    """List devices and backends; 1 if there is no device."""
    opened = open_backends(PluginManager(load_settings()))
    try:
        for line in columns(device_rows(opened)):
            console.print(line)
        status, line = default_line(opened)
        console.print(f"\n{line}\n")
        for line in columns(backend_rows(opened)):
            console.print(line)
        return status
    finally:
        opened.close()


def backend_rows(opened: OpenedBackends) -> list[tuple[str, ...]]:
    """Return a heading and a row for each backend, its notes below it."""
    rows: list[tuple[str, ...]] = [("BACKEND", "STATE", "PACKAGE", "")]
    for report in opened.reports:
        rows.append(
            (report.name, report.state.value, f"{report.package} {report.version}".strip(), explanation(report))
        )
        rows.extend(("", "", "", text) for text in (*report.notes, *report.faults))
    return rows


def default_line(opened: OpenedBackends) -> tuple[int, str]:
    """Return an exit status, and which device is used where none is named, and why."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SlowDeviceWarning)  # the line says it
            choice = choose_device(None, opened)
    except NoDeviceError as error:
        return 1, f"default: none. {str(error).splitlines()[0]}"  # the list that follows is on the screen already
    return 0, f"default: {choice.device.name}, since {choice.reason}"
