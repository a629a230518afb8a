"""What devices may take, from those of processors to the least that Vulkan 1.2 has, and whether modules are valid."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.backend import DeviceInfo
from zyx.drivers.limits import check_limits
from zyx.errors import UnsupportedError
from zyx.kernel import data as k
from zyx.kernel.wmma import DIMENSIONS, WARP, fragment_lanes
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.testing.kernels import random_kernel
from zyx_backend_vulkan.disassembly import disassembly
from zyx_backend_vulkan.render import render
from zyx_backend_vulkan.target import Product, Target, capabilities

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zyx.kernel.data import Kernel
    from zyx_backend_vulkan.render import Rendered

_ALL = frozenset(dtypes.ALL) - {dtypes.bfloat16}
_WIDE = frozenset({8, 16, 32, 64})
_FLOATS = frozenset({16, 32, 64})
#: Orders of the components of a, b and c by dimensions, as `Wmma` has the elements.
PLACES = {dims: tuple(tuple(range(count)) for count in fragment_lanes(dims)) for dims in DIMENSIONS[16]}

#: All types, as Mesa's lavapipe has them.
FULL = Target(
    version=(1, 6),
    arithmetic=_ALL,
    storage_bits=_WIDE,
    shared_bits=_WIDE,
    preserves=_FLOATS,
    denormals=_FLOATS,
    rounds=_FLOATS,
    atomic_bits=frozenset({32, 64}),
    subgroup_size=8,
    swaps=frozenset(dtype for dtype in _ALL if dtype.bits >= 32),
    max_buffers=32,
    has_addresses=True,
    fuses=frozenset({dtypes.float32, dtypes.float64}),
)
#: Numbers of 32 bits alone, and nothing that is not always there.
LEAST = Target(
    version=(1, 5),
    arithmetic=frozenset({dtypes.bool_, dtypes.int32, dtypes.uint32, dtypes.float32}),
    storage_bits=frozenset({32}),
    shared_bits=frozenset({32}),
    max_buffers=8,
)
#: With cooperative matrices of both halves, in both shapes.
WITH_MATRICES = replace(
    FULL,
    subgroup_size=WARP,
    has_memory_model=True,
    products=tuple(
        Product(dims, factor, dtypes.float32, places)
        for factor in (dtypes.float16, dtypes.bfloat16)
        for dims, places in PLACES.items()
    ),
)
TARGETS = {
    "full": FULL,
    "least": LEAST,
    "of 2020": replace(FULL, version=(1, 5)),
    "of 2019": replace(FULL, version=(1, 3), fuses=frozenset()),
    "by addresses": replace(FULL, max_buffers=0),
    "without half": replace(FULL, arithmetic=_ALL - {dtypes.float16}, shared_bits=frozenset({32})),
    "without push constants": replace(FULL, push_bytes=0),
}
#: The first year in all of which SPIRV-Tools knew an extension, by what its instructions are called.
KNOWN_SINCE = {"CooperativeMatrix": 2024, "BFloat16": 2025}
#: What each version of SPIR-V came with: what the validator holds it against.
ENVIRONMENTS = {(1, 3): "vulkan1.1", (1, 5): "vulkan1.2", (1, 6): "vulkan1.3"}


def info_of(target: Target) -> DeviceInfo:
    """Return the record of a device with a target."""
    return DeviceInfo(
        "on paper", "0", capabilities(target), warp_size=8, max_group_threads=256, max_group_shape=(256, 256, 64),
        vector_bytes=16, subgroup_size=target.subgroup_size, swaps=target.swaps, has_fma=False,
        wmma=tuple((one.dims, one.factor) for one in target.products),
    )  # fmt: skip


def random_kernels(target: Target, seeds: Iterable[int]) -> Iterator[Kernel]:
    """Yield those random kernels that devices with a target compile: some have indices that only int64 holds."""
    info = info_of(target)
    for seed in seeds:
        kernel = random_kernel(seed, list(info.capabilities))
        combined = {kernel.ops[op.target] for op in kernel.ops if isinstance(op, k.Atomic)}
        if all(isinstance(array, k.Define) and array.dtype.bits in target.atomic_bits for array in combined):
            kernel = run_passes(kernel, standard_passes(info))
            try:
                check_limits(kernel, info)
            except UnsupportedError:
                continue
            yield kernel


def validated(kernel: Kernel, target: Target) -> Rendered:
    """Return a kernel as SPIR-V that the validator of others takes, if it is installed."""
    rendered = render(kernel, target)
    validate(rendered.words, target, kernel)
    return rendered


def validate(words: bytes, target: Target, what: object = "") -> None:
    """Check that a module is valid: by the words of each instruction, and by the validator of others, if there is one.

    One that is older than an extension of the module (`KNOWN_SINCE`) is not asked about it.
    """
    text = disassembly(words)
    tool = shutil.which("spirv-val")
    if tool is None or any(name in text and _year_of(tool) < year for name, year in KNOWN_SINCE.items()):
        return
    complaint = complaint_of(tool, words, ENVIRONMENTS[target.version])
    assert not complaint, f"{complaint}\n{what}\n{text}"


def complaint_of(tool: str, words: bytes, environment: str) -> str:
    """Return what the validator has to say of a module; nothing if it is valid."""
    done = subprocess.run([tool, "--target-env", environment, "-"], input=words, capture_output=True, check=False)
    text = f"{done.stdout.decode()}{done.stderr.decode()}"
    return text or f"status {done.returncode}" if done.returncode else ""


@cache
def _year_of(tool: str) -> int:
    """Return the year of a validator."""
    text = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout
    return int(re.findall(r"v(\d{4})", text)[0])
