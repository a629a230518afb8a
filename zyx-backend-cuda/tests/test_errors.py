"""What is made of the driver's errors, which packages give by number or by text."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from zyx.drivers.faults import Fault
from zyx.errors import AllocationError, DeviceLostError, LaunchError
from zyx_backend_cuda.errors import CODES, NO_DEVICE, NOT_READY, PEER_ALREADY_ENABLED, TEXTS, code_of, failure

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.parametrize("code", sorted(CODES.lost | CODES.memory | {NO_DEVICE, NOT_READY, 1, PEER_ALREADY_ENABLED}))
def test_every_code_that_is_acted_on_has_a_name_and_a_text(code: int):
    (text,) = [text for text, known in TEXTS.items() if known == code]
    assert code_of(text) == code_of(f"{text} - and more") == code
    assert CODES.name(code).startswith("CUDA_ERROR_")


def test_texts_are_told_apart_where_one_is_part_of_another():
    assert [code_of(text) for text in TEXTS] == list(TEXTS.values())
    assert code_of("operation not supported") == 801
    assert code_of("operation not supported on global/shared address space") == 717
    assert code_of("something new") == 999


@pytest.fixture
def driver_pycuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module, with as much of pycuda as importing it takes."""
    package, module = ModuleType("pycuda"), ModuleType("pycuda.driver")
    package.driver, module.Error = module, type("Error", (Exception,), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pycuda", package)
    monkeypatch.setitem(sys.modules, "pycuda.driver", module)
    monkeypatch.delitem(sys.modules, "zyx_backend_cuda.driver_pycuda", raising=False)
    monkeypatch.delattr(sys.modules["zyx_backend_cuda"], "driver_pycuda", raising=False)
    yield importlib.import_module("zyx_backend_cuda.driver_pycuda")
    del sys.modules["zyx_backend_cuda.driver_pycuda"], sys.modules["zyx_backend_cuda"].driver_pycuda  # type: ignore[attr-defined]


@pytest.mark.parametrize("code", sorted(CODES.lost | CODES.memory))
def test_errors_of_pycuda_are_the_same_as_those_of_cuda_bindings(driver_pycuda: ModuleType, code: int):
    text = next(text for text, known in TEXTS.items() if known == code)

    def fail() -> None:
        raise driver_pycuda.drv.Error(f"cuMemAlloc failed: {text}")

    with pytest.raises(Fault) as refused:
        driver_pycuda.call(fail)
    assert str(refused.value) == str(CODES.fault(code, "cuMemAlloc"))
    kind = DeviceLostError if code in CODES.lost else AllocationError
    assert type(failure("a launch", refused.value, LaunchError)) is kind
