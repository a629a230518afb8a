"""The launch arguments of a kernel, and what is refused."""

import pytest

from zyx import dtype as dtypes
from zyx.builtin.host import HostPool
from zyx.drivers.arguments import (
    Parameter,
    check_argument,
    check_arguments,
    native_arguments,
    parameters_of,
    scalar_bytes,
)
from zyx.errors import LaunchError
from zyx.kernel import data as k
from zyx.kernel.build import Builder

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


def test_one_argument_is_refused_by_the_name_it_is_given():
    pool = HostPool("memory", 1 << 16)
    buffer, _ = pool.allocate(8)
    check_argument(buffer, Parameter(8), pool, "argument 3 of kernel fill")
    check_argument(7, Parameter(0, dtypes.int8), pool, "argument 3 of kernel fill")
    for arg, parameter, words in (
        (buffer, Parameter(9), "has 8 bytes; the kernel reaches 9"),
        (1, Parameter(8), "is 1, not a buffer"),
        (float("nan"), Parameter(0, dtypes.int8), "is nan: "),
    ):
        with pytest.raises(LaunchError, match=f"argument 3 of kernel fill {words}"):
            check_argument(arg, parameter, pool, "argument 3 of kernel fill")


class TestNatives:
    """What a driver is given."""

    PARAMETERS = (Parameter(8), Parameter(12), Parameter(0, dtypes.int16))

    def test_buffers_become_their_memory_and_numbers_bytes(self, pool, allocate):
        first, second = allocate(8), allocate(16)
        assert native_arguments([first, second], self.PARAMETERS[:2], pool, "kernel fill") == [0, 1]
        assert native_arguments([first, second, -2], self.PARAMETERS, pool, "kernel fill") == [0, 1, b"\xfe\xff"]
        assert native_arguments([], (), pool, "kernel fill") == []

    def test_what_does_not_fit_is_refused(self, pool, new_pool, allocate):
        first, second, gone = allocate(8), allocate(16), allocate(16)
        foreign, _ = new_pool().allocate(16)
        elsewhere, _ = HostPool("elsewhere", 64).allocate(16)
        pool.deallocate(gone)
        for args, words in (
            ([first, second], "takes 3 arguments"),
            ([first, second, 1, 2], "takes 3 arguments"),
            ([first, first, 1], "argument 1 of kernel fill has 8 bytes; the kernel reaches 12"),
            ([first, gone, 1], "argument 1 of kernel fill was freed before"),
            ([first, foreign, 1], "argument 1 of kernel fill is a buffer of pool"),
            ([first, elsewhere, 1], "argument 1 of kernel fill is a buffer of pool elsewhere"),
            ([first, second, second], "argument 2 of kernel fill is .*, not a number"),
            ([1, second, 1], "argument 0 of kernel fill is 1, not a buffer"),
        ):
            with pytest.raises(LaunchError, match=words):
                native_arguments(args, self.PARAMETERS, pool, "kernel fill")
