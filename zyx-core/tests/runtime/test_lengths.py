"""Lengths that change from run to run: kernels are given them, and nothing is compiled for each."""

import numpy as np
import pytest
from meanings.formulas import softmax

import zyx
import zyx.nn.functional as F
from zyx.builtin.host import HostPool
from zyx.runtime.bounded import BoundedPlan
from zyx.runtime.buffer import Allocator
from zyx.runtime.copying import copy_buffer
from zyx.runtime.runtime import use
from zyx.specialise import lengths, table
from zyx.specialise.table import Table
from zyx.testing.lengths import operand, program
from zyx.testing.opening import open_runtime


def bounded_plans(runtime):
    return [plan for plan in runtime._plans.values() if isinstance(plan, BoundedPlan)]


def attention(x):
    return F.softmax(x @ x.transpose(0, 1) * 0.25, -1) @ x


def attention_of_arrays(x):
    return softmax(x @ x.T * np.float32(0.25)) @ x


PROGRAMS = {
    "element by element": (lambda x: x * 2 + 1, lambda x: x * 2 + 1, lambda length: (length,)),
    "sums": (lambda x: x.sum(), np.sum, lambda length: (length,)),
    "means": (lambda x: x.mean(), np.mean, lambda length: (length,)),
    "an inner axis": (lambda x: F.softmax(x, -1), softmax, lambda length: (8, length)),
    "rows of a product": (lambda x: x @ zyx.ones((16, 3)), lambda x: x @ np.ones((16, 3)), lambda length: (length, 16)),
    "running sums": (lambda x: x.cumsum(0), lambda x: x.cumsum(0), lambda length: (length, 2)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_lengths_1_to_512_compile_a_dozen_kernels_at_most(interpreter, name):
    function, meaning, shape_at = PROGRAMS[name]
    for length in range(1, 513):
        x = operand(shape_at(length), length)
        result = function(zyx.Tensor(x)).realize()
        if length < 70 or length in (127, 128, 129, 255, 256, 257, 511, 512):
            assert result.shape == meaning(x).shape
            np.testing.assert_allclose(result.numpy(), meaning(x), rtol=1e-4, atol=1e-4, err_msg=str(length))
    assert interpreter.compiler.compiled <= 12


def test_several_kernels_are_compiled_as_often_each(interpreter):
    for length in (1, 2, 7, 31, 32, 33, 12, 3, 60, 64, 5):
        x = operand((length, 16), length)
        np.testing.assert_allclose(attention(zyx.Tensor(x)).numpy(), attention_of_arrays(x), rtol=1e-4, atol=1e-5)
    kernels = interpreter.compiler.compiled
    for length in (4, 6, 11, 29, 30, 34, 59, 61, 63):
        x = operand((length, 16), length)
        np.testing.assert_allclose(attention(zyx.Tensor(x)).numpy(), attention_of_arrays(x), rtol=1e-4, atol=1e-5)
    assert interpreter.compiler.compiled == kernels


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 200), marks=pytest.mark.slow)], ids=["few", "many"])
def test_random_programs_give_what_plans_of_their_own_give(interpreter, seeds, monkeypatch):
    used, shared = 0, lengths.bounded
    for seed in seeds:
        shape_at, function = program(seed + 1000)
        found = {}
        for bounded in (shared, lambda *_: None):
            interpreter.drop_plans()
            interpreter.outlines = Table()
            monkeypatch.setattr(lengths, "bounded", bounded)
            for length in (5, 9, 32, 33, 4, 9):
                result = function(zyx.Tensor(operand(shape_at(length), length))).numpy()
                found.setdefault(length, []).append(result)
            used += len(bounded_plans(interpreter))
        for length, results in found.items():
            for result in results[1:]:
                np.testing.assert_allclose(result, results[0], rtol=1e-3, atol=1e-5, err_msg=f"{seed}, {length}")
    assert used > len(seeds)


def test_constants_may_change_along_with_lengths_and_by_themselves(interpreter):
    for length, factor in ((3, 0.5), (4, 0.25), (5, 0.75), (6, 3.0), (6, 7.0), (40, 0.3), (9, 0.25)):
        x = operand((length,), length)
        result = (zyx.Tensor(x) * factor).mean()
        np.testing.assert_allclose(result.numpy(), (x * np.float32(factor)).mean(), rtol=1e-5)
    assert interpreter.compiler.compiled <= 5


def test_no_elements_are_right_before_and_after_others(interpreter):
    for length in (0, 3, 0, 5, 0, 7):
        x = operand((length, 2), length)
        np.testing.assert_allclose((zyx.Tensor(x) + 1).sum(0).numpy(), (x + 1).sum(0), rtol=1e-5)
        np.testing.assert_array_equal((zyx.Tensor(x) * 2).numpy(), x * 2)


def test_two_lengths_that_change_apart_give_what_they_should(interpreter):
    for rows, columns in ((3, 3), (4, 4), (5, 3), (3, 5), (6, 7), (7, 7), (1, 4), (4, 1)):
        x = operand((rows, columns), rows)
        np.testing.assert_allclose(F.softmax(zyx.Tensor(x), 0).numpy(), softmax(x, 0), rtol=1e-5)


def test_a_length_that_stays_gets_a_plan_of_its_own(interpreter):
    def run(length):
        x = operand((length,), length)
        np.testing.assert_allclose((zyx.Tensor(x) * 2 - 1).numpy(), x * 2 - 1, rtol=1e-6)

    for length in (3, 4, 5, 6):
        run(length)
    assert len(bounded_plans(interpreter)) == 3
    before = interpreter.compiler.compiled
    for _ in range(20):
        run(6)
    assert interpreter.compiler.compiled == before + 1
    assert len(bounded_plans(interpreter)) == 2


