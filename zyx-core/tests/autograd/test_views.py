"""Gradients at views: whatever a tensor was made of by moves and casts, and whatever is made of it by more."""

from __future__ import annotations

import numpy as np
import pytest

import zyx
from zyx import nn
from zyx.specialise.table import Table

pytestmark = pytest.mark.usefixtures("interpreter")

VALUES = np.random.default_rng(4).standard_normal((2, 3, 4)).astype(np.float32)

#: Each takes a tensor of whatever shape with an axis, real or complex.
STEPS = {
    "reshape": lambda x: x.reshape(-1),
    "reshape back": lambda x: x.reshape(2, -1),
    "flatten and split": lambda x: x.reshape(1, -1, 1),
    "expand": lambda x: x[None].expand(3, *x.shape),
    "expand inner": lambda x: x.expand(*[5 if size == 1 else size for size in x.shape]),
    "permute": lambda x: x.permute(*range(1, x.ndim), 0),
    "transpose": lambda x: x.permute(*reversed(range(x.ndim))),
    "pad": lambda x: zyx.pad(x, [(1, 1)] * x.ndim),
    "shrink": lambda x: x[..., : max(1, x.shape[-1] - 1)],
    "index": lambda x: x[-1] if x.ndim > 1 else x[-1:],
    "step": lambda x: x[::2],
    "flip": lambda x: x.flip(0),
    "flip last": lambda x: x.flip(x.ndim - 1),
    "newaxis": lambda x: x[..., None],
    "squeeze": lambda x: x.squeeze(),
    "roll": lambda x: zyx.roll(x, 1, 0),
    "windows": lambda x: x.unfold(0, 2, 1) if x.shape[0] > 1 else x[None],
    "join": lambda x: zyx.concat([x, x * 2], 0),
    "double": lambda x: x.astype("complex128" if x.dtype.is_complex else "float64"),
    "single": lambda x: x.astype("complex64" if x.dtype.is_complex else "float32"),
    "half": lambda x: x if x.dtype.is_complex else x.astype("float16"),
    "complex": lambda x: x.astype("float32").astype("complex64") if not x.dtype.is_complex else x,
    "parts": lambda x: zyx.complex(x.real, x.imag) if x.dtype.is_complex else x[None],
    "conjugate": lambda x: x.conj() if x.dtype.is_complex else x.reshape(-1, 1),
    "contiguous": lambda x: x.contiguous(),
}


def weighed(y):
    """Return a real number of which each element of `y` has another gradient, that depends on `y`."""
    weights = zyx.Tensor(np.linspace(0.5, 1.5, max(1, y.size), dtype=np.float32)).reshape(*y.shape)
    squared = (y * y.conj()).real if y.dtype.is_complex else y * y
    return (squared.astype("float32") * weights).sum()


def gradient_at(x, rest):
    """Return the gradient at `x` itself, made anew of its values alone, which nothing can merge."""
    return zyx.grad(lambda x: weighed(rest(x)))(zyx.asarray(x.numpy()))


def check(found, wanted):
    tolerance = 5e-3 if found.dtype is zyx.float16 else 1e-4
    np.testing.assert_allclose(found.numpy(), wanted, rtol=tolerance, atol=tolerance)


def taped(one, two, big):
    with zyx.Tape() as tape:
        x = one(big)
        y = two(x)
        loss = weighed(y)
    return tape.gradient(loss, [big, x, y])


def traced(one, two, big):
    return zyx.jit(lambda big: taped(one, two, big))(big)


def read(one, two, big):
    with zyx.Tape() as tape:
        x = one(big)
        x.numpy()
        y = two(x)
        y.numpy()
        loss = weighed(y)
    return tape.gradient(loss, [big, x, y])


def before(one, two, big):
    x = one(big)
    y = two(x)
    with zyx.Tape() as tape:
        loss = weighed(y)
    return tape.gradient(loss, [big, x, y])


def backwards(one, two, big):
    big = zyx.asarray(big, requires_grad=True)
    x = one(big)
    y = two(x)
    loss = weighed(y)
    for each in (x, y):
        each.retain_grad()
    loss.backward()
    return [big.grad, x.grad, y.grad]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("first", STEPS)
