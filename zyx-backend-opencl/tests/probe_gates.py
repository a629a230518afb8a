"""Whether a driver keeps to the standard where an event of the user's fails: what waits for it has to fail, no more.

    python probe_gates.py PLATFORM DEVICE

Prints ``sound`` if so. It is a program of its own, since some crash (Intel's for processors, 2026.22).
"""

from __future__ import annotations

import subprocess
import sys

import pyopencl as cl
from pyopencl import _cl

OUT_OF_RESOURCES = -5


def is_sound(platform: str, device: str) -> bool:
    """Run this program on a device, and return whether it came to its end and found nothing."""
    command = [sys.executable, __file__, platform, device]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except subprocess.TimeoutExpired:
        return False
    return result.stdout.strip() == "sound"


def main(platform: str, device: str) -> None:
    """Let chains of two kernels fail, in queues with and without order, and go on behind them."""
    found = [
        native
        for driver in cl.get_platforms()
        if " ".join(driver.name.split()) == platform
        for native in driver.get_devices()
        if " ".join(native.name.split()) == device
    ]
    for properties in (0, cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE):
        context = cl.Context(found[:1])
        queue = cl.CommandQueue(context, found[0], properties=properties)
        built = _cl._Program(context, "__kernel void f(__global int *x) { x[0] += 1; }")
        built._build(options=b"", devices=found[:1])
        kernel = cl.Kernel(cl.Program(built), "f")
        memory = cl.Buffer(context, cl.mem_flags.READ_WRITE, 256)
        kernel.set_arg(0, memory)
        for _ in range(3):
            gate = cl.UserEvent(context)
            first = cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,), wait_for=[gate])
            second = cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,), wait_for=[first])
            queue.flush()
            gate.set_status(OUT_OF_RESOURCES)
            for event in (second, first):
                try:
                    event.wait()
                except cl.Error:
                    if event.get_info(cl.event_info.COMMAND_EXECUTION_STATUS) < 0:
                        continue
                sys.exit("an event behind one that failed says that it is complete")
            other = cl.Buffer(context, cl.mem_flags.READ_WRITE, 256)
            cl.enqueue_migrate_mem_objects(queue, [other], cl.mem_migration_flags.CONTENT_UNDEFINED).wait()
        queue.finish()
    print("sound")


if __name__ == "__main__":
    main(*sys.argv[1:])
