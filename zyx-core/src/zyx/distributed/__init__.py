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
    order           keeps the operations in the order in which the program calls them
    engine          what carries arrays of the host from rank to rank
    mpi             from process to process
    threads         from thread to thread, in one process with several devices
    running         starts these threads
    waiting, ends   waits for other processes, with a limit, and knows which ones have ended
    reductions      what an engine is given for a dtype and an operation, so that all of them come out as in zyx
"""

from zyx.distributed import gradients, operations, running
from zyx.distributed.gradients import *
from zyx.distributed.group import Group, init
from zyx.distributed.operations import *
from zyx.distributed.running import *
from zyx.distributed.waiting import LateWarning

__all__ = ["Group", "LateWarning", "init"]
__all__ += gradients.__all__
__all__ += operations.__all__
__all__ += running.__all__
