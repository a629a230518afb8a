"""Search kernels of random graphs by measuring, and hold every candidate against the interpreter.

    python benchmarks/tuned_kernels.py --device c --kernels 500

Ends with status 1 at the first that computes something else, and names the seed of its graph.
"""

from __future__ import annotations

import argparse
import sys

from zyx.testing.opening import open_runtime
from zyx.testing.tuned import search_kernels


def main() -> int:
    """Search, and print how many there were."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="c")
    parser.add_argument("--kernels", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    runtime = open_runtime(options.device)
    try:
        counts = search_kernels(runtime.device(), options.seed, options.kernels)
    except AssertionError as error:
        print(f"wrong: {error}")
        return 1
    finally:
        runtime.close()
    print("{kernels} kernels, {candidates} candidates, {faster} kernels with a faster one, none wrong".format(**counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
