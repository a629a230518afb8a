"""A network with `BiasAdd` of com.microsoft is read and run."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

import zyx
from zyx.io import onnx

arrays = {
    name: np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    for name, shape in {"x": (2, 5, 3), "bias": (3,), "skipped": (2, 5, 3)}.items()
}
inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in arrays.items()]
output = helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 5, 3))
node = helper.make_node("BiasAdd", list(arrays), ["y"], domain="com.microsoft")
graph = helper.make_graph([node], "network", inputs, [output])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)])
with zyx.settings(devices={"default": "interpreter"}):
    found = onnx.load(model)(*arrays.values()).numpy()
np.testing.assert_allclose(found, sum(arrays.values()), rtol=1e-6)
