"""Whatever order Vulkan allows, values are right; and where a wait or a barrier is left out, some order shows it."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from conftest import hide

from zyx import dtype as dtypes
from zyx.backend import Launch, Slot
from zyx.drivers import staging
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.ops import BinaryOp
from zyx.testing.graph_runs import GraphRunner
from zyx.testing.graphs import GraphOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from shuffled import Shuffler

    from zyx.kernel.data import Kernel
    from zyx.runtime.runtime import Runtime
    from zyx_backend_vulkan.device import VulkanDevice

pytest.importorskip("cffi", reason="the package vulkan is not installed")
try:
    from shuffled import shuffle

    from zyx_backend_vulkan import memory
    from zyx_backend_vulkan.memory import VulkanPool
    from zyx_backend_vulkan.sequence import VulkanSequence
    from zyx_backend_vulkan.work import Lane
except OSError as error:
    pytest.skip(f"Vulkan's loader is not installed: {error}", allow_module_level=True)

#: Elements of the buffers of these tests: 32-bit integers.
COUNT = 64
NBYTES = 4 * COUNT
#: Steps of a random program.
_STEPS = 150
#: What is planted has to show itself in one of so many random programs.
_SEEDS = 12


def mix(name: str = "mix") -> Kernel:
    """Return a kernel of ``x = 3 * x + y``: the order of any two launches that share a buffer matters."""
    b = Builder()
    x = b.define(k.Memory.GLOBAL, dtypes.uint32, COUNT)
    y = b.define(k.Memory.GLOBAL, dtypes.uint32, COUNT, mutable=False)
    at = b.index(k.Axis.GROUP, 0, COUNT, dtypes.int32)
    three = b.const(3, dtypes.uint32)
    product = b.binary(BinaryOp.MUL, b.load(x, at), three)
    b.store(x, at, b.binary(BinaryOp.ADD, product, b.load(y, at)))
    return b.finish(name)


def mix_number() -> Kernel:
    """Return a kernel of ``x = 5 * x + number``."""
    b = Builder()
    x = b.define(k.Memory.GLOBAL, dtypes.uint32, COUNT)
    number = b.variable(dtypes.uint32, "number")
    at = b.index(k.Axis.GROUP, 0, COUNT, dtypes.int32)
    five = b.const(5, dtypes.uint32)
    b.store(x, at, b.binary(BinaryOp.ADD, b.binary(BinaryOp.MUL, b.load(x, at), five), number))
    return b.finish("mix_number")


class Program:
    """A random program of transfers, launches and captured sequences, beside what its buffers have to hold.

    Each step waits for the events of those before it that touched its buffers, and for nothing else.

    Args:
        device: What runs it.
        seed: Which.
    """

    def __init__(self, device: VulkanDevice, seed: int) -> None:
        self.device, self.pool = device, device.pool
        self.draw = random.Random(seed)
        self.mix, self.number = device.compile(mix()), device.compile(mix_number())
        #: By slots: 0 and 1 are mixed with one another, 2 with itself, and a number is put to 1.
        self.sequence = device.capture(
            [
                Launch(self.mix, (Slot(0), Slot(1))), Launch(self.mix, (Slot(2), Slot(2))),
                Launch(self.mix, (Slot(1), Slot(0))), Launch(self.number, (Slot(1), Slot(3))),
                Launch(self.mix, (Slot(0), Slot(1))), Launch(self.mix, (Slot(1), Slot(2))),
            ],
            4,
        )  # fmt: skip
        #: A buffer, the events of all that touched it since its last wait, and what it has to hold.
        self.entries: list[list[Any]] = []

    def run(self, steps: int) -> None:
        """Run so many steps, and look at every buffer at the end."""
        kinds: list[tuple[Callable[[], None], int]] = [
            (self.upload, 3), (self.launch, 6), (self.launch_number, 2), (self.play, 3), (self.download, 2),
            (self.renew, 1), (self.trim, 1),
        ]  # fmt: skip
        for _ in range(4):
            self.allocate()
        for _ in range(steps):
            step = self.draw.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]
            step()
        for number in range(len(self.entries)):
            self.look(number)
        while self.entries:
            self.drop(0)
        for program in (self.sequence, self.mix, self.number):
            self.device.release(program)

    def wait(self, *numbers: int) -> list[Any]:
        """Return the events of what touched some buffers."""
        return [event.again() for number in set(numbers) for event in self.entries[number][1]]

    def touched(self, event: Any, *numbers: int) -> None:
        for number in set(numbers):
            self.entries[number][1] = [event.again()]

    def any(self, count: int = 1) -> list[int]:
        return self.draw.sample(range(len(self.entries)), count)

    # ---- steps

    def allocate(self) -> None:
        buffer, event = self.pool.allocate(NBYTES)
        data = self.data()
        event = self.pool.host_to_pool(data.view(np.uint8).data, buffer, [event])
        self.entries.append([buffer, [event], data])

    def data(self) -> Any:
        return np.array([self.draw.getrandbits(32) for _ in range(COUNT)], np.uint32)

    def upload(self) -> None:
        (x,) = self.any()
        data = self.data()
        event = self.pool.host_to_pool(data.view(np.uint8).data, self.entries[x][0], self.wait(x))
        self.entries[x][2] = data
        self.touched(event, x)

    def launch(self) -> None:
        x, y = self.any(2)
        event = self.device.launch(self.mix, [self.entries[x][0], self.entries[y][0]], self.wait(x, y))
        self.entries[x][2] = self.entries[x][2] * np.uint32(3) + self.entries[y][2]
        self.touched(event, x, y)

    def launch_number(self) -> None:
        (x,) = self.any()
        number = self.draw.getrandbits(31)
        event = self.device.launch(self.number, [self.entries[x][0], number], self.wait(x))
        self.entries[x][2] = self.entries[x][2] * np.uint32(5) + np.uint32(number)
        self.touched(event, x)

    def play(self) -> None:
        x, y, z = self.draw.choice(([0, 1, 2], [2, 1, 0], self.any(3)))  # the same buffers again are recorded
        number = self.draw.choice((7, self.draw.getrandbits(31)))
        buffers = [self.entries[each][0] for each in (x, y, z)]
        event = self.device.launch(self.sequence, [*buffers, number], self.wait(x, y, z))
        a, b, c = (self.entries[each][2] for each in (x, y, z))
        a, c = a * np.uint32(3) + b, c * np.uint32(4)
        b = (b * np.uint32(3) + a) * np.uint32(5) + np.uint32(number)
        a = a * np.uint32(3) + b
        b = b * np.uint32(3) + c
        for each, value in zip((x, y, z), (a, b, c), strict=True):
            self.entries[each][2] = value
        self.touched(event, x, y, z)

    def download(self) -> None:
        self.look(self.any()[0])

    def look(self, x: int) -> None:
        first = self.draw.randrange(COUNT)
        found = np.zeros(COUNT - first, np.uint32)
        self.pool.pool_to_host(self.entries[x][0], found.view(np.uint8).data, self.wait(x), 4 * first)
        np.testing.assert_array_equal(found, self.entries[x][2][first:])

    def renew(self) -> None:
        """Give a buffer back while it is in use; the next one may have its memory."""
        self.drop(self.any()[0])
        self.allocate()

    def trim(self) -> None:
        """Give all idle memory back to the driver."""
        if self.draw.random() < 0.5:
            self.drop(self.any()[0])
            self.pool.trim()
            self.allocate()

    def drop(self, x: int) -> None:
        buffer, events, _ = self.entries.pop(x)
        self.pool.deallocate(buffer, events)


#: How kernels are given their arguments: pushed, in descriptor sets, with numbers in a buffer, by addresses.
WAYS: dict[str, dict[str, object]] = {
    "pushed": {}, "sets": {}, "numbers in a buffer": {"push_bytes": 0}, "addresses": {"max_buffers": 0},
}  # fmt: skip


@pytest.fixture
def shuffled(
    device: VulkanDevice, fresh: Callable[..., Runtime], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[Runtime, Shuffler]]:
    """``shuffled(seed, way, is_hidden=...)`` opens the device with queues shuffled by a seed.

    The host reaches its memory or does not; then transfers go through a ring that is as small as can be.
    """
    del device  # there is one

    def make(seed: int, way: str = "pushed", *, is_hidden: bool = False) -> tuple[Runtime, Shuffler]:
        found = shuffle(monkeypatch, random.Random(seed))
        runtime = fresh()
        opened: Any = runtime.device()
        if is_hidden:
            hide(opened.pool)
            monkeypatch.setattr(staging, "RING_BYTES", 4 * NBYTES)
            monkeypatch.setattr(memory, "PIECE_BYTES", NBYTES // 2)
        if way != "pushed":
            opened._pipelines.push = None
            opened._pipelines._layouts.clear()  # those of the probes
            opened.dialect = replace(opened.dialect, **WAYS[way])
        return runtime, found[-1]

    return make


def run_programs(runtime: Runtime, seeds: Iterable[int]) -> None:
    for seed in seeds:
        try:
            Program(runtime.device(), seed).run(_STEPS)  # type: ignore[arg-type]  # of this backend
        except Exception as error:
            error.add_note(f"random program {seed}")
            raise


@pytest.mark.parametrize("is_hidden", [False, True], ids=["host memory", "hidden memory"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("count", [2, pytest.param(200, marks=pytest.mark.slow)])
def test_random_programs_have_the_same_values_in_every_order(
    shuffled: Callable[..., Any], count: int, way: str, *, is_hidden: bool
):
    runtime, shuffler = shuffled(count, way, is_hidden=is_hidden)
    run_programs(runtime, range(count))
    assert shuffler.overtaken > shuffler.done // 50, "hardly anything was done in another order"


@pytest.mark.parametrize("is_hidden", [False, True], ids=["host memory", "hidden memory"])
@pytest.mark.parametrize("count", [8, pytest.param(150, marks=pytest.mark.slow)])
def test_random_graphs_have_the_same_values_in_every_order(
    shuffled: Callable[..., Any], count: int, *, is_hidden: bool
):
    runtime, _ = shuffled(count, is_hidden=is_hidden)
    runner = GraphRunner(runtime, "vulkan")
    for seed in range(0, 4 * count, 4):  # four graphs at once have work that is independent
        runner.run(range(seed, seed + 4), GraphOptions(dtypes=(dtypes.float32, dtypes.int32), most_nodes=8))


# ---- what is left out shows itself


def _no_barrier_between_pieces(patch: pytest.MonkeyPatch) -> None:
    def commands(lane: Any) -> Any:
        if lane._open is None:
            lane._open = lane.queue.begin()
        return lane._open

    patch.setattr(Lane, "commands", commands)


def _in_recordings(patch: pytest.MonkeyPatch, leaves_out: Callable[[int], bool]) -> None:
    """Leave out barriers of recordings, by their numbers from 0."""
    good = VulkanSequence._record

    def record(sequence: Any, natives: Any) -> Any:
        queue: Any = sequence.pool.compute.queue
        numbers, barrier = count(), queue.barrier
        queue.barrier = lambda commands: None if leaves_out(next(numbers)) else barrier(commands)
        try:
            return good(sequence, natives)
        finally:
            del queue.barrier

    patch.setattr(VulkanSequence, "_record", record)


def _bury_alive(lane: Any, free: Callable[[], object]) -> None:
    del lane
    free()


def _discard_at_once(pool: Any, freed: Any, work: object) -> None:
    del work
    pool._blocks.discard(freed)


#: What is left out, in which way of arguments, and whether memory is hidden.
OMISSIONS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str, bool]] = {
    "barriers between pieces of work": (_no_barrier_between_pieces, "pushed", False),
    "the barrier that a recording begins with": (
        lambda patch: _in_recordings(patch, lambda n: n == 0), "pushed", False
    ),
    "the barriers within a recording": (lambda patch: _in_recordings(patch, lambda n: n > 0), "pushed", False),
    "waits for other queues": (lambda patch: patch.setattr(Lane, "wait_for", lambda *_: None), "pushed", True),
    "the wait before the host writes": (
        lambda patch: patch.setattr(VulkanPool, "_are_done", lambda *_: True), "pushed", False
    ),
    "the wait before the host reads": (
        lambda patch: patch.setattr(memory, "finish_all", lambda *_: None), "pushed", False
    ),
    "the wait for a piece of the ring": (
        lambda patch: patch.setattr(staging.Staging, "_free_until", lambda *_: None), "pushed", True
    ),
    "the wait before memory is freed": (
        lambda patch: patch.setattr(VulkanPool, "discard", _discard_at_once), "pushed", True
    ),
    "the events of memory that is used again": (
        lambda patch: patch.setattr(VulkanPool, "unfinished", lambda *_: ()), "pushed", True
    ),
    "the wait before descriptor sets are used again": (
        lambda patch: patch.setattr(Lane, "bury", _bury_alive), "sets", False
    ),
    "the wait before memory of numbers is used again": (
        lambda patch: patch.setattr(Lane, "bury", _bury_alive), "numbers in a buffer", False
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OMISSIONS)
def test_what_is_left_out_is_noticed(shuffled: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, name: str):
    plant, way, is_hidden = OMISSIONS[name]
    runtime, _ = shuffled(1, way, is_hidden=is_hidden)
    with monkeypatch.context() as patch:
        plant(patch)
        with pytest.raises(AssertionError, match=r"Arrays are not equal|has not run"):
            run_programs(runtime, range(_SEEDS))
