"""Compare gradients of elementwise functions of complex numbers with JAX's, at drawn points.

    python benchmarks/complex_gradients.py --count 100

The gradient of a real L at ``x + iy`` is ``dL/dx + i dL/dy`` here, and its conjugate in JAX. A line has, for one
function, the greatest difference over the greatest gradient; where that is above 1e-9, both are held against central
differences.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

import zyx

if TYPE_CHECKING:
    from collections.abc import Callable

UNARY = [
    "exp",
    "expm1",
    "exp2",
    "log",
    "log1p",
    "log2",
    "log10",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "asin",
    "acos",
    "atan",
    "asinh",
    "acosh",
    "atanh",
    "sqrt",
    "rsqrt",
    "square",
    "reciprocal",
    "abs",
    "angle",
    "real",
    "imag",
    "conj",
    "negative",
    "positive",
]
BINARY = {"add": "add", "subtract": "subtract", "multiply": "multiply", "divide": "divide", "pow": "power"}
NAMES = {name: f"arc{name[1:]}" for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")}
STEP = 1e-6


def gradient_here(function: Callable[..., zyx.Tensor], weights: Any, values: list[Any]) -> list[Any]:
    """Return the gradients of the weighted sum of a function."""
    given = [zyx.Tensor(value) for value in values]
    with zyx.Tape() as tape:
        found = function(*given)
        total = zyx.real(found * zyx.Tensor(weights)) if found.dtype.is_complex else found * zyx.Tensor(weights.real)
        loss = total.sum()
    return [part.numpy() for part in tape.gradient(loss, given)]


def gradient_there(function: Callable[..., Any], weights: Any, values: list[Any]) -> list[Any]:
    """Return the same of JAX, conjugated."""

    def loss(*given: Any) -> Any:
        found = function(*given)
        return jnp.sum(jnp.real(found * weights)) if jnp.iscomplexobj(found) else jnp.sum(found * weights.real)

    given = [jnp.asarray(value) for value in values]
    return [np.conj(np.asarray(part)) for part in jax.grad(loss, argnums=tuple(range(len(given))))(*given)]


def gradient_by_differences(function: Callable[..., zyx.Tensor], weights: Any, value: Any) -> Any:
    """Return the same of a function of one argument, by central differences."""

    def loss(at: Any) -> Any:
        found = function(zyx.Tensor(at)).numpy()
        return np.real(found * weights) if np.iscomplexobj(found) else found * weights.real

    parts = [(loss(value + step) - loss(value - step)) / (2 * STEP) for step in (STEP, 1j * STEP)]
    return parts[0] + 1j * parts[1]


def main() -> None:
    """Print the differences."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=100, help="points")
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()
    jax.config.update("jax_enable_x64", val=True)
    random = np.random.default_rng(asked.seed)
    x, y, weights = (
        random.standard_normal(asked.count) * 1.5 + 1j * random.standard_normal(asked.count) for _ in "xyw"
    )
    for name in (*UNARY, *BINARY):
        values = [x, y] if name in BINARY else [x]
        there = jax.lax.rsqrt if name == "rsqrt" else getattr(jnp, BINARY.get(name, NAMES.get(name, name)))
        ours = gradient_here(getattr(zyx, name), weights, values)
        theirs = gradient_there(there, weights, values)
        worst = max(abs(a - b).max() / abs(b).max() for a, b in zip(ours, theirs, strict=True))
        line = f"{name:<12}{worst:9.1e}"
        if worst > 1e-9 and len(values) == 1:
            exact = gradient_by_differences(getattr(zyx, name), weights, x)
            errors = [abs(found[0] - exact).max() / abs(exact).max() for found in (ours, theirs)]
            line += f"   from central differences: {errors[0]:.1e} here, {errors[1]:.1e} in JAX"
        print(line)


if __name__ == "__main__":
    main()
