"""The conformance kit in parts: which of its modules are about kernels, about drivers, and about core around them."""

from __future__ import annotations

from typing import Final

#: Modules about memory, calls, plans and failures, and those whose programs are drawn. Kernels are not what they are
#: about, so a driver's compiler may be quick there rather than good.
AROUND_KERNELS: Final = tuple(
    f"test_{topic}"
    for topic in (
        "compute_calls", "compute_memory", "compute_products", "events", "faults", "graphs", "kept", "lengths", "plans",
        "pool", "transformations", "tuned_kernels", "varying",
    )
)  # fmt: skip

#: Those of them that say something of a driver; the others say it of core, whatever the driver is.
OF_A_DRIVER: Final = tuple(f"test_{topic}" for topic in ("events", "faults", "pool"))

#: What a device shows that is given nests, and takes no kernels: memory, events, plans, and programs of what it
#: computes with copies to the host and back. A simulator takes a minute for these modules, and minutes for the others,
#: which are of kernels, of core around plans, or of many small matrices.
OF_NESTS: Final = tuple(
    f"test_{topic}"
    for topic in (
        "attention", "compute_products", "events", "indexing", "launches", "pairs", "plans", "pool", "windows",
    )
)  # fmt: skip

#: What is drawn of the combinations of a test's parameters, one in so many, where ``--zyx-shares`` asks for a share. It
#: is of tests about kernels: nearly all of their time is that of drivers' compilers, once for each combination.
SHARE: Final = 4
#: In how many turns a test goes over what it has in hand, at least as many cases: so that a share of them can be drawn.
TURNS: Final = 4
