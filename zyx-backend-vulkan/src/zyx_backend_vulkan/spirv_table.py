"""The instructions of SPIR-V that kernels are made of, each with its operands, and the names of what these may be.

Numbers are those of the unified specification (SPIR-V 1.6, sections 3.3 to 3.52). The assembler takes opcodes from
here, the disassembler the operands as well, and `count_fits` says whether an instruction has as many words as it may.
"""

from __future__ import annotations

from typing import Final, NamedTuple

#: The first word of a module, and the number of words before the first instruction.
MAGIC: Final = 0x07230203
HEADER_WORDS: Final = 5

#: Kinds of operands. Behind a kind, ``?`` is for one that may be left out, ``*`` for any number of them.
ID: Final = "id"
RESULT: Final = "result"
TYPE: Final = "type"
NUMBER: Final = "number"
TEXT: Final = "text"
#: The bits of a constant, as many words as its type takes.
BITS: Final = "bits"
#: The number of an instruction of GLSL.std.450.
EXTENDED: Final = "extended"


class Instruction(NamedTuple):
    """An instruction.

    Attributes:
        opcode: Its number.
        operands: Kinds of its operands, in order: those above, or a name in `NAMES`.
    """

    opcode: int
    operands: tuple[str, ...]


_TABLE: Final = """
Undef 1 type result
Name 5 id text
Extension 10 text
ExtInstImport 11 result text
ExtInst 12 type result id extended id*
MemoryModel 14 AddressingModel MemoryModel
EntryPoint 15 ExecutionModel id text id*
ExecutionMode 16 id ExecutionMode number*
Capability 17 Capability
TypeVoid 19 result
TypeBool 20 result
TypeInt 21 result number number
TypeFloat 22 result number FPEncoding?
TypeVector 23 result id number
TypeArray 28 result id id
TypeRuntimeArray 29 result id
TypeStruct 30 result id*
TypePointer 32 result StorageClass id
TypeFunction 33 result id id*
ConstantTrue 41 type result
ConstantFalse 42 type result
Constant 43 type result bits
ConstantComposite 44 type result id*
SpecConstant 50 type result bits
SpecConstantComposite 51 type result id*
Function 54 type result FunctionControl id
FunctionEnd 56
Variable 59 type result StorageClass id?
Load 61 type result id MemoryAccess? number?
Store 62 id id MemoryAccess? number?
AccessChain 65 type result id id*
Decorate 71 id Decoration number*
MemberDecorate 72 id number Decoration number*
VectorShuffle 79 type result id id number*
CompositeConstruct 80 type result id*
CompositeExtract 81 type result id number*
CompositeInsert 82 type result id id number*
ConvertFToU 109 type result id
ConvertFToS 110 type result id
ConvertSToF 111 type result id
ConvertUToF 112 type result id
UConvert 113 type result id
SConvert 114 type result id
FConvert 115 type result id
Bitcast 124 type result id
SNegate 126 type result id
FNegate 127 type result id
IAdd 128 type result id id
FAdd 129 type result id id
ISub 130 type result id id
FSub 131 type result id id
IMul 132 type result id id
FMul 133 type result id id
UDiv 134 type result id id
SDiv 135 type result id id
FDiv 136 type result id id
UMod 137 type result id id
LogicalEqual 164 type result id id
LogicalNotEqual 165 type result id id
LogicalOr 166 type result id id
LogicalAnd 167 type result id id
LogicalNot 168 type result id
Select 169 type result id id id
IEqual 170 type result id id
INotEqual 171 type result id id
UGreaterThan 172 type result id id
SGreaterThan 173 type result id id
ULessThan 176 type result id id
SLessThan 177 type result id id
ULessThanEqual 178 type result id id
SLessThanEqual 179 type result id id
FOrdEqual 180 type result id id
FUnordNotEqual 183 type result id id
FOrdLessThan 184 type result id id
FOrdGreaterThan 186 type result id id
FOrdLessThanEqual 188 type result id id
FOrdGreaterThanEqual 190 type result id id
ShiftRightLogical 194 type result id id
ShiftRightArithmetic 195 type result id id
ShiftLeftLogical 196 type result id id
BitwiseOr 197 type result id id
BitwiseXor 198 type result id id
BitwiseAnd 199 type result id id
Not 200 type result id
ControlBarrier 224 id id id
AtomicLoad 227 type result id id id
AtomicCompareExchange 230 type result id id id id id id
AtomicIAdd 234 type result id id id id
AtomicSMin 236 type result id id id id
AtomicUMin 237 type result id id id id
AtomicSMax 238 type result id id id id
AtomicUMax 239 type result id id id id
AtomicAnd 240 type result id id id id
AtomicOr 241 type result id id id id
AtomicXor 242 type result id id id id
Phi 245 type result id*
LoopMerge 246 id id LoopControl
SelectionMerge 247 id SelectionControl
Label 248 result
Branch 249 id
BranchConditional 250 id id id
Return 253
GroupNonUniformShuffleXor 346 type result id id id
TypeCooperativeMatrixKHR 4456 result id id id id id
CooperativeMatrixLoadKHR 4457 type result id id id? MemoryAccess? number?
CooperativeMatrixMulAddKHR 4459 type result id id id number?
CooperativeMatrixLengthKHR 4460 type result id
"""


