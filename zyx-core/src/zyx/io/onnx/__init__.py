"""Networks in ONNX files: `load` makes a callable of one. Start reading at `zyx.io.onnx.model`.

    model = zyx.io.onnx.load("model.onnx")
    y = model(x)                                    # or model(input_name=x)

It takes the package `onnx`, which the extra ``zyx-core[onnx]`` brings, and which is imported when this module is.
"""

from importlib.util import find_spec

from zyx.errors import PackageMissingError

if find_spec("onnx") is None:
    raise PackageMissingError("zyx.io.onnx needs the package onnx: pip install 'zyx-core[onnx]'", name="onnx")

# isort: split
from zyx.io.onnx.export.saving import save
from zyx.io.onnx.model import OnnxModel, ValueInfo, load

__all__ = ["OnnxModel", "ValueInfo", "load", "save"]
