"""Many kernels compiled to code objects by few runs of a compiler, and a look at what came out.

A translation unit has the preamble once and a kernel of each source, under a name of its own. Each kernel is compiled
as it would be alone: they call nothing of each other.
"""

from __future__ import annotations

import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import amd_toolchains
from code_objects import MACHINES, WAVES, read_code_object

from zyx.backend import DeviceInfo
from zyx.errors import UnsupportedError
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.testing.kernels import random_kernel
from zyx_backend_hip.info import build_options, capabilities
from zyx_backend_hip.render import DIALECT, SYMBOL, render

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

#: Kernels of a translation unit: enough that starting the compiler does not count, few enough for all processors.
_BATCH: Final = 64

#: Of those that the backend compiles with, all that decide what a kernel means; less time is spent on its speed, and
#: none on the order of instructions, which took a third.
_UNORDERED: Final = ("-pre-RA-sched=linearize", "-enable-misched=0", "-enable-post-misched=0")
OPTIONS: Final = (
    "-O1",
    *(word for option in _UNORDERED for word in ("-mllvm", option)),
    *(option for option in build_options("")[1:] if not option.startswith("-O")),
)


def _info(arch: str) -> DeviceInfo:
    """Return the record of a device of an architecture."""
    return DeviceInfo(
        arch, "none", capabilities(), max_group_threads=1024, max_group_shape=(1024, 1024, 1024), local_bytes=65536,
        warp_size=WAVES[arch], vector_bytes=16,
    )  # fmt: skip


def random_sources(count: int, arch: str = "gfx90a") -> dict[str, str]:
    """Return random kernels of all dtypes, made ready for a device."""
    passes, sources = standard_passes(_info(arch)), {}
    for seed in itertools.count():
        try:
            sources[f"random_{seed}"] = render(run_passes(random_kernel(seed), passes))
        except UnsupportedError as error:
            assert "no atomic" in str(error)  # of 8 and 16 bits, which devices do not claim
            continue
        if len(sources) == count:
            break
    return sources


def translation_unit(sources: Mapping[str, str]) -> str:
    """Return one source of many; each kernel has the name that its source goes by."""
    parts = [DIALECT.preamble]
    for name, source in sources.items():
        preamble, kernel = source[: len(DIALECT.preamble)], source[len(DIALECT.preamble) :]
        assert preamble == DIALECT.preamble, f"{name} starts with another preamble"
        assert kernel.count(f"{SYMBOL}(") == 1, f"{name} has no kernel, or several"
        parts.append(kernel.replace(f"{SYMBOL}(", f"{name}("))
    return "".join(parts)


def compile_batches(
    clang: amd_toolchains.Clang,
    sources: Mapping[str, str],
    folder: Path,
    options: Sequence[str],
    batch: int = _BATCH,
    *,
    in_turns: bool = False,
) -> str:
    """Compile and link all sources for each architecture, and look for each kernel in the code objects.

    Args:
        clang: The compiler.
        sources: Sources by the names that their kernels get.
        folder: For what is made in between.
        options: Of the compiler.
        batch: Most kernels of a translation unit; at 1 they keep their own name.
        in_turns: Whether architectures of one length of waves take turns: a kernel is compiled for one of them.

    Returns:
        How many kernels and code objects there are, for people.

    Raises:
        AssertionError: Something is not right; the text has all of it.
    """
    assert set(MACHINES) == set(amd_toolchains.ARCHITECTURES)
    names = iter(sources)
    groups = list(iter(lambda: list(itertools.islice(names, batch)), []))
    alike = [[arch for arch in amd_toolchains.ARCHITECTURES if WAVES[arch] == length] for length in {*WAVES.values()}]
    chosen = [[archs[number % len(archs)] for archs in alike] for number in range(len(groups))] if in_turns else []
    jobs = [
        (number, arch)
        for arch in amd_toolchains.ARCHITECTURES
        for number in range(len(groups))
        if not in_turns or arch in chosen[number]
    ]
    for number, group in enumerate(groups):
        own = {name: sources[name] for name in group}
        text = sources[group[0]] if batch == 1 else translation_unit(own)
        (folder / f"batch_{number}.hip").write_text(text)

    def compile_one(job: tuple[int, str]) -> list[str]:
        number, arch = job
        target = folder / f"batch_{number}-{arch}.hsaco"
        said = amd_toolchains.compile_for(clang, arch, folder / f"batch_{number}.hip", target, options)
        if said:
            return [f"batch {number} for {arch}: {said}"]
        code = read_code_object(target.read_bytes())
        target.unlink()
        wanted = dict.fromkeys([SYMBOL] if batch == 1 else groups[number], WAVES[arch])
        wrong = [f"{name} for {arch} is not there" for name in wanted.keys() - code.kernels.keys()]
        wrong += [f"{name} for {arch} was not asked for" for name in code.kernels.keys() - wanted.keys()]
        wrong += [
            f"{name} for {arch} runs in waves of {code.kernels[name]} threads"
            for name in wanted.keys() & code.kernels.keys()
            if code.kernels[name] != wanted[name]
        ]
        wrong += [f"batch {number} for {arch} calls {name}, which is nowhere" for name in code.missing]
        if code.machine != MACHINES[arch]:
            wrong.append(f"batch {number} for {arch} is for machine {code.machine:#x}")
        return wrong

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        failures = [text for texts in pool.map(compile_one, jobs) for text in texts]
    assert not failures, f"{len(failures)} failures; {failures[0]}"
    compiled = sum(len(groups[number]) for number, _ in jobs)
    return (
        f"{len(sources)} kernels for {', '.join(amd_toolchains.ARCHITECTURES)}{', in turns' if in_turns else ''}: "
        f"{compiled} compiled kernels in {len(jobs)} code objects"
    )
