"""What the backend says of the processor."""

from pathlib import Path

import pytest

from zyx import dtype as dtypes
from zyx.ops import BinaryOp, UnaryOp
from zyx_backend_c.device import CpuDevice
from zyx_backend_c.info import cache_sizes, capabilities, device_info, processor_name
from zyx_backend_c.target import Target

AVX512 = frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma", "f16c", "sse4.1"})
AVX2 = frozenset({"avx2", "fma", "f16c", "sse4.1"})
X86 = "x86_64-unknown-linux-gnu"


@pytest.mark.parametrize(
    ("triple", "features", "vector_bytes", "registers", "has_fma", "has_half", "has_rounding", "has_streaming"),
    [
        (X86, AVX512, 64, 32, True, True, True, True),
        (X86, AVX512 - {"avx512dq"}, 32, 16, True, True, True, True),
        (X86, AVX2, 32, 16, True, True, True, True),
        (X86, frozenset(), 16, 16, False, False, False, True),
        ("aarch64-unknown-linux-gnu", frozenset(), 16, 32, True, True, True, False),
        ("arm64-apple-darwin", frozenset(), 16, 32, True, True, True, False),
    ],
)
def test_registers_and_instructions_follow_from_the_features(
    triple: str, features: frozenset[str], vector_bytes: int, registers: int,
    has_fma: bool, has_half: bool, has_rounding: bool, has_streaming: bool,
) -> None:  # fmt: skip
    target = Target(triple, "generic", features)
    assert (target.vector_bytes, target.registers) == (vector_bytes, registers)
    assert (target.has_fma, target.has_half_conversion) == (has_fma, has_half)
    assert (target.has_rounding, target.has_streaming) == (has_rounding, has_streaming)


def test_what_would_need_a_library_call_is_not_claimed() -> None:
    poor = capabilities(Target(X86, "x86-64", frozenset()), has_fmod=False)[dtypes.float32]
    rich = capabilities(Target(X86, "x86-64", AVX2), has_fmod=True)[dtypes.float32]
    assert rich.unary - poor.unary == {UnaryOp.FLOOR, UnaryOp.TRUNC}
    assert rich.binary - poor.binary == {BinaryOp.MOD}


def test_halves_are_stored_and_have_lanes_but_no_arithmetic(llvm_device: CpuDevice) -> None:
    for dtype in (dtypes.float16, dtypes.bfloat16):
        assert llvm_device.info.can_store(dtype)
        assert not llvm_device.info.can_compute(dtype)
        assert llvm_device.info.lanes(dtype) == llvm_device.info.vector_bytes // 4


def test_the_record_is_the_same_object_every_time_and_names_processor_and_compiler(llvm_device: CpuDevice) -> None:
    info = llvm_device.info
    assert info is llvm_device.info
    assert processor_name() in info.model
    assert "LLVM" in info.driver and "zyx-backend-c" in info.driver
    assert hash(info) == hash(llvm_device.info)
    assert llvm_device.free_compute == info.flops_per_s


def test_more_threads_mean_more_units_and_more_flops() -> None:
    one, four = (device_info(Target(X86, "generic", AVX2), n, "test", has_fmod=True, can_stream=True) for n in (1, 4))
    assert (one.units, four.units) == (1, 4)
    assert four.flops_per_s == 4 * one.flops_per_s


def test_caches_are_read_from_the_system_nearest_first(tmp_path: Path) -> None:
    for number, (level, kind, size) in enumerate(
        [(1, "Data", "48K"), (1, "Instruction", "64K"), (3, "Unified", "32M"), (2, "Unified", "1024K")]
    ):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        for name, text in (("level", str(level)), ("type", kind), ("size", size)):
            (folder / name).write_text(f"{text}\n")
    assert cache_sizes(tmp_path) == (48 << 10, 1 << 20, 32 << 20)


def test_caches_that_the_system_hides_are_guessed(tmp_path: Path) -> None:
    guessed = cache_sizes(tmp_path / "missing")
    assert len(guessed) == 3
    (tmp_path / "index0").mkdir()
    assert cache_sizes(tmp_path) == guessed
