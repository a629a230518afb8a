"""Rank 1 ends in the way that the first argument says, while the others wait for it."""

import os
import signal
import sys
import time

import zyx.distributed as dist

group = dist.init()
if sys.argv[1] == "well":
    print(f"rank {group.rank} of {group.size} has {sys.argv[2:]} {os.environ['ZYX_NUM_THREADS']}", flush=True)
    sys.exit(0)
if sys.argv[1] == "waits":
    print(f"process {os.getpid()}", flush=True)
elif group.rank == 1:
    match sys.argv[1]:
        case "raises":
            raise ValueError("enough")
        case "exits":
            sys.exit(5)
        case "vanishes":
            os._exit(3)
        case name:
            os.kill(os.getpid(), signal.Signals[name])
time.sleep(40)
