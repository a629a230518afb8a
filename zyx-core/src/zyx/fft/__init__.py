"""Discrete Fourier transforms, by the names of the Array API and of NumPy, and short-time ones by PyTorch's.

complex_transforms    of complex and real numbers along one axis or several
frequencies           which frequency an element belongs to, and their order
short_time            of windows that move along a signal
transform             what these are made of: pairs of reals, of any length along one axis
tables                roots of unity, kept on the device
"""

from zyx.fft import complex_transforms, frequencies, short_time
from zyx.fft.complex_transforms import *
from zyx.fft.frequencies import *
from zyx.fft.short_time import *
from zyx.functions import take_habits

__all__: list[str] = []
__all__ += complex_transforms.__all__
__all__ += frequencies.__all__
__all__ += short_time.__all__

take_habits(globals(), __all__)
