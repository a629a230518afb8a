"""Choose between a generated kernel and a vendor's library, where a library serves the problem.

off        generated kernels
prefer     the library's, where it has one
measure    what was found by measuring (`zyx.autotune`); where nothing was, what the backend says
           (`LibraryKernel.unmeasured`), but for products that suit a generated kernel better
           (`zyx.fusion.library.suits_threads`)

A generated product takes along what follows it element by element, a library's does not. Large products and
convolutions are separated from that where a library is taken for them; see `zyx.fusion.library.product_in`. Attention
is a hand-written kernel where it is found in a graph (`zyx.kernels.attention`), in place of which a library's may be
taken: by what it says of itself, or by what was found of the graph (`zyx.autotune.choice`).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

from zyx.backend.library import Gemm
from zyx.errors import UnsupportedError
from zyx.fusion.library import suits_threads
from zyx.libraries.match import match_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.autotune.store import TuningStore, Winner
    from zyx.backend import Device, Program
    from zyx.backend.library import LibraryKernel, Problem
    from zyx.nest.data import Nest
    from zyx.nest.expr import Param
    from zyx.settings.record import Autotune

Prepared: TypeAlias = "Callable[[LibraryKernel, Problem, Device], Program]"


class Candidates:
    """Library kernels as candidates.

    Args:
        settings: Whether one may be taken.
        offered: What the backend of a device offers.
        store: What was found by measuring.
    """

    def __init__(
        self, settings: Autotune, offered: Callable[[Device], Sequence[LibraryKernel]], store: TuningStore
    ) -> None:
        self._settings = settings
        self._offered = offered
        self._store = store

    @property
    def is_searching(self) -> bool:
        """Whether schedules and libraries are searched by measuring, as soon as something is planned."""
        return self._settings.enabled

    def described(self, device: Device) -> tuple[str, tuple[str, ...]]:
        """Return what decides which libraries are taken on `device`, beside what was measured: policy and names."""
        return self._settings.library_kernels, tuple(f"{k.name} {k.unmeasured}" for k in self._offered(device))

    def offers(self, device: Device) -> set[type[Problem]]:
        """Return the families of problems that may be measured."""
        is_off = self._settings.library_kernels == "off"
        return set() if is_off else {kernel.serves for kernel in self._offered(device)}

    def serves(self, device: Device) -> set[type[Problem]]:
        """Return the families of problems that a library may be taken for on `device`."""
        policy, is_measured = self._settings.library_kernels, self._settings.enabled or not self._store.is_empty
        return {
            kernel.serves
            for kernel in self._offered(device)
            if policy != "off" and (policy == "prefer" or is_measured or kernel.unmeasured)
        }

    def library_program(
        self,
        nest: Nest,
        device: Device,
        winner: Callable[[Sequence[Nest]], Winner | None],
        prepared: Prepared,
    ) -> tuple[Program, tuple[Param, ...], str] | None:
        """Return a library's program for `nest`, with its params in launch order and its name, if it should be taken.

        `winner` gives what was found for nests by measuring; `prepared` the program of a library, as
        `LibraryKernel.prepare` does.
        """
        served = self.serves(device)
        found = match_problem(nest) if served else None
        if found is None or type(found[0]) not in served:
            return None
        problem, params = found
        measured = winner([nest]) if self._settings.library_kernels == "measure" else None

        def is_taken(kernel: LibraryKernel) -> bool:
            if measured is not None:
                return measured.library == kernel.name
            return kernel.unmeasured and not (isinstance(problem, Gemm) and suits_threads(problem))

        taken = self._first(problem, device, is_taken, prepared)
        return None if taken is None else (taken[0], params, taken[1])

    def program_instead(
        self, problem: Problem, device: Device, prepared: Prepared, *, is_other: bool
    ) -> tuple[Program, str] | None:
        """Return a library's program, and its name, that is taken in place of a hand-written kernel.

        Args:
            problem: What the kernel computes.
            device: Where.
            prepared: As `library_program` takes it.
            is_other: Whether it was found that the other of the two is faster than what is taken unmeasured.
        """
        return self._first(problem, device, lambda kernel: kernel.unmeasured != is_other, prepared)

    def _first(
        self, problem: Problem, device: Device, is_taken: Callable[[LibraryKernel], bool], prepared: Prepared
    ) -> tuple[Program, str] | None:
        policy = self._settings.library_kernels
        for kernel in self._offered(device) if policy != "off" else ():
            if isinstance(problem, kernel.serves) and (policy == "prefer" or is_taken(kernel)):
                with suppress(UnsupportedError):
                    return prepared(kernel, problem, device), kernel.name
        return None
