"""The emitter of the C family, by golden text, and by compiling what it writes as plain C."""

import ctypes
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx import ops
from zyx.dtype import DType
from zyx.errors import UnsupportedError
from zyx.kernel import data as k
from zyx.kernel import run as interpreter
from zyx.kernel.build import Builder
from zyx.kernel.data import Axis, Kernel, Memory
from zyx.ops import BinaryOp, ReduceOp, UnaryOp
from zyx.render.c_family import render
from zyx.render.dialect import Dialect, VectorAccess
from zyx.render.divisors import divisors
from zyx.render.halves import half_casts, half_functions

f32, f64, i64, i32 = dtypes.float32, dtypes.float64, dtypes.int64, dtypes.int32

TYPES = {
    dtypes.bool_: "_Bool", dtypes.uint8: "unsigned char", dtypes.int8: "signed char", dtypes.uint16: "unsigned short",
    dtypes.int16: "short", dtypes.float16: "unsigned short", dtypes.bfloat16: "unsigned short",
    dtypes.uint32: "unsigned int", i32: "int", f32: "float", dtypes.uint64: "unsigned long long", i64: "long long",
    f64: "double",
}  # fmt: skip

ROUNDING = (UnaryOp.ABS, UnaryOp.SQRT, UnaryOp.FLOOR, UnaryOp.TRUNC)

BITS = """
static inline float as_f32(unsigned int x) { float r; __builtin_memcpy(&r, &x, 4); return r; }
static inline unsigned int as_u32(float x) { unsigned int r; __builtin_memcpy(&r, &x, 4); return r; }
static inline double as_f64(unsigned long long x) { double r; __builtin_memcpy(&r, &x, 8); return r; }
static inline unsigned long long as_u64(double x) { unsigned long long r; __builtin_memcpy(&r, &x, 8); return r; }
"""

#: C without any promise of the compiler, one call a group and thread; stands for any dialect without vectors.
PLAIN = Dialect(
    name="plain C",
    types=TYPES,
    memory_types={dtypes.bool_: "unsigned char"},
    infinity={f32: "__builtin_inff()", f64: "__builtin_inf()"},
    nan={f32: '__builtin_nanf("")', f64: '__builtin_nan("")'},
    kernel="void {name}({params}, int g0, int g1, int l0) {{",
    pointer="{const}{element} *{name}",
    group_index=("g0", "g1"),
    local_index=("l0",),
    suffixes={f32: "f", dtypes.uint32: "u", i64: "ll", dtypes.uint64: "ull"},
    preamble=BITS + half_functions(TYPES, "static inline", "as_f32", "as_u32"),
    unary={
        (op, dtype): f"__builtin_{name}{'f' if dtype is f32 else ''}({{x}})"
        for op, name in zip(ROUNDING, ("fabs", "sqrt", "floor", "trunc"), strict=True)
        for dtype in (f32, f64)
    },
    binary={(BinaryOp.MOD, f32): "__builtin_fmodf({x}, {y})", (BinaryOp.MOD, f64): "__builtin_fmod({x}, {y})"},
    casts=half_casts(TYPES),
    bitcasts={
        (dtypes.uint32, f32): "as_f32({x})", (f32, dtypes.uint32): "as_u32({x})",
        (dtypes.uint64, f64): "as_f64({x})", (f64, dtypes.uint64): "as_u64({x})",
    },
    exchange={bits: "__sync_val_compare_and_swap({pointer}, {old}, {new})" for bits in (8, 16, 32, 64)},
)  # fmt: skip

