"""Integer arguments where values are computed: in traces, of files, and in nodes."""

from __future__ import annotations

import numpy as np
import pytest

import zyx
from zyx.errors import IntegerError, TraceError
from zyx.runtime.runtime import current

_LINE = np.arange(5.0, dtype=np.float32)


def test_a_tensor_is_no_number_while_a_function_is_traced():
    @zyx.jit
    def best(x, k):
        return zyx.topk(x, k)[0]

    with pytest.raises(TraceError, match="topk: k is an integer"):
        best(zyx.Tensor(_LINE), zyx.Tensor(2))
    assert best(zyx.Tensor(_LINE), 2).numpy().tolist() == [4.0, 3.0]


def test_an_offset_in_a_file_is_an_integer(tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(bytes(range(8)))
    for offset in (2, np.int64(2), zyx.Tensor(2)):
        assert zyx.Tensor.from_file(path, "uint8", np.int64(3), offset).numpy().tolist() == [2, 3, 4]
    for offset in (2.0, True):
        with pytest.raises(IntegerError, match="offset is an integer"):
            zyx.Tensor.from_file(path, "uint8", 3, offset)


def test_a_node_holds_no_tensor_and_no_numpy_integer_where_a_number_belongs():
    graph, x = current().graph, zyx.Tensor(_LINE)
    for number in (zyx.Tensor(2), np.int64(2)):
        for make in (
            lambda n=number: graph.shrink(x.node, [(0, n)]),
            lambda n=number: graph.pad(x.node, [(n, 0)]),
            lambda n=number: graph.const(1.0, zyx.float32, x.device, (n, 7)),
            lambda n=number: graph.slide(graph.reshape(x.node, (5, 1)), 0, 1, 2, n),
        ):
            with pytest.raises(IntegerError, match=r"a node is made of numbers, not of (Tensor|int64)"):
                make()


def test_a_size_that_varies_is_a_number_of_elements_to_take():
    @zyx.jit
    def rest(x):
        return zyx.narrow(x, 0, 1, x.shape[0] - 1)

    for length in (3, 4, 5, 6, 7):
        assert rest(zyx.Tensor(np.arange(float(length)))).numpy().tolist() == list(range(1, length))
