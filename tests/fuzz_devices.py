"""Run random programs, and programs of many sizes, on the devices of a machine at the same time.

    python tests/fuzz_devices.py                                    c, cuda, opencl, vulkan and wgpu, for 500 s
    python tests/fuzz_devices.py --cuda 5000 --opencl 2000 --wgpu 2000 --seconds 480
    python tests/fuzz_devices.py --wheels .gpu                      where nothing of ours is installed: see below

Each device has some processes: random programs (`random_programs.py`), n-body steps and nearest centres of 10 to 4096
points at 60 sizes, stencils of 1 to 64 steps. The last lines are counts; the status is 1 if a program went wrong.

With ``--wheels`` the packages of this repository are found by entry points that are written to a temporary folder, what
they need is unpacked from the wheels there, Vulkan's loader from the Debian packages there, and OpenCL is told of
NVIDIA's driver.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = (
    "zyx-core",
    "zyx-backend-c",
    "zyx-backend-cuda",
    "zyx-backend-opencl",
    "zyx-backend-vulkan",
    "zyx-backend-wgpu",
)
RANDOM_PROGRAMS = Path(__file__).with_name("random_programs.py")
NVIDIA_OPENCL = "libnvidia-opencl.so.1"
VULKAN_DRIVER = Path("/usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json")
BACKENDS = {"cuda", "opencl", "vulkan", "wgpu", "hip"}
PROCESSES = {"c": 1, "cuda": 6, "opencl": 4, "vulkan": 4, "wgpu": 4}

#: Programs of many sizes; ``check`` compares with NumPy in float64.
SIZES = """
import sys, time, traceback
import numpy as np, zyx
from zyx.runtime.runtime import use
from zyx.testing.opening import open_runtime

device, what, part, parts, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
started, done, failed = time.monotonic(), 0, 0
runtime = open_runtime(device)

def check(name, found, wanted, tolerance):
    global done, failed
    done += 1
    try:
        scale = np.abs(wanted).max() if wanted.size else 0
        np.testing.assert_allclose(found().numpy(), wanted, rtol=tolerance, atol=tolerance * scale)
    except Exception as error:
        failed += 1
        lines = [line for line in str(error).splitlines() if line.strip()]
        print(f"{device}: {name}: {type(error).__name__}: {' '.join(lines[:4])[:400]}", flush=True)

def bodies(n):
    x = np.random.default_rng(n).standard_normal((n, 3)).astype(np.float32)
    t, e = zyx.Tensor(x), x.astype(np.float64)
    away = e[None] - e[:, None]
    squared = (away**2).sum(2)
    wanted = (away * ((squared + 0.1) ** -1.5)[:, :, None]).sum(1)
    def found():
        d = t[None] - t[:, None]
        return (d * ((zyx.sum(d**2, axis=2) + 0.1) ** -1.5)[:, :, None]).sum(axis=1)
    check(f"n-body of {n}", found, wanted, 2e-3)

