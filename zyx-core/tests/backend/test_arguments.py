"""The launch arguments of a kernel, and what is refused."""

import pytest

from zyx import dtype as dtypes
from zyx.backend.arguments import Parameter, check_arguments, parameters_of, scalar_bytes
from zyx.builtin.host import HostPool
from zyx.errors import LaunchError
from zyx.ir import kernel as k
from zyx.ir.builder import Builder

PARAMETERS = (Parameter(12), Parameter(0, dtypes.int8))


def test_parameters_are_those_of_the_kernel_in_order():
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtypes.float32, 3)
    b.store(out, b.const(0, dtypes.int64), b.cast(b.variable(dtypes.int8, "n"), dtypes.float32))
    found = parameters_of(b.finish("fill"))
    assert [(parameter.nbytes if parameter.scalar is None else 0, parameter.scalar) for parameter in found] == [
        (12, None), (0, dtypes.int8),
    ]  # fmt: skip


def test_arguments_that_fit_are_accepted():
    pool = HostPool("memory", 1 << 16)
    buffer, _ = pool.allocate(16)
    check_arguments([buffer, 7], PARAMETERS, pool, "kernel fill on test:0")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda pool, buffer: [buffer], "takes 2 arguments"),
        (lambda pool, buffer: [3, 7], "not a buffer"),
        (lambda pool, buffer: [buffer, buffer], "not a number"),
        (lambda pool, buffer: [HostPool("elsewhere", 64).allocate(16)[0], 7], "of pool elsewhere, not of memory"),
        (lambda pool, buffer: [pool.allocate(8)[0], 7], "has 8 bytes; the kernel reaches 12"),
        (lambda pool, buffer: [buffer, float("nan")], "nan"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_the_reason(make, words):
    pool = HostPool("memory", 1 << 16)
    buffer, _ = pool.allocate(16)
    with pytest.raises(LaunchError, match="kernel fill on test:0") as refused:
        check_arguments(make(pool, buffer), PARAMETERS, pool, "kernel fill on test:0")
    assert words in str(refused.value)


def test_a_freed_buffer_is_refused():
    pool = HostPool("memory", 1 << 16)
    buffer, _ = pool.allocate(16)
    pool.deallocate(buffer)
    with pytest.raises(LaunchError, match="freed before"):
        check_arguments([buffer, 7], PARAMETERS, pool, "kernel fill on test:0")


def test_numbers_lie_in_memory_as_their_dtype_says():
    assert scalar_bytes(-1, dtypes.int16, "x") == b"\xff\xff"
    assert scalar_bytes(1.5, dtypes.float32, "x") == b"\0\0\xc0\x3f"
    assert scalar_bytes(True, dtypes.bool_, "x") == b"\1"
