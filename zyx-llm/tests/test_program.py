"""The command ``zyx-llm``."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zyx_llm.program.main import main

sys.path.insert(0, str(Path(__file__).parent))

import networks


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return networks.save(tmp_path_factory.mktemp("model") / "small.gguf")


def run(capsys, *arguments):
    """Return the status, and what is said to the standard output and error."""
    status = main([str(each) for each in arguments])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_an_answer_is_printed_and_what_it_took_is_said_beside_it(file, capsys):
    status, out, err = run(capsys, "run", file, "hello", "--limit", 5)
    assert status == 0
    assert out.endswith("\n")
    assert "tokens until the answer began" in err
    assert "MB of weights" in err
    again = run(capsys, "run", file, "user: hello<|im_end|>assistant:", "--raw", "--limit", 5, "--quiet")
    assert again == (0, out, "")


def test_a_seed_gives_the_same_answer(file, capsys):
    how = ("--limit", 8, "--temperature", 2, "--quiet", "--seed")
    assert run(capsys, "run", file, "hello", *how, 3) == run(capsys, "run", file, "hello", *how, 3)


def test_a_talk_ends_with_the_input(file, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("hello\n\nworld\n"))
    status, out, err = run(capsys, "chat", file, "--limit", 4, "--temperature", 0, "--system", "short")
    assert status == 0
    assert err.count("tokens/s") >= 2
    first = run(capsys, "run", file, "system: short<|im_end|>user: hello<|im_end|>assistant:", "--raw", "--limit", 4)[1]
    assert out.startswith(first)


def test_an_interrupted_answer_ends_and_the_talk_goes_on(file, capsys, monkeypatch):
    from zyx_llm.generation import Session

    generate = Session.generate

    def interrupted(self, tokens, limit, **more):
        for number, token in enumerate(generate(self, tokens, limit, **more)):
            if number == 2 and len(self.tokens) < 60:
                raise KeyboardInterrupt
            yield token

    monkeypatch.setattr(Session, "generate", interrupted)
    monkeypatch.setattr("sys.stdin", io.StringIO("hello\n" + "a long question " * 5 + "\n"))
    status, out, _ = run(capsys, "chat", file, "--limit", 4, "--temperature", 0)
    assert status == 0
    assert out.count(" ...\n") == 1


def test_speeds_are_told(file, capsys):
    status, out, _ = run(capsys, "bench", file, "--prompt", 20, "--tokens", 5, "--repeats", 2, "--draft", 3)
    assert status == 0
    assert "tokens a step, of at most 4" in out
    for line in ("loaded in", "read 20 tokens: ", "write 5 tokens: ", "MB of weights"):
        assert line in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "FILE", "x", "--temperature", "-1"), "temperature is at least 0, not -1.0"),
        (("run", "FILE", "x" * 700, "--raw"), "700 tokens are more than the context of 600; the file says 600"),
        (("run", "FILE", "x" * 30, "--raw", "--context", "20"), "30 tokens are more than the context of 20; the file"),
        (("run", "FILE", ""), None),
        (("run", "FILE", "", "--raw"), "at least one token"),
        (("run", "FILE", "x", "--device", "abacus"), "abacus"),
        (("run", "MISSING", "x"), "MISSING"),
        (("bench", "FILE", "--tokens", "0"), "--tokens is at least 1, not 0"),
        (("run", "FILE", "x", "--context", "0"), "context is at least 1, not 0"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(file, capsys, arguments, message):
    given = [str(file) if each == "FILE" else each for each in arguments]
    status, _, err = run(capsys, *given, *(("--quiet",) if given[0] == "run" else ()), *(
        ("--limit", "2") if given[0] == "run" else ()
    ))  # fmt: skip
    if message is None:
        assert (status, err) == (0, "")
        return
    assert status == 1
    assert err.startswith("zyx-llm: ")
    assert message in err
    assert err.count("\n") == 1 or "abacus" in arguments  # below which all backends are listed


def test_a_model_that_was_not_made_to_talk_says_so(tmp_path, capsys):
    named = networks.save(tmp_path / "plain.gguf", **{"tokenizer.chat_template": ""})
    status, _, err = run(capsys, "chat", named)
    assert status == 1
    assert "has no chat template: it was not made to talk" in err


@pytest.mark.skipif(os.name != "posix", reason="signals and pipes are those of POSIX")
def test_a_reader_that_goes_away_ends_it_quietly(file):
    command = [sys.executable, "-m", "zyx_llm", "run", str(file), "hello", "--limit", "500", "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(1)
        process.stdout.close()
        assert process.wait(timeout=60) in {0, 1}
        assert b"Traceback" not in process.stderr.read()


@pytest.mark.skipif(os.name != "posix", reason="signals and pipes are those of POSIX")
def test_an_interrupted_run_ends_with_what_it_has(file):
    command = [sys.executable, "-m", "zyx_llm", "run", str(file), "hello", "--limit", "590", "--temperature", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(1)
        time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert process.returncode in {0, 130}
        assert b"Traceback" not in err
        assert out
