"""Children of a fork draw numbers of their own."""

import json
import os
import subprocess
import sys

import pytest

SCRIPT = """
import json, os, sys
import zyx

def child(work):
    read, write = os.pipe()
    process = os.fork()
    if not process:
        os.write(write, json.dumps(work()).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        text = file.read()
    os.waitpid(process, 0)
    return json.loads(text)

def draw():
    return zyx.rand(4).tolist()

def seeded():
    zyx.manual_seed(5)
    return draw()

drawn_before, = sys.argv[1:]
if drawn_before == "yes":
    draw()
generator = zyx.Generator(3)

@zyx.jit
def traced():
    return zyx.rand(4)

if drawn_before == "yes":
    traced()
print(json.dumps({
    "plain": [child(draw), *child(lambda: [draw(), child(draw)]), draw()],
    "given": [child(lambda: zyx.rand(4, generator=generator).tolist()) for _ in range(2)]
    + [zyx.rand(4, generator=generator).tolist()],
    "traced": [child(lambda: traced().tolist()) for _ in range(2)] + [traced().tolist()],
    "seeded": [child(seeded), child(seeded), seeded()],
}))
"""


def run(drawn_before):
    environment = {**os.environ, "ZYX_DEVICE": "interpreter"}
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, drawn_before]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert not done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("drawn_before", ["yes", "no"])
def test_parent_and_children_draw_different_numbers_the_same_in_every_run_unless_they_seed(drawn_before):
    drawn = run(drawn_before)
    for kind in ("plain", "given", "traced"):
        numbers = [number for numbers in drawn[kind] for number in numbers]
        assert len(set(numbers)) == len(numbers), kind
    assert drawn["seeded"][0] == drawn["seeded"][1] == drawn["seeded"][2]
    if drawn_before == "yes":
        assert run(drawn_before) == drawn
