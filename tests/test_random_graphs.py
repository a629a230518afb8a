"""Thousands of random graphs agree with the oracle, on the interpreter and on the CPU in both ways to compile."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

import pytest

#: Device, the variables that choose how it compiles, and how many graphs have to be tried, by name. A C compiler starts
#: a process for each kernel, so it gets a few blocks of the kit.
WAYS = {
    "interpreter": ("interpreter", {}, 2000),
    "c, llvm": ("c", {"ZYX_C_TOOLCHAIN": "llvm"}, 2000),
    "c, cc": ("c", {"ZYX_C_TOOLCHAIN": "cc"}, 400),
}
#: A C compiler that optimises a fifth of the kernels, chosen by their texts, and takes half as long for the others.
SOMETIMES_PLAIN = """#!/bin/sh
for word; do
    case $word in *.c) sum=$(cksum <"$word") ;; esac
done
sum=${sum%% *}
case ${sum:-0} in
    *[05]) exec COMPILER "$@" ;;
    *) exec COMPILER "$@" -O0 ;;
esac
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_thousands_of_random_graphs_agree_with_the_oracle(way, tmp_path, capsys):
    device, variables, least = WAYS[way]
    chosen: list[str] = []
    if variables.get("ZYX_C_TOOLCHAIN") == "cc":
        variables, chosen = {**variables, "CC": str(sometimes_plain(tmp_path))}, ["-k", "5] or 11] or 13] or 17]"]
    command = [
        sys.executable, "-m", "pytest", "-q", "-rN", "-p", "no:cacheprovider", "--rootdir", str(tmp_path),
        "--pyargs", "zyx.testing.suite.test_graphs", f"--zyx-device={device}", "--zyx-thorough",
        *chosen,
    ]  # fmt: skip
    environment = {**os.environ, **variables, "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    counted = re.search(r"(\d+) random graphs", done.stdout)
    assert counted is not None, done.stdout[-5000:]
    with capsys.disabled():
        print(f"\n{way}: {counted[0]} agree with the oracle")
    assert int(counted[1]) >= least


def sometimes_plain(folder):
    """Return the script of `SOMETIMES_PLAIN`, for the compiler that the backend finds."""
    from zyx_backend_c.toolchain_cc import find_compiler  # not where only the interpreter is tested

    script = folder / "cc"
    script.write_text(SOMETIMES_PLAIN.replace("COMPILER", shlex.join(find_compiler(""))))
    script.chmod(0o755)
    return script