@pytest.mark.parametrize("second", STEPS)
def test_a_gradient_at_a_view_is_its_own(first, second, interpreter, of_oracle):
    """At what a view is made of, at the view, and at a view of it."""
    big, one, two = zyx.Tensor(VALUES).realize(), STEPS[first], STEPS[second]
    interpreter.outlines = Table()  # or kernels would be for lengths up to one, which take the interpreter long

    def itself():
        big = zyx.Tensor(VALUES)
        return [
            gradient_at(big, lambda x: two(one(x))),
            gradient_at(one(big), two),
            gradient_at(two(one(big)), lambda x: x),
        ]

    wanted = of_oracle(itself)
    ways = [taped, before, backwards]
    if first == second or {first, second} in ({"single", "half"}, {"single", "double"}):  # as the others
        ways += [read, traced]
    for way in ways:
        for name, a, b in zip(("big", "x", "y"), way(one, two, big), wanted, strict=True):
            try:
                check(a, b)
            except AssertionError as error:
                error.add_note(f"{way.__name__}: at {name}")
                raise


def test_what_goes_another_way_is_no_part_of_it():
    big = zyx.Tensor(VALUES)
    with zyx.Tape() as tape:
        x = big.flip(0)
        back = x.flip(0)
        loss = (big * 2).sum() + (x * 3).sum() + (back * 5).sum() + big.reshape(-1).sum() * 7
    at_big, at_x, at_back = tape.gradient(loss, [big, x, back])
    assert (at_big.numpy() == 17).all()
    assert (at_x.numpy() == 8).all()
    assert (at_back.numpy() == 5).all()


def test_a_gradient_at_parts_of_a_complex_number_that_are_put_together_again():
    z = zyx.Tensor(np.array([1 + 2j, 3 - 1j], np.complex64))
    with zyx.Tape() as tape:
        real, imaginary = z.real, z.imag
        loss = (abs(zyx.complex(real, imaginary)) ** 2).sum()
    at_real, at_imaginary = tape.gradient(loss, [real, imaginary])
    np.testing.assert_allclose(at_real.numpy(), 2 * real.numpy(), rtol=1e-5)
    np.testing.assert_allclose(at_imaginary.numpy(), 2 * imaginary.numpy(), rtol=1e-5)


def test_jacobians_and_second_derivatives_pass_views():
    x = zyx.Tensor(VALUES[0, 0])

    def f(x):
        y = x.reshape(2, 2)
        slope = zyx.grad(lambda y: (y.reshape(-1) ** 3).sum())(y.reshape(4, 1).reshape(2, 2))
        return slope.reshape(-1)

    np.testing.assert_allclose(zyx.jacobian(f)(x).numpy(), np.diag(6 * VALUES[0, 0]), rtol=1e-5, atol=1e-6)
    with zyx.Tape() as outer:
        with zyx.Tape() as inner:
            view = x.reshape(2, 2)
            half = view.astype("float16").astype("float64").astype("float16")
            loss = (half.reshape(-1).astype("float32").cumprod(0)).sum()
        (slope,) = inner.gradient(loss, [half])
        total = slope.astype("float32").sum()
    second = outer.gradient(total, half)
    assert second.shape == (2, 2)
    assert np.isfinite(second.numpy()).all()
    assert second.numpy().any()


@pytest.mark.parametrize("f", [lambda x: x.expand(3, 4), lambda x: x.cumsum(0), lambda x: x.mean(0).expand(4)])
def test_a_gradient_at_an_upstream_that_was_rounded(f):
    x, wide = zyx.Tensor(VALUES[0, :1]).astype("float16"), zyx.ones(4)
    x = x if f(x).ndim == 2 and f(x).shape[0] == 3 else x[0]
    with zyx.Tape() as outer:
        upstream = (wide * 1.5).expand(*f(x).shape).astype("float16")
        with zyx.Tape() as inner:
            y = f(x)
        total = inner.gradient(y, x, upstream).astype("float32").sum()
    assert outer.gradient(total, upstream).numpy().any()


def test_plans_are_as_if_moves_of_moves_were_one(interpreter):
    """What is not merged as it is made is so in plans, with or without a tape."""
    x = zyx.Tensor(np.arange(12, dtype=np.float32)).realize()
    for moved in (x.flip(0).flip(0), x.reshape(3, 4).permute(1, 0).permute(1, 0).reshape(12)):
        before = interpreter.compiler.compiled
        moved.realize()
        assert interpreter.compiler.compiled == before  # they are values that are there

    def launches(function):
        traced = zyx.jit(function)
        traced(x.reshape(3, 4))
        (trace,) = traced.traces
        return trace.plan.launches

    def network(x):
        layer = nn.Linear(4, 4)
        return (layer(x.reshape(-1).reshape(3, 4).permute(1, 0).permute(1, 0)) ** 2).mean()

    assert launches(network) == launches(lambda x: (nn.Linear(4, 4)(x) ** 2).mean())
