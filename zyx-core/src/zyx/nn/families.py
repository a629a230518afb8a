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


def by_rank(
    base: type[Layer],
    name: str,
    doc: str,
    ranks: tuple[int, ...] = (1, 2, 3),
    **attributes: Any,  # noqa: ANN401
) -> Iterator[type[Layer]]:
    """Return a subclass of `base` for each number of axes, its `ndim`; `name` and `doc` have a gap for that."""
    return (derived(base, name.format(n), doc.format(AXES[n]), ndim=n, **attributes) for n in ranks)
