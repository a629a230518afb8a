"""Layers that differ by a number or two, as classes of their own: pickles, texts and documents have their names.

LPPool1d, LPPool2d, LPPool3d = by_rank(_LPPool, "LPPool{}d", "The p-norm of each window over the last {}.")
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from zyx.nn.module import Module

if TYPE_CHECKING:
    from collections.abc import Iterator

Layer = TypeVar("Layer", bound=Module)

#: What the last axes are called, by their number.
AXES: Final = {1: "axis", 2: "two axes", 3: "three axes"}


def derived(base: type[Layer], name: str, doc: str, **attributes: Any) -> type[Layer]:  # noqa: ANN401
    """Return a subclass of `base`, in its module, with a name, a docstring and attributes."""
    own = {"__module__": base.__module__, "__qualname__": name, "__doc__": doc, **attributes}
    return cast("type[Layer]", types.new_class(name, (base,), exec_body=lambda body: body.update(own)))


class _Sizes:
    """In a docstring ``{shape:8}`` is the shape of one picture of 3 channels, 8 elements along each of its axes."""

    def __init__(self, ndim: int) -> None:
        self.ndim = ndim

    def __format__(self, size: str) -> str:
        return str((1, 3, *[int(size)] * self.ndim))


def by_rank(
    base: type[Layer],
    name: str,
    doc: str,
    ranks: tuple[int, ...] = (1, 2, 3),
    **attributes: Any,  # noqa: ANN401
) -> Iterator[type[Layer]]:
    """Return a subclass of `base` for each number of axes, its `ndim`; `name` and `doc` have a gap for that.

    In `doc`, ``{name}`` is that of the class, and ``{shape:8}`` a shape of such inputs; see `_Sizes`.
    """
    for n in ranks:
        own = name.format(n)
        yield derived(base, own, doc.format(AXES[n], name=own, shape=_Sizes(n)), ndim=n, **attributes)
