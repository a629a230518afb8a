"""Run a backend on the oldest core that it claims to run on, or say why that cannot be done here.

    python tests/run_oldest.py NAME [PYTEST ARGUMENTS]

That core is taken from the history of this repository (`tests/oldest_core.toml`), and installed with the backend, both
apart from the tree, into the environment of the Python that runs this. Then run a part of that core's own conformance
kit on the backend's device, and those of the backend's own tests that do what the kit does not; or, without a device,
all of its own tests, which have something that stands in for the driver. The status is 1 if a test fails, or if the
backend is broken there; and if there is no device although the variable ZYX_REQUIRE_DEVICES names the backend, or not
that core although it names ``history``.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Final

import skipped

ROOT: Final = Path(__file__).parents[1]
COMMITS: Final = ROOT / "tests" / "oldest_core.toml"

#: The part of the kit that calls every method of a backend. What operations give hardly depends on the age of core.
PART: Final = "test_pool or test_events or test_launches or test_limits or test_plans or test_kernels"

#: A backend's own tests that call what the kit does not: hooks, libraries, drivers that fail. Not each backend has all.
OWN: Final = ("test_plugin.py", "test_blas.py", "test_faulty_driver.py")

#: What stands, among the devices that must be there, for commits of all oldest cores.
HISTORY: Final = "history"

#: Prints the state of a backend, whether it is broken, and why. Runs beside that core, so it uses what core always had.
STATE: Final = """
import sys
from zyx.plugins.describe import explanation
from zyx.plugins.manager import PluginManager
from zyx.plugins.opening import open_backends
from zyx.settings.record import Settings
opened = open_backends(PluginManager(Settings()), [sys.argv[1]])
report = next(report for report in opened.reports if report.name == sys.argv[1])
opened.close()
print(report.state.name, explanation(report))
"""
ABSENT: Final = {"NO_DRIVER", "DRIVER_REFUSED", "NO_DEVICE"}


class Missing(Exception):
    """The commit is not here; the text says why."""


def main(name: str, arguments: list[str]) -> int:
    """Run it; return the exit status."""
    name = name.removeprefix("oldest-")  # as the environments of tox are called
    environment = f"oldest-{name}"
    skipped.note(environment)
    commit = oldest_commit(name)
    with tempfile.TemporaryDirectory(prefix="zyx-oldest-") as text:
        folder = Path(text)
        try:
            core = export(commit, folder)
        except Missing as missing:
            if HISTORY in required():
                print(f"ZYX_REQUIRE_DEVICES names {HISTORY}, so this is a failure: {missing}", flush=True)
                return 1
            skipped.note(environment, f"all of it, since {missing}")
            return 0
        check_version(name, core)
        install(f"{core}[testing]", own_package(name))
        state, _, why = output([sys.executable, "-c", STATE, name], folder).strip().partition(" ")
        print(f"backend {name} on zyx-core of {commit[:12]}: {state}: {why}", flush=True)
        own = ROOT / f"zyx-backend-{name}" / "tests"
        if state in ABSENT:
            status = absent(name, environment, why)
            return run_pytest([str(own), *arguments], ROOT) or status
        if state != "READY":
            return 1
        kit = ["--pyargs", "zyx.testing", f"--zyx-device={name}", "-k", PART]
        expected = own / "expected_failures.txt"
        kit += [f"--zyx-xfails={expected}"] if expected.exists() else []
        status = run_pytest([*kit, *arguments], folder)
        return run_pytest([*(str(own / file) for file in OWN if (own / file).exists()), *arguments], ROOT) or status


def run_pytest(arguments: list[str], folder: Path) -> int:
    """Run pytest in `folder`; return 1 if a test fails, or if there is none."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return int(subprocess.run(command, cwd=folder, check=False).returncode != 0)


def absent(name: str, environment: str, why: str) -> int:
    """Return the status where there is no device."""
    if name in required():
        print(f"ZYX_REQUIRE_DEVICES names {name}, so this is a failure", flush=True)
        return 1
    skipped.note(environment, f"what needs a device of {name}: {why}")
    return 0


def required() -> list[str]:
    """Return the devices that must be there."""
    return os.environ.get("ZYX_REQUIRE_DEVICES", "").split(",")


def own_package(name: str) -> str:
    """Return what to install of a backend: its folder, with what its own tests need besides."""
    folder = ROOT / f"zyx-backend-{name}"
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return f"{folder}[testing]" if "testing" in project.get("optional-dependencies", {}) else str(folder)


def oldest_commit(name: str) -> str:
    """Return the commit with the oldest core that a backend claims to run on."""
    commits: dict[str, str] = tomllib.loads(COMMITS.read_text(encoding="utf-8"))["commits"]
    return commits[name]


def oldest_version(name: str) -> str:
    """Return the version of it, as the backend's ``pyproject.toml`` says."""
    path = ROOT / f"zyx-backend-{name}" / "pyproject.toml"
    wanted = tomllib.loads(path.read_text(encoding="utf-8"))["project"]["dependencies"]
    (core,) = (text for text in wanted if re.match(r"zyx-core\b", text))
    bound = re.search(r">=\s*([\d.]+)", core)
    assert bound, f"{path}: {core!r} does not say what the oldest zyx-core is"
    return bound[1]


def export(commit: str, folder: Path) -> Path:
    """Write ``zyx-core`` as it was to `folder`, and return where it lies.

    Raises:
        Missing: The history is not here, or does not reach back as far.
    """
    if shutil.which("git") is None:
        raise Missing("git is not installed")
    done = subprocess.run(
        ["git", "-C", str(ROOT), "archive", "--format=tar", commit, "zyx-core"], capture_output=True, check=False
    )
    if done.returncode:
        raise Missing(f"commit {commit[:12]} is not in the history here: {done.stderr.decode().strip()}{advice()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
        if hasattr(tarfile, "data_filter"):  # Python 3.11.4 brought it; 3.14 does the same unasked
            tar.extraction_filter = tarfile.data_filter
        tar.extractall(folder)
    return folder / "zyx-core"


def advice() -> str:
    """Return what brings a commit that is missing, if git knows: the end of a sentence."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--is-shallow-repository"]
    is_shallow = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() == "true"
    return "; this clone has the newest commits only: git fetch --unshallow brings the others" if is_shallow else ""


def check_version(name: str, core: Path) -> None:
    """Stop unless the version of `core` is the one that the backend names as the oldest."""
    text = (core / "src" / "zyx" / "version.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"', text, re.MULTILINE)
    version = found[1] if found else "unknown"
    oldest = oldest_version(name)
    if not f"{version}.".startswith(f"{oldest}."):
        sys.exit(f"zyx-backend-{name} claims zyx-core>={oldest}; {COMMITS.name} names a commit with {version}")


def install(*packages: str) -> None:
    """Install packages from folders, as they are built, with what builds them in the other environments of tox."""
    tools = Path(os.environ.get("TOX_WORK_DIR", ROOT / ".tox")) / "build"
    script = Path(__file__).with_name("install.py")
    command = [sys.executable, "-I", str(script), str(tools), "--quiet", "--disable-pip-version-check", *packages]
    subprocess.run(command, check=True)


def output(command: list[str], folder: Path) -> str:
    """Return what a command prints."""
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
