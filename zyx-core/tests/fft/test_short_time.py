"""Short-time transforms against formulas with NumPy, there and back, and what they refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

import zyx
from zyx import fft
from zyx.errors import DTypeError, ShapeError

if TYPE_CHECKING:
    from zyx.runtime.runtime import Runtime

_GENERATOR = np.random.default_rng(7)
SIGNALS = _GENERATOR.standard_normal((2, 50))
WINDOW = _GENERATOR.random(9) + 0.5
MODES = {"reflect": "reflect", "constant": "constant", "replicate": "edge", "circular": "wrap"}


def frames_of(x: npt.NDArray[Any], window: npt.NDArray[Any], size: int, hop: int, mode: str | None) -> npt.NDArray[Any]:
    """Return ``(.., frames, size)``; `mode` is what NumPy puts around a signal, if anything is."""
    if mode is not None:
        x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(size // 2, size // 2)], mode)  # type: ignore[call-overload]  # a str
    factors = np.zeros(size, window.dtype)
    before = (size - len(window)) // 2
    factors[before : before + len(window)] = window
    starts = range(0, x.shape[-1] - size + 1, hop)
    return np.stack([x[..., start : start + size] for start in starts], -2) * factors


@pytest.mark.parametrize("mode", [None, *MODES])
def test_a_transform_is_that_of_each_window(interpreter: Runtime, mode: str | None) -> None:
    options: dict[str, Any] = {"center": False} if mode is None else {"pad_mode": mode}
    for size, hop, used in ((12, 5, 9), (9, 3, 9), (16, 1, 9)):
        frames = frames_of(SIGNALS, WINDOW, size, hop, None if mode is None else MODES[mode])
        found = fft.stft(zyx.Tensor(SIGNALS), size, hop, used, zyx.Tensor(WINDOW), **options)
        assert found.dtype is zyx.complex128
        np.testing.assert_allclose(found.numpy(), np.fft.rfft(frames).swapaxes(-1, -2), rtol=0, atol=1e-12)


def test_options_of_a_transform(interpreter: Runtime) -> None:
    x = SIGNALS[0]
    frames = frames_of(x, np.ones(8), 8, 2, "reflect")
    both = np.fft.fft(frames, norm="ortho").T
    found = fft.stft(zyx.Tensor(x), 8, normalized=True, onesided=False)
    np.testing.assert_allclose(found.numpy(), both, rtol=0, atol=1e-12)
    parts = fft.stft(zyx.Tensor(x), 8, normalized=True, return_complex=False)
    np.testing.assert_allclose(parts.numpy(), np.stack((both[:5].real, both[:5].imag), -1), rtol=0, atol=1e-12)
    turned = WINDOW * np.exp(1j * np.arange(9))
    for signal, window in ((x + 1j * SIGNALS[1], WINDOW), (x, turned)):
        wanted = np.fft.fft(frames_of(signal, window, 9, 2, "reflect")).T
        found = fft.stft(zyx.Tensor(signal), 9, window=zyx.Tensor(window))
        np.testing.assert_allclose(found.numpy(), wanted, rtol=0, atol=1e-12)
    assert fft.stft(zyx.Tensor(x.astype(np.float32)), 8).dtype is zyx.complex64
    assert zyx.stft is fft.stft
    assert zyx.istft is fft.istft


@pytest.mark.parametrize("shape", [(50,), (2, 50)])
@pytest.mark.parametrize("normalized", [False, True])
def test_signals_come_back(interpreter: Runtime, shape: tuple[int, ...], normalized: bool) -> None:
    x = SIGNALS.reshape(-1)[: int(np.prod(shape))].reshape(shape)
    for size, hop, used in ((12, 5, 9), (9, 9, 9), (16, 1, 9), (8, 3, 8)):
        window = zyx.Tensor(WINDOW[:used])
        shared: dict[str, Any] = {"window": window, "center": size != 9, "normalized": normalized}
        for onesided in (True, False):
            found = fft.stft(zyx.Tensor(x), size, hop, used, onesided=onesided, **shared)
            back = fft.istft(found, size, hop, used, **shared)
            assert back.shape[-1] <= 50
            np.testing.assert_allclose(back.numpy(), x[..., : back.shape[-1]], rtol=0, atol=1e-12)
    turned = x + 1j * x[..., ::-1]
    back = fft.istft(fft.stft(zyx.Tensor(turned), 8), 8, return_complex=True, length=50)
    np.testing.assert_allclose(back.numpy()[..., :48], turned[..., :48], rtol=0, atol=1e-12)


def test_an_inverse_is_nearest_by_least_squares(interpreter: Runtime) -> None:
    size, hop, count = 8, 3, 5
    spectra = _GENERATOR.standard_normal((5, count)) + 1j * _GENERATOR.standard_normal((5, count))
    frames = np.fft.irfft(spectra.T, n=size) * WINDOW[:8]
    total, squares = np.zeros(size + hop * (count - 1)), np.zeros(size + hop * (count - 1))
    for place in range(count):
        total[place * hop : place * hop + size] += frames[place]
        squares[place * hop : place * hop + size] += WINDOW[:8] ** 2
    wanted = total / squares
    given: dict[str, Any] = {"hop_length": hop, "window": zyx.Tensor(WINDOW[:8])}
    for options, expected in (
        ({}, wanted[4:-4]),
        ({"length": 6}, wanted[4:10]),
        ({"length": 20}, np.concatenate((wanted[4:], np.zeros(4)))),
        ({"center": False}, wanted),
        ({"center": False, "length": 7}, wanted[:7]),
    ):
        found = fft.istft(zyx.Tensor(spectra), size, **given, **options)
        np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-12)


def test_what_no_window_knows_of_is_no_number(interpreter: Runtime) -> None:
    window = np.array([0.0, 1.0, 2.0, 1.0])
    found = fft.stft(zyx.Tensor(SIGNALS[0]), 4, 2, window=zyx.Tensor(window), center=False)
    back = fft.istft(found, 4, 2, window=zyx.Tensor(window), center=False).numpy()
    assert np.isnan(back[0])
    np.testing.assert_allclose(back[1:], SIGNALS[0, 1:], rtol=0, atol=1e-12)


def test_gradients_and_traces(interpreter: Runtime) -> None:
    def loss(x: zyx.Tensor) -> zyx.Tensor:
        return fft.istft(fft.stft(x, 8, 3) * 2.0, 8, 3, length=20).square().sum()

    x = SIGNALS[0, :20].copy()
    np.testing.assert_allclose(zyx.grad(loss)(zyx.Tensor(x)).numpy(), 8.0 * x, rtol=0, atol=1e-12)
    traced = zyx.jit(loss)
    for signal in (x, 3.0 * x):
        assert traced(zyx.Tensor(signal)).item() == pytest.approx(4.0 * (signal**2).sum())


REFUSED: list[tuple[str, tuple[int, ...], dict[str, Any], type[Exception], str]] = [
    ("stft", (2, 2, 9), {}, ShapeError, r"input has shape \(2, 2, 9\)"),
    ("stft", (9,), {"n_fft": 0}, ShapeError, "n_fft = 0; expected at least 1"),
    ("stft", (9,), {"n_fft": 3}, ShapeError, "hop_length = 0"),
    ("stft", (9,), {"win_length": 9}, ShapeError, "win_length = 9; expected 1 to n_fft, which is 8"),
    ("stft", (9,), {"win_length": 7, "window": zyx.ones}, ShapeError, r"window has shape \(8,\); expected \(7,\)"),
    ("stft", (7,), {"center": False}, ShapeError, "n_fft = 8 for a signal of 7 elements"),
    ("stft", (9,), {"pad_mode": "none"}, ShapeError, "pad: mode is"),
    ("istft", (5,), {}, ShapeError, r"input has shape \(5,\)"),
    ("istft", (4, 3), {}, ShapeError, "input has 4 frequencies; expected 5 for n_fft = 8"),
    ("istft", (5, 3), {"onesided": False}, ShapeError, "input has 5 frequencies; expected 8"),
    ("istft", (5, 3), {"hop_length": 6, "win_length": 5}, ShapeError, "hop_length = 6 and win_length = 5"),
    ("istft", (5, 3), {"length": 0}, ShapeError, "length = 0; expected at least 1"),
    ("istft", (5, 1), {}, ShapeError, "1 frames of n_fft = 8, no elements are left; give length"),
    ("istft", (5, 3), {"return_complex": True}, DTypeError, "return_complex = True and onesided"),
]


@pytest.mark.parametrize(("name", "shape", "options", "error", "said"), REFUSED, ids=lambda x: str(x)[:20])
def test_wrong_arguments_are_named(
    interpreter: Runtime, name: str, shape: tuple[int, ...], options: dict[str, Any], error: type[Exception], said: str
) -> None:
    x = zyx.ones(shape, zyx.complex64 if name == "istft" else zyx.float32)
    options = {"n_fft": 8, **options}
    if "window" in options:
        options["window"] = options["window"](8)
    with pytest.raises(error, match=said):
        getattr(fft, name)(x, **options)


def test_wrong_types_are_named(interpreter: Runtime) -> None:
    whole, turned = zyx.ones((9,), zyx.int32), zyx.ones((9,), zyx.complex64)
    with pytest.raises(DTypeError, match="stft: x is int32"):
        fft.stft(whole, 4)
    with pytest.raises(DTypeError, match="stft, window: x is int32"):
        fft.stft(turned, 9, window=whole)
    with pytest.raises(DTypeError, match="stft: onesided = True, and input or window is complex"):
        fft.stft(turned, 4, onesided=True)
    with pytest.raises(DTypeError, match="istft: input is float32; expected complex numbers"):
        fft.istft(zyx.ones((3, 3)), 4)
    with pytest.raises(DTypeError, match="istft: window is complex64"):
        fft.istft(zyx.ones((9, 3), zyx.complex64), 9, window=turned)
