"""Check settings."""

from __future__ import annotations

from zyx.errors import ShapeError


def check_range(name: str, value: float, least: float, below: float | None = None) -> None:
    """Raise `ShapeError` unless `value` is at least `least`, and less than `below`."""
    if not value >= least or (below is not None and not value < below):
        limit = f"at least {least}" if below is None else f"from {least} to less than {below}"
        raise ShapeError(f"{name} is {limit}, not {value}")
