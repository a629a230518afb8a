"""A device that has powers of two, and no exponential function, gets it as one of these."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import zyx
from zyx import dtype as dtypes
from zyx.backend.info import full_capability
from zyx.kernel.parse import parse_kernel
from zyx.kernel.run import run
from zyx.ops import UnaryOp, unary_ops
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.testing.paper import paper_info

x = np.linspace(-9, 9, 64, dtype=np.float32)
kernel = parse_kernel("""
    kernel power
    %o = global f32[64]
    %x = global f32[64] readonly
    %i = group 0 < 64 : i64
    %v = load %x[%i] : f32
    %r = exp %v : f32
    store %o[%i] = %r
""")
capabilities = {dtype: full_capability(dtype) for dtype in dtypes.ALL}
capabilities[zyx.float32] = replace(capabilities[zyx.float32], unary=unary_ops(zyx.float32) - {UnaryOp.EXP})
written = run_passes(kernel, standard_passes(paper_info("with exp2", capabilities=capabilities)))
assert "= exp2 " in str(written), written
found = np.zeros_like(x)
run(written, [found, x])
np.testing.assert_allclose(found, np.exp(x), rtol=1e-5)
