"""A cuBLASLt that exists on paper: functions in C, as ctypes sees them, that check every call and compute with NumPy.

Products run as late as the streams of `fake_driver` let them. What must not be done is noted in `violations`; a call
that does it returns `INVALID_VALUE`.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from ctypes import c_char, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from zyx.kernel.wmma import to_tf32

if TYPE_CHECKING:
    from collections.abc import Callable

    from fake_driver import FakeSession, FakeStream

ALLOC_FAILED, INVALID_VALUE, EXECUTION_FAILED, NOT_SUPPORTED = 3, 7, 13, 15

TYPES = {0: np.float32, 1: np.float64, 2: np.float16, 14: ml_dtypes.bfloat16}
#: Kinds of sums, with what their factors must be. The last takes float32 factors with 11 significant bits.
SUMS = {68: 0, 70: 1, 77: 0}
#: Of the attributes of each kind of descriptor: the number and the type.
ATTRIBUTES = {
    "desc": {3: c_int32, 4: c_int32},
    "layout": {5: c_int32, 6: c_int64},
    "preference": {1: c_uint64, 3: c_uint32, 5: c_uint32, 6: c_uint32, 7: c_uint32, 8: c_uint32},
}
WORKSPACE_ALIGNMENT = 256

SIGNATURES: dict[str, tuple[Any, ...]] = {
    "Create": (c_void_p,), "Destroy": (c_void_p,),
    "MatmulDescCreate": (c_void_p, c_int, c_int), "MatmulDescDestroy": (c_void_p,),
    "MatmulDescSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "MatrixLayoutCreate": (c_void_p, c_int, c_uint64, c_uint64, c_int64), "MatrixLayoutDestroy": (c_void_p,),
    "MatrixLayoutSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "MatmulPreferenceCreate": (c_void_p,), "MatmulPreferenceDestroy": (c_void_p,),
    "MatmulPreferenceSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "MatmulAlgoGetHeuristic": (*(c_void_p,) * 7, c_int, c_void_p, c_void_p),
    "Matmul": (*(c_void_p,) * 14, c_size_t, c_void_p),
}  # fmt: skip


class Algorithm(ctypes.Structure):
    """What the library says of an algorithm."""

    _fields_ = (
        ("algorithm", c_char * 64), ("workspace", c_size_t), ("state", c_int), ("waves", c_float), ("rest", c_int * 4),
    )  # fmt: skip


class Refusal(Exception):
    """A call is to return a status."""

    def __init__(self, status: int, violation: str = "") -> None:
        super().__init__(violation)
        self.status = status


def need(condition: object, what: str) -> None:
    """Note a violation."""
    if not condition:
        raise Refusal(INVALID_VALUE, what)


class FakeBlas:
    """The library.

    Attributes:
        session: The device that it works on.
        counts: How often each function was called, without the prefix.
        alive: What was made and not destroyed: its kind and values, by handle.
        violations: What was done that must not be done.
        refusals: For names of functions, the statuses that their next calls return; those at None work.
        states: The statuses that the next algorithms have.
        asked: The alignments that algorithms were asked for with.
        finds: Whether there are algorithms.
    """

    def __init__(
        self, session: FakeSession, prefix: str = "cublasLt", signatures: dict[str, tuple[Any, ...]] = SIGNATURES
    ) -> None:
        self.session = session
        self.counts: Counter[str] = Counter()
        self.alive: dict[int, dict[Any, Any]] = {}
        self.violations: list[str] = []
        self.refusals: dict[str, list[int | None]] = {}
        self.states: list[int] = []
        self.asked: list[tuple[int, ...]] = []
        self.finds = True
        self._next = 0x5000
        self._version = ctypes.CFUNCTYPE(c_size_t)(lambda: 130_101)
        for name, types in signatures.items():
            made = ctypes.CFUNCTYPE(c_int, *types)(self._guarded(name))
            setattr(self, f"{prefix}{name}", made)

    @property
    def cublasLtGetVersion(self) -> Any:  # as the library calls it
        return self._version

    def _guarded(self, name: str) -> Callable[..., int]:
        function = getattr(self, f"_{name}")

        def call(*arguments: Any) -> int:
            self.counts[name] += 1
            try:
                status = self.refusals[name].pop(0) if self.refusals.get(name) else None
                if status is not None:
                    return status
                function(*arguments)
            except Refusal as refusal:
                if str(refusal):
                    self.violations.append(f"{name}: {refusal}")
                return refusal.status
            except Exception as error:  # noqa: BLE001  # nothing may leave a function in C
                self.violations.append(f"{name}: {error!r}")
                return INVALID_VALUE
            return 0

        return call

    def _new(self, place: int, kind: str, **values: Any) -> None:
        self._next += 16
        self.alive[self._next] = {"kind": kind, **values}
        c_void_p.from_address(place).value = self._next

    def _find(self, handle: int | None, kind: str) -> dict[Any, Any]:
        found = self.alive.get(handle or 0)
        if found is None or found["kind"] != kind:
            raise Refusal(INVALID_VALUE, f"{handle} is no {kind} that is alive")
        return found

    def _delete(self, handle: int, kind: str) -> None:
        self._find(handle, kind)
        del self.alive[handle]

    def _attribute(self, kind: str, handle: int, number: int, value: int, nbytes: int) -> None:
        found, type_ = self._find(handle, kind), ATTRIBUTES[kind].get(number)
        if type_ is None or nbytes != ctypes.sizeof(type_):
            raise Refusal(INVALID_VALUE, f"attribute {number} of a {kind}, of {nbytes} bytes")
        found[number] = type_.from_address(value).value

    # ---- handles and descriptors

    def _Create(self, place: int) -> None:
        need(self.session.depth, "no device is current")
        self._new(place, "handle")

    def _Destroy(self, handle: int) -> None:
        need(self.session.depth, "no device is current")
        self._delete(handle, "handle")

    def _MatmulDescCreate(self, place: int, sums: int, factors: int) -> None:
        need(SUMS.get(sums) == factors, f"sums {sums} with factors {factors}")
        self._new(place, "desc", sums=sums)

    def _MatmulDescDestroy(self, handle: int) -> None:
        self._delete(handle, "desc")

    def _MatmulDescSetAttribute(self, *arguments: int) -> None:
        self._attribute("desc", *arguments)

    def _MatrixLayoutCreate(self, place: int, type_: int, rows: int, columns: int, step: int) -> None:
        need(type_ in TYPES and 0 < rows <= step and columns > 0, f"type {type_}, {rows} x {columns}, step {step}")
        self._new(place, "layout", type=type_, rows=rows, columns=columns, step=step)

    def _MatrixLayoutDestroy(self, handle: int) -> None:
        self._delete(handle, "layout")

    def _MatrixLayoutSetAttribute(self, *arguments: int) -> None:
        self._attribute("layout", *arguments)

    def _MatmulPreferenceCreate(self, place: int) -> None:
        self._new(place, "preference")

    def _MatmulPreferenceDestroy(self, handle: int) -> None:
        self._delete(handle, "preference")

    def _MatmulPreferenceSetAttribute(self, *arguments: int) -> None:
        self._attribute("preference", *arguments)

    # ---- products

    def _shapes(self, desc: dict[Any, Any], left: dict[Any, Any], right: dict[Any, Any], out: dict[Any, Any]) -> None:
        def turned(layout: dict[Any, Any], operation: int) -> tuple[int, int]:
            need(operation in (0, 1), f"operation {operation}")
            return (layout["columns"], layout["rows"]) if operation else (layout["rows"], layout["columns"])

        (rows, depth), (other, columns) = turned(left, desc.get(3, 0)), turned(right, desc.get(4, 0))
        need((rows, columns) == (out["rows"], out["columns"]), "the result does not fit")
        need(depth == other and left["type"] == right["type"], "the operands do not fit")
        need(left.get(5, 1) == right.get(5, 1) == out.get(5, 1), "numbers of matrices differ")
        need((desc["sums"] == 70) == (left["type"] == 1), "the kind of sums is not the operands'")
        need(desc["sums"] != 77 or left["type"] == 0, "only float32 factors have bits to leave out")

    def _MatmulAlgoGetHeuristic(self, *arguments: int) -> None:
        handle, desc, left, right, added, out, preference, wanted, record, found = arguments
        need(self.session.depth, "no device is current")
        self._find(handle, "handle")
        self._shapes(self._find(desc, "desc"), *(self._find(layout, "layout") for layout in (left, right, out)))
        need(added == out and wanted == 1, "what is added is not what is written, or more than one is asked for")
        given = self._find(preference, "preference")
        need(set(given) == {"kind", *ATTRIBUTES["preference"]}, "a preference is not set")
        need(given[3] == 2, "partial sums may be rounded")
        self.asked.append(tuple(given[number] for number in (5, 6, 7, 8)))
        least = min(self.asked[-1])
        algorithm = f"algorithm of {desc} for {','.join(map(str, self.asked[-1]))}".encode()
        state = self.states.pop(0) if self.states else 0
        need(least >= 1, "alignment 0")
        Algorithm.from_address(record).algorithm = algorithm
        Algorithm.from_address(record).workspace = given[1]
        Algorithm.from_address(record).state = state
        c_int.from_address(found).value = int(self.finds)

    def _Matmul(self, *arguments: int) -> None:
        handle, desc, alpha, x, left, y, right, beta, added, added_layout, result, out = arguments[:12]
        algorithm, workspace, nbytes, stream_number = arguments[12:]
        need(self.session.depth, "no device is current")
        self._find(handle, "handle")
        layouts = [dict(self._find(layout, "layout")) for layout in (left, right, out)]
        product = dict(self._find(desc, "desc"))
        self._shapes(product, *layouts)
        need(added == result and added_layout == out, "what is added is not what is written")
        scalar = c_double if product["sums"] == 70 else c_float
        need((scalar.from_address(alpha).value, scalar.from_address(beta).value) == (1.0, 0.0), "factors")
        alignments = Algorithm.from_address(algorithm).algorithm.decode().rpartition(" ")[2].split(",")
        for address, alignment in zip((x, y, result, result), map(int, alignments), strict=True):
            need(address % alignment == 0, f"{address:#x} is not aligned to {alignment} bytes, as the algorithm needs")
        need(workspace % WORKSPACE_ALIGNMENT == 0, "the workspace is not aligned")
        self.session.at(workspace, nbytes)[:] = 0xEE
        stream: FakeStream = self.session.streams[stream_number]
        places = [self._strides(layout, address) for layout, address in zip(layouts, (x, y, result), strict=True)]

        def run() -> None:
            one, two, target = (self._view(*place) for place in places)
            one = one.swapaxes(1, 2) if product.get(3, 0) else one
            two = two.swapaxes(1, 2) if product.get(4, 0) else two
            sums = np.float64 if product["sums"] == 70 else np.float32
            if product["sums"] == 77:
                one, two = to_tf32(one), to_tf32(two)
            target[:] = (one.astype(sums) @ two.astype(sums)).astype(target.dtype)

        stream.put(run)

    def _strides(self, layout: dict[Any, Any], address: int) -> tuple[dict[Any, Any], int]:
        self._view(layout, address)
        return layout, address

    def _view(self, layout: dict[Any, Any], address: int) -> np.ndarray:
        """Return the matrices at an address, as the library counts them: batch, rows, columns."""
        dtype = np.dtype(TYPES[layout["type"]])
        count, batch_step = layout.get(5, 1), layout.get(6, 0)
        reach = (count - 1) * batch_step + (layout["columns"] - 1) * layout["step"] + layout["rows"]
        memory = self.session.at(address, reach * dtype.itemsize).view(dtype)
        return np.lib.stride_tricks.as_strided(
            memory,
            (count, layout["rows"], layout["columns"]),
            tuple(step * dtype.itemsize for step in (batch_step, 1, layout["step"])),
        )
