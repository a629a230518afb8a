"""The server, asked by OpenAI's client and by bare sockets."""

from __future__ import annotations

import concurrent.futures
import ctypes
import gc
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import openai
import pytest
import uvicorn

import zyx
from zyx.errors import FormatError
from zyx_llm import load
from zyx_llm.program.main import main
from zyx_llm.serving import BatchEngine
from zyx_llm.serving.constraints import Grammars
from zyx_llm.serving.http import Limits, app_of
from zyx_llm.tokenizer import Tokenizer
from zyx_llm.tokenizer.tokenizer import Special

sys.path.insert(0, str(Path(__file__).parent))

import networks

NAME = "small"
TALK = [{"role": "user", "content": "hello"}]
#: A schema with one text that meets it but for its number.
SCHEMA = {
    "type": "object",
    "properties": {"kind": {"const": "a"}, "count": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["kind", "count"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load(networks.save(tmp_path_factory.mktemp("model") / "small.gguf"), device="c")


class Served:
    """A server in a thread of this process."""

    def __init__(self, model, *, token=None, limits=None, **options):
        self.engine = BatchEngine(model.network, model.tokenizer.special.ends, **{"rows": 4, **options})
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        app = app_of(model, self.engine, NAME, token=token, limits=limits)
        config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1, lifespan="off")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)
        self.thread.start()
        self.clients = []

    def client(self, key="none"):
        base = f"http://127.0.0.1:{self.port}/v1"
        self.clients.append(openai.OpenAI(base_url=base, api_key=key, max_retries=0, timeout=120))
        return self.clients[-1]

    def open(self, path, body=None, **headers):
        """Return the status and the text of an answer."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        given = {"content-type": "application/json", **headers}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, given)  # it is ours
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, answer.read().decode(), answer.headers
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode(), error.headers

    def waits_for(self, **wanted):
        """Wait until the engine counts so much."""
        for _ in range(3000):
            numbers = self.engine.numbers()
            if all(numbers[name.replace("_", " ")] == count for name, count in wanted.items()):
                return
            time.sleep(0.01)
        raise AssertionError(f"{wanted} was not reached: {numbers}")

    def close(self):
        self.server.should_exit = True
        self.thread.join(30)
        for client in self.clients:
            client.close()
        self.engine.close()
        self.socket.close()
        assert not self.thread.is_alive()


@pytest.fixture(scope="module")
def served(model):
    server = Served(model)
    yield server
    server.close()


def chat(client, **more):
    return client.chat.completions.create(model=NAME, messages=TALK, **{"max_tokens": 6, "temperature": 0, **more})


def test_an_answer_is_that_of_the_model(served, model):
    found = chat(served.client())
    alone = "".join(model.answer(model.talk(TALK), limit=6))
    assert found.choices[0].message.content == alone
    assert found.choices[0].message.role == "assistant"
    assert found.usage.prompt_tokens == len(model.tokenizer.encode(model.talk(TALK)))
    assert found.model == NAME


def test_streamed_pieces_are_the_answer(served):
    client = served.client()
    whole = chat(client).choices[0]
    events = [*chat(client, stream=True, stream_options={"include_usage": True})]
    text = "".join(event.choices[0].delta.content or "" for event in events if event.choices)
    assert text == whole.message.content
    assert events[-1].usage.completion_tokens == chat(client).usage.completion_tokens
    assert [event.choices[0].finish_reason for event in events if event.choices][-1] == whole.finish_reason


def test_a_text_is_gone_on_from_and_so_are_tokens(served, model):
    client = served.client()
    texts = client.completions.create(model=NAME, prompt=["hello", "world"], max_tokens=5, temperature=0)
    tokens = [model.tokenizer.encode(text) for text in ("hello", "world")]
    again = client.completions.create(model=NAME, prompt=tokens, max_tokens=5, temperature=0)
    assert [c.text for c in texts.choices] == [c.text for c in again.choices]
    assert texts.choices[0].text == "".join(model.answer("hello", limit=5))


def test_answers_of_a_seed_are_the_same_and_those_of_one_request_differ(served):
    client = served.client()
    first, second = (chat(client, temperature=2, seed=3, n=3, max_tokens=12) for _ in range(2))
    texts = [c.message.content for c in first.choices]
    assert texts == [c.message.content for c in second.choices]
    assert len(set(texts)) > 1


def test_an_answer_ends_at_a_stop_and_at_its_limit(served):
    client = served.client()
    whole = chat(client, max_tokens=20).choices[0]
    stop = whole.message.content[4:6]
    found = chat(client, max_tokens=20, stop=[stop]).choices[0]
    assert found.message.content == whole.message.content[: whole.message.content.index(stop)]
    assert found.finish_reason == "stop"
    assert chat(client, max_tokens=2).choices[0].finish_reason == "length"


def test_tokens_have_probabilities(served):
    found = chat(served.client(), logprobs=True, max_tokens=4)
    told = found.choices[0].logprobs.content
    assert len(told) == found.usage.completion_tokens
    assert all(-100 < each.logprob <= 0 for each in told)


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_meets_a_schema(served, stream):
    form = {"type": "json_schema", "json_schema": {"name": "thing", "schema": SCHEMA}}
    found = chat(served.client(), response_format=form, max_tokens=200, temperature=1, seed=1, stream=stream)
    if stream:
        text = "".join(event.choices[0].delta.content or "" for event in found)
    else:
        assert found.choices[0].finish_reason == "stop"
        text = found.choices[0].message.content
    value = json.loads(text)
    assert value["kind"] == "a"
    assert value["count"] in range(10)


def test_an_answer_meets_a_grammar(served):
    form = {"type": "grammar", "grammar": 'start: "yes" | "no"'}
    found = chat(served.client(), extra_body={"response_format": form}, temperature=1)
    assert found.choices[0].message.content in ("yes", "no")


def test_vectors_are_those_of_the_model(served, model):
    client = served.client()
    found = client.embeddings.create(model=NAME, input=["hello", "world"])
    plain = client.embeddings.create(model=NAME, input=["hello", "world"], encoding_format="float")
    np.testing.assert_allclose([each.embedding for each in found.data], model.embed(["hello", "world"]), rtol=1e-6)
    np.testing.assert_allclose([each.embedding for each in plain.data], model.embed(["hello", "world"]), rtol=1e-6)


def test_many_clients_at_once_get_what_they_get_alone(served):
    client = served.client()
    prompts = [f"hello {number}" for number in range(12)]

    def answer(prompt):
        return client.completions.create(model=NAME, prompt=prompt, max_tokens=10, temperature=0).choices[0].text

    alone = [answer(prompt) for prompt in prompts]
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        assert [*pool.map(answer, prompts)] == alone
    served.waits_for(pages_used=0, requests_running=0)


@pytest.mark.parametrize(
    ("field", "value", "status", "text"),
    [
        ("model", "gpt", 404, "this server has 'small'"),
        ("messages", [{"role": "robot", "content": "x"}], 400, "there are system, developer, user, assistant"),
        ("messages", [{"role": "user", "content": [{"type": "image_url"}]}], 400, "image_url"),
        ("messages", [], 400, "at least one"),
        ("messages", "hello", 400, "Expected `array`"),
        ("messages", [{"role": "user", "content": "x" * 3000}], 400, "600"),
        ("temperature", -1, 400, "temperature is from"),
        ("n", 1000, 400, "n is from 1 to 16"),
        ("max_tokens", 0, 400, "at least 1"),
        ("stop", [""], 400, "not empty"),
        ("logit_bias", {"1": 5}, 400, "logit_bias is not kept to"),
        ("frequency_penalty", 1, 400, "frequency_penalty is not kept to"),
        ("tools", [], 400, "unknown field `tools`"),
        ("top_logprobs", 3, 400, "top_logprobs"),
        ("response_format", {"type": "xml"}, 400, "json_schema"),
        (
            "response_format",
            {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "x"}}},
            400,
            "Invalid type",
        ),
        (
            "response_format",
            {
                "type": "json_schema",
                "json_schema": {"name": "x", "schema": {"type": "integer", "minimum": 5, "maximum": 2}},
            },
            400,
            "Unsatisfiable",
        ),
        ("response_format", {"type": "grammar", "grammar": "start: x"}, 400, "unknown name"),
    ],
)
def test_what_is_not_kept_to_is_refused_before_anything_runs(served, field, value, status, text):
    before = served.engine.numbers()
    found, said, _ = served.open(
        "/v1/chat/completions", {"model": NAME, "messages": TALK, "max_tokens": 4, field: value}
    )
    assert found == status
    error = json.loads(said)["error"]
    assert text in error["message"]
    assert error["type"] == "invalid_request_error"
    after = served.engine.numbers()
    assert {k: v for k, v in after.items() if k.startswith("tokens")} == {
        k: v for k, v in before.items() if k.startswith("tokens")
    }


def test_what_is_no_json_is_refused(served):
    assert served.open("/v1/chat/completions", b"{")[0] == 400
    assert served.open("/v1/chat/completions", b"{}", **{"content-type": "text/plain"})[0] == 415
    assert served.open("/v1/nowhere", b"{}")[0] == 404


def test_a_body_that_is_too_large_is_not_read(model):
    server = Served(model, limits=Limits(body_bytes=2000))
    try:
        status, said, _ = server.open("/v1/completions", {"prompt": "x" * 5000})
        assert status == 413
        assert "2000 bytes" in said
    finally:
        server.close()


def test_more_requests_than_may_wait_are_told_to_come_again(model):
    server = Served(model, rows=1, waiting=1)
    try:
        body = json.dumps({"prompt": "hello", "max_tokens": 500, "temperature": 0}).encode()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            found = [*pool.map(lambda _: server.open("/v1/completions", body), range(8))]
        statuses = sorted(status for status, _, _ in found)
        assert statuses[0] == 200
        assert statuses[-1] == 429
        assert all(headers["retry-after"] == "1" for status, _, headers in found if status == 429)
    finally:
        server.close()


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_vanishes_ends_its_answer(model, stream):
    server = Served(model)
    try:
        body = json.dumps({"prompt": "hello", "max_tokens": 590, "temperature": 0, "stream": stream}).encode()
        head = (
            f"POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(head.encode() + body)
            server.waits_for(requests_running=1)
        server.waits_for(requests_running=0, requests_cancelled=1, pages_used=0)
    finally:
        server.close()


@pytest.mark.slow
def test_a_thousand_requests_leave_memory_as_it_was(model):
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    server = Served(model, rows=8)
    random = np.random.default_rng(0)
    bodies = [
        {"prompt": "x" * int(random.integers(1, 200)), "max_tokens": int(random.integers(1, 8)), "temperature": 0.5}
        for _ in range(1000)
    ]

    def status_of(body):
        return server.open("/v1/completions", body)[0]

    def taken():
        gc.collect()
        if trim is not None:
            trim(0)  # what the C library keeps for later depends on how many requests met
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024, sum(
            use.live_buffers for use in zyx.memory_stats().values()
        )

    try:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            assert {*pool.map(status_of, bodies[:300])} == {200}
            before = taken()
            assert {*pool.map(status_of, bodies[300:])} == {200}
        server.waits_for(requests_done=1000, pages_used=0)
        after = taken()
        assert after[0] - before[0] < 40  # MiB; a request that left its prompt's keys would leave 700 of 0.1
        assert after[1] - before[1] < 100
    finally:
        server.close()


def test_a_token_has_to_be_shown(model):
    server = Served(model, token="secret")
    try:
        assert server.open("/v1/models")[0] == 401
        assert server.open("/v1/models", authorization="Bearer other")[0] == 401
        assert server.open("/metrics")[0] == 401
        assert server.open("/health")[0] == 200
        assert [each.id for each in server.client("secret").models.list()] == [NAME]
    finally:
        server.close()


def test_other_hosts_names_are_refused(served):
    assert served.open("/v1/models", host="elsewhere.example")[0] == 400


def test_what_is_counted_is_told(served):
    chat(served.client())
    status, text, _ = served.open("/metrics")
    assert status == 200
    found = dict(line.split() for line in text.splitlines() if not line.startswith("#"))
    assert float(found["zyx_llm_requests_done_total"]) >= 1
    assert float(found["zyx_llm_pages_used"]) == 0


def test_a_server_that_stops_ends_its_answers(model):
    server = Served(model)
    client = server.client()
    events = iter(client.completions.create(model=NAME, prompt="hello", max_tokens=590, temperature=0, stream=True))
    next(events)
    server.close()
    left = server.engine.numbers()
    assert left["requests running"] == left["requests waiting"] == left["pages used"] == 0


def test_others_are_listened_to_with_a_token_alone(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("ZYX_LLM_TOKEN", raising=False)
    assert main(["serve", str(tmp_path / "none.gguf"), "--host", "0.0.0.0"]) == 1  # it is refused
    assert "give a token" in capsys.readouterr().err
    assert main(["serve", str(tmp_path / "none.gguf"), "--port", "99999"]) == 1
    assert "1 to 65535" in capsys.readouterr().err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["serve", str(tmp_path / "none.gguf"), "--port", str(taken.getsockname()[1])]) == 1
    assert "choose others" in capsys.readouterr().err


def test_the_program_answers_until_it_is_interrupted(tmp_path):
    file = networks.save(tmp_path / "tiny.gguf")
    command = [sys.executable, "-m", "zyx_llm", "serve", str(file), "--device", "c", "--port", "0"]
    environment = {**os.environ, "ZYX_LLM_TOKEN": "secret"}
    program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        (address,) = re.findall(r"http://[\d.]+:\d+/v1", program.stdout.readline())
        with openai.OpenAI(base_url=address, api_key="secret", max_retries=0, timeout=120) as client:
            (name,) = [each.id for each in client.models.list()]
            assert name == "tiny"
            stream = client.completions.create(model=name, prompt="hello", max_tokens=500, temperature=0, stream=True)
            next(iter(stream))
            program.send_signal(signal.SIGINT)
            assert program.wait(30) in (0, 130)
    finally:
        program.kill()
        program.wait()
        program.stdout.close()


@pytest.mark.parametrize("host", ["127.0.0.2", "::1", "0:0:0:0:0:0:0:1", "localhost"])
def test_the_program_is_asked_by_the_host_that_it_listens_on(tmp_path, host):
    if ":" in host and not has_ipv6():
        pytest.skip("this machine has no ::1 to listen on")
    file = networks.save(tmp_path / "tiny.gguf")
    command = [sys.executable, "-m", "zyx_llm", "serve", str(file), "--device", "c", "--port", "0", "--host", host]
    environment = {name: value for name, value in os.environ.items() if name != "ZYX_LLM_TOKEN"}
    program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        told, port = re.findall(r"clients: http://(.+):(\d+)/v1", program.stdout.readline())[0]
        assert told == {"127.0.0.2": "127.0.0.2", "localhost": "127.0.0.1"}.get(host, "[::1]")
        for name in {told, f"[{host}]" if ":" in host else host}:
            with urllib.request.urlopen(f"http://{name}:{port}/v1/models", timeout=60) as answer:  # it is ours
                assert json.load(answer)["data"][0]["id"] == "tiny"
        other = urllib.request.Request(f"http://{told}:{port}/v1/models", headers={"host": "127.0.0.3"})
        with pytest.raises(urllib.error.HTTPError, match="400") as raised:
            urllib.request.urlopen(other, timeout=60)
        raised.value.close()
    finally:
        program.kill()
        program.wait()
        program.stdout.close()


def has_ipv6():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def test_a_vocabulary_without_an_end_has_no_grammars(model):
    own = model.tokenizer
    without = Tokenizer(own._inner, own._plain, own._pieces, Special())
    with pytest.raises(FormatError, match="nothing can say that a grammar is met"):
        Grammars(without, len(own))
