"""Run the tests of `onnx.backend.test` on the default device.

    python tests/onnx_backend.py [--every N] [--match TEXT] [--processes N] [--write]

There are 2,033 of the processor in onnx 1.23.2: nodes, small models, and nine networks. One line is printed for each
that does not pass, and then how many do; with ``--write`` the former make the list tests/onnx_not_passed.txt, to which
`test_onnx` holds them. With ``--every`` each Nth is run.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
import unittest
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx.backend.base
import onnx.backend.test

import zyx
import zyx.io.onnx

if TYPE_CHECKING:
    from collections.abc import Sequence

LIST: Final = Path(__file__).with_name("onnx_not_passed.txt")
#: Seconds that one test may take.
LIMIT_S: Final = 600
_MOST_TEXT: Final = 160


def _array(value: Any) -> Any:
    if isinstance(value, list):
        return [_array(item) for item in value]
    return value.numpy() if isinstance(value, zyx.Tensor) else value


class _Prepared(onnx.backend.base.BackendRep):
    def __init__(self, model: zyx.io.onnx.OnnxModel) -> None:
        self.model = model

    def run(self, inputs: Any, **_: Any) -> tuple[Any, ...]:
        results = self.model(*inputs)
        return tuple(_array(result) for result in (results if isinstance(results, tuple) else (results,)))


class Backend(onnx.backend.base.Backend):
    """What the suite calls."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **_: Any) -> _Prepared:
        del device
        return _Prepared(zyx.io.onnx.load(model))

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"


@cache
def cases() -> dict[str, unittest.TestCase]:
    """Return the tests by name, without those of other devices."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        classes = onnx.backend.test.BackendTest(Backend, __name__).test_cases
    return {
        name: kind(name)
        for kind in classes.values()
        for name in unittest.defaultTestLoader.getTestCaseNames(kind)
        if name.endswith("_cpu")
    }


def _interrupt(*_: object) -> None:
    raise TimeoutError(f"more than {LIMIT_S} s")


def outcome(name: str) -> str:
    """Return "" if a test passes, else the reason in one line."""
    signal.signal(signal.SIGALRM, _interrupt)
    signal.alarm(LIMIT_S)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            cases()[name].debug()
    except Exception as error:  # noqa: BLE001  # whatever it is, it is reported
        text = " ".join(f"{type(error).__name__}: {error}".split())
        return text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + "..."
    finally:
        signal.alarm(0)
    return ""


def listed() -> dict[str, str]:
    """Return the tests that do not pass, with reasons, as they are committed."""
    lines = [line for line in LIST.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    return {name: reason.strip() for name, _, reason in (line.partition(" ") for line in lines)}


def run(names: Sequence[str], processes: int) -> dict[str, str]:
    """Return the outcome of each test."""
    if processes == 1:
        return {name: outcome(name) for name in names}
    cases()  # before the processes fork
    with ProcessPoolExecutor(processes) as pool:
        return dict(zip(names, pool.map(outcome, names, chunksize=4), strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description="run the tests of onnx.backend.test")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--match", default="")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    begin = time.perf_counter()
    names = [name for name in sorted(cases()) if options.match in name][:: options.every]
    failed = {name: reason for name, reason in run(names, options.processes).items() if reason}
    for name, reason in failed.items():
        print(f"{name} {reason}")
    print(f"{len(names) - len(failed)} of {len(names)} pass, in {time.perf_counter() - begin:.0f} s")
    if options.write:
        kept = LIST.read_text("utf-8").splitlines() if LIST.exists() else []
        head = [line for line in kept if line.startswith("#")]
        reasons = failed | {name: reason for name, reason in listed().items() if name in failed}
        LIST.write_text("\n".join([*head, *(f"{name} {reason}" for name, reason in reasons.items())]) + "\n", "utf-8")
    return 0 if failed.keys() <= (listed().keys() if LIST.exists() else set()) else 1


if __name__ == "__main__":
    sys.exit(main())
