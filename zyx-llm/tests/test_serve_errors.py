"""What the server tells clients that ask for what it has not, or in a form that it does not read."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import openai
import pytest

from zyx.errors import AllocationError
from zyx_llm import Sampling, load
from zyx_llm.serving.http.bodies import seed_of

sys.path.insert(0, str(Path(__file__).parent))

import networks
from test_serve import NAME, TALK, Served, chat

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


@pytest.mark.parametrize("stream", [False, True])
def test_what_a_device_fails_at_is_no_fault_of_the_client(model, monkeypatch, stream):
    def fail(*_):
        raise AllocationError("no room for 4096 bytes")

    server = Served(model)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(server.engine.steps, "forward", fail)
            with pytest.raises(openai.APIError, match="no room for 4096 bytes") as raised:
                list(chat(server.client(), stream=stream))
        assert (raised.value.type, raised.value.code) == ("server_error", "internal_error")
        assert stream or raised.value.status_code == 500
        assert chat(server.client()).choices[0].finish_reason
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


def test_more_answers_than_the_server_ever_has_are_refused(model):
    server = Served(model, rows=2, waiting=3)
    try:
        asked = {"prompt": ["a", "b"], "max_tokens": 2}
        error = refusal(server, "/v1/completions", {**asked, "n": 3})
        assert "2 prompts with n = 3 are 6 answers, and this server has 5 at a time" in error["message"]
        assert error["param"] == "n"
        assert refusal(server, "/v1/completions", {**asked, "prompt": ["a"] * 6})["param"] == "prompt"
        for _ in range(5):  # as many as there may be are taken, whether or not the engine has come to the first
            status, said, _ = server.open("/v1/completions", {**asked, "prompt": ["a"] * 5})
            assert status == 200, said
            assert len(json.loads(said)["choices"]) == 5
    finally:
        server.close()


@pytest.mark.parametrize(
    ("path", "body", "param", "code"),
    [
        ("chat/completions", {"messages": [{"role": "user", "content": "x" * 700}]}, "messages", True),
        ("completions", {"prompt": "x" * 700}, "prompt", True),
        ("completions", {"prompt": ["x", "x" * 700]}, "prompt", True),
        ("completions", {"prompt": [5] * 700}, "prompt", True),
        ("completions", {"prompt": [5, 9999]}, "prompt", False),
        ("embeddings", {"input": ["x", "x" * 700]}, "input", True),
    ],
)
def test_what_is_too_long_is_told_of_the_field_that_it_came_in(served, path, body, param, code):
    error = refusal(served, f"/v1/{path}", body)
    assert (error["param"], error["code"]) == (param, "context_length_exceeded" if code else None)
    assert ("700" in error["message"] or "600" in error["message"]) is code
    served.waits_for(requests_running=0, requests_waiting=0, pages_used=0)


@pytest.mark.parametrize(
    ("part", "param", "text"),
    [
        ({"type": "image_url", "image_url": {"url": "data:,"}}, "", "'image_url'; the model reads text alone"),
        ({"type": "input_audio", "input_audio": {"data": ""}}, "", "'input_audio'; the model reads text alone"),
        ({"text": "hello"}, "", "of type None"),
        ({"type": "text"}, ".text", "has no text"),
        ({"type": "text", "text": 5}, ".text", "has no text"),
        ({"type": "text", "text": "x", "colour": 1}, ".colour", "unknown field 'colour'"),
    ],
)
def test_a_part_that_is_no_text_is_named(served, part, param, text):
    content = [{"type": "text", "text": "hello"}, part]
    error = refused_chat(served, messages=[*TALK, {"role": "user", "content": content}])
    assert error["param"] == f"messages[1].content[1]{param}"
    assert text in error["message"]


def test_parts_of_text_are_read_as_one(served):
    parts = [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]
    client = served.client()
    found = client.chat.completions.create(
        model=NAME, messages=[{"role": "user", "content": parts}], max_tokens=6, temperature=0
    )
    assert found.choices[0].message.content == chat(client).choices[0].message.content


@pytest.mark.parametrize(
    ("form", "param", "text"),
    [
        ({"schema": {}}, "json_schema.name", "missing required field `name`"),
        ({"name": "", "schema": {}}, "json_schema.name", "1 to 64"),
        ({"name": "a b", "schema": {}}, "json_schema.name", "'a b'"),
        ({"name": "x" * 65, "schema": {}}, "json_schema.name", "1 to 64"),
        ({"name": 5, "schema": {}}, "json_schema.name", "Expected `str`"),
        ({"name": "x"}, "json_schema.schema", "missing required field `schema`"),
        ({"name": "x", "schema": {}, "strict": "yes"}, "json_schema.strict", "Expected `bool | null`"),
        ({"name": "x", "schema": {}, "description": 5}, "json_schema.description", "Expected `str | null`"),
        ({"name": "x", "schema": {}, "scheme": {}}, "json_schema.scheme", "unknown field `scheme`"),
    ],
)
def test_all_fields_of_a_schema_are_checked(served, form, param, text):
    error = refused_chat(served, response_format={"type": "json_schema", "json_schema": form})
    assert error["param"] == f"response_format.{param}"
    assert text in error["message"]


def test_a_schema_beside_another_type_is_refused(served):
    form = {"type": "text", "json_schema": {"name": "x", "schema": {}}}
    assert refused_chat(served, response_format=form)["param"] == "response_format.json_schema"
    assert refused_chat(served, tools=[])["param"] == "tools"


def test_a_schema_with_all_its_fields_is_kept_to(served):
    schema = {"name": "n-1", "schema": {"const": "a"}, "strict": True, "description": "a letter"}
    found = chat(served.client(), response_format={"type": "json_schema", "json_schema": schema})
    assert found.choices[0].message.content == '"a"'


def test_seeds_and_the_answers_of_one_share_nothing(served):
    client = served.client()

    def texts(seed, n):
        found = chat(client, temperature=3, seed=seed, n=n, max_tokens=16)
        return [choice.message.content for choice in found.choices]

    of_seeds = {seed: texts(seed, 3) for seed in (-2, -1, 0, 1, 2, 3)}
    assert len({text for each in of_seeds.values() for text in each}) == 18
    assert texts(-1, 3) == of_seeds[-1]
    assert texts(1, 1) == of_seeds[1][:1]


def test_equal_prompts_of_one_request_are_answered_by_numbers_of_their_own(served):
    body = {"prompt": ["hello"] * 3, "temperature": 3, "seed": 5, "max_tokens": 16}
    choices = json.loads(served.open("/v1/completions", body)[1])["choices"]
    assert len({choice["text"] for choice in choices}) == 3


def test_a_seed_gives_the_first_answer_that_it_gives_the_model(served, model):
    found = chat(served.client(), temperature=1, seed=5, n=2, max_tokens=12).choices[0].message.content
    assert found == "".join(model.answer(model.talk(TALK), limit=12, sampling=Sampling(1.0, seed=5)))


@pytest.mark.parametrize("seed", [1 << 63, -(1 << 63) - 1])
def test_a_seed_of_more_than_64_bits_is_refused(served, seed):
    assert refused_chat(served, seed=seed)["param"] == "seed"


def test_seeds_of_answers_are_different_numbers():
    given = (*range(-20, 20), (1 << 63) - 1, -(1 << 63))
    assert len({seed_of(seed, index) for seed in given for index in range(16)}) == 16 * len(given)
