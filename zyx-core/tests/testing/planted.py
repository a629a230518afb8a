"""A backend with one bug, which the variable PLANTED_BUG names: the kit has to find it. Without a bug it conforms.

It is the interpreter, on memory of its own. Bugs of kernels rewrite what is compiled, others override a method.
"""

import os

from lazy import LazyDevice, LazyEvent, LazyPool

from zyx import dtype as dtypes
from zyx.builtin.host import HostPool
from zyx.builtin.interpreter import InterpreterDevice
from zyx.errors import InvalidBufferError, LaunchError
from zyx.hookspecs import API_VERSION, BackendInfo, hookimpl
from zyx.kernel import data as k
from zyx.kernel.rewrite import Rewriter
from zyx.ops import BinaryOp, UnaryOp


class Device(InterpreterDevice):
    """The interpreter, with kernels changed by `rule`: given a rewriter and an operation, what stands in its place."""

    rule = None

    def compile(self, kernel):
        if self.rule is not None:
            rewriter = Rewriter()
            rule = type(self).rule
            kernel = rewriter.rewrite(kernel, lambda op: rule(rewriter, op))
        return super().compile(kernel)


class Pool(HostPool):
    """Host memory."""

    def __init__(self, name):
        super().__init__(name, 1 << 30)


# ---- kernels


def or_for_xor(rewriter, op):
    if isinstance(op, k.Binary) and op.op is BinaryOp.XOR:
        return rewriter.binary(BinaryOp.OR, op.x, op.y)
    return None


def nan_is_forgotten_by_minima(rewriter, op):
    if isinstance(op, k.Binary) and op.op is BinaryOp.MIN and op.type.dtype.is_float:
        return rewriter.where(rewriter.binary(BinaryOp.LT, op.x, op.y), op.x, op.y)
    return None


def numbers_are_cut_down(rewriter, op):
    if isinstance(op, k.Unary) and op.op is UnaryOp.TRUNC:
        return rewriter.unary(UnaryOp.FLOOR, op.x)
    return None


def bfloat16_is_cut_off(rewriter, op):
    """Drop the last 16 bits, where the nearest number is asked for."""
    source = rewriter.type_of(op.x).dtype if isinstance(op, k.Cast) else None
    if source is dtypes.float32 and op.type.dtype is dtypes.bfloat16:
        bits = rewriter.bitcast(op.x, dtypes.uint32)
        high = rewriter.cast(rewriter.binary(BinaryOp.SHR, bits, rewriter.like(16, bits)), dtypes.uint16)
        return rewriter.bitcast(high, dtypes.bfloat16)
    return None


def masks_of_loads_are_ignored(rewriter, op):
    if isinstance(op, k.Load) and op.mask is not None:
        return rewriter.append(k.Load(op.source, op.index, op.type))
    return None


def masks_of_stores_are_ignored(rewriter, op):
    if isinstance(op, k.Store) and op.mask is not None:
        return rewriter.append(k.Store(op.target, op.index, op.value))
    return None


def updates_are_lost(rewriter, op):
    if isinstance(op, k.Atomic):
        return rewriter.append(k.Store(op.target, op.index, op.value, op.mask))
    return None


def grids_end_at_16_bits(rewriter, op):
    if isinstance(op, k.Index) and op.axis is k.Axis.GROUP and op.size > 65_535:
        index = rewriter.append(op)
        return rewriter.binary(BinaryOp.MOD, index, rewriter.like(65_535, index))
    return None


def neighbours_swap_always(rewriter, op):
    return rewriter.append(k.Swap(op.x, 1, op.type)) if isinstance(op, k.Swap) else None


def values_of_64_bits_lose_half_in_swaps(rewriter, op):
    """Swap the lower half alone, and keep one's own upper half."""
    if not isinstance(op, k.Swap) or op.type.dtype.bits != 64:
        return None
    own = rewriter.bitcast(op.x, dtypes.uint64)
    other = rewriter.append(k.Swap(own, op.distance, rewriter.type_of(own)))
    upper = rewriter.like(-1 << 32 & (1 << 64) - 1, own)
    lower = rewriter.like((1 << 32) - 1, own)
    both = (rewriter.binary(BinaryOp.AND, own, upper), rewriter.binary(BinaryOp.AND, other, lower))
    return rewriter.bitcast(rewriter.binary(BinaryOp.OR, *both), op.type.dtype)


# ---- memory


