"""Write the pictures of pages that the documents show, and print what the page of ``zyx view`` takes to load.

python docs/screenshots.py FOLDER       # of the built site: tox -e docs, and then .tox/site
python docs/screenshots.py FILE.gguf    # the page of ``zyx-llm serve`` with that model's answers

The first page is that of `tests/viewed.py` on the default device. Needs playwright and Chromium, as tests of pages do.
"""

from __future__ import annotations

import re
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


#: What the model is asked, and seconds that an answer may take, with what is compiled for the first one.
QUESTIONS: Final = ("What is the capital of France?", "Tell me three things about it.")
ANSWER_S: Final = 300


def write_pages(site: Path) -> None:
    """Write the pictures of the site and of ``zyx view``."""
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


def write_talk(model: Path) -> None:
    """Write the picture of ``zyx-llm serve``, whose answers are the likeliest."""
    command = [sys.executable, "-m", "zyx_llm", "serve", str(model), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            address = re.search(r"http://\S+/", line)
            if address is None:
                sys.exit(f"the server says no address, but {line!r}")
            with opened(WIDTH, HEIGHT) as page:
                page.goto(address[0])
                page.get_by_role("heading", name=model.stem).wait_for()
                page.get_by_label("Temperature").fill("0")
                page.get_by_label("Tokens").fill("100")
                for question in QUESTIONS:
                    page.get_by_label("What you say").fill(question)
                    page.get_by_label("What you say").press("Enter")
                    page.locator("#send:enabled").wait_for(timeout=1e3 * ANSWER_S)
                answers = page.locator("article[data-role=assistant]").all_text_contents()
                if len(answers) != len(QUESTIONS) or not all(answers):
                    sys.exit(f"not all was answered: {page.locator('main').inner_text()}")
                print("\n".join(answers))
                write(page, "serve.png")
        finally:
            server.terminate()


def write(page: Page, name: str) -> None:
    """Write what the window shows to a file of `PICTURES`; end if that is larger than `MOST_BYTES`."""
    picture = page.screenshot(path=PICTURES / name)
    print(f"{name}: {len(picture)} bytes")
    if len(picture) > MOST_BYTES:
        sys.exit(f"{name} has more than {MOST_BYTES} bytes; a smaller window or another page makes it smaller")


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    given = Path(sys.argv[1])
    (write_pages if given.is_dir() else write_talk)(given)
