"""The assembler: sections in order, nothing twice, nothing that nobody uses."""

from __future__ import annotations

import struct

import pytest
from targets import FULL

from zyx import dtype as dtypes
from zyx.ops import BinaryOp
from zyx_backend_vulkan import render_values
from zyx_backend_vulkan.disassembly import disassembly, instructions
from zyx_backend_vulkan.render_code import Code, parts_of
from zyx_backend_vulkan.spirv import Module, text
from zyx_backend_vulkan.spirv_table import INSTRUCTIONS, NAMES, count_fits


def lines_of(module: Module) -> list[str]:
    return [line.strip() for line in disassembly(module.words("kernel")).splitlines()[1:]]


def test_types_and_constants_are_made_once():
    m = Module((1, 5))
    word = m.type("TypeInt", 32, 0)
    assert m.type("TypeInt", 32, 0) == word
    assert m.constant(word, 7) == m.constant(word, 7) != m.constant(word, 8)
    assert [line for line in lines_of(m) if "OpConstant" in line] == [
        f"%{m.constant(word, 7)} = OpConstant %{word} 7",
        f"%{m.constant(word, 8)} = OpConstant %{word} 8",
    ]


def test_blocks_with_other_decorations_are_other_types():
    m = Module((1, 5))
    word = m.type("TypeInt", 32, 0)
    plain, read_only = m.struct((word,), (0,)), m.struct((word,), (0,), "NonWritable")
    assert m.struct((word,), (0,)) == plain != read_only
    assert f"OpMemberDecorate %{read_only} 0 NonWritable" in lines_of(m)
    assert f"OpMemberDecorate %{plain} 0 NonWritable" not in lines_of(m)


def test_an_empty_module_declares_no_type_but_that_of_its_function():
    lines = lines_of(Module((1, 5)))
    assert lines == [
        "OpCapability Shader", "OpMemoryModel Logical GLSL450", 'OpEntryPoint GLCompute %4 "main"',
        'OpName %4 "kernel"', "%2 = OpTypeVoid", "%3 = OpTypeFunction %2", "%4 = OpFunction %2 None %3",
        "%1 = OpLabel", "OpReturn", "OpFunctionEnd",
    ]  # fmt: skip


@pytest.mark.parametrize(("version", "names"), [((1, 3), ["SPV_KHR_float_controls"]), ((1, 5), [])], ids=str)
def test_an_extension_is_named_where_the_version_does_not_have_it(version: tuple[int, int], names: list[str]):
    m = Module(version)
    m.require("DenormPreserve")
    m.require("RoundingModeRTE")
    assert [line for line in lines_of(m) if "OpExtension" in line] == [f'OpExtension "{name}"' for name in names]


def test_a_capability_brings_those_that_it_needs():
    m = Module((1, 5))
    m.require("Int64Atomics")
    assert {"OpCapability Int64", "OpCapability Int64Atomics"} <= set(lines_of(m))


def test_entry_points_list_buffers_from_the_version_that_wants_it():
    for version, listed in (((1, 3), False), ((1, 4), True)):
        m = Module(version)
        variable = m.variable("StorageBuffer", m.struct((m.type("TypeInt", 32, 0),), (0,)))
        (entry,) = [line for line in lines_of(m) if "OpEntryPoint" in line]
        assert entry.endswith(f"%{variable}") is listed


@pytest.mark.parametrize("word", ["", "abc", "abcd", "kernel"])
def test_text_ends_with_a_zero_byte(word: str):
    data = struct.pack(f"<{len(text(word))}I", *text(word))
    assert data.rstrip(b"\0").decode() == word
    assert data.endswith(b"\0")


def test_every_name_and_opcode_stands_for_one_thing():
    opcodes = [instruction.opcode for instruction in INSTRUCTIONS.values()]
    assert len(set(opcodes)) == len(opcodes)
    for kind, names in NAMES.items():
        assert len(set(names.values())) == len(names), kind
    kinds = {kind.rstrip("?*") for instruction in INSTRUCTIONS.values() for kind in instruction.operands}
    assert kinds - {"id", "result", "type", "number", "text", "bits", "extended"} <= set(NAMES)


@pytest.mark.parametrize(
    ("name", "fitting", "others"),
    [("IAdd", [5], [4, 6]), ("Load", [4, 5, 6], [3, 7]), ("Phi", [3, 5, 7], [2]), ("Return", [1], [2])],
)
def test_the_table_knows_how_many_words_there_may_be(name: str, fitting: list[int], others: list[int]):
    assert all(count_fits(INSTRUCTIONS[name], count) for count in fitting)
    assert not any(count_fits(INSTRUCTIONS[name], count) for count in others)


@pytest.mark.parametrize("lanes", range(1, 18))
def test_values_are_vectors_of_up_to_four(lanes: int):
    parts = parts_of(lanes)
    assert sum(parts) == lanes
    assert all(part == 4 for part in parts[:-1])
    assert 1 <= parts[-1] <= 4


def test_integers_of_one_size_are_one_type():
    m = Code(FULL)
    assert m.of(dtypes.int32) == m.of(dtypes.uint32) != m.of(dtypes.int16)
    assert m.const(-1, dtypes.int32) == m.const(2**32 - 1, dtypes.uint32)
    assert m.of(dtypes.bfloat16) == m.of(dtypes.uint16)


def test_operations_on_floats_are_not_to_be_merged():
    m = Code(FULL)
    x = m.const(2.0, dtypes.float32)
    found = render_values.binary(m, BinaryOp.ADD, dtypes.float32, 1, x, x)
    lines = lines_of(m)
    assert f"OpDecorate %{found} NoContraction" in lines
    assert {"OpExecutionMode", "SignedZeroInfNanPreserve", "32"} <= {word for line in lines for word in line.split()}


def test_all_words_are_those_of_known_instructions():
    m = Code(FULL)
    for value, dtype in ((1.5, dtypes.float16), (-0.0, dtypes.float64), (-5, dtypes.int8), (2**63, dtypes.uint64)):
        m.const(value, dtype, 3)
    words = m.words("kernel")
    known = {instruction.opcode for instruction in INSTRUCTIONS.values()}
    assert {opcode for opcode, _ in instructions(struct.unpack(f"<{len(words) // 4}I", words))} <= known
