"""The guides about serving and tuning: their clients run, and their commands have options that there are."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import textwrap
from pathlib import Path

import pytest

from zyx_llm import load
from zyx_llm.program import serve, tune

sys.path.insert(0, str(Path(__file__).parent))

import networks
from test_serve import Served

GUIDES = Path(__file__).parents[2] / "docs" / "how-to"
SERVING = (GUIDES / "serving.md").read_text(encoding="utf-8")
TUNING = (GUIDES / "tuning-a-language-model.md").read_text(encoding="utf-8")
COMMANDS = {"serve": serve, "tune": tune}


@pytest.fixture
def server(tmp_path):
    made = Served(load(networks.save(tmp_path / "small.gguf"), device="c"))
    yield made
    made.close()


def blocks(text):
    """Return the indented blocks of a page."""
    found = re.findall(r"(?:^(?:    .*)?\n)+", text, re.MULTILINE)
    return [textwrap.dedent(block).strip() for block in found if block.strip()]


def test_the_clients_of_the_guide_are_answered(server, capsys):
    programs = [block for block in blocks(SERVING) if re.search(r"^import |client\.", block, re.MULTILINE)]
    assert len(programs) == 4
    program = "\n".join(programs).replace("127.0.0.1:8080", f"127.0.0.1:{server.port}")
    names = {}
    try:
        exec(program, names)
    finally:
        server.clients.append(names["client"])
    said = capsys.readouterr().out
    assert "['city', 'rivers']" in said
    assert said.rstrip().endswith(("yes", "no"))


def test_commands_of_the_guides_have_options_that_there_are():
    commands = re.findall(r"^    (?:\w+=\S+ )?zyx-llm (\w+) (.*)$", SERVING + TUNING, re.MULTILINE)
    assert {name for name, _ in commands} == {"serve", "tune"}
    for name, arguments in commands:
        parser = argparse.ArgumentParser()
        COMMANDS[name].configure(parser)
        assert parser.parse_args(shlex.split(arguments)).file.endswith(".gguf")


@pytest.mark.parametrize("text", [SERVING, TUNING], ids=["serving", "tuning"])
def test_options_that_the_guides_name_are_there(text):
    told = ""
    for module in COMMANDS.values():
        parser = argparse.ArgumentParser()
        module.configure(parser)
        told += parser.format_help()
    assert set(re.findall(r"--[a-z]+(?:-[a-z]+)*", text)) <= set(re.findall(r"--[a-z]+(?:-[a-z]+)*", told))


def test_metrics_of_the_guide_are_those_of_the_server(server):
    told = {line.split()[0] for line in server.open("/metrics")[1].splitlines() if not line.startswith("#")}
    assert set(re.findall(r"`(zyx_llm_\w+)`", SERVING)) == told
