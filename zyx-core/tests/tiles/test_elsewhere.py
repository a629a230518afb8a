"""What a device of tiles cannot do is done by the host, with copies around it, and the rest stays on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import zyx
from zyx.runtime.runtime import use
from zyx.testing.tiles import open_tiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zyx.runtime.runtime import Runtime

RNG = np.random.default_rng(1)
X = RNG.standard_normal((40, 50)).astype(np.float32)
NUMBERS = RNG.integers(-9, 9, (40, 50), dtype=np.int32)
PLACES = RNG.integers(0, 40, 7)

#: What has parts on both, with what NumPy makes of it.
PARTLY: dict[str, tuple[Callable[[], zyx.Tensor], object]] = {
    "integers": (lambda: (zyx.Tensor(NUMBERS) ^ 5).astype(zyx.float32) * zyx.Tensor(X), (NUMBERS ^ 5) * X),
    "gather": (lambda: zyx.Tensor(X)[zyx.Tensor(PLACES)] * 2.5, X[PLACES] * np.float32(2.5)),
    "scan": (lambda: (zyx.Tensor(X) * 2.5).cumsum(axis=1), (X * np.float32(2.5)).cumsum(1)),
    "remainder": (lambda: (zyx.Tensor(X) * 2.5) % 1.5, (X * np.float32(2.5)) % np.float32(1.5)),
    "sort": (lambda: zyx.sort(zyx.Tensor(X) * 2.5, axis=1), np.sort(X * np.float32(2.5), 1)),
}


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    with open_tiles() as opened, use(opened):
        yield opened


@pytest.mark.parametrize("name", PARTLY)
def test_both_have_their_part(name: str, runtime: Runtime):
    make, wanted = PARTLY[name]
    found = make()
    steps = zyx.explain_plan(found)["steps"]
    devices = {step["device"] for step in steps if step["kind"] == "launch"}
    assert "tiles:0" in devices
    assert len(devices) == 2
    assert any(step["kind"] == "copy" for step in steps)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=2e-5, atol=2e-5)


def test_nothing_is_copied_back_that_only_the_host_needs(runtime: Runtime):
    x = zyx.Tensor(NUMBERS)
    steps = zyx.explain_plan(((x ^ 5).cumsum(axis=1) + 3).cumsum(axis=0))["steps"]
    copies = [step for step in steps if step["kind"] == "copy"]
    assert len(copies) == 2  # one there, one back


def test_what_is_added_to_keeps_its_values(runtime: Runtime):
    target = np.zeros(40, np.float32)
    np.add.at(target, PLACES, np.float32(1))
    found = zyx.scatter_add(zyx.zeros(40), 0, zyx.Tensor(PLACES), zyx.ones(7))
    np.testing.assert_array_equal(found.numpy(), target)


def test_random_numbers_are_those_of_every_device(runtime: Runtime):
    def drawn() -> np.ndarray:
        zyx.manual_seed(3)
        return zyx.rand(1000).numpy()

    found = drawn()
    with zyx.device("interpreter"):
        np.testing.assert_array_equal(found, drawn())


def test_gradients_go_through_both(runtime: Runtime):
    def loss(x: zyx.Tensor) -> zyx.Tensor:
        return (zyx.tanh(x).cumsum(axis=1) * 2.0).sum()

    found = zyx.grad(loss)(zyx.Tensor(X)).numpy()
    with zyx.device("interpreter"):
        np.testing.assert_allclose(found, zyx.grad(loss)(zyx.Tensor(X)).numpy(), rtol=1e-4, atol=1e-5)


def test_a_recurrence_is_the_hosts(runtime: Runtime):
    def states() -> np.ndarray:
        zyx.manual_seed(0)
        outputs, last = zyx.nn.GRU(5, 6)(zyx.Tensor(X.reshape(20, 20, 5)))
        return np.concatenate([outputs.numpy().reshape(-1), last.numpy().reshape(-1)])

    found = states()
    with zyx.device("interpreter"):
        np.testing.assert_allclose(found, states(), rtol=1e-5, atol=1e-6)
