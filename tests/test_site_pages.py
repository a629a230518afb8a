"""Pages of the site in a browser that has no network. ``tox -e docs`` builds the site, and names it by ``--site``."""

from __future__ import annotations

import pytest
from browser import WIDTHS, noted, overflow, server_of_folder, serving

pytestmark = pytest.mark.slow

#: One page of each kind: the first, one with programs, one out of docstrings, the widest tables.
PAGES = ("index", "tutorial/4-gradients", "reference/api/activations", "reference/record", "how-to/profiling")


@pytest.fixture
def site(pytestconfig):
    """Return the address of the site, which ends with a slash."""
    folder = pytestconfig.getoption("--site")
    if folder is None:
        pytest.skip("the site is built, and named by --site, in tox -e docs alone")
    with serving(server_of_folder(folder)) as address:
        yield address


def test_pages_fit_ask_no_other_host_and_have_no_error(site, page):
    notes = noted(page)
    for name in PAGES:
        answer = page.goto(f"{site}{name}.html")
        assert answer.status == 200, name
        assert {width: overflow(page, width) for width in WIDTHS} == dict.fromkeys(WIDTHS, ""), name
    assert notes.faults == []
    assert [url for url in notes.requests if not url.startswith(site)] == []


def test_the_search_finds_a_function(site, page):
    notes = noted(page)
    page.goto(f"{site}index.html")
    page.get_by_label("Search").first.fill("softmax")
    page.keyboard.press("Enter")
    found = page.locator("#search-results a", has_text="zyx.softmax").first
    found.click()
    assert page.url.endswith("#zyx.softmax")
    assert page.locator("[id='zyx.softmax']").is_visible()
    assert notes.faults == []
    assert [url for url in notes.requests if not url.startswith(site)] == []
