"""Run random programs over the public API of `zyx`, and hold them against NumPy: see `fuzz`.

    python tests/random_programs.py --device c --programs 20000 --seed 1 --deadline 3000

The last lines are counts; the status is 1 if a program went wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import ExitStack

from fuzz.campaign import Campaign

from zyx.testing.opening import open_runtime
from zyx.testing.paper import PAPER, open_paper


def main(arguments: list[str] | None = None) -> int:
    """Run random programs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="c", help="a device, or the name of one on paper (zyx.testing.paper)")
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1, help="of the first program; the next ones count on")
    parser.add_argument("--deadline", type=float, default=None, metavar="SECONDS", help="stop after so long")
    parser.add_argument("--elements", type=int, default=20000, help="of the largest value")
    parser.add_argument("--calls", type=int, default=12, help="of a program at most")
    parser.add_argument(
        "--varying", type=int, default=15, metavar="PERCENT", help="run with several numbers and lengths"
    )
    parser.add_argument("--failures", type=int, default=20, help="stop after so many")
    given = parser.parse_args(arguments)
    started = time.monotonic()
    deadline = None if given.deadline is None else started + given.deadline
    with ExitStack() as stack:
        if given.device in PAPER:
            runtime = stack.enter_context(open_paper(given.device))
        else:
            runtime = open_runtime(given.device)
            stack.callback(runtime.close)
        campaign = Campaign(runtime, given.elements, given.calls, given.varying)
        for seed in range(given.seed, given.seed + given.programs):
            told = len(campaign.failures)
            campaign.run([seed], deadline)
            for failure in campaign.failures[told:]:
                say(str(failure))
            if len(campaign.failures) >= given.failures or (deadline is not None and time.monotonic() > deadline):
                break
        seconds = time.monotonic() - started
        say(f"{given.device}: {campaign.summary().splitlines()[0]}")
        say(f"{given.device}: {seconds:.0f} s, {campaign.programs / max(seconds, 1e-9):.1f} programs a second")
        if campaign.rows_never_drawn:
            say(f"{given.device}: never drawn: {', '.join(campaign.rows_never_drawn)}")
    return 1 if campaign.failures else 0


def say(text: str) -> None:
    """Write a line, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
