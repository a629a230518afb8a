"""Linear algebra: the functions of the Array API's extension, and some that programs for NumPy, SciPy and PyTorch use.

    q, r = zyx.linalg.qr(x)
    w, v = zyx.linalg.eigh(x @ x.mT)
    x = zyx.linalg.solve(a, b)

Matrices are the last two axes; whatever is in front is a batch. All are lazy, work in functions of `zyx.jit`, and have
gradients of any order, of complex matrices as `zyx.grad` has them; ``a^H`` is the adjoint of a, the conjugate of its
transpose. Products and norms are computed on the device. Decompositions and what needs one are computed by the host, by
NumPy's LAPACK in its dtypes, float32, float64, complex64 and complex128: their inputs are copied to the host, and the
results to the device, which a plan shows (``ZYX_DEBUG=plan``), and ``zyx profile`` as bound by the host. What LAPACK
refuses, such as the inverse of a singular matrix, is a `zyx.errors.LinAlgError` when the values are read.
"""

from zyx.errors import LinAlgError
from zyx.functions import take_habits
from zyx.linalg import decompositions, determinants, eigenvalues, general, least_squares, norms, products, solving
from zyx.linalg.decompositions import *
from zyx.linalg.determinants import *
from zyx.linalg.eigenvalues import *
from zyx.linalg.general import *
from zyx.linalg.least_squares import *
from zyx.linalg.norms import *
from zyx.linalg.products import *
from zyx.linalg.solving import *

__all__: list[str] = ["LinAlgError"]
__all__ += decompositions.__all__
__all__ += determinants.__all__
__all__ += eigenvalues.__all__
__all__ += general.__all__
__all__ += least_squares.__all__
__all__ += norms.__all__
__all__ += products.__all__
__all__ += solving.__all__

take_habits(globals(), __all__)
