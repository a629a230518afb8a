"""Thousands of random graphs agree with the oracle, on the interpreter and on the CPU in both ways to compile."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

import pytest

from zyx.testing.suite.test_graphs import BLOCK

#: Device, the variables that choose how it compiles, and which blocks of the kit's graphs are tried, by name. Both
#: devices are tried with half of the blocks, and not with the same; a C compiler starts a process for each kernel, and
#: gets a few of them.
WAYS = {
    "interpreter": ("interpreter", {}, range(0, 18, 2)),
    "c, llvm": ("c", {"ZYX_C_TOOLCHAIN": "llvm"}, range(1, 18, 2)),
    "c, cc": ("c", {"ZYX_C_TOOLCHAIN": "cc"}, (4, 5, 10, 15)),
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
    device, variables, blocks = WAYS[way]
    if variables.get("ZYX_C_TOOLCHAIN") == "cc":
        variables = {**variables, "CC": str(sometimes_plain(tmp_path))}
    command = [
        sys.executable, "-m", "pytest", "-q", "-rN", "-p", "no:cacheprovider", "--rootdir", str(tmp_path),
        "--pyargs", "zyx.testing.suite.test_graphs", f"--zyx-device={device}", "--zyx-thorough",
        "-k", " or ".join(f"{device}-{block}]" for block in blocks),
    ]  # fmt: skip
    environment = {**os.environ, **variables, "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    counted = re.search(r"(\d+) random graphs", done.stdout)
    assert counted is not None, done.stdout[-5000:]
    with capsys.disabled():
        print(f"\n{way}: {counted[0]} agree with the oracle")
    assert int(counted[1]) >= len(blocks) * BLOCK


def sometimes_plain(folder):
    """Return the script of `SOMETIMES_PLAIN`, for the compiler that the backend finds."""
    from zyx_backend_c.toolchain_cc import find_compiler  # not where only the interpreter is tested

    script = folder / "cc"
    script.write_text(SOMETIMES_PLAIN.replace("COMPILER", shlex.join(find_compiler(""))))
    script.chmod(0o755)
    return script
