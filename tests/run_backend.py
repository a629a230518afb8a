"""Run the tests of one backend, or say why they cannot run.

    python tests/run_backend.py NAME [PYTEST ARGUMENTS]
    python tests/run_backend.py opencl-intel [PYTEST ARGUMENTS]

If the backend has a device: the conformance kit (`zyx.testing`) on it, the backend's own tests, and those that cross
packages, with its device as the default one; of these, what uses no device runs with the interpreter only. Only the
part of the kit about kernels has a driver's compiler optimise where that takes most of the time (`HASTY`). If there is
no device: the backend's own tests only, which skip what needs a device. The status is 1 if a test fails, if the backend
itself is broken, or if it has no device although the variable ZYX_REQUIRE_DEVICES names it.

What is the same in core whatever driver is below (plans, transformations, calls, drawn programs) runs on the processor,
the interpreter and one driver, OpenCL's. The others (`KERNELS_ALONE`) run what the kit has of kernels and of drivers
(`OF_A_DRIVER`), their backend's own tests, and of those that cross packages the ones about numbers (`OF_NUMBERS`). A
simulator (`SIMULATED`) runs of the kit what is of programs of nests, and its backend's own tests.

The processor and the interpreter (`ALL_COMBINATIONS`) run the kit's tests about kernels with all combinations of their
parameters; each of the others has a share of these, another one in each environment, and each value of each parameter.

``opencl-intel`` is the OpenCL backend on the runtime for processors that pip installs, without the tests under
Oclgrind. There must be a device, wherever that runtime has a wheel.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
import skipped

from zyx.plugins.describe import explanation
from zyx.plugins.manager import PluginManager
from zyx.plugins.opening import open_backends
from zyx.plugins.state import BackendReport, BackendState
from zyx.settings.record import Settings
from zyx.testing.parts import AROUND_KERNELS, OF_A_DRIVER, OF_NESTS

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[1]

#: States that no driver or machine can bring about: the package is at fault.
BROKEN: Final = {
    BackendState.NOT_INSTALLED,
    BackendState.IMPORT_FAILED,
    BackendState.WRONG_API_VERSION,
    BackendState.INVALID,
    BackendState.FAILED,
}

#: Tests of texts, of names, of tox, of the record, of recipes, of the mutation run and of how programs are drawn: the
#: same whatever the default device is, so run once.
WITHOUT_DEVICE: Final = (
    "test_coverage_page.py",
    "test_documents.py",
    "test_emitters.py",
    "test_fuzz.py",
    "test_fuzz_series.py",
    "test_matrix.py",
    "test_planted.py",
    "test_recipes.py",
    "test_record.py",
    "test_site.py",
    "test_site_pages.py",
    "test_slow.py",
    "test_tuned_numbers.py",
)

#: Tests that the environment `examples` runs with the CPU backend.
OF_EXAMPLES: Final = ("test_examples.py", "test_real_networks.py")

#: What makes drivers compile in haste where tests are of zyx and of what is around kernels, by environments. Where
#: kernels are what is tested, drivers optimise: two thirds of the time of PoCL, a fifth of that of LLVM for Vulkan on a
#: processor, and of Intel's runtime, which makes vectors of work-items.
HASTY: Final = {
    "opencl": {"POCL_EXTRA_BUILD_FLAGS": "-cl-opt-disable"},
    "opencl-intel": {"CL_CONFIG_USE_VECTORIZER": "False"},
    "vulkan": {"GALLIVM_PERF": "nopt"},
    "wgpu": {"GALLIVM_PERF": "nopt"},
}

#: The environments that run of the kit what kernels and drivers do, and of what is around them no more.
KERNELS_ALONE: Final = frozenset({"opencl-intel", "vulkan", "wgpu"})

#: The environments whose device is simulated, and is given nests in place of kernels.
SIMULATED: Final = frozenset({"tenstorrent"})

#: The environments that leave out no combination of parameters of the kit's tests about kernels.
ALL_COMBINATIONS: Final = frozenset({"c", "interpreter"})

#: The tests that cross packages of what depends on a driver's arithmetic.
OF_NUMBERS: Final = ("test_accuracy.py", "test_losses.py")

#: Where the wheel of Intel's runtime puts what the loader of OpenCL is to load, and where there is such a wheel.
INTEL: Final = Path(sys.prefix) / "lib" / "libintelocl.so"
INTEL_PLATFORM: Final = ("Linux", "x86_64")


def main(environment: str, arguments: list[str]) -> int:
    """Run them; return the exit status."""
    skipped.note(environment)
    name, _, runtime = environment.partition("-")
    required = os.environ.get("ZYX_REQUIRE_DEVICES", "").split(",")
    if runtime:
        assert environment == "opencl-intel", f"there is no {environment}"
        here = (platform.system(), platform.machine())
        if here != INTEL_PLATFORM:
            skipped.note(
                environment, f"all of it, since the package intel-opencl-rt has no wheel for {' on '.join(here)}"
            )
            return 0
        os.environ["OCL_ICD_VENDORS"] = str(INTEL)
        required.append(name)
    report = state_of(name)
    print(f"backend {name}: {report.state.value}: {explanation(report)}", flush=True)
    folder = ROOT / f"zyx-backend-{name}" / "tests"
    own = [str(folder)] if folder.exists() else []
    if report.state is BackendState.READY:
        os.environ["ZYX_DEVICE"] = name
        list_of_failures = folder / "expected_failures.txt"
        expected = [f"--zyx-xfails={list_of_failures}"] if list_of_failures.exists() else []
        left_out = ["packages", *([] if name == "interpreter" else WITHOUT_DEVICE)]
        left_out += OF_EXAMPLES if name == "c" else ()
        across = [str(ROOT / "tests"), *(f"--ignore={ROOT / 'tests' / path}" for path in left_out)]
        if environment in KERNELS_ALONE:
            across = (
                [f"--ignore={folder / 'test_races.py'}"] if runtime else [str(ROOT / "tests" / p) for p in OF_NUMBERS]
            )
        shares = [] if environment in ALL_COMBINATIONS else [f"--zyx-shares={environment}"]
        kit = ["--pyargs", f"--zyx-device={name}", *expected, *shares]
        haste = HASTY.get(environment, {})
        around = AROUND_KERNELS if haste else ()
        beside = OF_A_DRIVER if environment in KERNELS_ALONE else around
        runs = [
            ([*kit, "zyx.testing", *(f"--ignore-glob=*/suite/{module}.py" for module in around)], {}),
            *([([*kit, *(f"zyx.testing.suite.{module}" for module in beside)], haste)] if around else []),
            ([*own, *across], haste),
        ]
        if environment in SIMULATED:
            runs = [([*kit, *(f"zyx.testing.suite.{module}" for module in OF_NESTS)], {}), (own, {})]
    elif report.state in BROKEN:
        print(f"backend {name} is broken, so this is a failure", flush=True)
        return 1
    elif name in required:
        print(f"a device of {name} is required, so this is a failure", flush=True)
        return 1
    else:
        skipped.note(environment, f"what needs a device of {name}: {explanation(report)}")
        runs = [(own, {})] if own else []
    may_be_empty = bool(arguments)
    return max(
        (run_pytest([*run, *arguments], variables, may_be_empty=may_be_empty) for run, variables in runs), default=0
    )


def run_pytest(arguments: list[str], variables: Mapping[str, str], *, may_be_empty: bool) -> int:
    """Run pytest in a process of its own; return 1 if a test fails, or if there is none and that is no one's wish."""
    command, environment = [sys.executable, "-m", "pytest", *arguments], {**os.environ, **variables}
    status = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    return int(status != 0 and not (may_be_empty and status == pytest.ExitCode.NO_TESTS_COLLECTED))


def state_of(name: str) -> BackendReport:
    """Open the backend, and return what became of it."""
    opened = open_backends(PluginManager(Settings()), [name])
    report = next((report for report in opened.reports if report.name == name), None)
    opened.close()
    if report is None:
        sys.exit(f"no package of this environment declares a backend {name!r}")
    return report


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
