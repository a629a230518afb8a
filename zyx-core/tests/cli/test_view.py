"""``zyx view``: a program is run, and a page has all that was seen of it."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
import threading

import pytest

from zyx.cli.view import page_of, server_of

SCRIPT = """
import sys
import numpy as np
import zyx

print("given", sys.argv[1:], __name__)
x = zyx.Tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
for _ in range(3):
    y = x.softmax(1)
    (y @ x.T).numpy()
zyx.linalg.det(x[:, :3] + 1).numpy()
"""


def environment(path):
    return {"PATH": "", "HOME": str(path), "ZYX_BACKENDS": "interpreter", "ZYX_DEVICE": "interpreter"}


def view(path, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "zyx", "view", *arguments], cwd=path, env=environment(path), capture_output=True,
        text=True, check=False, timeout=60,
    )  # fmt: skip


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("view")
    (path / "program.py").write_text(SCRIPT, encoding="utf-8")
    done = view(path, "--html", "page.html", "program.py", "7")
    assert (done.returncode, done.stdout) == (0, "written to page.html\n"), done.stderr
    assert "given ['7'] __main__" in done.stderr
    return (path / "page.html").read_text(encoding="utf-8")


def test_the_page_needs_nothing_else(page):
    assert "default-src 'none'" in page
    links = set(re.findall(r"https?://[^\s\"'<>)]+", page))
    assert links == {"http://www.w3.org/2000/svg"}  # a name, which nobody asks for
    assert not re.search(r"<link|<img|<iframe|src=|@import", page)


def test_kernels_have_what_was_measured_expected_and_how_they_are_made(page):
    data = data_of(page)
    assert data["name"] == "program.py"
    assert len(data["kernels"]) >= 3
    generated = [kernel for kernel in data["kernels"] if not kernel["is_host"]]
    for kernel in generated:
        assert kernel["expected_s"] > 0
        assert kernel["schedule"].startswith("chosen without measuring: ")
        assert kernel["nests"]
        assert max(kernel["times"], key=kernel["times"].get) == next(iter(kernel["times"]))
        assert kernel["lines"]
    assert {line for kernel in data["kernels"] for line in kernel["lines"]} == {
        "program.py:9", "program.py:10", "program.py:11"
    }  # fmt: skip
    assert any("host det" in kernel["name"] or kernel["is_host"] for kernel in data["kernels"])


def test_plans_lead_from_inputs_to_results_by_kernels_of_the_list(page):
    data = data_of(page)
    assert len(data["plans"]) == 2
    for plan in data["plans"]:
        made = {number for number, buffer in enumerate(plan["buffers"]) if buffer["bytes"] is None}
        for step in plan["steps"]:
            assert data["kernels"][step["kernel"]]["name"] == step["name"]
            assert made.issuperset(step["reads"])
            made |= set(step["writes"])
        assert made == set(range(len(plan["buffers"])))
        assert any(buffer["role"] == "result" for buffer in plan["buffers"])


def test_memory_is_held_by_lives_of_buffers(page):
    (pool,) = data_of(page)["memory"]
    assert pool["pool"] == "host"
    assert pool["bytes"] == max(nbytes for _, nbytes in pool["samples"]) == sum(held["bytes"] for held in pool["held"])
    for at, nbytes in pool["samples"][-3:]:
        assert sum(life["bytes"] for life in pool["lives"] if life["start"] <= at < life["end"]) == nbytes
    at = pool["seconds"]
    assert sum(life["bytes"] for life in pool["lives"] if life["start"] <= at < life["end"]) == pool["bytes"]


def test_the_status_is_the_programs_and_what_is_wrong_is_said(tmp_path):
    (tmp_path / "fails.py").write_text("import sys\nsys.exit(3)", encoding="utf-8")
    assert view(tmp_path, "--html", "page.html", "fails.py").returncode == 3
    assert data_of((tmp_path / "page.html").read_text(encoding="utf-8"))["kernels"] == []
    done = view(tmp_path, "missing.py")
    assert (done.returncode, done.stderr) == (1, "zyx view: there is no file missing.py\n")
    done = view(tmp_path, "--html", "missing/page.html", "fails.py")
    assert (done.returncode, done.stderr.partition(" cannot ")[0]) == (1, "zyx view: missing/page.html")
    done = view(tmp_path, "--port", "70000", "fails.py")
    assert done.stderr.startswith("zyx view: --port 70000: ")


def test_nothing_in_the_data_ends_the_script():
    name = "</script><script>alert(1)</script>"
    assert data_of(page_of({"name": name})) == {"name": name}


def test_the_page_is_served_to_this_machine_alone():
    with server_of("<p>the page</p>", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()

        def answer(path, host):
            connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
            connection.request("GET", path, headers={"Host": f"{host}:{server.server_port}"})
            response = connection.getresponse()
            found = response.status, response.read()
            connection.close()
            return found

        try:
            assert server.server_address[0] == "127.0.0.1"
            assert answer("/", "127.0.0.1") == answer("/", "localhost") == (200, b"<p>the page</p>")
            assert answer("/other", "localhost")[0] == 404
            assert answer("/", "example.com")[0] == 403  # a name of somebody's that leads to this machine
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_the_command_serves_until_it_is_interrupted(tmp_path):
    (tmp_path / "program.py").write_text("pass", encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "zyx", "view", "program.py"], cwd=tmp_path, env=environment(tmp_path),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    said = process.stdout.readline()
    port = int(re.fullmatch(r"http://127\.0\.0\.1:(\d+)/ has the page; Ctrl-C ends this\n", said)[1])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/")
    assert data_of(connection.getresponse().read().decode())["name"] == "program.py"
    connection.close()
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    process.communicate()
