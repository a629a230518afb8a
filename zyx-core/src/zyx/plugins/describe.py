"""Devices and backends in words, for error texts and the command line."""

from __future__ import annotations

from textwrap import shorten
from typing import TYPE_CHECKING, Final

from zyx.plugins.state import BackendState
from zyx.plugins.words import one_line, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
    """Return rows of equal length as lines with the columns below each other; control codes are written out.

    Leading spaces of cells stay.
    """
    rows = [[" " * indent_of(cell) + one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def indent_of(text: str) -> int:
    """Return how many spaces a text begins with."""
    return len(text) - len(text.lstrip(" "))


def html_table(rows: Sequence[Sequence[str]], below: Sequence[str] = ()) -> str:
    """Return rows of equal length, the first of them headings, as a table of HTML for notebooks.

    Cells that begin with a digit are set flush right, but in the first column. All text is escaped, and nothing else is
    needed to show it.

    Args:
        rows: Cells; leading spaces stay.
        below: Lines below the table.
    """
    from html import escape  # takes milliseconds, and only notebooks need it

    def cell(text: str, name: str, number: int) -> str:
        align = "right" if number and text[:1].isdigit() else "left"
        return f'<{name} style="text-align: {align}">{"&nbsp;" * indent_of(text)}{escape(one_line(text))}</{name}>'

    def line(texts: Sequence[str], name: str) -> str:
        return f"<tr>{''.join(cell(text, name, number) for number, text in enumerate(texts))}</tr>"

    head, *body = rows
    lines = ["<table>", f"<thead>{line(head, 'th')}</thead>", "<tbody>", *(line(row, "td") for row in body)]
    return "\n".join([*lines, "</tbody>", "</table>", *(f"<p>{escape(one_line(line))}</p>" for line in below)])


def device_rows(opened: OpenedBackends, names: Iterable[str] | None = None) -> list[tuple[str, ...]]:
    """Return a heading and a row for each device.

    Args:
        opened: What is open.
        names: Those devices alone, in this order; what is not open any more is left out.
    """
    rows: list[tuple[str, ...]] = [("DEVICE", "MODEL", "COMPUTE", "BANDWIDTH", "FREE", "DRIVER")]
    for device in [opened.devices[name] for name in names or opened.devices if name in opened.devices]:
        info = opened.infos[device.name]
        compute, bandwidth = rate(info.flops_per_s, "FLOP/s"), rate(info.bytes_per_s, "B/s")
        driver = shorten(info.driver, 60, placeholder=" ...")
        free = text_of(device.memory_pool, lambda pool: size(pool.free_bytes))
        rows.append((device.name, info.model, compute, bandwidth, free, driver))
    return rows


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
