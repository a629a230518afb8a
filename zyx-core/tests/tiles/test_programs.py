"""Nests as tile programs: what they compute, on a device on paper that has nothing but tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import zyx
from zyx.errors import UnsupportedError
from zyx.kernel.data import Kernel
from zyx.runtime.runtime import use
from zyx.testing.tile_programs import WHOLE, compute, on_the_interpreter, operands
from zyx.testing.tiles import PaperTileDevice, open_tiles, tiles_info
from zyx.tiles.places import tiles_moved
from zyx.tiles.text import print_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zyx.runtime.runtime import Runtime

RNG = np.random.default_rng(0)
A, B = (RNG.standard_normal((50, 70)).astype(np.float32) for _ in range(2))
W = RNG.standard_normal((70, 90)).astype(np.float32)
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0], np.float32)
PAIRS = np.meshgrid(SPECIAL, SPECIAL)


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    with open_tiles() as opened, use(opened):
        yield opened


def device_of(runtime: Runtime) -> PaperTileDevice:
    device = runtime.device()
    assert isinstance(device, PaperTileDevice)
    return device


@pytest.mark.parametrize("name", WHOLE)
def test_one_program_computes(name: str, runtime: Runtime):
    found = compute(name, operands())
    steps = zyx.explain_plan(found)["steps"]
    assert [(step["kind"], step["device"]) for step in steps] == [("launch", "tiles:0")]
    wanted = on_the_interpreter(lambda: compute(name, operands()))
    np.testing.assert_allclose(found.numpy(), wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("op", ["less", "less_equal", "equal", "not_equal", "greater", "greater_equal"])
def test_comparisons_are_those_of_ieee(op: str, runtime: Runtime):
    x, y = PAIRS
    found = getattr(zyx, op)(zyx.Tensor(x), zyx.Tensor(y)).numpy()
    np.testing.assert_array_equal(found, getattr(np, op)(x, y))


def test_truths_are_combined(runtime: Runtime):
    x, y = A > 0, B > 0
    a, b = zyx.Tensor(x), zyx.Tensor(y)
    for found, wanted in (((a & b), x & y), ((a | b), x | y), ((a ^ b), x ^ y), (~a, ~x)):
        np.testing.assert_array_equal(found.numpy(), wanted)


def test_short_floats_round_after_every_operation(runtime: Runtime):
    x, y = (zyx.Tensor(each).astype(zyx.bfloat16) for each in (A, B))
    found = ((x * y + x) / 3.1).astype(zyx.float32).numpy()
    host_x, host_y = (each.to("interpreter") for each in (x, y))
    np.testing.assert_array_equal(found, ((host_x * host_y + host_x) / 3.1).astype(zyx.float32).numpy())


def test_blocks_move_the_fewest_tiles_that_fit():
    x = RNG.standard_normal((512, 512)).astype(np.float32)
    moved = []
    for local_bytes in (1 << 18, 1 << 20):
        with open_tiles(tiles_info(local_bytes=local_bytes)) as runtime, use(runtime):
            (zyx.Tensor(x) @ zyx.Tensor(x)).numpy()
            (program,) = device_of(runtime).programs
            moved.append(tiles_moved(program))
    assert moved[1] < moved[0]
    assert moved[1] >= 3 * 16 * 16  # each tile of two factors and a result at least once


def test_what_does_not_fit_is_refused_with_the_limit():
    with open_tiles(tiles_info(local_bytes=1 << 12)) as runtime, use(runtime):
        device = device_of(runtime)
        found = (zyx.Tensor(A) + zyx.Tensor(B)).numpy()
        np.testing.assert_array_equal(found, A + B)  # by the host
        assert not device.programs


def test_a_device_of_tiles_takes_no_kernels(runtime: Runtime):
    with pytest.raises(UnsupportedError, match="takes nests"):
        device_of(runtime).compile(Kernel("nothing", ()))


def test_programs_can_be_read(runtime: Runtime):
    (zyx.Tensor(A) @ zyx.Tensor(W) + 1).numpy()
    text = print_program(device_of(runtime).programs[-1])
    assert "along axis 2" in text
    assert "@" in text


#: Products of which factors are transposed, of a, b [24, 40, 40].
TURNED: dict[str, Callable[[zyx.Tensor, zyx.Tensor], zyx.Tensor]] = {
    "left": lambda a, b: a[0].T @ b[1],
    "right": lambda a, b: a[0] @ b[1].T,
    "both": lambda a, b: a[0].T @ b[1].T,
    "of a batch": lambda a, b: a @ b.mT,
    "and computed": lambda a, b: zyx.exp(a[0].T) @ (b[0] + 1).T,
    "not of a product": lambda a, b: (a.mT + b).sum(axis=1),
    "of a part": lambda a, b: a[0, 3:30, 2:].T * 2.0,
}


@pytest.mark.parametrize("name", TURNED)
def test_transposed_operands_are_read_as_they_lie(name: str, runtime: Runtime):
    make = TURNED[name]
    a, b = (RNG.standard_normal((24, 40, 40)).astype(np.float32) for _ in range(2))
    known = set(device_of(runtime).programs)
    found = make(zyx.Tensor(a), zyx.Tensor(b)).numpy()
    with zyx.device("interpreter"):
        np.testing.assert_allclose(found, make(zyx.Tensor(a), zyx.Tensor(b)).numpy(), rtol=1e-4, atol=1e-4)
    for program in set(device_of(runtime).programs) - known:
        assert all(abs(access.view.strides[-1]) <= 1 for access in program.operands if not access.is_written)
