"""Discrete Fourier transforms, by the names of the Array API and of NumPy, and short-time ones by PyTorch's.

complex_transforms    of complex and real numbers along one axis or several
frequencies           which frequency an element belongs to, and their order
short_time            of windows that move along a signal
transform             what these are made of: pairs of reals, of any length along one axis
tables                roots of unity, kept on the device
"""

from zyx.fft.complex_transforms import (
    fft,
    fft2,
    fftn,
    hfft,
    ifft,
    ifft2,
    ifftn,
    ihfft,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftn,
)
from zyx.fft.frequencies import fftfreq, fftshift, ifftshift, rfftfreq
from zyx.fft.short_time import istft, stft

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "istft",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
    "stft",
]
