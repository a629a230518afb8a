"""``zyx calibrate`` measures, says what it found, and keeps it for the next program."""

from __future__ import annotations

import dataclasses

import pytest

from zyx.backend.rates import assumed_rates
from zyx.cli import calibrate
from zyx.cli.main import main
from zyx.runtime.runtime import Runtime


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """Keep things in a folder of the test's own; every device has the rates that are assumed, but is twice as fast."""
    monkeypatch.setenv("ZYX_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("ZYX_CACHE_CALIBRATION", "1")

    def fast(device, progress):
        rates = assumed_rates(device.info)
        return dataclasses.replace(rates, flops_per_s=2 * rates.flops_per_s, is_measured=True)

    monkeypatch.setattr(calibrate, "measure_rates", fast)


def test_what_is_measured_is_printed_and_what_next_programs_go_by(measured, capsys):
    assert main(["calibrate", "--device", "interpreter"]) == 0
    text = capsys.readouterr().out
    assert "main memory, all units" in text
    assert "\nkept\n" in text
    runtime = Runtime()
    info = runtime.device("interpreter").info
    runtime.close()
    assert info.rates is not None
    assert info.rates.is_measured
    assert info.flops_per_s == 2e8
    assert main(["cache", "list"]) == 0
    assert "rates of devices (zyx calibrate)" in capsys.readouterr().out
    assert main(["calibrate", "--forget"]) == 0


def test_measuring_again_starts_from_what_the_backend_says(measured, capsys):
    for _ in range(2):
        assert main(["calibrate", "--device", "interpreter"]) == 0
        assert "200 MFLOP/s" in capsys.readouterr().out


def test_without_a_cache_there_is_nothing_to_do(measured, monkeypatch, capsys):
    monkeypatch.setenv("ZYX_CACHE", "0")
    assert main(["calibrate"]) == 1
    assert "nothing can be kept" in capsys.readouterr().err
