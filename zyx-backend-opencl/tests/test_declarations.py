"""Programs that declare what they name: whatever a kernel can name is declared, and computes what it did."""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx import ops
from zyx.render import scalar
from zyx.testing.launching import run_on
from zyx_backend_opencl.declarations import WITHOUT_HEADER, declared, reads_header
from zyx_backend_opencl.driver import BuildError, Session
from zyx_backend_opencl.render import LANES, SUBGROUPS, Features, opencl_dialect

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.kernel.data import Kernel
    from zyx.render.dialect import Dialect
    from zyx.runtime.runtime import Runtime
    from zyx_backend_opencl.device import ClDevice

#: What is written like a call in a kernel, and is none of a function of OpenCL's; types are told by their names.
NO_CALLS = {"if", "for", "volatile", "__attribute__", "reqd_work_group_size", "intel_reqd_sub_group_size", "aligned"}

DIALECTS = [
    opencl_dialect(Features(has_f16, has_f64, has_i64, has_i64, True, subgroups))
    for has_f16, (has_f64, has_i64) in product([False, True], [(False, False), (False, True), (True, True)])
    for subgroups in ("", *SUBGROUPS)
]


@pytest.fixture(params=DIALECTS, ids=lambda dialect: f"{len(dialect.types)} types, {len(dialect.swaps)} swaps")
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return request.param


@pytest.fixture
def headless(device: ClDevice) -> ClDevice:
    """The device, if its compiler reads a header for every program."""
    platform = device.pool.session.device.platform
    if not reads_header(platform):
        pytest.skip(f"the compiler of {platform} reads no header as text")
    return device


def everything(dialect: Dialect) -> str:
    """Return a source with each form of a dialect in it: of operations, conversions, literals, memory and barriers."""
    types, lines = dialect.types, []
    forms = [(scalar.unary(op, dtype, dialect), dtype) for dtype in types for op in ops.unary_ops(dtype)]
    forms += [(scalar.binary(op, dtype, dialect), dtype) for dtype in types for op in ops.binary_ops(dtype)]
    forms += [(scalar.multiply_add(dtype, dialect), dtype) for dtype in types if dtype.is_float]
    forms += [(text, source) for (source, _), text in (*dialect.casts.items(), *dialect.bitcasts.items())]
    forms += [(text, dtype) for dtype, text in dialect.swaps.items()]
    for form, dtype in forms:
        if form is not None:
            names = {name: f"{name}_{dtype.short}" for name in "xyz"}
            lines.append(f"(void)({form.format(**names, distance=1)});")
    for space, dtype in product(("global", "local"), types):
        memory = dialect.memory_type(dtype)
        pointer = f"({space[0]}_{dtype.short} + 16)"
        lines += [
            f"*(__{space} {memory}{lanes} *){pointer} = *(const __{space} {memory}{lanes} *)({pointer} + 16);"
            for lanes in LANES
        ]
        lines += [text.format(pointer=pointer, value="1") for (_, key), text in dialect.atomics.items() if key is dtype]
        if dtype.is_integer and dtype.bits in dialect.exchange:
            lines.append(f"(void){dialect.exchange[dtype.bits].format(pointer=pointer, old='1', new='2')};")
    lines += [f"x_{dtype.short} = {text};" for table in (dialect.infinity, dialect.nan) for dtype, text in table.items()
              if dtype in types]  # fmt: skip
    lines += [f"x_{dtypes.int32.short} = {text};" for text in (*dialect.group_index, *dialect.local_index)]
    lines += [dialect.barrier, dialect.local_barrier]
    shared = [
        dialect.local_array.format(element=dialect.memory_type(dtype), name=f"l_{dtype.short}", length=64)
        for dtype in types
    ]
    values = [f"{name} x_{d.short} = 1, y_{d.short} = 2, z_{d.short} = 3;" for d, name in types.items()]
    params = ", ".join(
        dialect.pointer.format(const="", element=dialect.memory_type(dtype), name=f"g_{dtype.short}") for dtype in types
    )
    head = dialect.kernel.format(name="everything", params=params, shape="1, 1, 1")
    return "\n".join([f"{dialect.preamble}{head}", *shared, *values, *lines, "}"])


def test_whatever_a_kernel_can_call_is_declared(dialect: Dialect):
    source = everything(dialect)
    before = declared(source).removesuffix(source)
    own = set(re.findall(r"^static inline \w+ (\w+)\(", dialect.preamble, re.MULTILINE)) | {"everything"}
    called = set(re.findall(r"\b([A-Za-z_]\w*)\(", source)) - own - NO_CALLS
    macros = {name for name in called if name.startswith("as_")}
    assert called - macros == set(re.findall(r"\b(\w+)\((?!\()", before)) - NO_CALLS
    assert {"get_group_id", "get_local_id", "barrier", "sqrt", "fmod", "fma", "atomic_cmpxchg", "atomic_xor"} <= called


def test_a_program_declares_no_more_than_it_names():
    text = declared("__kernel void f(__global float4 *p) { p[get_group_id(0)] = fma(p[0].s0, p[0].s1, 2.0f); }")
    assert re.findall(r"\w+(?=\((?:uint|float))", text) == ["get_group_id", "fma"]
    assert len(text) < 300


def test_everything_that_a_kernel_can_name_builds_without_the_header(headless: ClDevice):
    session, options = headless.pool.session, f"{headless._options} {WITHOUT_HEADER}"
    source = everything(headless.dialect)
    session.build(declared(source), options)
    with pytest.raises(BuildError):  # so nothing but these declarations was there
        session.build(source, options)


def test_a_compiler_that_takes_no_declarations_is_given_none_and_that_is_told(
    headless: ClDevice, fresh: Callable[..., Runtime], add: Callable[..., Kernel], monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
):  # fmt: skip
    monkeypatch.setattr("zyx_backend_opencl.device.declared", lambda source: f"#error not today\n{source}")
    built: list[str] = []
    build = Session.build
    monkeypatch.setattr(Session, "build", lambda self, *args: built.append(args[1]) or build(self, *args))
    runtime = fresh()
    device = runtime.device()
    key = device._key("source")  # type: ignore[attr-defined]  # of this backend's devices
    for number in range(2):
        kernel = add(number + 1)
        (result,) = run_on(device, kernel, [np.full(64, 5, np.int32)])
        assert set(result.tolist()) == {number + 6}
    assert [WITHOUT_HEADER in options for options in built] == [True, False, False]
    assert device._key("source") != key  # type: ignore[attr-defined]
    notes = runtime.backends.open("opencl").notes
    assert len([note for note in notes if "takes no program without its header" in note]) == 1
    capfd.readouterr()  # the compiler prints as well
