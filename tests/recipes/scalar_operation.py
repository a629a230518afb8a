"""Softsign, ``x / (1 + |x|)``, is an operation: its values, its slopes, and its formula on a device without it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import zyx
from zyx import dtype as dtypes
from zyx.backend.info import full_capability
from zyx.functions.transcendental import _float_unary
from zyx.kernel.parse import parse_kernel
from zyx.kernel.run import run
from zyx.ops import UnaryOp, unary_ops
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.testing.paper import paper_info

x = np.linspace(-9, 9, 64, dtype=np.float32)
wanted = x / (1 + np.abs(x))


def softsign(tensor):
    return _float_unary(UnaryOp.SOFTSIGN, tensor)


with zyx.settings(devices={"default": "interpreter"}):
    np.testing.assert_allclose(softsign(zyx.Tensor(x)).numpy(), wanted, rtol=1e-6)
    slopes = zyx.grad(lambda tensor: softsign(tensor).sum())(zyx.Tensor(x)).numpy()
np.testing.assert_allclose(slopes, 1 / (1 + np.abs(x)) ** 2, rtol=1e-5)

capabilities = {dtype: full_capability(dtype) for dtype in dtypes.ALL}
capabilities[zyx.float32] = replace(capabilities[zyx.float32], unary=unary_ops(zyx.float32) - {UnaryOp.SOFTSIGN})
kernel = parse_kernel("""
    kernel alone
    %o = global f32[64]
    %x = global f32[64] readonly
    %i = group 0 < 64 : i64
    %v = load %x[%i] : f32
    %r = softsign %v : f32
    store %o[%i] = %r
""")
written = run_passes(kernel, standard_passes(paper_info("without it", capabilities=capabilities)))
assert "softsign" not in str(written)
found = np.zeros_like(x)
run(written, [found, x])
np.testing.assert_allclose(found, wanted, rtol=1e-6)
