"""Moves of other packages (`zyx.hookspecs.zyx_kernel_passes`), as moves among others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from zyx.errors import FormatError, ScheduleError, ZyxError
from zyx.nest.data import Nest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from zyx.hookspecs import KernelPass
    from zyx.schedule.moves import Move

#: The name of these moves where schedules are written down.
WRITTEN: Final = "KernelPass"
#: Choices of a pass that are asked for, for a nest.
_MOST_CHOICES: Final = 64


class Guard(Protocol):
    """Runs the code of another package."""

    def __call__(self, work: Callable[[], Any], what: str) -> Any:  # noqa: ANN401  # what the work returns
        """Return what `work` returns.

        Raises:
            ZyxError: `work` raises that; `ScheduleError` for whatever else it raises.
            TimeoutError: It does not come back.
        """


@dataclass(frozen=True, slots=True)
class PassMove:
    """A move of another package, with what it was chosen to do."""

    name: str
    choice: tuple[int, ...]
    kernel_pass: KernelPass = field(compare=False, repr=False)
    guard: Guard = field(compare=False, repr=False)

    def apply(self, nest: Nest) -> Nest:
        """Return the nest after the move.

        Raises:
            ScheduleError: It does not apply, or it fails.
        """
        try:
            result = self.guard(lambda: self.kernel_pass.apply(nest, self.choice), f"the kernel pass {self.name}")
        except TimeoutError as error:
            raise ScheduleError(f"{error}") from error
        if not isinstance(result, Nest) or result.params != nest.params:
            raise ScheduleError(f"the kernel pass {self.name} returned no nest of the same params: {result!r:.60}")
        return result

    def written(self) -> dict[str, Any]:
        """Return the move as data for JSON."""
        return {"move": WRITTEN, "name": self.name, "choice": list(self.choice)}


def moves_of(nest: Nest, passes: Iterable[KernelPass], guard: Guard) -> list[PassMove]:
    """Return the moves that passes offer for a nest; nothing of one that fails."""
    found: list[PassMove] = []
    for kernel_pass in passes:
        try:
            choices = guard(lambda each=kernel_pass: list(each.choices(nest)), f"the kernel pass {kernel_pass.name}")  # type: ignore[misc]  # it takes no argument
            chosen = [tuple(map(int, choice)) for choice in choices[:_MOST_CHOICES]]
        except (ZyxError, TimeoutError, TypeError, ValueError):
            continue
        found += [PassMove(kernel_pass.name, choice, kernel_pass, guard) for choice in chosen]
    return found


def readers(passes: Sequence[KernelPass], guard: Guard) -> dict[str, Callable[[dict[str, Any]], Move]]:
    """Return what makes these moves of what was written; see `zyx.autotune.written.read_moves`."""
    by_name = {kernel_pass.name: kernel_pass for kernel_pass in passes}

    def read(fields: dict[str, Any]) -> Move:
        name, choice = fields.get("name"), fields.get("choice")
        if name not in by_name:
            raise FormatError(f"the device has no kernel pass {name!r}; it has {', '.join(sorted(by_name)) or 'none'}")
        if not isinstance(choice, list) or not all(isinstance(number, int) for number in choice):
            raise FormatError(f"the choice of a kernel pass is a list of integers, not {choice!r}")
        return PassMove(name, tuple(choice), by_name[name], guard)

    return {WRITTEN: read}