#: What a dialect for a GPU looks like.
GPU = Dialect(
    name="GPU C",
    types={f32: "float", i32: "int", dtypes.uint32: "unsigned", dtypes.float16: "__half", dtypes.bool_: "bool"},
    memory_types={dtypes.bool_: "unsigned char"},
    infinity={f32: "INFINITY"},
    nan={f32: "NAN"},
    kernel='extern "C" __global__ void __launch_bounds__({threads}) {name}({params}) {{',
    pointer="{const}{element}* __restrict__ {name}",
    group_index=("blockIdx.x", "blockIdx.y", "blockIdx.z"),
    local_index=("threadIdx.x", "threadIdx.y", "threadIdx.z"),
    suffixes={f32: "f"},
    local_array="__shared__ {element} {name}[{length}];",
    barrier="__syncthreads();",
    fma={f32: "fmaf({x}, {y}, {z})"},
    atomics={(ReduceOp.SUM, f32): "atomicAdd({pointer}, {value});"},
    vector=VectorAccess(
        type="{element}{lanes}",
        load="*({type} const*)({pointer})",
        store="*({type}*)({pointer}) = {value};",
        make="make_{type}({items})",
        components=(".x", ".y", ".z", ".w"),
    ),
    swaps={f32: "shfl_xor({x}, {distance})"},
    wmma={((16, 8, 8), dtypes.float16): "mma_16_8_8({d}, {a}, {b}, {c});"},
)


def written(b: Builder, dialect: Dialect = GPU) -> list[str]:
    """The statements of a kernel, without head and foot."""
    lines = render(b.finish("test"), dialect, "test").removeprefix(dialect.preamble).splitlines()
    return [line.strip() for line in lines[1:-1]]


def test_operations_are_statements_and_aligned_vectors_are_loaded_whole() -> None:
    b = Builder()
    x = b.define(Memory.GLOBAL, f32, 4096, mutable=False)
    y = b.define(Memory.GLOBAL, f32, 4096)
    at = b.binary(BinaryOp.MUL, b.index(Axis.LOCAL, 0, 64, i32), b.const(4, i32))
    value = b.load(x, at, 4)
    b.store(y, at, b.mad(value, value, b.const(0.5, f32, 4)))
    assert render(b.finish("square"), GPU, "sq").splitlines() == [
        'extern "C" __global__ void __launch_bounds__(64) sq(const float* __restrict__ p0, float* __restrict__ p1) {',
        "    const int v2 = (int)threadIdx.x;",
        "    const int v4 = (int)((unsigned)v2 * (unsigned)4);",
        "    const float4 w5_0 = *(float4 const*)(&p0[v4]);",
        "    const float v5_0 = w5_0.x;",
        "    const float v5_1 = w5_0.y;",
        "    const float v5_2 = w5_0.z;",
        "    const float v5_3 = w5_0.w;",
        "    const float v7_0 = fmaf(v5_0, v5_0, 0.5f);",
        "    const float v7_1 = fmaf(v5_1, v5_1, 0.5f);",
        "    const float v7_2 = fmaf(v5_2, v5_2, 0.5f);",
        "    const float v7_3 = fmaf(v5_3, v5_3, 0.5f);",
        "    *(float4*)(&p1[v4]) = make_float4(v7_0, v7_1, v7_2, v7_3);",
        "}",
    ]


@pytest.mark.parametrize(("factor", "pieces"), [(8, ["float4", "float4"]), (6, ["float2"] * 4), (3, [])])
def test_a_vector_access_is_as_wide_as_alignment_and_dialect_allow(factor: int, pieces: list[str]) -> None:
    b = Builder()
    x = b.define(Memory.GLOBAL, f32, 4096, mutable=False)
    b.load(x, b.binary(BinaryOp.MUL, b.index(Axis.GROUP, 0, 64, i32), b.const(factor, i32)), 8)
    loads = [line.split() for line in written(b) if line.startswith("const float")]
    assert [words[1] for words in loads if words[2].startswith("w")] == pieces


@pytest.mark.parametrize(("lanes", "type_", "pieces"), [(6, "float2", 3), (8, "float4", 2), (3, "float3", 1)])
def test_pieces_of_a_vector_have_all_of_its_lanes(lanes: int, type_: str, pieces: int) -> None:
    b = Builder()
    x, y = (b.define(Memory.GLOBAL, f32, 1200, mutable=mutable) for mutable in (False, True))
    at = b.binary(BinaryOp.MUL, b.index(Axis.GROUP, 0, 64, i32), b.const(12 if lanes == 3 else 8, i32))
    b.store(y, at, b.load(x, at, lanes))
    lines = written(b)
    assert sum(f"{type_} const*" in line for line in lines) == pieces
    assert sum(f"make_{type_}" in line for line in lines) == pieces


