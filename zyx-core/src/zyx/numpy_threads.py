"""Import NumPy so that the threads of its BLAS sleep when they have nothing to do.

OpenBLAS, which NumPy's wheels bring, starts a thread for each core when it is loaded. A thread without work spins for
2**28 clock cycles, about 0.1 s, before it sleeps; so after the import, and after every product of matrices, the cores
are taken from whatever comes next, such as kernels on the CPU. 2**20 cycles, about 0.4 ms, are enough to be awake still
when one product follows another: a loop over products is as fast, and the first one after a pause takes 0.1 ms longer.

The variable that says so is there while NumPy is imported, and gone when that is done. A program that has set it, or
has imported NumPy before, is left alone.
"""

from __future__ import annotations

import os
import sys
from typing import Final

_VARIABLE: Final = "OPENBLAS_THREAD_TIMEOUT"
_LOG2_CYCLES: Final = "20"

if "numpy" not in sys.modules and _VARIABLE not in os.environ:
    os.environ[_VARIABLE] = _LOG2_CYCLES
    try:
        import numpy as np  # noqa: F401  # for its effect
    finally:
        del os.environ[_VARIABLE]
