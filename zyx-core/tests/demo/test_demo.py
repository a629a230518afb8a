"""The demo: it trains well, saves, loads, and says what it did."""

import importlib.util
import re

import numpy as np
import pytest

from zyx import io
from zyx.cli import demo
from zyx.cli.main import main
from zyx.errors import SettingsError
from zyx.runtime.runtime import Runtime, use

needs_digits = pytest.mark.skipif(
    importlib.util.find_spec("sklearn") is None, reason="the digits come with scikit-learn, which is not installed"
)
needs_speed = pytest.mark.skipif(
    importlib.util.find_spec("zyx_backend_c") is None, reason="the interpreter would take minutes"
)


@pytest.fixture
def runtime():
    runtime = Runtime()
    with use(runtime):
        yield runtime
    runtime.close()


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


@needs_digits
@needs_speed
def test_the_demo_trains_saves_and_reads(runtime, tmp_path, capsys):
    path = tmp_path / "digits.safetensors"
    assert main(["demo", "--device", "c", "--epochs", "8", "--seed", "3", "--save", str(path)]) == 0
    text = capsys.readouterr().out
    assert re.search(r"device c:0, since .*argument", text)
    assert "epoch 5 of 8: loss" in text
    assert "epoch 8 of 8: loss" in text
    found = re.search(
        r"seed 3: 1438 images, 8 epochs in \d+\.\d s \([\d,]+ images/s\), test accuracy (\d+\.\d+)%", text
    )
    assert float(found[1]) >= 96.0
    assert re.search(r"one step: \d+ kernels: ", text)
    assert "it reads the same" in text
    assert re.search(r"read \d", text)
    assert "layers.0.weight" in io.load(path)
    assert io.read_metadata(path) == {"network": "digits"}


@needs_digits
@needs_speed
@pytest.mark.slow
def test_three_seeds_read_more_than_97_and_a_half_percent(runtime, capsys):
    assert main(["demo", "--device", "c", "--seeds", "3"]) == 0
    found = re.search(r"mean test accuracy of 3 runs: (\d+\.\d+)%", capsys.readouterr().out)
    assert float(found[1]) >= 97.5


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