@pytest.mark.parametrize("is_kept_inside", [True, False])
def test_lanes_under_one_mask_are_accessed_at_once_where_there_is_something_to_read(is_kept_inside: bool) -> None:
    b = Builder()
    x = b.define(Memory.GLOBAL, f32, 4096, mutable=False)
    y = b.define(Memory.GLOBAL, f32, 4096)
    at = b.binary(BinaryOp.MUL, b.index(Axis.LOCAL, 0, 64, i32), b.const(4, i32))
    is_there = b.binary(BinaryOp.LE, at, b.const(99, i32))
    if is_kept_inside:
        at = b.where(is_there, at, b.const(0, i32))
    mask = b.splat(is_there, 4)
    b.store(y, at, b.load(x, at, 4, mask), mask)
    lines = written(b)
    assert sum(line.startswith("const float4 w") for line in lines) == is_kept_inside
    assert sum("v6 ? " in line and line.startswith("const float v") for line in lines) == 4
    at_once = ["if (v6) *(float4*)(&p1[v8]) = make_float4(v10_0, v10_1, v10_2, v10_3);"]
    elsewhere = ["if (v6) *(float4*)(&p1[v4]) = make_float4(v8_0, v8_1, v8_2, v8_3);"]
    assert [line for line in lines if line.startswith("if")] == (at_once if is_kept_inside else elsewhere)


def test_groups_share_arrays_and_meet_at_barriers() -> None:
    b = Builder()
    y = b.define(Memory.GLOBAL, f32, 64)
    shared = b.define(Memory.LOCAL, f32, 64)
    thread = b.index(Axis.LOCAL, 1, 64, i32)
    b.store(shared, thread, b.const(1.0, f32))
    b.add(k.Barrier())
    b.atomic(ReduceOp.SUM, y, thread, b.load(shared, thread))
    assert written(b) == [
        "__shared__ float m1[64];",
        "const int v2 = (int)threadIdx.y;",
        "m1[v2] = 1.0f;",
        "__syncthreads();",
        "const float v6 = m1[v2];",
        "atomicAdd(&p0[v2], v6);",
    ]


def test_threads_meet_behind_branches_they_meet_in_where_the_dialect_says_so() -> None:
    b = Builder()
    b.define(Memory.GLOBAL, f32, 64)
    group = b.index(Axis.GROUP, 0, 4, i32)
    for limit in (2, 3):
        b.add(k.If(b.binary(BinaryOp.LE, group, b.const(limit, i32))))
        b.add(k.If(b.binary(BinaryOp.LE, group, b.const(limit - 2, i32))))
        if limit == 2:
            b.add(k.Barrier())
        b.add(k.EndIf())
        b.add(k.EndIf())
    meet, end = "__syncthreads();", "}"

    def kept(dialect: Dialect) -> list[str]:
        return [line for line in written(b, dialect) if line in (meet, end)]

    assert kept(GPU) == [meet, end, end, end, end]
    assert kept(replace(GPU, meets_behind_branches=True)) == [meet, end, meet, end, meet, end, end]


def test_register_arrays_with_constant_indices_are_variables() -> None:
    b = Builder()
    y = b.define(Memory.GLOBAL, f32, 4)
    acc = b.define(Memory.REGISTER, f32, 2, lanes=2)
    zero, one = b.const(0, i32), b.const(1, i32)
    b.store(acc, one, b.const(0.0, f32, 2))
    b.loop(3, i32)
    b.store(acc, one, b.binary(BinaryOp.ADD, b.load(acc, one), b.const(1.0, f32, 2)))
    b.end_loop()
    b.store(y, zero, b.load(acc, one))
    assert written(b) == [
        "float r1_0_0;",
        "float r1_0_1;",
        "float r1_1_0;",
        "float r1_1_1;",
        "r1_1_0 = 0.0f;",
        "r1_1_1 = 0.0f;",
        "for (int v6 = 0; v6 < 3; ++v6) {",
        "const float v7_0 = r1_1_0;",
        "const float v7_1 = r1_1_1;",
        "const float v9_0 = v7_0 + 1.0f;",
        "const float v9_1 = v7_1 + 1.0f;",
        "r1_1_0 = v9_0;",
        "r1_1_1 = v9_1;",
        "}",
        "const float v12_0 = r1_1_0;",
        "const float v12_1 = r1_1_1;",
        "*(float2*)(&p0[0]) = make_float2(v12_0, v12_1);",
    ]


