"""Put rows in order: choose how for a device, and write it as hand-written kernels.

    very short rows        a network in registers, a thread a row                          `network`
    threads share memory   tiles sorted in local memory, then merged                       `tiles`
    a thread with vectors  the same tiles, in each lane that of another row                `lanes`
    the first few of them  by comparing each with the last of the best so far              `few`
    a thread a group       digits counted and distributed, in rows or in chunks of them    `radix`
    whatever lacks these   each element is compared with all others, as ordinary nodes     `counting`

All but the last move records, keys with their places (`code`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zyx.arithmetic.powers import previous_power
from zyx.kernels.sorting.bitonic import tile_for
from zyx.kernels.sorting.code import make_records, places_of, records_for
from zyx.kernels.sorting.counting import count_order
from zyx.kernels.sorting.few import MOST_KEPT, few_kernel
from zyx.kernels.sorting.lanes import Lanes, lanes_for, lanes_kernel
from zyx.kernels.sorting.network import network_kernel
from zyx.kernels.sorting.radix import Digits, count_kernel, move_kernel, private_bytes, rows_kernel
from zyx.kernels.sorting.tiles import Tiles, largest_tile, merge_kernel, rows_of_group, tile_kernel
from zyx.shape import size_of

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo
    from zyx.graph import Graph
    from zyx.graph import node as n
    from zyx.graph.node import Node
    from zyx.kernels.sorting.code import Records

#: Elements of the longest row that is sorted by a network.
_NETWORK: Final = 16
#: Rows up to this are sorted by comparing all with all, where a group is one thread: digits would take longer.
_COUNTED: Final = 64
#: Elements of a chunk that is worth a group.
_CHUNK: Final = 1 << 14
#: A tile's records are dropped from the one in so many on.
_KEPT_PART: Final = 4
#: Records are few if they are one in so many.
_FEW_PART: Final = 32
#: So many rows of a group that lie side by side are read in pieces that are large enough.
_LEAST_SIDE_BY_SIDE: Final = 4
#: Threads of a group that sorts short rows, a thread a row.
_NETWORK_THREADS: Final = 128


def sort_order(graph: Graph, node: n.Sort, info: DeviceInfo, way: int = 0) -> Node:
    """Return nodes with the values of `node`.

    Args:
        graph: To make nodes with.
        node: What to sort.
        info: The device.
        way: 0 as the device is best at; 1 by kernels that hardly a compiler refuses, in which nothing is shared and
            nothing is a vector; 2 by ordinary nodes.
    """
    if way:
        info = replace(info, max_group_threads=1, local_bytes=0, vector_bytes=0)
    (keys,) = node.sources
    axis, count = node.axis, node.shape[node.axis]
    size = keys.shape[axis]
    if size == 1:
        return graph.const(0, node.dtype, node.device, node.shape)
    records = records_for(keys.dtype, node.bits, size, info)
    if (
        way == 2
        or info.max_params < 3 * len(records.words)
        or not all(info.can_compute(word) for word in records.words)
    ):
        return count_order(graph, node)
    rows = size_of(keys.shape) // size
    is_few = info.max_group_threads == 1 and count <= MOST_KEPT and count * _FEW_PART <= size
    lanes = lanes_for(records, rows, size, info) if info.max_group_threads == 1 and not is_few else 1
    if lanes > 1:
        return _narrow(graph, _by_lanes(graph, keys, axis, records, lanes), axis, count)
    if size <= _NETWORK and not way:
        return _narrow(graph, _by_network(graph, keys, axis, records, info), axis, count)
    order = (*(i for i in range(keys.ndim) if i != axis), axis)
    tile = largest_tile(records.words, info)
    if not is_few and not tile and (size <= _COUNTED or info.private_bytes < private_bytes(rows * size)):
        return count_order(graph, node)
    inner = size_of(keys.shape[axis + 1 :])
    if inner > 1 and size <= tile and rows_of_group(tile_for(size), tile) >= _LEAST_SIDE_BY_SIDE:
        lying = graph.reshape(keys, (rows // inner, size, inner))
        tiles = Tiles(rows, size, tile_for(size), records.words, inner)
        kernel = tile_kernel(tiles, count, tile, is_first=False)
        words = kernel.apply(graph, tuple(make_records(graph, lying, 1, records)))
        return graph.reshape(places_of(graph, words, records), node.shape)
    lying = graph.reshape(graph.permute(keys, order), (rows, size))
    words = make_records(graph, lying, 1, records)
    if is_few:
        places = _by_few(graph, words, records, info, count)
    elif tile:
        places = _by_tiles(graph, words, records, info, tile, count)
    else:
        places = _by_digits(graph, words, records, info)
    shape = tuple(keys.shape[i] for i in order[:-1])
    places = graph.reshape(_narrow(graph, places, 1, count), (*shape, count))
    return graph.permute(places, tuple(order.index(i) for i in range(keys.ndim)))


def _narrow(graph: Graph, node: Node, axis: int, count: int) -> Node:
    return graph.shrink(node, [(0, count if i == axis else size) for i, size in enumerate(node.shape)])


def _by_network(graph: Graph, keys: Node, axis: int, records: Records, info: DeviceInfo) -> Node:
    outer, inner = size_of(keys.shape[:axis]), size_of(keys.shape[axis + 1 :])
    size = keys.shape[axis]
    threads = min(_NETWORK_THREADS, info.max_group_threads, info.max_group_shape[0])
    words = make_records(graph, graph.reshape(keys, (outer, size, inner)), 1, records)
    kernel = network_kernel(outer, size, inner, records.words, threads)
    return graph.reshape(places_of(graph, kernel.apply(graph, tuple(words)), records), keys.shape)


def _by_lanes(graph: Graph, keys: Node, axis: int, records: Records, lanes: int) -> Node:
    size = keys.shape[axis]
    rows = size_of(keys.shape) // size
    if axis == keys.ndim - 1 or size_of(keys.shape[axis + 1 :]) == 1:
        lying = graph.reshape(keys, (rows, size))
        kernel = lanes_kernel(Lanes(rows, size, lanes, are_columns=False), records.words)
        words = kernel.apply(graph, tuple(make_records(graph, lying, 1, records)))
        return graph.reshape(places_of(graph, words, records), keys.shape)
    order = (axis, *(i for i in range(keys.ndim) if i != axis))
    turned = graph.permute(keys, order)
    width = -(-rows // lanes) * lanes
    lying = graph.pad(graph.reshape(turned, (size, rows)), [(0, 0), (0, width - rows)], 0)
    kernel = lanes_kernel(Lanes(width, size, lanes, are_columns=True), records.words)
    places = places_of(graph, kernel.apply(graph, tuple(make_records(graph, lying, 0, records))), records)
    places = graph.reshape(_narrow(graph, places, 1, rows), turned.shape)
    return graph.permute(places, tuple(order.index(i) for i in range(keys.ndim)))


def _by_tiles(graph: Graph, words: list[Node], records: Records, info: DeviceInfo, tile: int, count: int) -> Node:
    """Return the places, ``(rows, count or more)``."""
    rows, size = words[0].shape
    threads = min(info.max_group_threads, info.max_group_shape[0])
    threads = previous_power(threads)
    while size > tile and count * _KEPT_PART <= tile:
        tiles = Tiles(rows, size, tile, records.words)
        kernel = tile_kernel(tiles, count, tile, is_first=False)
        size = tiles.count * count
        words = kernel.apply(graph, tuple(words))
    if size <= tile:
        tiles = Tiles(rows, size, tile_for(size), records.words)
        words = tile_kernel(tiles, count, tile, is_first=False).apply(graph, tuple(words))
        return places_of(graph, words, records)
    tiles = Tiles(rows, size, tile, records.words)
    words = tile_kernel(tiles, tile, tile, is_first=True).apply(graph, tuple(words))
    kernel = merge_kernel(tiles, threads, info.local_bytes)
    run = tile
    while run < size:
        words = kernel.apply(graph, tuple(words))
        run *= 2
    places = places_of(graph, [_narrow(graph, node, 0, rows * size) for node in words], records)
    return graph.reshape(places, (rows, size))


def _by_few(graph: Graph, words: list[Node], records: Records, info: DeviceInfo, count: int) -> Node:
    rows, size = words[0].shape
    while True:
        chunks = min(-(-info.units // rows), -(-size // _CHUNK))
        kernel = few_kernel(rows, size, -(-size // chunks), count, records.words)
        words = kernel.apply(graph, tuple(words))
        size = words[0].shape[1]
        if size == count:
            return places_of(graph, words, records)


def _by_digits(graph: Graph, words: list[Node], records: Records, info: DeviceInfo) -> Node:
    rows, size = words[0].shape
    wanted = info.units * max(info.warp_size, 1)
    chunks = min(-(-wanted // rows), -(-size // _CHUNK))
    digits = Digits(rows, size, -(-size // chunks), records)
    if digits.chunks == 1 and digits.passes * private_bytes(rows * size) <= info.private_bytes:
        in_local_memory = size * records.nbytes <= info.local_bytes // 2
        kernel = rows_kernel(digits, in_local_memory=in_local_memory)
        return places_of(graph, kernel.apply(graph, tuple(words))[: len(words)], records)
    for number in range(digits.passes):
        (table,) = count_kernel(digits, number).apply(graph, (words[0],))
        words = move_kernel(digits, number).apply(graph, (*words, table))
    return places_of(graph, words, records)
