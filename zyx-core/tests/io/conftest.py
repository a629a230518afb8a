"""What tests of hostile files share."""

import time
import tracemalloc

import pytest

from zyx.errors import FormatError

MOST_BYTES = 32 << 20
MOST_S = 5.0


@pytest.fixture
def refused():
    """Return a function that loads a file and expects an error of ours, soon, and without much memory."""

    def call(load, path, text):
        tracemalloc.start()
        started = time.thread_time()
        try:
            with pytest.raises(FormatError, match=text):
                load(path)
            took_s = time.thread_time() - started
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert took_s < MOST_S
        assert peak < MOST_BYTES + 20 * path.stat().st_size

    return call


@pytest.fixture(params=["zyx", "onnxruntime"])
def reader(request):
    """Return what computes the outputs of an ONNX file by name, from its path and its inputs by name.

    ONNX Runtime computes on the processor, whatever device is asked for.
    """
    if request.param == "zyx":
        onnx = pytest.importorskip("zyx.io.onnx", reason="onnx, which reads the file, is not installed")

        def load(path, inputs, device=None):
            return {name: value.numpy() for name, value in onnx.load(path, device).run(inputs).items()}

        return load
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime, which is to compute alike, is not installed")
    runtime.set_default_logger_severity(3)  # it warns of weights that are inputs as well

    def run(path, inputs, device=None):
        session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(names, inputs), strict=True))

    return run
