"""What happens to all processes if one of them does not do as the others: the first argument says what rank 1 does."""

import os
import signal
import sys
import time

import zyx
import zyx.distributed as dist
from zyx.errors import CollectiveError, CollectiveTimeoutError

group = dist.init()
assert dist.all_reduce(zyx.ones(1)).item() == group.size
what = sys.argv[1]
if group.rank == 1:
    if what == "raises":
        raise ValueError("rank 1 has had enough")
    if what == "exits":
        sys.exit(5)
    if what == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    if what == "late":
        time.sleep(40)
if what == "splits":
    if group.rank in (0, 2):
        group.split([0, 1, 2])
    time.sleep(40)
try:
    dist.all_reduce(zyx.ones(3))
except CollectiveTimeoutError as error:
    print(f"rank {group.rank}: {error}", flush=True)
    try:
        dist.barrier()
    except CollectiveError as second:
        print(f"then: {second}", flush=True)
if what == "receives" and group.rank == 0:
    dist.recv((3,), source=1)
