"""Whether a driver keeps to the standard where an event of the user's fails: what waits for it has to fail, no more.

    python probe_gates.py PLATFORM DEVICE [out-of-order] [at-once]

Prints ``sound`` if so, else what is wrong. It is a program of its own, since some crash (Intel's for processors,
2026.22). With ``at-once``, the device is given a kernel that waits for nothing before anybody has looked what became of
the others: NVIDIA's (580) lets that fail too.
"""

from __future__ import annotations

import subprocess
import sys
from typing import NoReturn

import pyopencl as cl
from pyopencl import _cl

OUT_OF_RESOURCES = -5
TURNS = 20


def what_is_wrong(platform: str, device: str, *, out_of_order: bool, at_once: bool) -> str:
    """Run this program on a device, and return what it found; nothing if it came to its end and found nothing."""
    options = [word for word, is_on in (("out-of-order", out_of_order), ("at-once", at_once)) if is_on]
    command = [sys.executable, __file__, platform, device, *options]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except subprocess.TimeoutExpired:
        return "it hangs"
    printed = result.stdout.strip().splitlines() or [f"it ends the process, with status {result.returncode}"]
    return "" if printed[-1] == "sound" else printed[-1]


def go_on(queue: cl.CommandQueue, kernel: cl.Kernel) -> None:
    """Launch a kernel that waits for nothing."""
    try:
        cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,)).wait()
    except cl.Error as error:
        stop(f"a launch after one that failed, which it does not wait for, is refused with {error.code}")


def stop(found: str) -> NoReturn:
    """Print what was found, and end."""
    print(found, flush=True)
    sys.exit(1)


def main(platform: str, device: str, *options: str) -> None:
    """Let chains of two kernels fail, in a queue with or without order, and go on behind them."""
    found = [
        native
        for driver in cl.get_platforms()
        if " ".join(driver.name.split()) == platform
        for native in driver.get_devices()
        if " ".join(native.name.split()) == device
    ]
    properties = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE if "out-of-order" in options else 0
    context = cl.Context(found[:1])
    queue = cl.CommandQueue(context, found[0], properties=properties)
    built = _cl._Program(context, "__kernel void f(__global int *x) { x[0] += 1; }")
    built._build(options=b"", devices=found[:1])
    kernel, apart = (cl.Kernel(cl.Program(built), "f") for _ in range(2))
    buffers = [cl.Buffer(context, cl.mem_flags.READ_WRITE, 256) for _ in range(2)]
    kernel.set_arg(0, buffers[0])
    apart.set_arg(0, buffers[1])
    for _ in range(TURNS):
        gate = cl.UserEvent(context)
        first = cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,), wait_for=[gate])
        second = cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,), wait_for=[first])
        queue.flush()
        gate.set_status(OUT_OF_RESOURCES)
        if "at-once" in options:
            go_on(queue, apart)
        for event in (second, first):
            try:
                event.wait()
            except cl.Error:
                if event.get_info(cl.event_info.COMMAND_EXECUTION_STATUS) < 0:
                    continue
            stop("an event behind one that failed says that it is complete")
        go_on(queue, apart)
        other = cl.Buffer(context, cl.mem_flags.READ_WRITE, 256)
        cl.enqueue_migrate_mem_objects(queue, [other], cl.mem_migration_flags.CONTENT_UNDEFINED).wait()
    queue.finish()
    print("sound")


if __name__ == "__main__":
    main(*sys.argv[1:])