def test_matrix_products_of_a_warp_take_the_lanes_apart() -> None:
    b = Builder()
    x = b.define(Memory.GLOBAL, dtypes.float16, 8, mutable=False)
    a, c = b.load(x, b.const(0, i32), 4), b.const(0.0, f32, 4)
    second = b.load(x, b.const(4, i32), 2)
    b.add(k.Wmma((16, 8, 8), a, second, c, k.Type(f32, 4)))
    assert written(b)[-2:] == [
        "float v6_0, v6_1, v6_2, v6_3;",
        "mma_16_8_8(v6_0, v6_1, v6_2, v6_3, v2_0, v2_1, v2_2, v2_3, v5_0, v5_1, 0.0f, 0.0f, 0.0f, 0.0f);",
    ]
    b.add(k.Wmma((16, 8, 16), a, second, c, k.Type(f32, 4)))
    with pytest.raises(UnsupportedError, match=r"kernel test, operation %7: GPU C has no matrix product \(16, 8, 16\)"):
        written(b)


def test_threads_swap_lane_by_lane() -> None:
    b = Builder()
    x = b.define(Memory.GLOBAL, f32, 64, mutable=False)
    at = b.binary(BinaryOp.MUL, b.index(Axis.LOCAL, 0, 32, i32), b.const(2, i32))
    b.swap(b.load(x, at, 2), 16)
    assert written(b)[-2:] == [
        "const float v5_0 = shfl_xor(v4_0, 16);",
        "const float v5_1 = shfl_xor(v4_1, 16);",
    ]
    b.swap(at, 1)
    with pytest.raises(UnsupportedError, match="kernel test, operation %6: GPU C: threads do not swap int32"):
        written(b)


def test_what_a_dialect_has_not_is_refused_with_kernel_and_operation() -> None:
    b = Builder()
    b.const(1.0, f64)
    with pytest.raises(UnsupportedError, match="kernel test, operation %0: GPU C has no float64"):
        written(b)
    b = Builder()
    b.unary(UnaryOp.SIN, b.const(1.0, f32))
    with pytest.raises(UnsupportedError, match="kernel test, operation %1: GPU C has no native form of sin of f32"):
        written(b)
    b = Builder()
    y = b.define(Memory.GLOBAL, f32, 1)
    b.atomic(ReduceOp.MAX, y, b.const(0, i32), b.const(1.0, f32))
    with pytest.raises(UnsupportedError, match="kernel test, operation %3: GPU C has no atomic max of float32"):
        written(b)


@pytest.mark.parametrize(("missing", "op"), [(dtypes.uint64, BinaryOp.MUL), (dtypes.uint32, BinaryOp.SHR)])
def test_a_type_that_only_helps_is_missed_by_its_name(missing: DType, op: BinaryOp) -> None:
    dtype = i64 if missing.bits == 64 else i32
    b = Builder()
    b.binary(op, b.const(3, dtype), b.const(1, dtype))
    few = replace(PLAIN, types={known: name for known, name in TYPES.items() if known is not missing})
    with pytest.raises(UnsupportedError, match=f"operation %2: plain C has no {missing}"):
        written(b, few)


def test_indices_are_known_to_be_multiples() -> None:
    b = Builder()
    group = b.index(Axis.GROUP, 0, 64)
    by_12 = b.binary(BinaryOp.MUL, group, b.const(12, i64))
    by_16 = b.binary(BinaryOp.SHL, group, b.const(4, i64))
    values = {
        group: 1,
        by_12: 4,
        by_16: 16,
        b.binary(BinaryOp.ADD, by_12, by_16): 4,
        b.binary(BinaryOp.SUB, by_16, b.const(8, i64)): 8,
        b.mad(by_12, by_16, b.const(32, i64)): 32,
        b.cast(by_16, i32): 16,
        b.binary(BinaryOp.MUL, by_16, by_16): 256,
        b.binary(BinaryOp.DIV, by_16, b.const(2, i64)): 1,
    }
    known = divisors(b.finish("test"))
    assert {value: known[value] for value in values} == values


