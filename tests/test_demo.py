"""The demo trains well, saves, loads, and says what it did, on the default device."""

import os
import re

import pytest

from zyx import io
from zyx.cli.main import main

pytest.importorskip("sklearn", reason="the digits come with scikit-learn, which is not installed")

if os.environ.get("ZYX_DEVICE") == "interpreter":
    pytest.skip("the interpreter would train for hours", allow_module_level=True)


def test_the_demo_trains_saves_and_reads(runtime, tmp_path, capsys):
    path = tmp_path / "digits.safetensors"
    assert main(["demo", "--epochs", "8", "--seed", "3", "--save", str(path)]) == 0
    text = capsys.readouterr().out
    assert re.search(rf"device {runtime.default_device}, since ", text)
    assert "epoch 5 of 8: loss" in text
    assert "epoch 8 of 8: loss" in text
    found = re.search(
        r"seed 3: 1438 images, 8 epochs in \d+\.\d s \([\d,]+ images/s after the first step\), "
        r"test accuracy (\d+\.\d+)%",
        text,
    )
    assert float(found[1]) >= 96.0
    assert re.search(r"one step is \d+ kernels:\n    \w+", text)
    assert "it reads the same" in text
    assert re.search(r"read \d", text)
    assert "layers.0.weight" in io.load(path)
    assert io.read_metadata(path) == {"network": "digits"}


@pytest.mark.slow
def test_three_seeds_read_more_than_97_and_a_half_percent(runtime, capsys):
    assert main(["demo", "--seeds", "3"]) == 0
    found = re.search(r"mean test accuracy of 3 runs: (\d+\.\d+)%", capsys.readouterr().out)
    assert float(found[1]) >= 97.5
