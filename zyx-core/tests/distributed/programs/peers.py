"""Rank 1 fails in the way that the first argument says, while the others come to an operation."""

import os
import signal
import sys
import time

import zyx
import zyx.distributed as dist
from zyx.distributed import waiting

how, waiting.LATE_S = sys.argv[1], float(sys.argv[2])
group = dist.init()
step = zyx.jit(lambda x: dist.all_reduce(x * 2))
assert step(zyx.ones(3)).tolist() == [2.0 * group.size] * 3
# In one piece, so that nothing that another process writes comes between.
sys.stdout.write(f"process {os.getpid()}\n")
sys.stdout.flush()
if group.rank == 1:
    sys.stdout.write(f"at {time.time()}\n")
    sys.stdout.flush()
    match how:
        case "raises":
            raise ValueError("enough")
        case "exits":
            sys.exit(0)
        case "leaves":
            os._exit(0)
        case "slow":
            time.sleep(float(sys.argv[2]) + 0.6)
        case "loops":
            while True:
                pass
        case name:
            os.kill(os.getpid(), signal.Signals[name])
found = step(zyx.ones(3))  # where they wait
assert found.tolist() == [2.0 * group.size] * 3
sys.stdout.write(f"rank {group.rank} is through\n")
