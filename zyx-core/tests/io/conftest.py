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
