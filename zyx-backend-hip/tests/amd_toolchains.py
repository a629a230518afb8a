"""Compilers that the tests use where they are there: clang for AMD's processors, clang for this one, a C compiler."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

FAKE = Path(__file__).parent / "fake"

#: What stands for compilers, and for libraries that run on the CPU, among the devices that must be there.
STAND_IN = "hip-on-cpu"
#: What brings each clang.
BRINGS_CLANG = {"system": "apt install clang-19 lld-19", "ziglang": "pip install ziglang"}

#: One of each kind that matters: two with waves of 64 threads, two with waves of 32.
ARCHITECTURES = ("gfx90a", "gfx942", "gfx1100", "gfx1201")


@dataclass(frozen=True)
class Clang:
    """A clang, and the linker that goes with it.

    Attributes:
        command: The compiler.
        linker: lld.
    """

    command: tuple[str, ...]
    linker: tuple[str, ...]


@cache
def clangs() -> dict[str, Clang]:
    """Return the clangs there are, with linkers, by the names of `BRINGS_CLANG`."""
    found = {}
    linker = next(
        (path for name in ("ld.lld", "ld.lld-19", "ld.lld-20", "ld.lld-18") if (path := shutil.which(name))), None
    )
    spec = importlib.util.find_spec("ziglang")
    zig = (
        None
        if spec is None or not spec.submodule_search_locations
        else Path(spec.submodule_search_locations[0]) / "zig"
    )
    of_zig = (str(zig), "ld.lld") if zig is not None and zig.exists() else None
    for name in ("clang++", "clang++-20", "clang++-19", "clang-20", "clang-19", "clang++-18", "clang-18"):
        path, lld = shutil.which(name), (linker,) if linker else of_zig
        if path and lld:
            found["system"] = Clang((path,), lld)
            break
    if of_zig:
        found["ziglang"] = Clang((of_zig[0], "clang"), of_zig)
    return found


def skip_or_fail(reason: str) -> NoReturn:
    """Skip a test, for want of what it is run with; fail it if ZYX_REQUIRE_DEVICES names `STAND_IN`."""
    if STAND_IN in os.environ.get("ZYX_REQUIRE_DEVICES", "").split(","):
        pytest.fail(f"ZYX_REQUIRE_DEVICES names {STAND_IN}: {reason}", pytrace=False)
    pytest.skip(reason)


def compile_for(clang: Clang, arch: str, source: Path, target: Path, options: Sequence[str] = ()) -> str:
    """Compile a HIP source to a code object; return what the compiler had to say, empty if nothing."""
    folder = target.parent / "bin"
    folder.mkdir(exist_ok=True)
    lld = folder / "lld"  # by this name clang looks for what links code objects, on PATH or beside itself
    if not lld.exists():
        own = folder / f"lld.{threading.get_ident()}"
        # zig's goes by the word behind its name, and is not to be told -flavor a second time.
        own.write_text(f'#!/bin/sh\n[ "$1" = -flavor ] && shift 2\nexec {" ".join(clang.linker)} "$@"\n')
        own.chmod(0o755)
        own.rename(lld)
    flags = ["-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-nogpulib", "-nogpuinc"]
    flags += ["-Werror", "-Wno-tautological-compare", *options]  # random kernels compare values with themselves
    command = [*clang.command, f"--offload-arch={arch}", *flags, str(source), "-o", str(target)]
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [*command, f"-B{folder}"], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    return done.stderr if done.returncode or done.stderr else ""


def host_command(folder: Path) -> Path | None:
    """Return a script that compiles kernels for this processor: `script base target`; None without a compiler."""
    # Little is computed by each kernel, and what AMD's compiler makes of them other tests see: nothing is optimised.
    head = f"-x c++ -std=c++17 -O0 -march=native -fPIC -ffp-contract=off -fwrapv -fno-strict-aliasing -w -I{FAKE}"
    body = f'-include kernel.h -include "$1.hip" {FAKE}/kernel_end.h'
    for clang in reversed(clangs().values()):  # that of ziglang takes a quarter of the time of others, linking included
        if clang.command[-1] == "clang":
            libraries = " ".join(str(path) for path in _libraries())
            text = (
                f'{" ".join(clang.command)} --target=x86_64-linux-gnu {head} -c {body} -o "$2.o" && '
                f'{" ".join(clang.linker)} -shared -o "$2" "$2.o" {libraries} && rm "$2.o"'
            )
        else:
            text = f'{clang.command[0]} {head} -shared {body} -o "$2" -lm'
        script = folder / "compile.sh"
        script.write_text(f"#!/bin/sh\n{text}\n")
        script.chmod(0o755)
        if _works(script, folder):
            return script
    return None


def _libraries() -> list[Path]:
    folders = [Path("/lib/x86_64-linux-gnu"), Path("/usr/lib/x86_64-linux-gnu"), Path("/lib64"), Path("/usr/lib64")]
    paths = [[folder / name for folder in folders] for name in ("libm.so.6", "libgcc_s.so.1")]
    return [path for places in paths for path in [path for path in places if path.exists()][:1]]


def _works(script: Path, folder: Path) -> bool:
    source = folder / "trial.hip"
    source.write_text('extern "C" __global__ void zyx_kernel(_Float16 *p) { p[0] = (_Float16)1.0f; }\n')
    done = subprocess.run(
        [str(script), str(folder / "trial"), str(folder / "trial.so")], check=False, capture_output=True
    )
    return done.returncode == 0


def build_fake(folder: Path) -> Path | None:
    """Return the libraries that run on the CPU, as one; None without a C compiler."""
    compiler = shutil.which("gcc") or shutil.which("clang") or shutil.which("cc")
    if compiler is None:
        return None
    target = folder / "libfakehip.so"
    sources = [str(path) for path in sorted(FAKE.glob("*.c"))]
    flags = ["-shared", "-fPIC", "-O1", "-w"]
    subprocess.run([compiler, *flags, *sources, "-o", str(target), "-ldl", "-lpthread", "-lm"], check=True)
    return target
