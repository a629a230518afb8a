"""Check the record of a device, field by field: what others compute with must be of the right type and size.

A device whose rate is no number could not be listed beside others, and one that claims more than any machine has would
be taken before them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, Final

from zyx.backend.info import Capability, DeviceInfo, TileUnit
from zyx.dtype import DType
from zyx.plugins.words import shown

if TYPE_CHECKING:
    from collections.abc import Callable

#: More operations or bytes a second than any machine has.
_TOO_FAST: Final = 1e21


def fault_of_info(info: object) -> str:
    """Return what is wrong with what a device has for `info`; empty if nothing is."""
    if not isinstance(info, DeviceInfo):
        return f"it is {shown(info)}, not a DeviceInfo"
    for field, (is_right, wanted) in _RULES.items():
        value = getattr(info, field)
        if not is_right(value):
            return f"its {field} is {shown(value)}, not {wanted}"
    return ""


def _is_whole(value: object, least: int) -> bool:
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= least


def _is_rate(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    return math.isfinite(float(value)) and 0 <= float(value) <= _TOO_FAST


def _are_whole(value: object, least: int, fewest: int) -> bool:
    return isinstance(value, tuple) and len(value) >= fewest and all(_is_whole(each, least) for each in value)


def _are_capabilities(value: object) -> bool:
    return (
        isinstance(value, Mapping)
        and bool(value)
        and all(isinstance(dtype, DType) and isinstance(each, Capability) for dtype, each in value.items())
    )


def _are_products(value: object) -> bool:
    return isinstance(value, tuple) and all(
        isinstance(each, tuple) and len(each) == 2 and _are_whole(each[0], 1, 3) and isinstance(each[1], DType)
        for each in value
    )


def _are_tiles(value: object) -> bool:
    if value is None:
        return True
    return isinstance(value, TileUnit) and all(
        _is_whole(each, least) for each, least in ((value.rows, 1), (value.columns, 1), (value.most_buffers, 2))
    )


_TEXT: Final = (lambda value: isinstance(value, str), "a text")
_RATE: Final = (_is_rate, f"a number from 0 to {_TOO_FAST:g}")
_COUNT: Final = (lambda value: _is_whole(value, 0), "a whole number from 0 on")
_POSITIVE: Final = (lambda value: _is_whole(value, 1), "a whole number from 1 on")
_SIZES: Final = (lambda value: _are_whole(value, 1, 1), "a tuple of whole numbers from 1 on")
_FLAG: Final = (lambda value: isinstance(value, bool), "True or False")

_RULES: Final[dict[str, tuple[Callable[[object], bool], str]]] = {
    "model": _TEXT,
    "driver": _TEXT,
    "capabilities": (_are_capabilities, "a mapping from DType to Capability with an entry"),
    "flops_per_s": _RATE,
    "bytes_per_s": _RATE,
    "units": _POSITIVE,
    "max_groups": _SIZES,
    "max_group_threads": _POSITIVE,
    "max_group_shape": _SIZES,
    "warp_size": _POSITIVE,
    "subgroup_size": _COUNT,
    "swaps": (
        lambda value: isinstance(value, frozenset | set) and all(isinstance(each, DType) for each in value),
        "a set of DType",
    ),
    "vector_bytes": _COUNT,
    "registers": _COUNT,
    "local_bytes": _COUNT,
    "private_bytes": _COUNT,
    "cache_bytes": (lambda value: _are_whole(value, 0, 0), "a tuple of whole numbers from 0 on"),
    "max_params": _POSITIVE,
    "max_buffer_bytes": _POSITIVE,
    "has_shuffle": _FLAG,
    "has_fma": _FLAG,
    "has_streaming": _FLAG,
    "has_byte_products": _FLAG,
    "meets_in_branches": _FLAG,
    "wmma": (_are_products, "a tuple of three dimensions and a DType each"),
    "tiles": (_are_tiles, "None, or TileUnit of whole numbers from 1 on with 2 buffers at least"),
    "rates": (lambda value: value is None, "None, which it is until somebody calibrates the device"),
}
