"""Run what `tox -e quick` runs, and say on the last line how long it took, also if a test fails.

    python tests/run_quick.py [PYTEST ARGUMENTS]

Core's tests and those of the CPU backend without the slow ones (`slow.py`), then what the conformance kit has of
kernels, on its device, in two processes each. Arguments replace the folders of the former. The status is that of the
first that fails; nothing runs after it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from zyx.testing.parts import AROUND_KERNELS

ROOT: Final = Path(__file__).parents[1]
PYTEST: Final = (sys.executable, "-m", "pytest", "-n", "2", "--dist", "worksteal")
FOLDERS: Final = ("zyx-core/tests", "zyx-backend-c/tests")
AROUND: Final = tuple(f"--ignore-glob=*/suite/{module}.py" for module in AROUND_KERNELS)
KIT: Final = ("--pyargs", "zyx.testing", "--zyx-device", "c", *AROUND)


def main(arguments: list[str]) -> int:
    """Run them; return the exit status."""
    started = time.monotonic()
    try:
        for each in (arguments or FOLDERS, KIT):
            if status := subprocess.run([*PYTEST, *each], cwd=ROOT, check=False).returncode:
                return status
        return 0
    finally:
        minutes, seconds = divmod(round(time.monotonic() - started), 60)
        print(f"took {minutes} min {seconds} s", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