# ---- what is written, compiled and run

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")


def run_compiled(kernel: Kernel, arrays: list[np.ndarray], folder: Path) -> None:
    source, library = folder / "kernel.c", folder / "kernel.so"
    source.write_text(render(kernel, PLAIN, "kernel"))
    flags = ["-std=gnu11", "-O1", "-fPIC", "-shared", "-ffp-contract=off", "-fno-strict-aliasing", "-Werror=overflow"]
    subprocess.run(["cc", *flags, str(source), "-o", str(library), "-lm"], check=True)
    function = ctypes.CDLL(str(library)).kernel
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
    groups, threads = kernel.grid
    for g1 in range(groups[1] if len(groups) > 1 else 1):
        for g0 in range(groups[0] if groups else 1):
            for l0 in range(threads[0] if threads else 1):
                function(*pointers, ctypes.c_int(g0), ctypes.c_int(g1), ctypes.c_int(l0))


def agrees(kernel: Kernel, arrays: list[np.ndarray], folder: Path) -> None:
    wanted = [array.copy() for array in arrays]
    interpreter.run(kernel, wanted)
    run_compiled(kernel, arrays, folder)
    for actual, expected in zip(arrays, wanted, strict=True):
        if expected.dtype.kind in "biu":
            np.testing.assert_array_equal(actual, expected)
        else:
            with np.errstate(invalid="ignore"):
                np.testing.assert_array_equal(actual.astype(np.float64), expected.astype(np.float64))


