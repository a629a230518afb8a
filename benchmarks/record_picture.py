"""The picture `docs/reference/beside-peers.svg`: tables of the record that compare zyx with other libraries, as bars.

    python benchmarks/record.py --write       # draws it, as it writes the page

A panel is an entry whose details have a table. Each row of that is a bar, in the table's order and with none left out:
the time of the fastest other library over zyx's, on a logarithmic axis, so that twice as fast and half as fast are as
far from the line at 1. Below the panel stand the entry's own words, device, date and commit. The same record gives the
same bytes: nothing is measured, and no font is asked how wide a text is.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

from record_entries import RecordError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from record_entries import Entry, Topic

PICTURE: Final = Path(__file__).parents[1] / "docs" / "reference" / "beside-peers.svg"

# Lengths below are in pixels of the picture at its own size.
_PANEL: Final = 430
_LABELS: Final = 172
_ROW: Final = 15
_BAR: Final = 10
_TOP: Final = 62
_LINE_HEIGHT: Final = 13
_PLOT: Final = _PANEL - _LABELS - 22
#: Characters that fit a line under a panel at this size of letters, in the widest of the fonts below.
_LINE: Final = 68
#: Characters of a label that fit beside the bars.
_LABEL: Final = 29
#: Ratios that the axis names. What lies outside is an error, not a bar that is cut.
_TICKS: Final = (0.25, 0.5, 1.0, 2.0, 4.0)
_FASTER: Final = "#2a6f97"
_SLOWER: Final = "#c8553d"


@dataclass(frozen=True, slots=True)
class Panel:
    """What is drawn of an entry.

    Attributes:
        claim: The entry's.
        title: What the bars are.
        mine: The column with zyx's times.
        peers: The columns with the other libraries', in the same unit.
    """

    claim: str
    title: str
    mine: str
    peers: tuple[str, ...]


PANELS: Final = (
    Panel(
        "102 programs of 26 kinds",
        "a GPU, beside PyTorch and JAX; the first program of each kind",
        "zyx",
        ("PyTorch", "JAX"),
    ),
    Panel(
        "networks in ONNX files beside ONNX Runtime 1.32.0, one thread each: its time over zyx's",
        "a processor, beside ONNX Runtime; all files",
        "zyx, ms",
        ("ONNX Runtime, ms",),
    ),
)


def picture_of(topics: Sequence[Topic], panels: Sequence[Panel] = PANELS) -> str:
    """Return the picture, as SVG.

    Raises:
        RecordError: There is no entry of a panel's claim, it has no table with the columns, a number there is none, or
            a ratio is outside the axis.
    """
    entries = [entry_of(topics, panel) for panel in panels]
    bars = [ratios_of(entry, panel) for entry, panel in zip(entries, panels, strict=True)]
    below = [texts_below(entry) for entry in entries]
    rows = max(_ROW * len(found) + _LINE_HEIGHT * len(texts) for found, texts in zip(bars, below, strict=True))
    height = _TOP + rows + 2 * _LINE_HEIGHT
    width = _PANEL * len(panels)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'role="img" font-family="Helvetica, Arial, sans-serif" font-size="10" fill="#222">',
        "<title>Times of other libraries over those of zyx</title>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        _text(12, 20, "How many times as fast as the fastest other library", 'font-size="14" font-weight="bold"'),
    ]
    for number, (panel, found, texts) in enumerate(zip(panels, bars, below, strict=True)):
        lines += [f'<g transform="translate({_PANEL * number} 0)">', *_panel(panel.title, found, texts), "</g>"]
    return "\n".join([*lines, "</svg>", ""])


def entry_of(topics: Sequence[Topic], panel: Panel) -> Entry:
    """Return the entry of a panel."""
    found = [entry for topic in topics for entry in topic.entries if entry.claim == panel.claim]
    if len(found) != 1:
        raise RecordError(
            f"{len(found)} entries claim {panel.claim!r}, which a panel of the picture draws; it is to be 1"
        )
    return found[0]


def ratios_of(entry: Entry, panel: Panel) -> list[tuple[str, float]]:
    """Return what each row of an entry's table is about, and the least time of others over that of zyx."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in entry.details.splitlines() if line[:1] == "|"
    ]
    if len(rows) < 3 or not {panel.mine, *panel.peers} <= set(rows[0]):
        raise RecordError(f"{entry.claim}: the details have no table with {', '.join((panel.mine, *panel.peers))}")
    mine, *peers = (rows[0].index(name) for name in (panel.mine, *panel.peers))
    found = []
    for row in rows[2:]:
        try:
            ratio = min(float(row[peer]) for peer in peers) / float(row[mine])
        except (ValueError, IndexError, ZeroDivisionError) as error:
            raise RecordError(f"{entry.claim}: the row {row[0]!r} has no times: {error}") from error
        if not _TICKS[0] <= ratio <= _TICKS[-1]:
            raise RecordError(f"{entry.claim}: {ratio:.3g} of {row[0]!r} is outside the axis of {PICTURE.name}")
        found.append((label_of(row[0]), ratio))
    return found


def label_of(text: str) -> str:
    """Return the kind of a program, or the name of a network's file behind its package's."""
    if ": " in text:
        return text.partition(": ")[0]
    package, _, rest = text.partition("/")
    name = rest.rpartition("/")[2].removesuffix(".onnx")
    label = f"{package} {name}" if name else package
    return label if len(label) <= _LABEL else f"{label[: _LABEL - 1]}…"


def texts_below(entry: Entry) -> list[str]:
    """Return the lines under a panel: what was looked at and came out, and where and when."""
    said = re.findall(rf"\S.{{0,{_LINE - 1}}}(?=\s|$)", f"{entry.claim}: {entry.figure}")
    return [*said, f"{entry.device}, {entry.date.isoformat()}, commit {entry.commit}"]


def _panel(title: str, bars: Sequence[tuple[str, float]], below: Sequence[str]) -> list[str]:
    bottom = _TOP + _ROW * len(bars)
    lines = [_text(12, 38, title, 'font-size="12"')]
    for tick in _TICKS:
        x = _place(tick)
        stroke = "#222" if tick == 1 else "#ddd"
        lines += [
            f'<path d="M{x:.1f} {_TOP - 4}V{bottom}" stroke="{stroke}"/>',
            _text(x, _TOP - 8, f"{tick:g}", 'text-anchor="middle"'),
        ]
    for number, (label, ratio) in enumerate(bars):
        y = _TOP + _ROW * number
        left, right = sorted((_place(1.0), _place(ratio)))
        colour = _FASTER if ratio >= 1 else _SLOWER
        lines += [
            _text(_LABELS - 6, y + 9, label, 'text-anchor="end"'),
            f'<rect x="{left:.1f}" y="{y}" width="{right - left:.1f}" height="{_BAR}" fill="{colour}">'
            f"<title>{escape(label)}: {ratio:.2f}</title></rect>",
        ]
    lines += [_text(12, bottom + 18 + _LINE_HEIGHT * number, line) for number, line in enumerate(below)]
    return lines


def _place(ratio: float) -> float:
    """Return where a ratio is on the axis."""
    low, high = math.log2(_TICKS[0]), math.log2(_TICKS[-1])
    return _LABELS + _PLOT * (math.log2(ratio) - low) / (high - low)


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y}"{" " if more else ""}{more}>{escape(text)}</text>'
