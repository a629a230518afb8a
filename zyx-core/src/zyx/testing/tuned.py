"""Search the kernels of random graphs by measuring, and hold what every candidate computes against the interpreter."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from zyx.autotune.search import Means, Search
from zyx.errors import UnsupportedError
from zyx.settings.record import Autotune
from zyx.testing.choices import Seeded
from zyx.testing.graphs import GraphOptions, random_case
from zyx.testing.launching import claimed_dtypes
from zyx.testing.nests import kernels_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zyx.backend import Device
    from zyx.nest.data import Nest

#: Some of each: families, and what is next to them; launched as seldom as can be.
_FEW: Final = Autotune(n_launches=1, n_seeds=4, n_added_per_step=4, n_total_opts=10)
#: Longer than so few candidates take.
_SECONDS: Final = 60.0


def search_kernels(device: Device, seed: int, count: int) -> Counter[str]:
    """Search so many kernels; return how many ``kernels`` and ``candidates`` there were, and how many were ``faster``.

    Raises:
        AssertionError: A candidate computes something else, or what would be taken without measuring does; the text has
            the seed of the graph, and what differs.
    """
    counts: Counter[str] = Counter()
    for name, nests in _nests(device, seed):
        try:
            found = Search(nests, name, device, _means(), {}).run(_SECONDS)
        except UnsupportedError:  # in every schedule: it is divided where graphs are computed
            continue
        assert not found.note, f"{name}: {found.note}"
        assert not found.wrong, f"{name}: {found.wrong}"
        counts.update(kernels=1, candidates=found.tried, faster=found.best is not found.base)
        if counts["kernels"] == count:
            return counts
    raise AssertionError("there is always another graph")


def _nests(device: Device, seed: int) -> Iterator[tuple[str, Sequence[Nest]]]:
    """Yield the nests of kernels of random graphs that a device can run, without end."""
    options = GraphOptions(dtypes=tuple(claimed_dtypes(device)), most_nodes=7, most_elements=4000)
    while True:
        seed += 1
        choices = Seeded(seed)
        kernels, _ = kernels_of(random_case(choices, options), device.info, together=choices.chance(30))
        for number, kernel in enumerate(kernels):
            if not any(param.by_value for nest in kernel.nests for param in nest.params):
                yield f"seed{seed}_{number}", kernel.nests


def _means() -> Means:
    def no_library(*_: object) -> Any:  # noqa: ANN401  # it returns nothing
        raise AssertionError("there is no library to ask")

    return Means(_FEW, (), (), no_library, lambda work, what: work(), lambda tried, gain, left: None)
