"""From a nest to a tile program: what is done element by element, sums of products, and reductions along one range.

The axes of results are those of the last store; that along which it moves least is the columns, the next one the rows,
and each point of the others has a matrix of its own. A nest of one range is a vector, which is folded to a matrix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.errors import UnsupportedError
from zyx.nest import expr as e
from zyx.nest.accesses import below
from zyx.schedule.contraction import find_contraction
from zyx.schedule.plan import Plan, simplify_ranges
from zyx.tiles.blocks import with_blocks
from zyx.tiles.building import Building
from zyx.tiles.products import sides_of, write_product
from zyx.tiles.reductions import needs_elements_again, write_reductions
from zyx.tiles.views import Frame, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.nest.data import Nest, Statement, Store
    from zyx.nest.expr import Range
    from zyx.tiles.data import TileProgram


def build_program(nests: Sequence[Nest], name: str, info: DeviceInfo) -> TileProgram:
    """Return the tile program of nests for a device that computes on tiles.

    Raises:
        UnsupportedError: They are not of a form that has one, or it does not fit the device; the text has `name`.
    """
    if len(nests) > 1:
        raise UnsupportedError(f"{name}: {len(nests)} nests share a launch, and a tile program is of one")
    plan = Plan(nests[0])
    simplify_ranges(plan)
    try:
        return _program(plan.nest, name, info)
    except UnsupportedError as error:
        raise UnsupportedError(f"kernel {name}: {error}") from error


def _program(nest: Nest, name: str, info: DeviceInfo) -> TileProgram:
    building = Building(nest, info)
    _check_stores(building)
    if not building.combined:
        _write_elements(building, _ranges_of_results(building))
        return with_blocks(building.program(name), info)
    found = find_contraction(nest) if len(building.combined) == 1 else None
    if found is not None and (sides := sides_of(found, ranges := _ranges_of_results(building))) is not None:
        inner = write_product(building, found, ranges, sides)
        return with_blocks(building.program(name, inner), info)
    if needs_elements_again(building):
        inner = write_reductions(building, in_one_sweep=True)
        try:
            return with_blocks(building.program(name, inner), info, building.whole)
        except UnsupportedError:
            building = Building(nest, info)  # rows are too long for local memory
    inner = write_reductions(building, in_one_sweep=False)
    return with_blocks(building.program(name, inner), info, building.whole)


def _write_elements(building: Building, ranges: Sequence[Range]) -> None:
    """Write what is computed element by element."""
    if len(ranges) == 1:
        frame = building.folded(ranges[0])
    else:
        frame = Frame(
            building.batch(ranges[:-2]),
            building.row_axis(ranges[-2]) if ranges else None,
            building.column_axis(ranges[-1]) if ranges else None,
        )
    for store in building.stores:
        building.put(store, frame)
    building.end_sweep(None)


# ---- stores


def _ranges_of_results(building: Building) -> list[Range]:
    """Return the ranges that all stores have, the fastest last."""
    last = building.stores[-1]
    if any(set(store.order) != set(last.order) for store in building.stores):
        raise UnsupportedError("stores along different ranges have no tile program in common")
    return nearest(last.order, last.index)


def _check_stores(building: Building) -> None:
    """Refuse stores that are not of each result once."""
    stores = building.stores
    for store in stores:
        if store.mask is not None or store.combine is not None or store.serial or store.atomic:
            raise UnsupportedError(f"{store.param} is stored to under a mask, or combined with what is there")
    if len({store.param for store in stores}) < len(stores):
        raise UnsupportedError("a buffer is stored to more than once")
    for store in stores:
        _check_in_place(building.nest.statements, store)


def _check_in_place(statements: Sequence[Statement], store: Store) -> None:
    """Refuse what reads a buffer at other places than where it writes to it."""
    for statement in statements:
        for read in below(statement.expr):
            if isinstance(read, e.Read) and read.param is store.param and read.index is not store.index:
                raise UnsupportedError(f"{store.param} is read at other places than it is written at")
