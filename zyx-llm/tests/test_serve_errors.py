"""What the server tells clients that ask for what it has not, or in a form that it does not read."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import openai
import pytest

from zyx_llm import load

sys.path.insert(0, str(Path(__file__).parent))

import networks
from test_serve import TALK, Served, chat

#: After its first letter no other is allowed, and it is not over.
DEAD_END = {"type": "grammar", "grammar": 'start: "a" /[a&&b]/'}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load(networks.save(tmp_path_factory.mktemp("model") / "small.gguf"), device="c")


@pytest.fixture(scope="module")
def served(model):
    server = Served(model)
    yield server
    server.close()


def refusal(served, path, body=None, *, status=400, **headers):
    """Return the error that a request is answered with, which is of OpenAI's form."""
    found, said, told = served.open(path, body, **headers)
    assert found == status, said
    assert told["content-type"] == "application/json"
    error = json.loads(said)["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["type"] == ("invalid_request_error" if status < 500 else "server_error")
    return error


def refused_chat(served, **more):
    return refusal(served, "/v1/chat/completions", {"messages": TALK, "max_tokens": 4, **more})


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "text"),
    [
        ("/v1/nowhere", None, {}, 404, "nothing at GET /v1/nowhere"),
        ("/v1/nowhere", b"{}", {}, 404, "nothing at POST /v1/nowhere"),
        ("/v1/chat/completions", None, {}, 405, "methods: POST"),
        ("/health", b"{}", {}, 405, "POST /health is not answered"),
        ("/v1/models", None, {"host": "elsewhere.example"}, 400, "by the name 'elsewhere.example'"),
        ("/", None, {"host": "127.0.0.1.elsewhere.example:80"}, 400, "127.0.0.1.elsewhere.example"),
        ("/", None, {"host": "[::2]:80"}, 400, "[::2]"),
    ],
)
def test_what_no_route_answers_is_told_as_all_errors_are(served, path, body, headers, status, text):
    assert text in refusal(served, path, body, status=status, **headers)["message"]


def test_what_fails_by_itself_is_told_as_all_errors_are(model, monkeypatch):
    server = Served(model)
    try:
        monkeypatch.setattr("zyx_llm.serving.http.app.files", lambda _: 1 / 0)
        assert refusal(server, "/", status=500)["code"] == "internal_error"
        assert server.open("/health")[0] == 200
    finally:
        server.close()


@pytest.mark.parametrize(
    ("start", "opening", "text"),
    [
        (b"", b"[", "got `array`"),
        (b"", b'{"messages":', "got `object`"),
        (b'{"response_format": {"type": "json_schema", "json_schema": {"schema": {"x": ', b"[", "nested deeper"),
        (b'{"response_format": {"type": "json_schema", "json_schema": {"schema": ', b'{"x":', "nested deeper"),
        (b'{"metadata": ', b'{"x":', "got `object`"),
    ],
)
def test_a_body_that_is_nested_without_end_is_refused(served, start, opening, text):
    assert text in refusal(served, "/v1/chat/completions", start + opening * 100_000)["message"]


def test_a_schema_that_is_nested_without_end_is_refused(served):
    schema = {"type": "integer"}
    for _ in range(300):
        schema = {"type": "array", "items": schema}
    form = {"type": "json_schema", "json_schema": {"name": "deep", "schema": schema}}
    assert "recursion limit" in refused_chat(served, response_format=form)["message"]


def test_a_body_that_is_no_text_is_refused(served):
    assert "no JSON" in refusal(served, "/v1/chat/completions", b'{"model": "\xff"}')["message"]


def test_an_answer_that_comes_to_a_dead_end_is_an_error(served):
    error = refused_chat(served, response_format=DEAD_END)
    assert "the grammar allows no further token, nor an end (NoExtensionBias)" in error["message"]
    assert "\n" not in error["message"]
    with pytest.raises(openai.APIError, match="allows no further token") as raised:
        texts = []
        for event in chat(served.client(), extra_body={"response_format": DEAD_END}, stream=True):
            texts.append(event.choices[0].delta.content)
    assert texts == ["", "a"]
    assert raised.value.type == "invalid_request_error"
    served.waits_for(requests_running=0, pages_used=0)


def test_one_of_several_answers_that_comes_to_a_dead_end_ends_all(served):
    before = served.engine.numbers()["requests failed"]
    refused_chat(served, response_format=DEAD_END, n=4, max_tokens=50)
    served.waits_for(requests_running=0, requests_waiting=0, pages_used=0)
    assert served.engine.numbers()["requests failed"] > before
    assert chat(served.client(), max_tokens=3).choices[0].finish_reason == "length"
