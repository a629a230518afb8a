"""Exchanges of devices: what each of them has of it, and what is none."""

import pytest

from zyx import dtype as dtypes
from zyx.backend.collectives import Exchange, ExchangeKind
from zyx.drivers.nccl import check_exchange
from zyx.errors import InvalidArgumentError, UnsupportedError
from zyx.ops import ReduceOp

K = ExchangeKind


@pytest.mark.parametrize(
    ("kind", "source", "target"),
    [
        (K.ALL_REDUCE, 12, 12),
        (K.REDUCE, 12, 12),
        (K.REDUCE_SCATTER, 48, 12),
        (K.ALL_GATHER, 12, 48),
        (K.BROADCAST, 12, 12),
        (K.ALL_TO_ALL, 48, 48),
        (K.SEND, 12, 0),
        (K.RECEIVE, 0, 12),
    ],
)
def test_sources_and_targets_of_four_members_have_these_bytes(kind, source, target):
    op = ReduceOp.SUM if kind in (K.ALL_REDUCE, K.REDUCE, K.REDUCE_SCATTER) else None
    exchange = Exchange(kind, dtypes.float32, 3, op)
    assert (exchange.source_bytes(4), exchange.target_bytes(4)) == (source, target)


@pytest.mark.parametrize(
    ("kind", "length", "op"), [(K.ALL_REDUCE, 3, None), (K.BROADCAST, 3, ReduceOp.SUM), (K.SEND, 0, None)]
)
def test_what_is_no_exchange_is_refused(kind, length, op):
    with pytest.raises(InvalidArgumentError, match="there is no exchange"):
        Exchange(kind, dtypes.float32, length, op)


def test_what_the_libraries_do_not_reduce_is_refused_and_moved_all_the_same():
    with pytest.raises(UnsupportedError, match=r"NCCL 2 has no all_reduce sum of int16\[3\]"):
        check_exchange(Exchange(K.ALL_REDUCE, dtypes.int16, 3, ReduceOp.SUM), "NCCL 2")
    check_exchange(Exchange(K.BROADCAST, dtypes.int16, 3), "NCCL 2")
