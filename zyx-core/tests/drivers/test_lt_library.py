"""What libraries with cuBLASLt's interface are told, and in which order; what they compute is tested with backends."""

from __future__ import annotations

import gc
from itertools import count

import pytest

from zyx import dtype as dtypes
from zyx.backend.library import Gemm
from zyx.drivers import lt_library
from zyx.drivers.lt_library import LtError, LtLibrary, LtNames
from zyx.errors import UnsupportedError

F32, F16 = dtypes.float32, dtypes.float16
NAMES = LtNames(
    name="Lt", prefix="lt", types={F32: 0, F16: 2}, sums={F32: 68, F16: 68}, operations=(0, 1), transposes=(3, 4),
    batches=(5, 6), statuses={3: "LT_ALLOC_FAILED"}, alignments=(5, 6, 7, 8), preferences={3: 2}, state_at=72,
)  # fmt: skip
GEMM = Gemm(1, 2, 3, 4, F32, F32)


class Native:
    """A library that notes what it is called with, and gives handles from 1 on.

    Attributes:
        calls: Functions, with their arguments as numbers.
        statuses: For functions, what their next call returns.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[object, ...]]] = []
        self.statuses: dict[str, int] = {}
        self._handles = count(1)

    def __getattr__(self, name: str):
        assert name in NAMES.functions(), name

        def call(*arguments):
            given = [getattr(argument, "_obj", argument) for argument in arguments]
            if name in self.statuses:
                return self.statuses.pop(name)
            if name.endswith("Create"):
                given[0].value = next(self._handles)
            if name == "ltMatmulAlgoGetHeuristic":
                given[-1].value = 1
            self.calls.append((name, tuple(getattr(argument, "value", argument) for argument in given)))
            return 0

        return call

    def names(self) -> list[str]:
        return [name.removeprefix("lt") for name, _ in self.calls]


@pytest.fixture
def native() -> Native:
    return Native()


@pytest.fixture
def library(native: Native) -> LtLibrary:
    return LtLibrary(native, NAMES)


def test_a_product_is_described_columns_first(native: Native, library: LtLibrary):
    product = library.product(Gemm(5, 2, 3, 4, F16, F32, transpose_a=True), 0x1000)
    made = {name: given for name, given in native.calls if name.endswith("Create")}
    assert made["ltMatmulDescCreate"][1:] == (68, 0)
    layouts = [given[1:] for name, given in native.calls if name == "ltMatrixLayoutCreate"]
    assert layouts == [(2, 3, 4, 3), (2, 2, 4, 2), (0, 3, 2, 3)]  # type, rows, columns, step: of b, a and c
    attributes = [given[1:] for name, given in native.calls if name.endswith("SetAttribute")]
    assert attributes == [
        (3, 0, 4), (4, 1, 4), (5, 5, 4), (6, 12, 8), (5, 5, 4), (6, 8, 8), (5, 5, 4), (6, 6, 8),
        (1, lt_library.WORKSPACE_BYTES, 8), (3, 2, 4), (5, 256, 4), (6, 256, 4), (7, 256, 4), (8, 256, 4),
    ]  # fmt: skip
    assert [parameter.nbytes for parameter in product.parameters] == [80, 120, 120]


def test_a_product_is_queued_with_its_operands_exchanged(native: Native, library: LtLibrary):
    product = library.product(GEMM, 0x1000)
    product.queue(0xA00, 0xB00, 0xC00, 77)
    name, given = native.calls[-1]
    assert name == "ltMatmul"
    handle, descriptor, left, right, out = 1, 2, 3, 4, 5
    assert given[:12] == (handle, descriptor, 1.0, 0xB00, left, 0xA00, right, 0.0, 0xC00, out, 0xC00, out)
    assert given[13:] == (0x1000, lt_library.WORKSPACE_BYTES, 77)


def test_alignments_are_asked_for_where_they_are_less_than_the_largest(native: Native, library: LtLibrary):
    product = library.product(GEMM, 0x1000)
    for addresses in ((0x400, 0x804, 0xC10), (0x800, 0x104, 0x410), (0x400, 0x800, 0xC00)):
        product.queue(*addresses, 77)
    asked = [given[2] for name, given in native.calls if name == "ltMatmulPreferenceSetAttribute" and given[1] > 4]
    assert asked == [256, 256, 256, 256, 4, 256, 16, 16]


def test_everything_is_destroyed_before_the_library_s_handle_and_once(native: Native, library: LtLibrary):
    kept, dropped = (library.product(GEMM, 0x1000) for _ in range(2))
    native.calls.clear()
    del dropped
    gc.collect()
    assert native.names() == ["MatrixLayoutDestroy"] * 3 + ["MatmulDescDestroy"]
    native.calls.clear()
    library.close()
    assert native.names() == [*["MatrixLayoutDestroy"] * 3, "MatmulDescDestroy", "Destroy"]
    native.calls.clear()
    library.close()
    kept.close()
    del kept
    gc.collect()
    assert native.calls == []


def test_no_more_algorithms_are_kept_than_there_may_be(
    native: Native, library: LtLibrary, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lt_library, "_KEPT", 2)
    for k in (1, 2, 1, 3, 3, 1):
        library.product(Gemm(1, 2, 3, k, F32, F32), 0x1000)
    assert native.names().count("MatmulAlgoGetHeuristic") == 4


def test_failures_name_the_function_and_the_status(native: Native):
    native.statuses["ltCreate"] = 3
    with pytest.raises(LtError, match=r"^ltCreate: LT_ALLOC_FAILED \(3\)$") as failed:
        LtLibrary(native, NAMES)
    assert failed.value.status == 3
    assert native.calls == []
    library = LtLibrary(native, NAMES)
    product = library.product(GEMM, 0x1000)
    native.statuses["ltMatmul"] = 44
    with pytest.raises(LtError, match=r"^ltMatmul: Lt status \(44\)$"):
        product.queue(0, 0, 0, 0)
    native.statuses["ltMatmulAlgoGetHeuristic"] = 3
    with pytest.raises(UnsupportedError, match=r"^Lt refuses Gemm.*: ltMatmulAlgoGetHeuristic: LT_ALLOC_FAILED \(3\)$"):
        library.product(Gemm(1, 2, 3, 5, F32, F32), 0x1000)
