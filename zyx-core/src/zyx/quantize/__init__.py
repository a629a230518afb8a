"""Weights that stay packed: a few bits a number in blocks with scales, which kernels unpack where they compute.

    q = zyx.quantize.quantize(w, "Q4_1")        w: (n_out, n_in); 20 bytes for 32 numbers
    y = zyx.quantize.matmul(x, q)               x @ w.T, nearly
    zyx.quantize.take(q, tokens)                rows
    q.dequantize()                              the numbers again

`zyx.nn.functional.linear` and `embedding` take them as weights, `zyx.nn.quantize` packs those of a module, and
`zyx.io.load_gguf` reads them. Start reading at `zyx.quantize.layouts`.
"""

from zyx.quantize.encode import quantize
from zyx.quantize.layouts import GGUF, NAMES, Layout, layout_for
from zyx.quantize.packed import QuantizedTensor, matmul, take

__all__ = ["GGUF", "NAMES", "Layout", "QuantizedTensor", "layout_for", "matmul", "quantize", "take"]