def _parsed(text: str) -> dict[str, Instruction]:
    rows = (line.split() for line in text.strip().splitlines())
    return {name: Instruction(int(opcode), tuple(operands)) for name, opcode, *operands in rows}


#: The instructions, by their names without ``Op``.
INSTRUCTIONS: Final = _parsed(_TABLE)

#: What operands of a kind may be, by name.
NAMES: Final[dict[str, dict[str, int]]] = {
    "AddressingModel": {"Logical": 0, "PhysicalStorageBuffer64": 5348},
    "MemoryModel": {"GLSL450": 1, "Vulkan": 3},
    "ExecutionModel": {"GLCompute": 5},
    "ExecutionMode": {
        "LocalSize": 17, "DenormPreserve": 4459, "SignedZeroInfNanPreserve": 4461, "RoundingModeRTE": 4462,
    },
    "Capability": {
        "Shader": 1, "Float16": 9, "Float64": 10, "Int64": 11, "Int64Atomics": 12, "Int16": 22, "Int8": 39,
        "GroupNonUniform": 61, "GroupNonUniformShuffle": 65, "StorageBuffer16BitAccess": 4433,
        "StorageBuffer8BitAccess": 4448, "DenormPreserve": 4464, "SignedZeroInfNanPreserve": 4466,
        "RoundingModeRTE": 4467, "BFloat16TypeKHR": 5116, "BFloat16CooperativeMatrixKHR": 5118,
        "VulkanMemoryModel": 5345, "VulkanMemoryModelDeviceScope": 5346, "PhysicalStorageBufferAddresses": 5347,
        "CooperativeMatrixKHR": 6022,
    },
    "StorageClass": {
        "Input": 1, "Workgroup": 4, "Function": 7, "PushConstant": 9, "StorageBuffer": 12,
        "PhysicalStorageBuffer": 5349,
    },
    "FunctionControl": {"None": 0},
    "LoopControl": {"None": 0, "Unroll": 1, "DontUnroll": 2},
    "SelectionControl": {"None": 0},
    "MemoryAccess": {"Aligned": 2, "NonPrivatePointer": 32, "Aligned|NonPrivatePointer": 34},
    "FPEncoding": {"BFloat16KHR": 0},
    "CooperativeMatrixUse": {"MatrixAKHR": 0, "MatrixBKHR": 1, "MatrixAccumulatorKHR": 2},
    "CooperativeMatrixLayout": {"RowMajorKHR": 0},
    "Decoration": {
        "SpecId": 1, "Block": 2, "ArrayStride": 6, "BuiltIn": 11, "Aliased": 20, "Coherent": 23, "NonWritable": 24,
        "Binding": 33, "DescriptorSet": 34, "Offset": 35, "NoContraction": 42,
    },
    "BuiltIn": {"WorkgroupSize": 25, "WorkgroupId": 26, "LocalInvocationId": 27},
}  # fmt: skip

#: Instructions of the set GLSL.std.450 (SPIR-V extended instructions for GLSL, section 2).
GLSL: Final = {
    "Trunc": 3, "FAbs": 4, "Floor": 8, "Sqrt": 31, "UMin": 38, "SMin": 39, "UMax": 41, "SMax": 42, "Fma": 50,
}  # fmt: skip

#: Later than all versions: what is an extension in each of them.
_NO_VERSION: Final = (255, 255)
#: The extensions that capabilities come with in versions of SPIR-V before the one that has them.
EXTENSIONS: Final[dict[str, tuple[tuple[int, int], str]]] = {
    "StorageBuffer8BitAccess": ((1, 5), "SPV_KHR_8bit_storage"),
    "DenormPreserve": ((1, 4), "SPV_KHR_float_controls"),
    "SignedZeroInfNanPreserve": ((1, 4), "SPV_KHR_float_controls"),
    "RoundingModeRTE": ((1, 4), "SPV_KHR_float_controls"),
    "PhysicalStorageBufferAddresses": ((1, 5), "SPV_KHR_physical_storage_buffer"),
    "VulkanMemoryModel": ((1, 5), "SPV_KHR_vulkan_memory_model"),
    "BFloat16TypeKHR": (_NO_VERSION, "SPV_KHR_bfloat16"),
    "CooperativeMatrixKHR": (_NO_VERSION, "SPV_KHR_cooperative_matrix"),
}

#: Capabilities that others come with.
IMPLIED: Final = {
    "Int64Atomics": ("Int64",),
    "GroupNonUniformShuffle": ("GroupNonUniform",),
    "CooperativeMatrixKHR": ("VulkanMemoryModel",),
    "VulkanMemoryModelDeviceScope": ("VulkanMemoryModel",),
    "BFloat16CooperativeMatrixKHR": ("BFloat16TypeKHR",),
}


def count_fits(instruction: Instruction, words: int) -> bool:
    """Whether an instruction may have so many words, that of its opcode included."""
    kinds = instruction.operands
    least = 1 + sum(kind[-1] not in "?*" for kind in kinds)
    is_open = any(kind[-1] == "*" or kind in (TEXT, BITS) for kind in kinds)
    return least <= words and (is_open or words <= 1 + len(kinds))
