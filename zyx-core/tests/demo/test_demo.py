"""The parts of the demo; that it trains well, ``tests/test_demo.py`` in the repository shows."""

import importlib.util

import numpy as np
import pytest

from zyx.cli import demo
from zyx.cli.main import main
from zyx.errors import SettingsError

needs_digits = pytest.mark.skipif(
    importlib.util.find_spec("sklearn") is None, reason="the digits come with scikit-learn, which is not installed"
)


@needs_digits
def test_a_fifth_of_the_digits_is_held_out():
    digits = demo.load_digits()
    training, test = demo.split(digits, 1)
    assert len(digits.labels) == 1797
    assert len(test.labels) == 359
    assert len(training.labels) + len(test.labels) == 1797
    seen = {image.tobytes() for image in training.images}
    assert sum(image.tobytes() in seen for image in test.images) < 5  # a few digits look alike to the pixel
    assert not np.array_equal(test.labels, demo.split(digits, 2)[1].labels)
    assert digits.images.max() == 1.0


def test_without_scikit_learn_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sklearn", None)
    with pytest.raises(SettingsError, match=r"pip install 'zyx-core\[demo\]'"):
        demo.load_digits()


@pytest.mark.parametrize("arguments", [["--epochs", "0"], ["--seeds", "x"]])
def test_numbers_that_make_no_sense_are_refused(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["demo", *arguments])
    assert stopped.value.code == 2
    assert "is not a number of at least 1" in capsys.readouterr().err


def test_digits_are_drawn_side_by_side_with_what_was_read():
    images = np.zeros((2, 1, 8, 8), np.float32)
    images[0, 0, 0, :2] = 1.0
    images[1, 0, 7, 7] = 0.5
    lines = demo.drawing(images, np.array([1, 7]), np.array([1, 9]))
    assert len(lines) == 9
    assert lines[0] == "@@@@" + " " * 30
    assert lines[7].endswith("==") or lines[7].endswith("++")
    assert lines[8].split() == ["read", "1", "read", "7,", "is", "9"]
