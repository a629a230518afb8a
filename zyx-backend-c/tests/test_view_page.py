"""The page of ``zyx view`` about a training step, whose kernels have a source, in a browser."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from browser import WIDTHS, load_ms, noted, overflow, serving

from zyx.cli.view import server_of

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parents[2] / "tests" / "viewed.py"


def test_the_page_of_a_training_step_loads_and_shows_sources(page, tmp_path):
    path = tmp_path / "page.html"
    command = [sys.executable, "-m", "zyx", "view", "--html", str(path), str(PROGRAM)]
    subprocess.run(command, check=True, env={"HOME": str(tmp_path), "ZYX_DEVICE": "c", "ZYX_BACKENDS": "c"})
    notes = noted(page)
    with serving(server_of(path.read_text(encoding="utf-8"), 0)) as address:
        page.goto(address)
        assert load_ms(page) > 0
        kernels = page.evaluate("data.kernels.map((kernel) => kernel.source)")
        steps = page.evaluate("data.plans.map((plan) => plan.steps.length)")
        assert max(steps) > 10  # one plan has the whole step
        assert page.locator("#kernels tbody tr").count() == len(kernels)
        number = len(kernels) // 2
        page.locator("#kernels tbody tr").nth(number).click()
        source = page.locator("#kernel h3", has_text="Source").locator("xpath=following-sibling::pre[1]")
        assert source.inner_text().strip() == kernels[number].strip()
        assert "define" in kernels[number]  # LLVM's
        for tab in ("Kernels", "Plans", "Timeline", "Memory"):
            page.get_by_role("tab", name=tab).click()
            if tab == "Plans":
                page.select_option("#plans select", index=steps.index(max(steps)))
                assert page.locator("#plans svg .kernel").count() == max(steps)
            assert {width: overflow(page, width) for width in WIDTHS} == dict.fromkeys(WIDTHS, ""), tab
    assert (notes.faults, notes.requests) == ([], [address])
