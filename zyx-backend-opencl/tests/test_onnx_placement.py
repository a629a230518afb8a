"""Networks whose dtypes a device lacks: alone it refuses them, in a group another device computes them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from zyx.errors import UnsupportedError
from zyx.runtime.runtime import use
from zyx_backend_opencl import start

onnx = pytest.importorskip("onnx", reason="onnx, whose files these tests make, is not installed")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import zyx.io.onnx  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.runtime.runtime import Runtime
    from zyx_backend_opencl import driver
    from zyx_backend_opencl.render import Features

GROUP = "opencl:0|interpreter:0"
WEIGHT = np.random.default_rng(0).standard_normal((8, 4))


@pytest.fixture
def without_float64(monkeypatch: pytest.MonkeyPatch, fresh: Callable[..., Runtime]) -> Runtime:
    features_of = start.features_of

    def features(device: driver.ListedDevice) -> Features:
        return replace(features_of(device), has_f64=False)

    monkeypatch.setattr(start, "features_of", features)
    return fresh()


def network(element: int, dtype: str) -> onnx.ModelProto:
    nodes = [
        helper.make_node("MatMul", ["x", "weight"], ["h"]),
        helper.make_node("Tanh", ["h"], ["t"]),
        helper.make_node("ReduceSum", ["t", "last"], ["y"], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", element, ["n", 8])],
        [helper.make_tensor_value_info("y", element, ["n"])],
        [numpy_helper.from_array(WEIGHT.astype(dtype), "weight"), numpy_helper.from_array(np.array([1]), "last")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def test_what_a_device_lacks_is_computed_by_another_one_of_its_group(without_float64: Runtime):
    x = np.random.default_rng(1).standard_normal((3, 8))
    expected = np.tanh(x @ WEIGHT).sum(1)
    with use(without_float64):
        alone = zyx.io.onnx.load(network(TensorProto.DOUBLE, "float64"), "opencl:0")
        with pytest.raises(UnsupportedError, match="float64"):
            alone(x).numpy()
        grouped = zyx.io.onnx.load(network(TensorProto.DOUBLE, "float64"), GROUP)
        for _ in range(3):  # traced, and replayed
            np.testing.assert_allclose(grouped(x).numpy(), expected, rtol=1e-12)
        short = zyx.io.onnx.load(network(TensorProto.FLOAT, "float32"), GROUP)
        np.testing.assert_allclose(short(x.astype("float32")).numpy(), expected, rtol=1e-5)
