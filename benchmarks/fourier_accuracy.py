"""Hold Fourier transforms of drawn lengths against wider ones, beside the errors of NumPy and SciPy.

    python benchmarks/fourier_accuracy.py --count 200 --seed 1

Lengths are up to 2**20: powers of two, products of small primes, primes and odd numbers, a quarter each. Of each, fft,
ifft, rfft and irfft of drawn numbers, in rows of at least 4096 elements together, are computed in float32 and float64;
errors are relative ones of the whole array, in the Euclidean norm, from SciPy's in float64 and long double.
A line has, for one function and one type, the greatest ratios of zyx's error to NumPy's and to SciPy's.

NumPy computes fft and rfft of float32 in float64 and rounds once, as of 2.4: there its error is that of rounding, and
the one to compare with is SciPy's, which is of float32 throughout.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
import scipy.fft

import zyx

#: The longest transform, as a power of two.
LOG_LONGEST = 20
FUNCTIONS = ("fft", "ifft", "rfft", "irfft")
#: Elements that are transformed at least, in rows of a length: of few of them, errors are a matter of chance.
LEAST = 1 << 12
WIDER = {"float32": np.float64, "float64": np.longdouble}


def is_prime(number: int) -> bool:
    """Whether `number`, at least 2, is a prime."""
    return all(number % divisor for divisor in range(2, math.isqrt(number) + 1))


def drawn_lengths(count: int, generator: np.random.Generator) -> list[int]:
    """Return lengths, one kind after the other."""
    found: list[int] = []
    while len(found) < count:
        about = round(2.0 ** generator.uniform(1, LOG_LONGEST))
        match len(found) % 4:
            case 0:
                found.append(2 ** int(generator.integers(1, LOG_LONGEST + 1)))
            case 1:
                size = 1
                while (longer := size * int(generator.choice([2, 3, 5, 7, 11, 13]))) <= about:
                    size = longer
                found.append(max(size, 2))
            case 2:
                found.append(next(size for size in range(about, 1, -1) if is_prime(size)))
            case _:
                found.append(about - 1 + about % 2)
    return found


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="lengths")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    generator = np.random.default_rng(args.seed)
    worst: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for size in drawn_lengths(args.count, generator):
        shape = (-(-LEAST // size), size)
        whole = generator.standard_normal(shape) + 1j * generator.standard_normal(shape)
        for kind, wider in WIDER.items():
            narrow = whole.astype(np.result_type(kind, np.complex64))
            for name in FUNCTIONS:
                x = narrow.real.copy() if name == "rfft" else narrow[:, : size // 2 + 1] if name == "irfft" else narrow
                options = {"n": size} if name == "irfft" else {}
                exact = getattr(scipy.fft, name)(x.astype(np.result_type(x.dtype, wider)), **options)
                found = [
                    getattr(zyx.fft, name)(zyx.Tensor(x), **options).numpy(),
                    getattr(np.fft, name)(x, **options),
                    getattr(scipy.fft, name)(x, **options),
                ]
                assert len({each.dtype for each in found}) == 1, [each.dtype for each in found]
                own, *others = (float(np.linalg.norm(each - exact)) for each in found)
                ratios = [(own / other if other else float(own > 0), size) for other in others]
                before = worst.get((name, kind), ratios)
                worst[name, kind] = [max(pair) for pair in zip(before, ratios, strict=True)]
    for (name, kind), ((numpy, first), (scipys, second)) in sorted(worst.items(), key=lambda item: item[0][1]):
        print(f"{kind} {name:6} {numpy:6.2f} of NumPy's (length {first}), {scipys:6.2f} of SciPy's (length {second})")
    print(f"greatest of {args.count} lengths: {max(pair[1][0] for pair in worst.values()):.2f} times SciPy's error")


if __name__ == "__main__":
    main()
