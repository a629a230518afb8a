"""Transforms of windows that move along a signal, by PyTorch's names.

    frame t of a signal    x[t * hop_length : t * hop_length + n_fft] * window
    stft                   [frequency, t]: the transform of frame t
    istft                  the sum of the frames, each times the window once more, over the sum of the squared windows

The latter is the signal that is nearest to the frames by least squares: Griffin and Lim, "Signal estimation from
modified short-time Fourier transform", IEEE Trans. ASSP-32 (1984), equation 6. A window of less than `n_fft` elements
has zeros on both sides of it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from zyx.errors import DTypeError, ShapeError
from zyx.fft.arguments import floating
from zyx.fft.complex_transforms import fft, ifft, irfft, rfft
from zyx.functions.choosing import where
from zyx.functions.complex_numbers import view_as_real
from zyx.functions.joining import pad
from zyx.functions.movement import moveaxis, windows
from zyx.functions.operands import term_of, wrap
from zyx.integers import as_index

if TYPE_CHECKING:
    from zyx.fft.arguments import Norm
    from zyx.functions import Tensor

__all__ = ["istft", "stft"]

#: Below this sum of squared windows nothing is known of an element; PyTorch's number.
_LEAST_ENVELOPE: Final = 1e-11


def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
) -> Tensor:
    """Return the transforms of the windows that move along a signal.

    Args:
        input: Signals ``(n,)`` or ``(batch, n)``, real or complex.
        n_fft: Elements of a frame.
        hop_length: From one frame to the next; ``n_fft // 4`` unless given.
        win_length: Elements of the window, at most `n_fft`, which is the default.
        window: ``(win_length,)``; ones unless given.
        center: Whether frame t has element ``t * hop_length`` in its middle, which puts ``n_fft // 2`` elements on both
            sides of the signal.
        pad_mode: What these are, by the names of `zyx.pad`.
        normalized: Whether transforms are divided by the square root of `n_fft`.
        onesided: Whether there are the first ``n_fft // 2 + 1`` frequencies alone; the others are conjugates of these.
            Unless given, where the signal and the window are real.
        return_complex: False gives real and imaginary parts along one more axis, the last; else numbers are complex.

    Returns:
        ``(frequencies, frames)`` or ``(batch, frequencies, frames)``, in the dtypes of `fft`.

    Raises:
        ShapeError: Another rank, a length out of range, no whole frame, a window of another shape, or a `pad_mode`
            that is unknown or does not fit.
        DTypeError: Integers or bools; or `onesided` of complex numbers.

    >>> zyx.stft(zyx.ones(16), 8, window=zyx.ones(8), return_complex=True).shape
    (5, 9)
    """
    signal = wrap(floating(input, "stft").node, input)
    if signal.ndim not in (1, 2):
        raise ShapeError(f"stft: input has shape {signal.shape}; expected (n,) or (batch, n)")
    size, hop, used = _lengths(n_fft, hop_length, win_length, "stft")
    factors = _window(window, signal, size, used, "stft")
    is_complex = signal.dtype.is_complex or factors.dtype.is_complex
    if is_complex and onesided:
        raise DTypeError("stft: onesided = True, and input or window is complex; expected real ones, or onesided=False")
    if center:
        signal = _behind(signal, size // 2, size // 2, pad_mode)
    if signal.shape[-1] < size:
        raise ShapeError(f"stft: n_fft = {size} for a signal of {signal.shape[-1]} elements; expected at most as many")
    frames = windows(signal, (size,), hop) * factors
    norm: Norm = "ortho" if normalized else "backward"
    is_half = not is_complex if onesided is None else onesided
    found = (rfft(frames, norm=norm) if is_half else fft(frames, norm=norm)).mT
    return view_as_real(found) if return_complex is False else found


def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """Return the signals whose transforms, by `stft` with the same arguments, are nearest to `input`.

    Elements that no window knows of, since the sum of the squared ones is below 1e-11 there, are NaN. PyTorch refuses
    these, for which the values of the window have to be known first.

    Args:
        input: ``(frequencies, frames)`` or ``(batch, frequencies, frames)``, complex.
        n_fft: Elements of a frame.
        hop_length: From one frame to the next; ``n_fft // 4`` unless given.
        win_length: Elements of the window, at most `n_fft`, which is the default.
        window: ``(win_length,)``; ones unless given.
        center: Whether frame t has element ``t * hop_length`` in its middle; ``n_fft // 2`` elements in front of the
            signal are left out, and behind it, too, unless there is `length`.
        normalized: Whether transforms were divided by the square root of `n_fft`.
        onesided: Whether there are ``n_fft // 2 + 1`` frequencies; unless given, whether there are less than `n_fft`.
        length: Elements of the signal, which ends in zeros where there are no frames.
        return_complex: Whether the signal is complex, of all frequencies; else the first half of them is taken alone.

    Raises:
        ShapeError: Another rank, a length out of range, another number of frequencies, a window of another shape, or
            `hop_length` above `win_length`, so that windows leave elements out.
        DTypeError: `input` is not complex; or a signal is complex as well as `onesided`, or its window is and the
            signal is not to be.

    >>> window = zyx.hann_window(8)
    >>> spectrum = zyx.stft(zyx.ones(16), 8, window=window, return_complex=True)
    >>> zyx.istft(spectrum, 8, window=window).shape
    (16,)
    """
    term = term_of(input, "istft")
    if not term.dtype.is_complex:
        raise DTypeError(f"istft: input is {term.dtype}; expected complex numbers, see zyx.view_as_complex")
    if len(term.shape) not in (2, 3) or not term.shape[-1]:
        raise ShapeError(
            f"istft: input has shape {term.shape}; expected (frequencies, frames) or (batch, frequencies, frames), "
            "and at least one frame"
        )
    size, hop, used = _lengths(n_fft, hop_length, win_length, "istft")
    if hop > used:
        raise ShapeError(f"istft: hop_length = {hop} and win_length = {used}; expected windows without gaps")
    is_half = term.shape[-2] != size if onesided is None else onesided
    expected = size // 2 + 1 if is_half else size
    if term.shape[-2] != expected:
        raise ShapeError(f"istft: input has {term.shape[-2]} frequencies; expected {expected} for n_fft = {size}")
    factors = _window(window, input.real, size, used, "istft")
    if return_complex and is_half:
        raise DTypeError("istft: return_complex = True and onesided; half of the frequencies are of a real signal")
    if factors.dtype.is_complex and not return_complex:
        raise DTypeError(f"istft: window is {factors.dtype}; expected a real one, or return_complex=True")
    count = term.shape[-1]
    whole, start = size + hop * (count - 1), size // 2 if center else 0
    wanted = whole - 2 * start if length is None else as_index(length, "length")
    if wanted < 1:
        said = f"length = {length}; expected at least 1" if length is not None else "no elements are left; give length"
        raise ShapeError(f"istft: {count} frames of n_fft = {size}, {said}")
    turned = wrap(term.node, input).mT
    norm: Norm = "ortho" if normalized else "backward"
    frames = ifft(turned, norm=norm) if return_complex else irfft(turned, n=size, norm=norm)
    stop = min(whole, start + wanted)
    total = _added(frames * factors, hop, start, stop)
    sums = _added((factors * factors).reshape(1, size).expand(count, size), hop, start, stop)
    quotient = where(abs(sums) < _LEAST_ENVELOPE, math.nan, total / sums)
    return _behind(quotient, 0, wanted - (stop - start), "constant")


def _lengths(n_fft: int, hop_length: int | None, win_length: int | None, what: str) -> tuple[int, int, int]:
    """Return the lengths of a frame, from one to the next, and of the window.

    Raises:
        ShapeError: One is less than 1, or the window is longer than a frame.
    """
    size = as_index(n_fft, "n_fft")
    if size < 1:
        raise ShapeError(f"{what}: n_fft = {size}; expected at least 1")
    hop = size // 4 if hop_length is None else as_index(hop_length, "hop_length")
    if hop < 1:
        raise ShapeError(f"{what}: hop_length = {hop}; expected at least 1")
    used = size if win_length is None else as_index(win_length, "win_length")
    if not 1 <= used <= size:
        raise ShapeError(f"{what}: win_length = {used}; expected 1 to n_fft, which is {size}")
    return size, hop, used


def _window(window: Tensor | None, like: Tensor, size: int, used: int, what: str) -> Tensor:
    """Return the window with zeros on both sides, ``(size,)``; without one, ones as `like` has them.

    Raises:
        ShapeError: It is not ``(used,)``.
        DTypeError: It is no tensor, or one of integers or bools.
    """
    if window is None:
        graph, dtype = like.runtime.graph, like.dtype.part if like.dtype.is_complex else like.dtype
        found = wrap(graph.const(1.0, dtype, like.node.device, (used,)), like)
    else:
        found = wrap(floating(window, f"{what}, window").node, window)
    if found.shape != (used,):
        raise ShapeError(f"{what}: window has shape {found.shape}; expected ({used},), as win_length says")
    before = (size - used) // 2
    return _behind(found, before, size - used - before, "constant")


def _behind(x: Tensor, before: int, after: int, mode: str) -> Tensor:
    """Return `x` with so many elements more in front of its last axis, and behind it."""
    return pad(x, [*[(0, 0)] * (x.ndim - 1), (before, after)], mode)


def _added(frames: Tensor, hop: int, start: int, stop: int) -> Tensor:
    """Return the elements `start` to `stop` of the sum of frames ``(.., count, n)`` that begin `hop` after another.

    Frames are rows of pieces of `hop` elements. Piece j of the sum is that of piece k of frame ``j - k`` over all k:
    with the frames as columns, and row k moved k places to the right, of the columns.
    """
    *outer, count, size = frames.shape
    pieces = -(-size // hop)
    cut = _behind(frames, 0, pieces * hop - size, "constant").reshape(*outer, count, pieces, hop)
    rows = moveaxis(cut, -2, -3)  # piece, frame, element
    rows = pad(rows, [*[(0, 0)] * (len(outer) + 1), (0, pieces), (0, 0)]).reshape(
        *outer, pieces * (count + pieces), hop
    )
    rows = rows[..., : pieces * (count + pieces - 1), :].reshape(*outer, pieces, count + pieces - 1, hop)
    return rows.sum(-3).reshape(*outer, (count + pieces - 1) * hop)[..., start:stop]
