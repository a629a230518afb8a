"""Run the functions of a program in every process, and write what became of each."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path

import zyx
import zyx.distributed as dist


def report(cases) -> None:
    """Run `cases`, one after the other, and write the failures to the folder that is the first argument."""
    group = dist.init()
    dist.all_reduce(zyx.ones(1))  # the first one on a device, at which processes tell each other what they have
    found = {}
    for case in cases:
        try:
            case(group)
            found[case.__name__] = ""
        except Exception:  # noqa: BLE001  # boundary: a case
            found[case.__name__] = traceback.format_exc()
        dist.barrier()
    Path(sys.argv[1], f"{group.rank}.json").write_text(json.dumps(found))


def refused(error, function, *words):
    """Check that `function` raises an error whose text has all of `words`."""
    try:
        function()
    except error as found:
        assert all(word in str(found) for word in words), str(found)
    else:
        raise AssertionError(f"{error.__name__} was not raised")


class Log:
    """The operations that this process has told the others of, in order."""

    def __init__(self, group) -> None:
        self.calls = []
        self._engine = group.engine

    def __enter__(self):
        agree = type(self._engine).agree

        def noted(call):
            self.calls.append(call)
            agree(self._engine, call)

        self._engine.agree = noted
        return self.calls

    def __exit__(self, *error):
        del self._engine.agree
