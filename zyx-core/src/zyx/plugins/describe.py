"""Devices and backends in words, for error texts and the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.plugins.state import BackendState
from zyx.plugins.words import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.plugins.opening import OpenedBackends
    from zyx.plugins.state import BackendReport

_PREFIXES: Final = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"))


def rate(value: float, unit: str) -> str:
    """Return a rate with three digits and a decimal prefix, such as ``1.25 TFLOP/s``."""
    for scale, prefix in _PREFIXES:
        if value >= scale:
            return f"{value / scale:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def size(nbytes: int) -> str:
    """Return a number of bytes with three digits and a binary prefix, such as ``23.5 GiB``."""
    value = float(nbytes)
    for prefix in ("", "Ki", "Mi", "Gi"):
        if value < 1024:
            return f"{value:.3g} {prefix}B"
        value /= 1024
    return f"{value:.3g} TiB"


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of equal length as lines with the columns below each other; control codes are written out."""
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def explanation(report: BackendReport) -> str:
    """Return why a backend is in its state and what to do, or its devices if it is ready; one line."""
    if report.state is BackendState.READY and not report.reason:
        return ", ".join(report.devices) or report.summary
    step = f"in {report.step.value}: " if report.state is BackendState.FAILED else ""
    return "; ".join(filter(None, (f"{step}{report.reason}", report.advice)))


def device_and_backend_lines(opened: OpenedBackends) -> list[str]:
    """Return all devices on one line, then one line for each backend: name, state, explanation."""
    rows = [(r.name, r.state.value, explanation(r)) for r in opened.reports if r.name != "host"]
    return [
        f"devices: {', '.join(opened.devices) or 'none'}",
        "backends:",
        *(f"  {line}" for line in columns(rows)),
    ]
