"""Nests: how they print, and what their interpreter makes of every kind of statement."""

from __future__ import annotations

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.errors import VerifyError
from zyx.nest import expr as e
from zyx.nest.data import Compute, Kind, Nest, Scan, Store
from zyx.nest.pool import Pool
from zyx.nest.run import run_nest
from zyx.ops import BinaryOp, ReduceOp, UnaryOp

F32, I64, BOOL = dtypes.float32, dtypes.int64, dtypes.bool_


class Maker:
    """Makes the parts of a nest over ``p0`` (stored to) and ``p1``, ``p2`` (read)."""

    def __init__(self, dtype=F32, lengths=(12, 12, 12)):
        self.pool = Pool()
        self.params = tuple(e.Param(i, dtype, length, mutable=i == 0) for i, length in enumerate(lengths))
        self.i, self.j = self.pool.range(3), self.pool.range(4)
        self.at = self.pool.flatten([self.pool.ref(self.i), self.pool.ref(self.j)], (3, 4))

    def read(self, number, index=None, mask=None):
        return self.pool.read(self.params[number], self.at if index is None else index, mask)

    def nest(self, *statements, kinds=None, peeled=frozenset()):
        return Nest(self.params, statements, self.pool, kinds or {}, peeled)

    def run(self, *statements, inputs=()):
        arrays = [np.zeros(p.length, p.dtype.numpy) for p in self.params]
        for array, given in zip(arrays[1:], inputs, strict=False):
            array[:] = given
        run_nest(self.nest(*statements), arrays)
        return arrays[0]

    def value(self, *ranges, dtype=None):
        value = self.pool.value(dtype or self.params[0].dtype, ranges)
        return value, self.pool.value_ref(value, tuple(map(self.pool.ref, ranges)))


def lines(nest) -> list[str]:
    return [" ".join(line.split()) for line in str(nest).splitlines()]


class TestPrinter:
    def test_params_statements_and_loops(self):
        m = Maker()
        total, ref = m.value(m.i)
        nest = m.nest(
            Compute(total, m.read(1), ReduceOp.SUM, (m.j,), (m.i, m.j)),
            Store(m.params[0], m.at, m.pool.binary(BinaryOp.MUL, m.read(2), ref), None, (m.i, m.j)),
            kinds={m.i: Kind.GROUP, m.j: Kind.VECTOR},
            peeled=frozenset({m.j}),
        )
        assert lines(nest) == [
            "p0: f32[12] mutable, p1: f32[12], p2: f32[12]",
            "v0[r0] = sum(r1) of p1[(r0*4 + r1)] | r0<3 group, r1<4 vector peeled",
            "p0[(r0*4 + r1)] = (p2[(r0*4 + r1)] * v0[r0]) | r0<3 group, r1<4 vector peeled",
        ]

    def test_scans_masks_combining_and_streaming_stores(self):
        m = Maker()
        running, ref = m.value(m.i, m.j)
        mask = m.pool.less(m.pool.ref(m.j), 3)
        nest = m.nest(
            Scan(running, m.read(1), ReduceOp.MAX, (m.j,), (m.i, m.j)),
            Store(m.params[0], m.at, ref, mask, (m.i, m.j), streaming=True),
            Store(m.params[0], m.at, ref, None, (m.i, m.j), ReduceOp.SUM, (m.j,)),
        )
        assert lines(nest)[1:] == [
            "v0[r0, r1] = running max(r1) of p1[(r0*4 + r1)] | r0<3, r1<4",
            "p0[(r0*4 + r1)] = v0[r0, r1] if ((r1*-1 + 2) >= 0) streaming | r0<3, r1<4",
            "p0[(r0*4 + r1)] sum= v0[r0, r1] | r0<3, r1<4",
        ]

    @pytest.mark.parametrize(
        ("make", "text"),
        [
            (lambda m: m.pool.literal(0.5, F32), "0.5"),
            (lambda m: m.pool.literal(3, I64), "3i64"),
            (lambda m: m.pool.literal(-0.0, dtypes.float16), "-0.0f16"),
            (lambda m: m.pool.true, "True"),
            (lambda m: m.pool.unary(UnaryOp.TANH, m.read(1)), "tanh(p1[(r0*4 + r1)])"),
            (lambda m: m.pool.binary(BinaryOp.MAX, m.read(1), m.read(2)), "max(p1[(r0*4 + r1)], p2[(r0*4 + r1)])"),
            (lambda m: m.pool.convert(m.read(1), I64), "i64(p1[(r0*4 + r1)])"),
            (lambda m: m.pool.divide(m.pool.ref(m.j), 3), "r1//3"),
            (lambda m: m.pool.modulo(m.pool.ref(m.j), 3), "r1%3"),
            (lambda m: m.pool.opaque(1, 9), "?"),
        ],
    )
    def test_expressions(self, make, text):
        assert str(make(Maker())) == text

    def test_deep_expressions_are_cut(self):
        m = Maker()
        x = m.read(1)
        for _ in range(5000):
            x = m.pool.unary(UnaryOp.TANH, m.pool.binary(BinaryOp.ADD, x, m.read(2)))
        assert "..." in str(x)
        assert len(str(x)) < 5000


