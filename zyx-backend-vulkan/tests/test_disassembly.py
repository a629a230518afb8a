"""Modules as text."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess

import pytest
from targets import FULL, TARGETS, random_kernels

from zyx import dtype as dtypes
from zyx_backend_vulkan.disassembly import disassembly
from zyx_backend_vulkan.render import render
from zyx_backend_vulkan.render_code import Code
from zyx_backend_vulkan.spirv import instruction

#: So many kernels for each target; there are hundreds of instructions in each.
_COUNT = 5


def test_constants_are_numbers_of_their_types():
    m = Code(FULL)
    for value, dtype in ((0.5, dtypes.float16), (-0.0, dtypes.float64), (0.25, dtypes.float32), (-1, dtypes.int8)):
        m.const(value, dtype)
    m.const(2**63 + 1, dtypes.uint64)
    text = disassembly(m.words("kernel"))
    assert re.findall(r"OpConstant %\d+ (\S+)", text) == ["0.5", "-0.0", "0.25", "255", str(2**63 + 1)]


def test_an_instruction_that_the_table_lacks_is_shown_by_its_words():
    words = Code(FULL).words("kernel")
    unknown = struct.pack("<3I", 3 << 16 | 4999, 7, 8)
    assert "Op<4999> 7 8" in disassembly(words[:20] + unknown + words[20:])


@pytest.mark.parametrize("words", [b"", b"\x03\x02\x23\x07", b"\0" * 40, Code(FULL).words("kernel")[:-1]])
def test_what_is_no_module_is_refused(words: bytes):
    with pytest.raises(ValueError, match="do not begin as a module"):
        disassembly(words)


@pytest.mark.parametrize(
    "wrong", [instruction("IAdd", 1, 2, 3), instruction("Return", 1), (9 << 16 | 253,), (0,)], ids=str
)
def test_an_instruction_of_the_wrong_length_is_refused(wrong: tuple[int, ...]):
    words = Code(FULL).words("kernel") + struct.pack(f"<{len(wrong)}I", *wrong)
    with pytest.raises(ValueError, match=rf"at word {len(words) // 4 - len(wrong)} has {wrong[0] >> 16} words"):
        disassembly(words)


@pytest.mark.parametrize("name", TARGETS)
def test_the_text_is_that_of_the_tool_of_others(name: str):
    tool = shutil.which("spirv-dis")
    if tool is None:
        pytest.skip("spirv-dis is not installed (the package spirv-tools)")
    for kernel in random_kernels(TARGETS[name], range(_COUNT)):
        words = render(kernel, TARGETS[name]).words
        done = subprocess.run([tool, "--raw-id", "--no-header", "-"], input=words, capture_output=True, check=True)
        theirs = [_plain(line) for line in done.stdout.decode().splitlines() if line.strip()]
        ours = [_plain(line) for line in disassembly(words).splitlines()[1:]]
        for line, other in zip(ours, theirs, strict=True):
            if "OpConstant " not in line:  # whose digits they write in a form of their own
                assert line == other


def _plain(line: str) -> str:
    return " ".join(line.split())
