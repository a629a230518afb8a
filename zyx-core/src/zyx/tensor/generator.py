"""Streams of random words.

They depend on the seed and the order of calls alone, not on the device, nor on when they are computed.

A `Generator` has a key, which its seed gives, and a counter. A call that makes n words takes the next n blocks of the
generator's stream and moves the counter on by n; what a block is, `zyx.graph.node.RandomBits` says. Key and counter are
a tensor, `Generator.state`, so that a traced function can find it: while tracing, the counter moves on inside the
graph, and each replay draws new numbers. Otherwise it is moved on here, and the tensor is given a new leaf: graphs do
not grow, and those of two calls are alike but for that leaf.

In the child of a fork, every generator of its parent goes on with another stream, which the parent's key and the number
of the child give: parents and children, and children among themselves, draw different numbers, and the same ones when
the program is run again. A child that seeds a generator, or makes one, has the stream of that seed.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.functions.term import Term
from zyx.integers import as_index
from zyx.modes import own_of
from zyx.runtime.buffer import Buffer
from zyx.runtime.lifetime import lineage
from zyx.runtime.runtime import current
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx.graph import Node
    from zyx.runtime.runtime import Runtime
    from zyx.shape import Shape

__all__ = ["Generator", "default_generator", "manual_seed"]

DEFAULT_SEED: Final = 42069
_BLOCKS: Final = 1 << 64
_ATTRIBUTE: Final = "_random_generator"


class Generator:
    """A stream of random words.

    Attributes:
        state: uint32[4]: key and counter, low words first. Whoever changes it assigns it a new value, as with any
            tensor.

    Raises:
        IntegerError: `seed` is no integer.

    >>> one, other = zyx.Generator(7), zyx.Generator(7)
    >>> zyx.array_equal(zyx.rand(3, generator=one), zyx.rand(3, generator=other))
    True
    """

    def __init__(self, seed: int = DEFAULT_SEED, *, device: str | None = None, runtime: Runtime | None = None) -> None:
        """Start the stream of `seed`, any integer, of which 64 bits count."""
        self._runtime = current() if runtime is None else runtime
        self._device = self._runtime.default_device if device is None else self._runtime.device_name(device)
        self._key, self._counter = as_index(seed, "seed") % _BLOCKS, 0  # what `_known` holds
        self.state = Tensor.of(self._leaf(self._device), self._runtime)
        self._known = self.state.node
        self._runtime.forked.add(self)

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of `seed` from its beginning; return this generator."""
        key = as_index(seed, "seed")
        with self._runtime.lock:
            self._move_to(key, 0)
        return self

    def _move_to(self, key: int, counter: int) -> None:
        """Assign a state, and keep in mind what it holds."""
        self._key, self._counter = key % _BLOCKS, counter % _BLOCKS
        self._runtime.assign(self.state, self._leaf(self._device))
        self._known = self.state.node

    def _leaf(self, device: str) -> Node:
        """Return a leaf on `device` with the state that is kept in mind."""
        words = [self._key & 0xFFFFFFFF, self._key >> 32, self._counter & 0xFFFFFFFF, self._counter >> 32]
        return self._runtime.upload(np.array(words, dtype=np.uint32), device)

    def _read(self) -> None:
        """Keep in mind what the state holds, if somebody else has assigned it: a replayed function, or a checkpoint."""
        if self.state.node is not self._known:
            key_low, key_high, low, high = (int(word) for word in self.state.numpy())
            self._key, self._counter = key_low | key_high << 32, low | high << 32

    def after_fork(self) -> None:
        """In the child of a fork: go on with a stream of its own, unless the state is lost with its device."""
        storage = self.state.node.storage
        if isinstance(storage, Buffer) and storage.pool not in self._runtime.memory.lost:
            self._read()
            self._move_to(_key_of_child(self._key), self._counter)

    def _copied(self, device: str | None, runtime: Runtime | None) -> Generator:
        with self._runtime.lock:
            self._read()
            return _generator_at(self._key, self._counter, device, runtime)

    def __copy__(self) -> Generator:
        return self._copied(self._device, self._runtime)

    def __deepcopy__(self, memo: dict[int, Any]) -> Generator:
        return self._copied(self._device, self._runtime)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        with self._runtime.lock:
            self._read()
            return _generator_at, (self._key, self._counter)  # by value, to the default device

    def words(self, count: int, device: str) -> Node:
        """Return the state from which to draw the next `count` blocks, on `device`, and move on behind them."""
        with self._runtime.lock:
            graph, tracing = self._runtime.graph, self._runtime.tracing
            if tracing is not None:
                count = tracing.blocks(count)
            node = self.state.node
            if tracing is not None and tracing.is_replayed:
                self._runtime.assign(self.state, _advanced(Term(graph, node), count).node)
                return tracing.stream(graph.to_device(node, device))
            self._read()
            is_there = device == node.device and type(node.storage) is Buffer  # or zyx.close() took it
            taken = node if is_there else self._leaf(device)
            self._move_to(self._key, self._counter + count)
            return taken if tracing is None else tracing.stream(taken)


