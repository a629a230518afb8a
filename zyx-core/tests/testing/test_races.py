"""A run that sees races: kernels that lack a barrier fail, and those that have what they need do not."""

from __future__ import annotations

import numpy as np
import pytest

from zyx.kernel import data as k
from zyx.kernel.data import Kernel
from zyx.kernel.parse import parse_kernel
from zyx.kernel.verify import verify
from zyx.passes.copy_ahead import copy_ahead
from zyx.testing.kernels import arguments_for, random_kernel
from zyx.testing.races import RaceError, run_without_races

MIRROR = """
    kernel mirror
    %a = global f32[64] readonly
    %o = global f32[64]
    %l = local f32[32]
    %g = group 0 < 2 : i64
    %t = thread 0 < 32 : i64
    %n = const 32 : i64
    %last = const 31 : i64
    %m = mul %g, %n : i64
    %i = add %m, %t : i64
    %j = sub %last, %t : i64
    %x = load %a[%i] : f32
    store %l[%t] = %x
    {barrier}
    %y = load %l[%j] : f32
    {more}
    store %o[%i] = %y
"""


def run(text_or_kernel):
    kernel = text_or_kernel if isinstance(text_or_kernel, Kernel) else parse_kernel(text_or_kernel)
    verify(kernel)
    run_without_races(kernel, arguments_for(kernel))


def test_a_value_that_another_thread_has_written_needs_a_barrier():
    run(MIRROR.format(barrier="barrier", more=""))
    with pytest.raises(RaceError, match=r"kernel mirror: array %2: one thread reads what another writes, element \d+"):
        run(MIRROR.format(barrier="", more=""))


def test_a_value_that_another_thread_has_read_needs_a_barrier():
    run(MIRROR.format(barrier="barrier", more="barrier\nstore %l[%t] = %y"))
    with pytest.raises(RaceError, match="one thread writes what another reads"):
        run(MIRROR.format(barrier="barrier", more="store %l[%t] = %y"))


def test_two_threads_that_write_different_values_race_and_those_that_write_equal_ones_do_not():
    run(MIRROR.format(barrier="barrier", more="%z = const 0 : i64\n%c = const 1.0 : f32\nbarrier\nstore %l[%z] = %c"))
    with pytest.raises(RaceError, match="write different values"):
        run(MIRROR.format(barrier="barrier", more="%z = const 0 : i64\nbarrier\nstore %l[%z] = %y"))


def test_groups_never_meet():
    across = """
        kernel k
        %o = global i32[4]
        %p = global i32[4]
        %g = group 0 < 2 : i64
        %t = thread 0 < 2 : i64
        %two = const 2 : i64
        %three = const 3 : i64
        %first = mul %g, %two : i64
        %own = add %first, %t : i64
        %other = sub %three, %own : i64
        %one = const 1 : i32
        %x = load %o[%own] : i32
        %y = add %x, %one : i32
        store %o[%own] = %y
        barrier
        %z = load %o[{where}] : i32
        store %p[%own] = %z
    """
    run(across.format(where="%own"))
    with pytest.raises(RaceError, match="one thread reads what another writes"):
        run(across.format(where="%other"))


@pytest.mark.parametrize("most_waiting", [None, 0], ids=["waiting", "at once"])
def test_what_was_read_before_a_barrier_is_written_by_threads_of_the_group_alone(monkeypatch, most_waiting):
    if most_waiting is not None:
        monkeypatch.setattr("zyx.testing.races._MOST_WAITING", most_waiting)
    text = """
        kernel k
        %o = global f32[4]
        %g = group 0 < 2 : i64
        %t = thread 0 < 2 : i64
        %one = const 1 : i64
        %two = const 2 : i64
        %three = const 3 : i64
        %first = mul %g, %two : i64
        %own = add %first, %t : i64
        %turned = sub %one, %t : i64
        %beside = add %first, %turned : i64
        %across = sub %three, %own : i64
        %value = const 7.0 : f32
        %x = load %o[%own] : f32
        barrier
        store %o[{place}] = %value
    """
    run(text.format(place="%own"))
    run(text.format(place="%beside"))
    with pytest.raises(RaceError, match="one thread writes what another reads"):
        run(text.format(place="%across"))
    with pytest.raises(RaceError, match="one thread writes what another reads"):
        run(text.format(place="%beside").replace("barrier", ""))


def test_atomics_do_not_race_with_each_other():
    text = """
        kernel k
        %o = global i32[1]
        %g = group 0 < 4 : i64
        %t = thread 0 < 4 : i64
        %z = const 0 : i64
        %one = const 1 : i32
        atomic sum %o[%z] = %one
        {more}
    """
    run(text.format(more=""))
    with pytest.raises(RaceError):
        run(text.format(more="%x = load %o[%z] : i32\n%y = add %x, %one : i32\nstore %o[%z] = %y"))


@pytest.mark.parametrize("seed", range(60))
def test_random_kernels_are_free_of_races_as_they_say(seed):
    kernel = random_kernel(seed)
    run_without_races(kernel, arguments_for(kernel, seed))


# ---- copies ahead, in a loop that an outer loop repeats: somebody may still compute when the first copy is made

REPEATED = """
    kernel k
    %a = global f32[192] readonly
    %o = global f32[192]
    %p = global f32[64]
    %l = local f32[32]
    %t = thread 0 < 32 : i64
    %n = const 32 : i64
    %three = const 3 : i64
    %last = const 31 : i64
    %mirrored = sub %last, %t : i64
    %h = loop < 2 : i64
        %base = mul %h, %three : i64
        %i = loop < 3 : i64
            barrier
            %row = add %base, %i : i64
            %r = mul %row, %n : i64
            %f = add %r, %t : i64
            %x = load %a[%f] : f32
            store %l[%t] = %x
            barrier
            %y = load %l[%mirrored] : f32
            store %o[%f] = %y
        endloop
        %w = load %l[%mirrored] : f32
        %e = mul %h, %n : i64
        %d = add %e, %t : i64
        store %p[%d] = %w
    endloop
"""


def without(kernel, position):
    """Return `kernel` without its operation at `position`, a barrier, which nothing refers to."""
    from zyx.kernel.rewrite import Rewriter

    writer = Rewriter()
    for number, op in enumerate(kernel.ops):
        if number == position:
            writer.renamed.append(-1)
        else:
            writer.keep(op)
    return Kernel(kernel.name, tuple(writer.ops))


def test_every_barrier_of_copies_ahead_is_needed():
    kernel = copy_ahead(parse_kernel(REPEATED), 1 << 12)
    run(kernel)
    barriers = [number for number, op in enumerate(kernel.ops) if isinstance(op, k.Barrier)]
    assert len(barriers) == 3
    for position in barriers:
        with pytest.raises(RaceError):
            run(without(kernel, position))


def test_a_run_gives_the_values_that_a_plain_one_gives():
    kernel = parse_kernel(REPEATED)
    data, out, last = np.arange(192, dtype=np.float32), np.zeros(192, np.float32), np.zeros(64, np.float32)
    run_without_races(kernel, [data, out, last])
    np.testing.assert_array_equal(out.reshape(6, 32), data.reshape(6, 32)[:, ::-1])
    np.testing.assert_array_equal(last.reshape(2, 32), out.reshape(2, 3, 32)[:, -1])
