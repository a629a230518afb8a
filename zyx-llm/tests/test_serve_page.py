"""The page of the server in a browser that has no network."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from browser import WIDTHS, noted, overflow

from zyx_llm import load

sys.path.insert(0, str(Path(__file__).parent))

import networks
from test_serve import NAME, Served

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load(networks.save(tmp_path_factory.mktemp("model") / "small.gguf"), device="c")


def say(page, text):
    page.get_by_label("What you say").fill(text)
    page.get_by_label("What you say").press("Enter")


def wait_for_the_end(page):
    page.locator("#send:enabled").wait_for()


def test_the_page_answers_and_asks_nobody_else(page, model):
    server = Served(model)
    try:
        notes = noted(page)
        address = f"http://127.0.0.1:{server.port}/"
        page.goto(address)
        page.get_by_role("heading", name=NAME).wait_for()
        page.get_by_label("Temperature").fill("0")
        page.get_by_label("Tokens").fill("40")
        say(page, "hello")
        wait_for_the_end(page)
        answers = page.locator("article[data-role=assistant]")
        wanted = "".join(model.answer(model.talk([{"role": "user", "content": "hello"}]), limit=40))
        assert answers.nth(0).text_content() == wanted
        say(page, "and then?")
        wait_for_the_end(page)
        assert page.locator("article").count() == 4
        assert [overflow(page, width) for width in WIDTHS] == ["", ""]
        page.get_by_role("button", name="New talk").click()
        assert page.locator("article").count() == 0
        assert not notes.faults
        assert {request.startswith(address) for request in notes.requests} == {True}
    finally:
        server.close()


def test_an_answer_is_stopped_and_errors_are_shown(page, model):
    server = Served(model, token="secret")
    try:
        page.goto(f"http://127.0.0.1:{server.port}/")
        page.get_by_label("Key").wait_for()
        say(page, "hello")
        page.locator("article[data-role=error]").wait_for()
        assert "token is missing" in page.locator("article[data-role=error]").text_content()
        page.get_by_label("Key").fill("secret")
        page.get_by_label("Key").press("Tab")
        page.get_by_role("heading", name=NAME).wait_for()
        page.route("**/v1/chat/completions", lambda route: None)  # an answer that does not come
        say(page, "hello again")
        page.get_by_role("button", name="Stop").click()
        wait_for_the_end(page)
        assert page.locator("article[data-role=assistant]").count() == 0
        page.unroute("**/v1/chat/completions")
        say(page, "x" * 3000)
        page.locator("article[data-role=error]").nth(1).wait_for()
        assert "600" in page.locator("article[data-role=error]").nth(1).text_content()
        server.waits_for(requests_running=0, pages_used=0)
    finally:
        server.close()