def centres(n):
    random = np.random.default_rng(n)
    k, width = int(random.integers(1, 1001)), int(random.choice((2, 3, 8, 13, 31)))
    k = min(k, 20_000_000 // (n * width) + 1)
    x, c = (random.standard_normal((m, width)).astype(np.float32) for m in (n, k))
    blocks = np.array_split(x.astype(np.float64), max(1, n // 64))
    wanted = np.concatenate([((block[:, None] - c[None]) ** 2).sum(2).min(1) for block in blocks])
    def found():
        return zyx.min(zyx.sum((zyx.Tensor(x)[:, None] - zyx.Tensor(c)[None]) ** 2, axis=2), axis=1)
    check(f"k-means of {n} x {width}, {k} centres", found, wanted, 2e-3)

def stencil(n):
    steps = n
    random = np.random.default_rng(n)
    for shape in ((int(random.integers(5, 600)), int(random.integers(5, 600))), (5, 257), (512, 512)):
        x = random.standard_normal(shape).astype(np.float32)
        e = x.astype(np.float64)
        for _ in range(steps):
            e = (np.roll(e, 1, 0) + np.roll(e, -1, 0) + np.roll(e, 1, 1) + np.roll(e, -1, 1)) * 0.25
        def found():
            t = zyx.Tensor(x)
            for _ in range(steps):
                t = (zyx.roll(t, 1, 0) + zyx.roll(t, -1, 0) + zyx.roll(t, 1, 1) + zyx.roll(t, -1, 1)) * 0.25
            return t
        begun = time.monotonic()
        check(f"stencil of {shape}, {steps} steps", found, e, 2e-3)
        if time.monotonic() - begun > 20:
            print(f"{device}: stencil of {shape}, {steps} steps took {time.monotonic() - begun:.0f} s", flush=True)

sizes = {"stencil": (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64)}.get(
    what, tuple(sorted({int(round(10 * 409.6 ** (i / 59))) for i in range(60)} | {64, 127, 128, 129, 512, 1024, 2048})))
with use(runtime):
    for n in sizes[part::parts]:
        if time.monotonic() - started > seconds:
            print(f"{device}: {what}: out of time before {n}", flush=True)
            break
        {"bodies": bodies, "centres": centres, "stencil": stencil}[what](n)
print(f"{device}: {done} programs of many sizes ({what}), {failed} failed", flush=True)
sys.exit(failed > 0)
"""


def entry_points(folder: Path) -> None:
    """Write what an installation of each package would say of itself."""
    for package in PACKAGES:
        project = tomllib.loads((ROOT / package / "pyproject.toml").read_text())["project"]
        info = folder / f"{package.replace('-', '_')}-0.1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1.0\n")
        lines = [
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
            for group, entries in project.get("entry-points", {}).items()
        ]
        (info / "entry_points.txt").write_text("\n".join(lines))


def environment(wheels: Path | None, scratch: Path) -> dict[str, str]:
    """Return the variables of the processes."""
    variables = {
        **os.environ,
        "XDG_CACHE_HOME": str(scratch / "cache"),
        "PYTHONUNBUFFERED": "1",
        "ZYX_BACKEND_TIMEOUT_S": "120",
    }
    if wheels is None:
        return variables
    site, libraries = scratch / "site", scratch / "libraries"
    for wheel in sorted(wheels.glob("*.whl")):
        zipfile.ZipFile(wheel).extractall(site)
    entry_points(site)
    for package in sorted(wheels.glob("*.deb")):
        subprocess.run(["dpkg", "-x", str(package), str(libraries)], check=True)
    icd = scratch / "vendors"
    icd.mkdir()
    (icd / "nvidia.icd").write_text(f"{NVIDIA_OPENCL}\n")
    found = {str(path.parent) for path in libraries.rglob("*.so*")}
    sources = [str(ROOT / package / "src") for package in PACKAGES]
    variables["PYTHONPATH"] = os.pathsep.join([*sources, str(site), variables.get("PYTHONPATH", "")])
    variables["LD_LIBRARY_PATH"] = os.pathsep.join([*sorted(found), variables.get("LD_LIBRARY_PATH", "")])
    variables["OCL_ICD_VENDORS"] = variables.get("OCL_ICD_VENDORS", str(icd))
    if VULKAN_DRIVER.exists():
        variables["VK_DRIVER_FILES"] = str(VULKAN_DRIVER)
    return variables


def commands(given: argparse.Namespace) -> dict[str, list[str]]:
    """Return the processes to run, by name."""
    result: dict[str, list[str]] = {}
    for device, processes in PROCESSES.items():
        programs: int = getattr(given, device)
        if not programs:
            continue
        each = -(-programs // processes)
        for number in range(processes):
            result[f"{device}-fuzz-{number}"] = [
                str(RANDOM_PROGRAMS), "--device", device, "--programs", str(each), "--deadline", str(given.seconds),
                "--seed", str(given.seed + number * 1_000_000), "--elements", str(given.elements),
            ]  # fmt: skip
        if device != "c" or given.sizes_on_c:
            for what in ("bodies", "centres", "stencil"):
                result[f"{device}-{what}"] = ["-c", SIZES, device, what, "0", "1", str(given.seconds)]
    return result


def main() -> int:
    """Run everything, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for device, programs in (("c", 0), ("cuda", 5000), ("opencl", 2000), ("vulkan", 2000), ("wgpu", 2000)):
        parser.add_argument(f"--{device}", type=int, default=programs, metavar="PROGRAMS", help="0 leaves it out")
    parser.add_argument("--seconds", type=float, default=500, help="for everything")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--elements", type=int, default=200_000, help="of the largest value")
    parser.add_argument("--wheels", type=Path, help="folder with what is not installed")
    parser.add_argument("--sizes-on-c", action="store_true", help="programs of many sizes on c, too")
    given = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        variables = environment(given.wheels, scratch)
        running = {}
        for name, command in commands(given).items():
            file = (scratch / f"{name}.txt").open("w")
            alone = variables | {f"ZYX_{other.upper()}_ENABLED": "0" for other in BACKENDS - {name.partition("-")[0]}}
            running[name] = subprocess.Popen(
                [sys.executable, *command], env=alone, stdout=file, stderr=subprocess.STDOUT, cwd=scratch
            )
        failed = []
        for name, process in running.items():
            try:
                status = process.wait(max(1.0, given.seconds + 45 - (time.monotonic() - started)))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                status = -9
            if status:
                failed.append(f"{name} (status {status})")
        texts = {name: (scratch / f"{name}.txt").read_text(errors="replace") for name in running}
        output = os.environ.get("OUT")
        if output:
            (Path(output) / "fuzz.txt").write_text("\n".join(f"==== {name}\n{text}" for name, text in texts.items()))
        counts: dict[str, list[int]] = {}
        for name, text in texts.items():
            for programs, wrong in re.findall(r": (\d+) programs[^,]*, (\d+) failed", text):
                count = counts.setdefault(name.partition("-")[0], [0, 0])
                count[0] += int(programs)
                count[1] += int(wrong)
            if any(name == entry.split()[0] for entry in failed):
                print(f"==== {name}")
                wrong = [part[:500] for part in re.split(r"^(?=seed \d+, )", text, flags=re.MULTILINE)[1:4]]
                print("\n".join(wrong) if wrong else text[-500:])
    for device, (programs, wrong) in counts.items():
        print(f"{device}: {programs} programs, {wrong} failed")
    print(f"{time.monotonic() - started:.0f} s; ended with a failure: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
