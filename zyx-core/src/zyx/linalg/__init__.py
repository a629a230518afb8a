"""Linear algebra: the functions of the Array API's extension, and some that programs for NumPy, SciPy and PyTorch use.

    q, r = zyx.linalg.qr(x)
    w, v = zyx.linalg.eigh(x @ x.mT)
    x = zyx.linalg.solve(a, b)

Matrices are the last two axes; whatever is in front is a batch. All are lazy, work in functions of `zyx.jit`, and have
gradients of any order, of complex matrices as `zyx.grad` has them; ``a^H`` is the adjoint of a, the conjugate of its
transpose. Products and norms are computed on the device. Decompositions and what needs one are computed by the host, by
NumPy's LAPACK in its dtypes, float32, float64, complex64 and complex128: their inputs are copied to the host, and the
results to the device, which a plan shows (``ZYX_DEBUG=plan``), and ``zyx explain`` as bound by the host. What LAPACK
refuses, such as the inverse of a singular matrix, is a `zyx.errors.LinAlgError` when the values are read.
"""

from zyx.linalg.decompositions import LUResult, QRResult, SVDResult, cholesky, lu, qr, svd, svdvals
from zyx.linalg.determinants import SlogdetResult, det, slogdet
from zyx.linalg.eigenvalues import EighResult, EigResult, eig, eigh, eigvals, eigvalsh
from zyx.linalg.least_squares import LstsqResult, lstsq, matrix_rank, pinv
from zyx.linalg.norms import matrix_norm, vector_norm
from zyx.linalg.products import (
    cross,
    diagonal,
    expm,
    matmul,
    matrix_power,
    matrix_transpose,
    outer,
    tensordot,
    trace,
    vecdot,
)
from zyx.linalg.solving import cholesky_solve, inv, solve, solve_triangular

__all__ = [
    "EigResult",
    "EighResult",
    "LUResult",
    "LstsqResult",
    "QRResult",
    "SVDResult",
    "SlogdetResult",
    "cholesky",
    "cholesky_solve",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "expm",
    "inv",
    "lstsq",
    "lu",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]
