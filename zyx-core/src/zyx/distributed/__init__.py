"""Several processes that compute together: each has a part of the work, and they exchange tensors.

    import zyx.distributed as dist

    group = dist.init()                              # one of 2, if started by: zyx launch --processes 2 train.py
    x = samples[group.rank :: group.size]
    grads = dist.average_gradients(grads)            # the mean over all processes, in each of them

What carries the data is MPI, by the packages mpi4py and mpich (``pip install "zyx-core[mpi]"``). A program that is
started without a launcher is a group of one, in which every operation gives back what it is given.

What a program must keep to, says `zyx.distributed.operations`: above all, every process makes the same calls in the
same order.

    group           which processes there are, and which one this is
    operations      what they do together: reduce, gather, scatter, broadcast, send
    calls           the same as nodes of the graph, with gradients, and what the host does for them
    exchanges       the same from device to device, where a library of the backend connects the devices
    links           which processes can do that: all of a group, or none
    gradients       means of gradients, in few and large messages
    mesh            processes in a grid with named axes, and the groups along them
    sharding        parts of tensors
    layouts         what is known of parameters of which a process has a part
    fully_sharded   parameters, gradients and state of optimisers in parts
    parallel        layers of which each process computes a part
    whole           whole values of what is in parts, and norms of gradients
    checkpoints     what a run needs to go on, in files that each process writes its part of
    contents        who writes which part, and the index of what was written
    conjugates      pairs of operations that are each other's gradients, which both need
    order           keeps the operations in the order in which the program calls them
    engine          what carries arrays of the host from rank to rank
    mpi             from process to process
    threads         from thread to thread, in one process with several devices
    running         starts these threads
    waiting, ends   waits for other processes, with a limit, and knows which ones have ended
    network         what exchanges take between many processes, by formulas, and what a link measures
    simulating      a step of one process of many, of which the others are not there
    reductions      what an engine is given for a dtype and an operation, so that all of them come out as in zyx
"""

from zyx.distributed import (
    checkpoints,
    fully_sharded,
    gradients,
    mesh,
    network,
    operations,
    parallel,
    running,
    sharding,
    simulating,
    whole,
)
from zyx.distributed.checkpoints import *
from zyx.distributed.fully_sharded import *
from zyx.distributed.gradients import *
from zyx.distributed.group import Group, init
from zyx.distributed.mesh import *
from zyx.distributed.network import *
from zyx.distributed.operations import *
from zyx.distributed.parallel import *
from zyx.distributed.running import *
from zyx.distributed.sharding import *
from zyx.distributed.simulating import *
from zyx.distributed.waiting import LateWarning
from zyx.distributed.whole import *

__all__ = ["Group", "LateWarning", "init"]
__all__ += checkpoints.__all__
__all__ += fully_sharded.__all__
__all__ += gradients.__all__
__all__ += mesh.__all__
__all__ += network.__all__
__all__ += operations.__all__
__all__ += parallel.__all__
__all__ += running.__all__
__all__ += sharding.__all__
__all__ += simulating.__all__
__all__ += whole.__all__