class LeakingPool(Pool):
    """Large buffers are lost when they are given back."""

    def deallocate(self, buffer, events=()):
        super().deallocate(buffer, events)
        if buffer.nbytes > 1000:
            self._used_bytes += buffer.nbytes


class EventsAgainPool(Pool):
    """An event may be waited for any number of times."""

    def sync_events(self, events):
        pass

    def release_events(self, events):
        pass


class FreedTwicePool(Pool):
    """What is given back a second time is not refused."""

    def deallocate(self, buffer, events=()):
        try:
            super().deallocate(buffer, events)
        except InvalidBufferError:
            if buffer.pool is not self:
                raise


class WordsPool(Pool):
    """Uploads are of whole words."""

    def host_to_pool(self, source, target, events=()):
        whole = source.nbytes // 4 * 4 if source.nbytes > 4 else source.nbytes
        self.check_buffer(target, source.nbytes)
        return super().host_to_pool(source[:whole], target, events)


# ---- launches


class OneCaptureDevice(Device):
    """A captured sequence keeps the buffers of its first launch."""

    def __init__(self, name, pool):
        super().__init__(name, pool)
        self.first = {}

    def launch(self, program, args, events=()):
        if hasattr(program, "slots"):
            args = self.first.setdefault(id(program), args)
        return super().launch(program, args, events)


class CarelessDevice(Device):
    """Arguments that do not fit are not refused."""

    def launch(self, program, args, events=()):
        try:
            return super().launch(program, args, events)
        except LaunchError:
            return self.memory_pool.completed()


class StaleCodeDevice(Device):
    """A kernel that looks like another one, by its name and number of operations, gets the other's program."""

    def __init__(self, name, pool):
        super().__init__(name, pool)
        self.programs = {}

    def compile(self, kernel):
        key = (kernel.name, len(kernel.ops))
        if key not in self.programs:
            self.programs[key] = super().compile(kernel)
        return self.programs[key]


class HastyPool(LazyPool):
    """Work does not wait for the events that it is given."""

    def depends_on(self, events):
        self.take(events)
        return []


class SameEvent(LazyEvent):
    """An event that gives itself away, where another one is asked for."""

    def again(self):
        return self


class SameEventPool(LazyPool):
    """Whoever asks for an event again gets the same one."""

    event = SameEvent


class EarlyEvent(LazyEvent):
    """An event that gives one that is complete, where another one of the same work is asked for."""

    def again(self):
        return self.pool.completed()


class EarlyEventPool(LazyPool):
    """An event that is had again does not stand for the work."""

    event = EarlyEvent


class HastyTargetPool(LazyPool):
    """Copies do not wait for the work on their target."""

    def pool_to_pool(self, source, target, events=(), target_events=()):
        self.take(target_events)
        return super().pool_to_pool(source, target, events)


def device_with(rule):
    return type("RuleDevice", (Device,), {"rule": rule})


#: The device and the pool of each bug.
BUGS = {
    "none": (Device, Pool),
    "lazy": (LazyDevice, LazyPool),
    **{
        rule.__name__: (device_with(staticmethod(rule)), Pool)
        for rule in (
            or_for_xor, nan_is_forgotten_by_minima, numbers_are_cut_down, bfloat16_is_cut_off,
            neighbours_swap_always, values_of_64_bits_lose_half_in_swaps,
            masks_of_loads_are_ignored, masks_of_stores_are_ignored, updates_are_lost, grids_end_at_16_bits,
        )
    },
    "leaking_pool": (Device, LeakingPool),
    "events_again": (Device, EventsAgainPool),
    "freed_twice": (Device, FreedTwicePool),
    "words": (Device, WordsPool),
    "one_capture": (OneCaptureDevice, Pool),
    "careless": (CarelessDevice, Pool),
    "stale_code": (StaleCodeDevice, Pool),
    "hasty": (LazyDevice, HastyPool),
    "same_event": (LazyDevice, SameEventPool),
    "early_event": (LazyDevice, EarlyEventPool),
    "hasty_target": (LazyDevice, HastyTargetPool),
}  # fmt: skip


@hookimpl
def zyx_backend_info():
    return BackendInfo("planted", "1", API_VERSION, "has a bug")


@hookimpl
def zyx_memory_pools():
    return [BUGS[os.environ["PLANTED_BUG"]][1]("planted")]


@hookimpl
def zyx_devices(pools):
    return [BUGS[os.environ["PLANTED_BUG"]][0]("planted:0", pools["planted"])]
