"""Recognise nests that a vendor's library computes in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.backend.library import Convolution, Gemm
from zyx.libraries.convolution import match_convolution
from zyx.libraries.product import match_gemm

if TYPE_CHECKING:
    from zyx.nest.data import Nest
    from zyx.nest.expr import Param

#: The problems that nests are: attention is several.
OF_NESTS: Final = frozenset({Gemm, Convolution})


def match_problem(nest: Nest) -> tuple[Gemm | Convolution, tuple[Param, ...]] | None:
    """Return what a library may compute in place of `nest`, with its params in the library's order, if it is that."""
    return match_gemm(nest) or match_convolution(nest)
