"""Check settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from zyx.errors import ArgumentError, ShapeError

if TYPE_CHECKING:
    from zyx.optim.param_groups import ParamGroup

#: By the name of a setting, or of one element of it: the least value, and what it is below, if anything.
RANGES: Final[dict[str, tuple[float, float | None]]] = {
    "alpha": (0.0, None),
    "betas": (0.0, 1.0),
    "d": (1.0, None),
    "eps": (0.0, None),
    "etas[0]": (1e-38, 1.0),
    "etas[1]": (1.0, None),
    "initial_accumulator_value": (0.0, None),
    "lambd": (0.0, None),
    "lr_decay": (0.0, None),
    "momentum": (0.0, None),
    "momentum_decay": (0.0, None),
    "rho": (0.0, 1.0 + 1e-12),
    "step_sizes[0]": (1e-38, None),
    "tolerance_change": (0.0, None),
    "tolerance_grad": (0.0, None),
    "weight_decay": (0.0, None),
}


def check_setting(name: str, value: Any) -> None:  # noqa: ANN401  # whatever settings are
    """Raise `ShapeError` unless a setting, and each element of one that has several, is in its range of `RANGES`."""
    parts = {name: value}
    if isinstance(value, tuple | list):
        parts = {f"{name}[{place}]": part for place, part in enumerate(value)}
    for part, number in parts.items():
        bounds = RANGES.get(part, RANGES.get(name))
        if bounds is not None and number is not None:
            check_range(part, number, *bounds)


def check_range(name: str, value: float, least: float, below: float | None = None) -> None:
    """Raise `ShapeError` unless `value` is at least `least`, and less than `below`."""
    if not value >= least or (below is not None and not value < below):
        limit = f"at least {least}" if below is None else f"from {least} to less than {below}"
        raise ShapeError(f"{name} is {limit}, not {value}")


def groups_of(optimizer: Any, what: str) -> list[ParamGroup]:  # noqa: ANN401  # whatever was given
    """Return the groups of an optimiser; raise `ArgumentError`, which names the scheduler `what`, if it is none."""
    groups: list[ParamGroup] | None = getattr(optimizer, "param_groups", None)
    if groups is None:
        raise ArgumentError(f"{what} takes an optimiser, not {type(optimizer).__name__}; see zyx.optim for schedules")
    return groups