def values(dtype: DType, count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.is_bool:
        return rng.integers(0, 2, count).astype(np.bool_)
    special: list[float] = [0, 1, 2, 3, 7, dtype.bits - 1, dtype.bits, 100]
    if dtype.is_float:
        special += [
            -0.0,
            0.5,
            -2.5,
            65519.0,
            2.0**31,
            -(2.0**31),
            2.0**63,
            1e30,
            1e-40,
            6e-8,
            float("inf"),
            float("nan"),
        ]
        special += [-float("inf"), 1 + 2**-8 + 2**-40, 1 + 3 * 2**-8 - 2**-40]
    else:
        special += [dtype.min, dtype.max, *([-1, -2, -7] if dtype.min else [])]
    with np.errstate(over="ignore"):
        chosen = np.array(special).astype(dtype.numpy) if dtype.is_float else np.array(special, dtype=dtype.numpy)
    random = rng.integers(0, 256, (count, dtype.itemsize), dtype=np.uint8).view(dtype.numpy).ravel()
    return np.where(rng.random(count) < 0.6, chosen[rng.integers(0, len(chosen), count)], random)


@needs_compiler
@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if not (d.is_float and d.bits == 16)], ids=str)
def test_operations_and_conversions_mean_in_c_what_they_mean_in_the_ir(
    dtype: DType, lanes: int, tmp_path: Path
) -> None:
    count = 96
    unary = sorted(ops.unary_ops(dtype) - ops.TRANSCENDENTAL, key=lambda op: op.value)
    binary = sorted(ops.binary_ops(dtype) - {BinaryOp.POW}, key=lambda op: op.value)
    b = Builder()
    x, y = (b.define(Memory.GLOBAL, dtype, count, mutable=False) for _ in range(2))
    kinds = (
        [dtype] * len(unary) + [dtypes.bool_ if op in ops.COMPARISONS else dtype for op in binary] + list(dtypes.ALL)
    )
    results = [b.define(Memory.GLOBAL, kind, count) for kind in kinds]
    at = b.binary(BinaryOp.MUL, b.index(Axis.GROUP, 0, count // lanes), b.const(lanes, i64))
    first, second = b.load(x, at, lanes), b.load(y, at, lanes)
    computed = [b.unary(op, first) for op in unary] + [b.binary(op, first, second) for op in binary]
    computed += [b.cast(first, target) for target in dtypes.ALL]
    for result, value in zip(results, computed, strict=True):
        b.store(result, at, value)
    arrays = [values(dtype, count, 1), values(dtype, count, 2), *(np.zeros(count, kind.numpy) for kind in kinds)]
    agrees(b.finish("operations"), arrays, tmp_path)


@needs_compiler
@pytest.mark.parametrize("half", [dtypes.float16, dtypes.bfloat16], ids=str)
def test_every_half_float_is_converted_exactly(half: DType, tmp_path: Path) -> None:
    b = Builder()
    x = b.define(Memory.GLOBAL, half, 1 << 16, mutable=False)
    targets = [b.define(Memory.GLOBAL, dtype, 1 << 16) for dtype in (f32, f64, i32, dtypes.uint8, dtypes.bool_, half)]
    at = b.index(Axis.GROUP, 0, 1 << 16)
    value = b.load(x, at)
    for target, dtype in zip(targets, (f32, f64, i32, dtypes.uint8, dtypes.bool_), strict=False):
        b.store(target, at, b.cast(value, dtype))
    b.store(targets[-1], at, b.cast(b.cast(value, f32), half))
    arrays = [np.arange(1 << 16, dtype=np.uint16).view(half.numpy)]
    arrays += [np.zeros(1 << 16, dtype.numpy) for dtype in (f32, f64, i32, dtypes.uint8, dtypes.bool_, half)]
    with np.errstate(invalid="ignore"):
        agrees(b.finish("halves"), arrays, tmp_path)


@needs_compiler
def test_control_flow_masks_and_arrays_mean_in_c_what_they_mean_in_the_ir(tmp_path: Path) -> None:
    b = Builder()
    x = b.define(Memory.GLOBAL, f32, 70, mutable=False)
    y, z = b.define(Memory.GLOBAL, f32, 70), b.define(Memory.GLOBAL, f32, 4)
    acc = b.define(Memory.REGISTER, f32, 1, lanes=4)
    table = b.define(Memory.REGISTER, f32, 4)
    group, other = b.index(Axis.GROUP, 0, 9), b.index(Axis.GROUP, 1, 2)
    start = b.binary(
        BinaryOp.ADD, b.binary(BinaryOp.MUL, group, b.const(8, i64)), b.binary(BinaryOp.MUL, other, b.const(4, i64))
    )
    lanes = b.vectorize(tuple(b.const(lane, i64) for lane in range(4)))
    mask = b.binary(BinaryOp.LT, b.binary(BinaryOp.ADD, b.splat(start, 4), lanes), b.const(70, i64, 4))
    zero = b.const(0, i64)
    value = b.load(x, start, 4, mask)
    b.store(acc, zero, value)
    i = b.loop(4)
    b.open_if(b.binary(BinaryOp.LT, b.const(1, i64), i))
    b.store(acc, zero, b.binary(BinaryOp.ADD, b.load(acc, zero), value))
    b.end_if()
    b.store(table, i, b.cast(i, f32))
    b.end_loop()
    picked = b.add(k.Shuffle(b.load(acc, zero), value, (3, 2, 5, 0), k.Type(f32, 4)))
    extra = b.load(table, b.binary(BinaryOp.MOD, group, b.const(4, i64)))
    b.store(y, start, b.binary(BinaryOp.ADD, picked, b.splat(extra, 4)), mask)
    b.atomic(ReduceOp.SUM, z, zero, b.const(1.0, f32))
    b.atomic(ReduceOp.MAX, z, b.const(1, i64), b.devectorize(value, 0), b.devectorize(mask, 0))
    b.atomic(ReduceOp.MIN, z, b.const(2, i64), extra)
    arrays = [
        np.random.default_rng(3).standard_normal(70).astype(np.float32),
        np.zeros(70, np.float32),
        np.zeros(4, np.float32),
    ]
    agrees(b.finish("control"), arrays, tmp_path)
