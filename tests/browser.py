"""A browser without a network, and what pages do in it: what tests and `docs/screenshots.py` share."""

from __future__ import annotations

import contextlib
import functools
import http.server
import shutil
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Page, Request

#: Seconds that anything may take here.
LIMIT_S: Final = 30

#: Pixels: a phone held upright, and a window on a screen.
WIDTHS: Final = (400, 1280)

#: No way to other machines; and no GPU, for which headless Chromium would look.
SWITCHES: Final = ("--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")


class NoBrowserError(RuntimeError):
    """There is no browser, or nothing that steers it; the text says what to install."""


@contextlib.contextmanager
def opened(width: int = WIDTHS[-1], height: int = 800) -> Iterator[Page]:
    """Open a page of a browser, `width` by `height` pixels; yield playwright's page.

    Raises:
        NoBrowserError: Playwright or Chromium is missing.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise NoBrowserError("playwright, which steers a browser, is missing: pip install playwright") from error
    chromium = shutil.which("chromium")
    if chromium is None:
        raise NoBrowserError("there is no browser, Chromium: apt-get install chromium")
    with sync_playwright() as steering:
        browser = steering.chromium.launch(executable_path=chromium, args=list(SWITCHES))
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
        page.set_default_timeout(1e3 * LIMIT_S)
        yield page
        browser.close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextlib.contextmanager
def serving(server: http.server.ThreadingHTTPServer) -> Iterator[str]:
    """Have a server answer as long as the block lasts; yield its address, which ends with a slash."""
    with server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join(LIMIT_S)


def server_of_folder(folder: Path) -> http.server.ThreadingHTTPServer:
    """Return a server of the files of a folder, for this machine alone."""
    return http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))


@dataclass(frozen=True, slots=True)
class Noted:
    """What a page asked for and complained of.

    Attributes:
        faults: Errors that nobody caught, and lines of the console.
        requests: Addresses, in order, but for data that stands in the address itself.
    """

    faults: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


def noted(page: Page) -> Noted:
    """Begin to note what a page does; return what is filled meanwhile."""
    notes = Noted()

    def ask(request: Request) -> None:
        if not request.url.startswith("data:"):
            notes.requests.append(request.url)

    page.on("pageerror", lambda error: notes.faults.append(str(error)))
    page.on("console", lambda line: notes.faults.append(f"{line.type}: {line.text} ({line.location['url']})"))
    page.on("request", ask)
    return notes


def overflow(page: Page, width: int) -> str:
    """Return what sticks out of the window at a width in pixels, outermost first: nothing if the page is no wider."""
    page.set_viewport_size({"width": width, "height": 800})
    sticking: list[str] = page.evaluate(_STICKING)
    return "; ".join(sticking)


#: Returns the tag, name and text of the first elements that reach beyond the window, if one can scroll to them.
_STICKING: Final = """() => document.documentElement.scrollWidth <= innerWidth ? [] : [
    `${document.documentElement.scrollWidth} of ${innerWidth} pixels`,
    ...[...document.querySelectorAll("body *")].filter((each) => each.getBoundingClientRect().right > innerWidth)
        .slice(0, 4).map((each) => `${each.tagName} #${each.id} ${each.textContent.trim().slice(0, 40)}`),
]"""


def load_ms(page: Page) -> float:
    """Return the milliseconds from asking for a page to the end of its loading, by the page's own clock.

    Scripts that run while a page is read are in it: https://www.w3.org/TR/navigation-timing-2/, loadEventEnd.
    """
    page.wait_for_function("performance.getEntriesByType('navigation')[0].loadEventEnd > 0")
    return float(page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd"))


@pytest.fixture
def page() -> Iterator[Page]:
    """Return a page of a browser that has no way to other machines."""
    with contextlib.ExitStack() as stack:
        try:
            shown = stack.enter_context(opened())
        except NoBrowserError as missing:
            pytest.skip(str(missing))
        yield shown