class TestInterpreter:
    def test_a_store_is_done_at_every_point(self):
        m = Maker()
        found = m.run(
            Store(m.params[0], m.at, m.pool.unary(UnaryOp.NEG, m.read(1)), None, (m.i, m.j)), inputs=[range(12)]
        )
        assert found.tolist() == [-value for value in range(12)]

    def test_what_a_mask_shuts_out_is_not_stored_and_reads_as_zero(self):
        m = Maker(lengths=(12, 5))
        inside = m.pool.less(m.at, 5)
        masked = m.read(1, m.at, inside)
        found = m.run(Store(m.params[0], m.at, masked, None, (m.i, m.j)), inputs=[[1, 2, 3, 4, 5]])
        assert found.tolist() == [1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 0, 0]
        m = Maker()
        one = m.pool.literal(1.0, F32)
        found = m.run(Store(m.params[0], m.at, one, m.pool.less(m.at, 5), (m.i, m.j)))
        assert found.tolist() == [1.0] * 5 + [0.0] * 7

    @pytest.mark.parametrize(
        ("op", "expected"),
        [
            (ReduceOp.SUM, [6, 22, 38]),
            (ReduceOp.MAX, [3, 7, 11]),
            (ReduceOp.MIN, [0, 4, 8]),
            (ReduceOp.PROD, [0, 840, 7920]),
        ],
    )
    def test_reductions(self, op, expected):
        m = Maker(lengths=(3, 12))
        total, ref = m.value(m.i)
        found = m.run(
            Compute(total, m.read(1), op, (m.j,), (m.i, m.j)),
            Store(m.params[0], m.pool.ref(m.i), ref, None, (m.i,)),
            inputs=[range(12)],
        )
        assert found.tolist() == expected

    def test_the_order_of_loops_and_kinds_do_not_matter(self):
        m = Maker(lengths=(3, 12))
        total, ref = m.value(m.i)
        for order in ((m.i, m.j), (m.j, m.i)):
            statements = (
                Compute(total, m.read(1), ReduceOp.SUM, (m.j,), order),
                Store(m.params[0], m.pool.ref(m.i), ref, None, (m.i,)),
            )
            for kinds in ({}, {m.i: Kind.LOCAL, m.j: Kind.UNROLL}):
                arrays = [np.zeros(3, np.float32), np.arange(12, dtype=np.float32)]
                run_nest(m.nest(*statements, kinds=kinds), arrays)
                assert arrays[0].tolist() == [6, 22, 38]

    def test_scans_run_in_order_along_several_ranges(self):
        m = Maker()
        running, ref = m.value(m.i, m.j)
        found = m.run(
            Scan(running, m.read(1), ReduceOp.SUM, (m.i, m.j), (m.i, m.j)),
            Store(m.params[0], m.at, ref, None, (m.i, m.j)),
            inputs=[[1] * 12],
        )
        assert found.tolist() == list(range(1, 13))

    def test_later_stores_win_and_combining_ones_add_up(self):
        for combine, expected in (
            (None, [8, 9, 10, 11]),
            (ReduceOp.SUM, [12, 15, 18, 21]),
            (ReduceOp.MAX, [8, 9, 10, 11]),
        ):
            m = Maker(lengths=(4, 12))
            store = Store(m.params[0], m.pool.ref(m.j), m.read(1), None, (m.j, m.i), combine, (m.i,))
            assert m.run(store, inputs=[range(12)]).tolist() == expected

    def test_a_value_may_be_read_at_another_point(self):
        m = Maker(lengths=(12, 12))
        value = m.pool.value(F32, (m.i, m.j))
        last = m.pool.affine([(m.pool.ref(m.j), -1)], 3)
        turned = m.pool.value_ref(value, (m.pool.ref(m.i), last))
        found = m.run(
            Compute(value, m.read(1), None, (), (m.i, m.j)),
            Store(m.params[0], m.at, turned, None, (m.i, m.j)),
            inputs=[range(12)],
        )
        assert found.tolist() == [3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8]

    @pytest.mark.parametrize("shift", [-1, 1])
    def test_reads_and_stores_out_of_bounds_are_errors(self, shift):
        m = Maker()
        outside = m.pool.shift(m.at, shift)
        reach = "-1..10" if shift < 0 else "1..12"
        with pytest.raises(VerifyError, match=rf"a read reaches {reach} of p1\[12\]"):
            m.run(Store(m.params[0], m.at, m.read(1, outside), None, (m.i, m.j)))
        with pytest.raises(VerifyError, match=rf"a store reaches {reach} of p0\[12\]"):
            m.run(Store(m.params[0], outside, m.read(1), None, (m.i, m.j)))

    def test_bits_and_types(self):
        m = Maker()
        bits = m.pool.reinterpret(m.read(1), dtypes.uint32)
        back = m.pool.reinterpret(m.pool.binary(BinaryOp.XOR, bits, m.pool.literal(1 << 31, dtypes.uint32)), F32)
        found = m.run(Store(m.params[0], m.at, back, None, (m.i, m.j)), inputs=[range(12)])
        assert found.tolist() == [-value for value in range(12)]


def test_an_expression_that_has_itself_in_common_is_printed_in_no_time():
    pool = Pool()
    expr = pool.convert(pool.ref(pool.range(8)), F32)
    for _ in range(200):
        expr = pool.binary(BinaryOp.ADD, expr, expr)
    assert len(str(expr)) < 5000
    assert "..." in str(expr)
