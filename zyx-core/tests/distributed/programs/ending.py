"""Rank 1 ends in the way that the first argument says, while the others wait for it."""

import os
import signal
import sys
import time

import zyx.distributed as dist

group = dist.init()
if sys.argv[1] == "well":
    # In one piece: print() may write the end of the line by itself, behind what another process writes.
    sys.stdout.write(f"rank {group.rank} of {group.size} has {sys.argv[2:]} {os.environ['ZYX_NUM_THREADS']}\n")
    sys.exit(0)
if sys.argv[1] == "waits":
    sys.stdout.write(f"process {os.getpid()}\n")
    sys.stdout.flush()
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
