"""Call SciPy's functions that take arrays by the Array API with tensors, and with NumPy's arrays, and compare.

    SCIPY_ARRAY_API=1 python tests/scipy_calls.py

SciPy reads the variable as it is imported, so this is a process of its own. Results are tensors where SciPy's are
arrays of NumPy's, and within 1e-4 of them. What SciPy cannot do with tensors is in `REFUSED`, with a part of what the
error says; a call there that becomes right is reported as well.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import fft, integrate, linalg, ndimage, optimize, signal, special, stats
from scipy.cluster import hierarchy, vq
from scipy.spatial.transform import Rotation

import zyx

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Array = np.ndarray[Any, Any]
    Call = tuple[Callable[..., Any], tuple[Array, ...], dict[str, Any]]

_RANDOM = np.random.default_rng(0)
LINE = _RANDOM.normal(size=24).astype(np.float32)
OTHER = (0.6 * LINE + _RANDOM.normal(size=24)).astype(np.float32)
ROWS = _RANDOM.normal(size=(6, 8)).astype(np.float32)
POSITIVE = _RANDOM.uniform(0.2, 3.0, 12).astype(np.float32)
SHARES = _RANDOM.uniform(0.05, 0.95, 12).astype(np.float32)
WHOLE = np.arange(1, 13).astype(np.float32)
COMPLEX = (ROWS[:3] + 1j * ROWS[3:]).astype(np.complex64)
TAPS = np.array([0.2, 0.5, 0.3], np.float32)
POLES = np.array([1.0, -0.4], np.float32)
SECTIONS = np.array([[0.2, 0.3, 0.1, 1.0, -0.4, 0.1], [1.0, 0.5, 0.2, 1.0, 0.2, 0.05]], np.float32)
POINTS = _RANDOM.normal(size=(20, 2)).astype(np.float32)
QUATERNIONS = _RANDOM.normal(size=(4, 4)).astype(np.float32)


def _of(module: Any, names: str, *arrays: Array, **keywords: Any) -> Iterator[tuple[str, Call]]:
    """Return the calls of several functions of a module with the same arguments."""
    for name in names.split():
        yield f"{module.__name__.removeprefix('scipy.')}.{name}", (getattr(module, name), arrays, keywords)


#: By the name of the function: it, arrays, and keywords.
CALLS: dict[str, Call] = dict(
    [
        *_of(
            special,
            "cbrt cosdg cosm1 cotdg ellipk ellipkm1 entr erf erfc erfcx erfinv exp1 exp10 exp2 expi expit exprel gamma "
            "gammaln gammasgn i0 i0e i1 i1e j0 j1 k0 k0e k1 k1e log_ndtr loggamma logit ndtr ndtri psi rgamma sinc "
            "sindg spence tandg y0 y1 zetac",
            SHARES,
        ),
        *_of(special, "log_softmax logsumexp softmax", ROWS, axis=1),
        *_of(
            special,
            "betaln binom boxcox boxcox1p chdtr chdtrc chdtri expn gammainc gammaincc huber inv_boxcox inv_boxcox1p "
            "kl_div pdtr pdtrc poch pseudo_huber rel_entr stdtr xlog1py xlogy yn",
            WHOLE,
            POSITIVE,
        ),
        *_of(special, "gammaincinv gammainccinv pdtri stdtrit", WHOLE, SHARES),
        *_of(special, "betainc betaincc betaincinv", WHOLE, POSITIVE, SHARES),
        *_of(special, "fdtr fdtrc gdtr gdtrc hyp1f1 radian", WHOLE, POSITIVE, POSITIVE),
        *_of(special, "bdtr bdtrc nbdtr nbdtrc", WHOLE - 1, WHOLE, SHARES),
        *_of(special, "zeta", WHOLE + 1, POSITIVE),
        *_of(special, "polygamma", np.array(1), POSITIVE),
        *_of(special, "multigammaln", WHOLE, d=2),
        *_of(
            stats,
            "describe entropy differential_entropy gmean hmean gstd iqr jarque_bera kurtosis kurtosistest "
            "median_abs_deviation mode moment normaltest rankdata sem skew skewtest tmax tmean tmin tsem "
            "tstd tvar variation zscore circmean circstd circvar kstat kstatvar lmoment sigmaclip",
            np.abs(LINE),
        ),
        *_of(stats, "trim_mean", LINE, proportiontocut=0.1),
        *_of(stats, "zmap pearsonr spearmanrho ttest_ind ttest_rel mannwhitneyu wilcoxon", LINE, OTHER),
        *_of(stats, "bartlett fligner levene ansari mood brunnermunzel f_oneway kruskal", LINE, OTHER),
        *_of(stats, "alexandergovern cramervonmises_2samp epps_singleton_2samp", LINE, OTHER),
        *_of(stats, "friedmanchisquare", LINE, OTHER, LINE * OTHER),
        *_of(stats, "chisquare power_divergence gzscore", POSITIVE),
        *_of(stats, "combine_pvalues false_discovery_control", SHARES),
        *_of(stats, "directional_stats", ROWS),
        *_of(stats, "ttest_1samp", LINE, popmean=0.1),
        *_of(stats, "pmean", POSITIVE, p=2),
        *_of(stats, "quantile", LINE, SHARES),
        *_of(stats, "boxcox_llf yeojohnson_llf", np.array(0.5, np.float32), POSITIVE),
        *_of(fft, "fft ifft hfft", COMPLEX),
        *_of(fft, "fft2 ifft2 fftn ifftn irfft irfft2 irfftn fftshift ifftshift", COMPLEX),
        *_of(fft, "rfft rfft2 rfftn ihfft fft", ROWS),
        *_of(fft, "dct idct dst idst dctn idctn dstn idstn", ROWS),
        *_of(fft, "fht ifht", POSITIVE, dln=0.1, mu=0.5),
        *_of(
            signal,
            "convolve correlate fftconvolve oaconvolve deconvolve",
            LINE,
            TAPS,
        ),
        *_of(signal, "convolve2d correlate2d", ROWS, ROWS[:2, :2]),
        *_of(signal, "detrend hilbert hilbert2 envelope wiener medfilt medfilt2d", ROWS),
        *_of(signal, "lfilter filtfilt", TAPS, POLES, LINE),
        *_of(signal, "lfilter_zi freqz tf2zpk tf2sos bilinear normalize freqs", TAPS, POLES),
        ("signal.group_delay", (lambda b, a: signal.group_delay((b, a)), (TAPS, POLES), {})),
        *_of(signal, "sosfilt sosfiltfilt", SECTIONS, LINE),
        *_of(signal, "sosfilt_zi sos2tf sos2zpk freqz_sos", SECTIONS),
        *_of(signal, "resample", LINE, num=17),
        *_of(signal, "resample_poly", LINE, up=3, down=2),
        *_of(signal, "savgol_filter", LINE, window_length=5, polyorder=2),
        *_of(signal, "upfirdn", TAPS, LINE),
        *_of(signal, "minimum_phase", np.array([0.1, 0.4, 0.5, 0.4, 0.1], np.float32)),
        *_of(signal, "vectorstrength", POSITIVE, np.array(0.7, np.float32)),
        *_of(signal, "cspline1d qspline1d", LINE),
        *_of(vq, "whiten", POINTS),
        *_of(vq, "vq", POINTS, POINTS[:3]),
        *_of(vq, "kmeans kmeans2", POINTS, POINTS[:3]),
        *_of(hierarchy, "linkage ward average single", POINTS),
        *_of(integrate, "trapezoid romb cumulative_trapezoid cumulative_simpson", LINE[:17]),
        *_of(linalg, "block_diag", ROWS, POINTS),
        *_of(linalg, "orthogonal_procrustes", POINTS, POINTS[:, ::-1].copy()),
        *_of(linalg, "fiedler", POSITIVE),
        *_of(optimize, "rosen rosen_der rosen_hess", POSITIVE),
        *_of(ndimage, "laplace sobel prewitt binary_erosion center_of_mass", ROWS),
        *_of(ndimage, "gaussian_filter", ROWS, sigma=1.0),
        *_of(ndimage, "median_filter uniform_filter maximum_filter", ROWS, size=3),
        *_of(ndimage, "zoom", ROWS, zoom=2.0),
        ("Rotation.as_matrix", (lambda q: Rotation.from_quat(q).as_matrix(), (QUATERNIONS,), {})),
        ("Rotation.apply", (lambda q, x: Rotation.from_quat(q).apply(x), (QUATERNIONS, ROWS[:4, :3].copy()), {})),
        ("Rotation.as_euler", (lambda q: Rotation.from_quat(q).as_euler("xyz"), (QUATERNIONS,), {})),
    ]
)  # fmt: skip

#: By the name of the function: a part of the error, and why it is so.
REFUSED: dict[str, tuple[str, str]] = {
    "stats.false_discovery_control": ("is not", "it has put_along_axis write to its argument: here that stays"),
    "signal.oaconvolve": ("is not", "it adds to a view of an array: here what an index gives is a tensor of its own"),
}


def parts(value: object) -> list[Any]:
    """Return the arrays and numbers in a result, which may be of several."""
    if hasattr(value, "__array__") or isinstance(value, int | float | complex | str):
        return [value]
    if isinstance(value, tuple | list):
        return [part for item in value for part in parts(item)]
    return [part for item in vars(value).values() if item is not None and not callable(item) for part in parts(item)]


def difference(function: Callable[..., Any], arrays: tuple[Array, ...], keywords: dict[str, Any]) -> str | None:
    """Return how the results differ, or None."""
    expected = parts(function(*arrays, **keywords))
    found = parts(function(*(zyx.asarray(array) for array in arrays), **keywords))
    if len(found) != len(expected):
        return f"{len(found)} results, not {len(expected)}"
    for ours, theirs in zip(found, expected, strict=True):
        if isinstance(theirs, np.ndarray) and not isinstance(ours, zyx.Tensor):
            return f"a result is {type(ours)}, not of the class of {type(theirs)}"
        if not np.allclose(np.asarray(ours), theirs, rtol=1e-4, atol=1e-4, equal_nan=True):
            return f"{ours} is not {theirs}"
    return None


def outcome(name: str) -> str | None:
    """Return how a call differs from what is known of it, or None."""
    try:
        text = difference(*CALLS[name])
    except Exception as error:  # noqa: BLE001  # of any kind: SciPy lies between
        text = f"{type(error).__name__}: {error}"
    if name not in REFUSED:
        return text
    if text is None:
        return "is right, and yet in REFUSED"
    return None if REFUSED[name][0] in text else text


def main() -> int:
    wrong = {name: text for name in CALLS if (text := outcome(name)) is not None}
    for name, text in wrong.items():
        print(f"{name}: {text}")
    right = len([name for name in CALLS if name not in wrong and name not in REFUSED])
    print(f"{right} of {len(CALLS)} calls are right, {len(REFUSED)} are known not to be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
