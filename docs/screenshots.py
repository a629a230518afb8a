"""Write the pictures of pages that the documents show, and print what the page of ``zyx view`` takes to load.

python docs/screenshots.py FOLDER       # of the built site: tox -e docs, and then .tox/site

The page is that of `tests/viewed.py` on the default device. Needs playwright and Chromium, as tests of pages do.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # for what tests of pages open a browser with

from browser import load_ms, opened, server_of_folder, serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

PICTURES: Final = Path(__file__).parent / "pictures"

#: Bytes: pictures stay in the history of the repository for good.
MOST_BYTES: Final = 150_000

#: Pixels. A picture is as large as the window.
WIDTH, HEIGHT = 1100, 700

#: How often the page is loaded after the first time, when the browser starts what it needs for any page.
LOADS: Final = 9


def main(site: Path) -> None:
    """Write both pictures."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as made, opened(WIDTH, HEIGHT) as page:
        view = [sys.executable, "-m", "zyx", "view", "--html", str(Path(made) / "index.html"), "viewed.py"]
        subprocess.run(view, cwd=ROOT / "tests", check=True)
        with serving(server_of_folder(Path(made))) as address:
            times = []
            for _ in range(1 + LOADS):
                page.goto(address)
                times.append(load_ms(page))
            kernels, steps, events, size = page.evaluate(_COUNTS)
            print(
                f"page of {size / 1e6:.2f} MB, {kernels} kernels, {steps} steps in the longest plan, {events} events: "
                f"{times[0]:.0f} ms to load at first, then {statistics.median(times[1:]):.0f} ms, the median of {LOADS}"
            )
            page.locator("#kernels tbody tr").first.click()
            write(page, "view.png")
        with serving(server_of_folder(site)) as address:
            page.goto(f"{address}reference/api/activations.html")
            write(page, "site.png")


#: Returns how much the page of ``zyx view`` has to show, and how large it is.
_COUNTS: Final = """() => [
    data.kernels.length, Math.max(...data.plans.map((plan) => plan.steps.length)), data.spans.length,
    performance.getEntriesByType("navigation")[0].decodedBodySize,
]"""


def write(page: Page, name: str) -> None:
    """Write what the window shows to a file of `PICTURES`; end if that is larger than `MOST_BYTES`."""
    picture = page.screenshot(path=PICTURES / name)
    print(f"{name}: {len(picture)} bytes")
    if len(picture) > MOST_BYTES:
        sys.exit(f"{name} has more than {MOST_BYTES} bytes; a smaller window or another page makes it smaller")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
