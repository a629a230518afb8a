"""Numbers of 8 bits, which some files hold and zyx has no dtype for: they are read as float32, which has all of them.

What lies in the file, and is moved to the device, are the codes, a byte each; a table of 256 numbers says what they
stand for when the values are computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np

from zyx.functions.selection import take
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping

#: By their names in safetensors files.
FLOATS8: Final[Mapping[str, type[Any]]] = {
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "F8_E8M0": ml_dtypes.float8_e8m0fnu,
}


def decoded(codes: Tensor, kind: str) -> Tensor:
    """Return the numbers that codes stand for, float32, of the shape of `codes`, which are uint8."""
    with np.errstate(invalid="ignore"):  # some of the codes are no numbers
        table = np.arange(256, dtype=np.uint8).view(FLOATS8[kind]).astype(np.float32)
    return take(Tensor(table, device=codes.device), codes, axis=0)