def test_lengths_in_turns_keep_the_plan_that_they_share(interpreter):
    for turn in range(40):
        x = operand((4 + turn % 3,), turn)
        np.testing.assert_allclose((zyx.Tensor(x) * 2 - 1).numpy(), x * 2 - 1, rtol=1e-6)
    assert interpreter.compiler.compiled == 2


def test_lengths_have_plans_of_their_own_where_bits_must_not_change():
    with use(open_runtime("interpreter", settings={"deterministic": True})) as runtime:
        for length in (5, 9, 12, 9):
            zyx.Tensor(np.ones(length, np.float32)).sum().realize()
        assert not bounded_plans(runtime)
        assert runtime.compiler.compiled == 3
        runtime.close()


def test_results_take_the_memory_of_their_own_length(interpreter):
    for length in (3, 40, 33):
        result = (zyx.Tensor(operand((2, length), 0)) * 2).realize()
        assert interpreter.buffer_of(result.node).nbytes == 2 * length * 4


def test_what_is_large_shares_plans_and_takes_no_more_memory_than_its_own(interpreter):
    for length in (100_000, 100_001, 100_002):
        result = (zyx.Tensor(np.ones(length, np.float32)) * 2).realize()
        assert interpreter.buffer_of(result.node).nbytes == 4 * length
    assert len(bounded_plans(interpreter)) == 2
    assert interpreter.compiler.compiled == 2


def test_what_has_too_many_elements_at_the_greatest_length_has_plans_of_its_own(interpreter, monkeypatch):
    monkeypatch.setattr(lengths, "_MOST_POINTS", 1 << 15)
    for length in (40_000, 40_001, 40_002):
        (zyx.Tensor(np.ones(length, np.float32)) * 2).realize()
    assert not bounded_plans(interpreter)
    for length in (30_000, 30_001, 30_002):
        (zyx.Tensor(np.ones(length, np.float32)) * 2).realize()
    assert len(bounded_plans(interpreter)) == 3


def test_the_end_of_a_slice_is_a_length_up_to_that_of_what_it_is_cut_out_of(interpreter):
    array = operand((100, 3), 1)
    x = zyx.Tensor(array).realize()
    for end in (*range(1, 100, 3), 99, 100):
        np.testing.assert_allclose(x[:end].sum(0).numpy(), array[:end].sum(0), rtol=1e-4, atol=1e-5)
    assert interpreter.compiler.compiled <= 7


def test_why_there_is_no_plan_for_several_lengths_is_shown_once(interpreter, capsys):
    with zyx.debug("plan"):
        for length in (3, 4, 5, 6):
            x = operand((length,), length)
            found = zyx.take_along_axis(zyx.Tensor(x), zyx.ones(2, dtype=zyx.uint8), 0)
            np.testing.assert_array_equal(found.numpy(), x[[1, 1]])
    assert capsys.readouterr().err.count("lengths up to 128: NoPrefixError") == 1


def test_starts_of_slices_alone_are_no_lengths(interpreter):
    array = operand((200, 3), 1)
    x = zyx.Tensor(array).realize()
    for start in range(0, 180, 7):
        np.testing.assert_array_equal((x[start : start + 5] * 2).numpy(), array[start : start + 5] * 2)
    assert interpreter.compiler.compiled == 2
    assert not bounded_plans(interpreter)


def test_what_is_put_behind_what_grows_compiles_a_kernel_for_each_greatest_length(interpreter):
    kept, expected = zyx.zeros((1, 4)).realize(), np.zeros((1, 4), np.float32)
    for step in range(1, 100):
        row = operand((1, 4), step)
        kept, expected = zyx.concat([kept, zyx.Tensor(row)], 0).realize(), np.concatenate([expected, row])
        np.testing.assert_array_equal(kept.numpy(), expected)
    assert interpreter.compiler.compiled <= 6


def test_what_the_host_does_not_reach_has_plans_of_its_own_where_launches_take_all_of_an_array(lab):
    for length in (3, 4, 5):
        x = operand((length,), length)
        np.testing.assert_array_equal((zyx.Tensor(x) * 2).numpy(), x * 2)
    assert not bounded_plans(lab)


def test_what_has_more_memory_than_it_needs_is_copied_as_far_as_it_goes():
    memory, there, elsewhere = Allocator(), HostPool("there", 1 << 20), HostPool("elsewhere", 1 << 20)
    source, target = memory.allocate(there, 32), memory.allocate(elsewhere, 12)
    there.host_to_pool(memoryview(bytes(range(32))), source.raw)
    source.nbytes = 12
    copy_buffer(source, target)
    target.wait()
    found = bytearray(12)
    elsewhere.pool_to_host(target.raw, memoryview(found))
    assert found == bytes(range(12))


def test_plans_that_are_dropped_are_made_again(interpreter):
    for _ in range(3):
        for length in (3, 4, 5):
            x = operand((length,), length)
            np.testing.assert_array_equal((zyx.Tensor(x) * 2).numpy(), x * 2)
        interpreter.drop_plans()


def test_structures_and_what_follows_in_them_are_forgotten_by_use():
    known = Table()
    for rank in range(table._MOST + 50):
        graph = zyx.graph.Graph()
        node = graph.const(1.0, zyx.float32, f"test:{rank}", (3,))
        assert lengths.bounded(known, [node], [node]) is None
    assert len(known._outlines) == table._MOST