def _advanced(state: Term, count: int) -> Term:
    """Return the state with the counter moved on, in 32-bit words with a carry."""
    low = state.narrow(0, 2, 3)
    few, many = (count, 0) if count <= 0xFFFFFFFF else (count & 0xFFFFFFFF, count >> 32)
    moved = low + few
    high = state.narrow(0, 3, 4) + many + (moved < low).cast(dtypes.uint32)
    position = state.iota(0, dtypes.int32)
    counter = (position == 2).where(moved.expand((4,)), high.expand((4,)))
    return (position < 2).where(state, counter)


def _generator_at(key: int, counter: int, device: str | None = None, runtime: Runtime | None = None) -> Generator:
    """Return a generator that goes on where another one is."""
    generator = Generator(key, device=device, runtime=runtime)
    generator._move_to(key, counter)
    return generator


def _key_of_child(key: int) -> int:
    """Return the key of the stream that takes the place of that of `key` in this process, the child of a fork."""
    text = repr((key, lineage())).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def default_generator() -> Generator:
    """Return the generator that functions use where none is named; each runtime has one, and each rank of threads.

    >>> zyx.default_generator() is zyx.default_generator()
    True
    """
    runtime = current()
    with runtime.lock:
        # It is kept among the attributes of the runtime, so that the two die together.
        own = own_of(runtime)
        found = own.get(_ATTRIBUTE)
        if not isinstance(found, Generator):
            with runtime.traced_by(None):
                seed = _key_of_child(DEFAULT_SEED) if lineage() else DEFAULT_SEED
                found = own[_ATTRIBUTE] = Generator(seed, runtime=runtime)
    return found


def take_generator() -> None:
    """In a rank that is a thread: have a default generator of its own, which begins where that of the process is."""
    runtime = current()
    with runtime.lock:
        of_process = vars(runtime).get(_ATTRIBUTE)
        if isinstance(of_process, Generator):
            own_of(runtime)[_ATTRIBUTE] = of_process._copied(None, runtime)


def manual_seed(seed: int) -> Generator:
    """Let the default generator start the stream of `seed`; return it.

    Raises:
        IntegerError: `seed` is no integer.

    >>> generator = zyx.manual_seed(7)
    >>> first = zyx.rand(3)
    >>> generator = zyx.manual_seed(7)
    >>> zyx.array_equal(first, zyx.rand(3))
    True
    """
    return default_generator().manual_seed(seed)


def draw(shape: Shape, dtype: DType, generator: Generator | None, device: str | None, draws: int = 1) -> list[Term]:
    """Return `draws` terms of random words, uint32 or uint64, of `shape`."""
    source = default_generator() if generator is None else generator
    runtime = source.state.runtime
    if device is not None:
        place = runtime.device_name(device)
    else:
        place = runtime.default_device if generator is None else source.state.node.device
    count = shapes.size_of(shape)
    state = source.words(count * draws, place)
    graph = runtime.graph
    return [Term(graph, graph.random_bits(state, shape, dtype, count * i)) for i in range(draws)]


def owner(generator: Generator | None) -> Tensor:
    """Return a tensor that belongs where the words of `generator` do."""
    return (default_generator() if generator is None else generator).state
