"""Time what processes exchange from device to device, beside NCCL called directly and PyTorch, in the same run.

    mpirun --allow-run-as-root -np 2 python benchmarks/collectives_speed.py
    zyx launch --processes 2 benchmarks/collectives_speed.py

Each process takes the GPU of its number on the machine. There are these parts, each of which says what stopped it, if
something did, and lets the others go on:

    values     every operation, on tensors of several dtypes, beside what NumPy makes of the tensors of all
    sums       bus bandwidth of all_reduce in float32: NCCL on buffers of zyx, on the stream of zyx; the contract of
               backends; `zyx.distributed` eagerly, and inside of a traced step; torch.distributed
    steps      a training step of a transformer, with as many sequences for each GPU: one GPU, then all, with zyx and
               with PyTorch's DistributedDataParallel; the ratio of the two times is the efficiency of the scaling

Bus bandwidth is NCCL's measure, 2 (n - 1) / n times the bytes over the time, so that it does not depend on n.
"""

# ruff: noqa: E402  # the environment says which GPU is taken, before anything looks for one
from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any, Final

#: The variables by which launchers tell a process its number on the machine.
LOCAL_RANKS: Final = "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "PMI_RANK"
LOCAL_RANK: Final = next((os.environ[name] for name in LOCAL_RANKS if name in os.environ), "0")
if "CUDA_VISIBLE_DEVICES" not in os.environ:
    os.environ["CUDA_VISIBLE_DEVICES"] = LOCAL_RANK  # before anything looks for devices
os.environ.setdefault("ZYX_DEVICE", "cuda:0")
os.environ.setdefault("ZYX_COLLECTIVE_TIMEOUT_S", "90")

import numpy as np

import zyx
import zyx.distributed as dist
from zyx import dtype as dtypes
from zyx import nn, optim
from zyx.backend.collectives import Exchange, ExchangeKind
from zyx.distributed.links import links_of
from zyx.ops import ReduceOp
from zyx.runtime.runtime import current

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.distributed.group import Group

#: How long processes wait for each other between parts, in seconds.
PATIENCE_S: Final = 180.0
GIB: Final = 1 << 30


def say(group: Group, text: str) -> None:
    """Print a line, once."""
    if group.rank == 0:
        print(text, flush=True)


def meet() -> None:
    """Wait for the other processes, without any of what is measured; end all of them if one does not come."""
    from mpi4py import MPI

    request, started = MPI.COMM_WORLD.Ibarrier(), time.monotonic()
    while not request.Test():
        if time.monotonic() - started > PATIENCE_S:
            print(f"rank {MPI.COMM_WORLD.Get_rank()}: another process does not come; all end", flush=True)
            MPI.COMM_WORLD.Abort(1)
        time.sleep(1e-3)


def part(group: Group, name: str, function: Callable[[], object]) -> None:
    """Do a part; say what stopped it."""
    meet()
    say(group, f"-- {name}")
    try:
        function()
    except Exception:  # noqa: BLE001  # boundary: whatever a library raises
        print(f"rank {group.rank}: {name} stopped:\n{traceback.format_exc()}", flush=True)
    meet()


def median_s(call: Callable[[], object], settle: Callable[[], object], count: int, rounds: int = 5) -> float:
    """Return the median over rounds of the seconds of a call; `count` of them are queued before they are waited for."""
    times = []
    for number in range(rounds + 1):
        settle()
        meet()
        started = time.perf_counter()
        for _ in range(count):
            call()
        settle()
        if number:  # the first one connects and compiles
            times.append((time.perf_counter() - started) / count)
    return statistics.median(times)


# ---- values


def check_values(group: Group) -> None:
    """Compare every operation with NumPy; say how many were compared."""
    import ml_dtypes

    rank, size = group.rank, group.size
    compared = 0

    def drawn(other: int, dtype: Any) -> np.ndarray:
        generator = np.random.default_rng(other)
        x = generator.standard_normal((4 * size, 6)) * 3
        return (x + 1j * x[::-1] if np.dtype(dtype).kind == "c" else x).astype(dtype)

    def same(what: str, found: zyx.Tensor, wanted: np.ndarray, tolerance: float = 1e-6) -> None:
        nonlocal compared
        wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
        values = found.numpy()
        assert values.dtype == wanted.dtype, (what, values.dtype, wanted.dtype)
        np.testing.assert_allclose(values.astype(wide), wanted.astype(wide), tolerance, tolerance, err_msg=what)
        compared += 1

    kinds = np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.int16, np.int32, np.int64, np.complex64
    for dtype in kinds:
        all_ = np.stack([drawn(other, dtype) for other in range(size)])
        x = zyx.Tensor(all_[rank])
        kind = np.dtype(dtype)
        is_short = kind.itemsize == 2 and kind.kind not in "iu"
        tolerance = 1e-2 if is_short else 1e-5
        wide = all_.astype(np.float64) if is_short else all_
        total = wide.sum(0, **({"dtype": dtype} if kind.kind in "iu" else {})).astype(dtype)
        name = kind.name
        same(f"sum {name}", dist.all_reduce(x), total, tolerance)
        same(f"reduce_scatter {name}", dist.reduce_scatter(x), np.split(total, size)[rank], tolerance)
        same(f"all_gather {name}", dist.all_gather(x, 1), np.concatenate(list(all_), 1))
        same(f"broadcast {name}", dist.broadcast(x, size - 1), all_[-1])
        parts = np.concatenate([np.split(each, size)[rank] for each in all_])
        same(f"all_to_all {name}", dist.all_to_all(x), parts)
        if kind.kind != "c":
            same(f"max {name}", dist.all_reduce(x, "max"), wide.max(0).astype(dtype))
            same(f"min {name}", dist.all_reduce(x, "min"), wide.min(0).astype(dtype))
        if kind.kind not in "iu":
            same(f"mean {name}", dist.all_reduce(x, "mean"), wide.mean(0).astype(dtype), tolerance)
    x = zyx.Tensor([float("nan") if rank else 1.0, float(rank), -0.0])
    assert np.isnan(dist.all_reduce(x, "max").numpy()[0])
    assert np.isnan(dist.all_reduce(x, "min").numpy()[0])
    grads = zyx.grad(lambda x: (dist.all_reduce(x * (rank + 1.0)) ** 2).sum())(zyx.ones(3))
    total = sum(other + 1 for other in range(size))
    same("gradient", grads, np.full(3, 2.0 * size * total * (rank + 1), np.float32))
    message = zyx.Tensor(np.arange(5, dtype=np.float32))
    if rank == 0:
        dist.send(message, 1)
        same("messages", dist.recv(message, source=1), 2 * np.arange(5, dtype=np.float32))
    elif rank == 1:
        got = dist.recv(message, source=0)
        dist.send(got * 2, 0)
    say(group, f"{compared + 2} results are those of NumPy")


# ---- sums


def time_sums(group: Group, nbytes: int) -> None:
    """Print the bandwidth of each way for one length."""
    runtime = current()
    length = nbytes // 4
    x = zyx.full((length,), 1.0).realize()
    links = links_of(runtime, group, x.device, "a sum")
    if links is None:
        raise RuntimeError("tensors go by the host: ZYX_DEBUG=devices says why")
    device = links.devices[0]
    pool = device.memory_pool
    count = max(2, min(50, (4 * GIB) // nbytes))
    scale = 2 * (group.size - 1) / group.size * nbytes / 1e9

    def row(name: str, call: Callable[[], object], settle: Callable[[], object]) -> None:
        try:
            seconds = median_s(call, settle, count)
            say(group, f"{nbytes:>12} bytes  {name:<34} {seconds * 1e6:10.1f} us  {scale / seconds:8.1f} GB/s of bus")
        except Exception as error:  # noqa: BLE001  # boundary: whatever a library raises
            print(f"rank {group.rank}: {name}: {type(error).__name__}: {error}", flush=True)
        meet()

    source, _ = pool.allocate(nbytes)
    target, _ = pool.allocate(nbytes)
    exchange = Exchange(ExchangeKind.ALL_REDUCE, dtypes.float32, length, ReduceOp.SUM)

    def by_contract() -> None:
        pool.release_events(links.run(exchange, [source], [target]))

    communicator = links._communicators[0]  # type: ignore[attr-defined]  # of NCCL, which is what is measured
    stream = pool.stream_number()  # type: ignore[attr-defined]

    def directly() -> None:
        with pool.session:  # type: ignore[attr-defined]
            communicator.queue(exchange, pool.address(source), pool.address(target), stream)  # type: ignore[attr-defined]

    def settle_directly() -> None:
        with pool.session as session:  # type: ignore[attr-defined]
            session.drain(pool.compute.stream)  # type: ignore[attr-defined]

    row("NCCL, called directly", directly, settle_directly)
    row("the contract of backends", by_contract, pool.synchronize)
    pool.deallocate(source)
    pool.deallocate(target)
    row("zyx.distributed, eager", lambda: dist.all_reduce(x), pool.synchronize)
    step = zyx.jit(dist.all_reduce)
    row("zyx.distributed, traced", lambda: step(x), pool.synchronize)
    several = zyx.jit(lambda x: dist.all_reduce(dist.all_reduce(x * 0.5) * 0.5))
    row("two sums and two kernels, traced", lambda: several(x), pool.synchronize)
    nothing = zyx.jit(lambda x: (x * 0.5 + 0) * 0.5)
    row("the kernels alone", lambda: nothing(x), pool.synchronize)
    import torch

    y = torch.ones(length, device="cuda")
    torch_group()
    row("torch.distributed", lambda: torch.distributed.all_reduce(y), torch.cuda.synchronize)


def torch_group() -> None:
    """Connect PyTorch, once."""
    import torch

    if not torch.distributed.is_initialized():
        group = dist.init()
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", "29511")
        torch.cuda.set_device(0)
        torch.distributed.init_process_group("nccl", rank=group.rank, world_size=group.size)


# ---- steps


def time_steps(group: Group, args: argparse.Namespace) -> None:
    """Print the time of a training step on one GPU and on all, with zyx and with PyTorch."""
    found: dict[str, tuple[float, float]] = {}
    for name, make in (("zyx", zyx_step), ("PyTorch", torch_step)):
        try:
            alone, settle = make(args, is_shared=False)
            one = timed_alone(group, alone, settle, args.rounds)
            shared, settle = make(args, is_shared=True)
            found[name] = one, median_s(shared, settle, 3, args.rounds)
            say(group, f"{name:<10} 1 GPU {one * 1e3:8.2f} ms   {group.size} GPUs {found[name][1] * 1e3:8.2f} ms")
            say(group, f"{name:<10} efficiency {one / found[name][1]:.3f}")
        except Exception:  # noqa: BLE001  # boundary: whatever a library raises
            print(f"rank {group.rank}: steps with {name} stopped:\n{traceback.format_exc()}", flush=True)
        meet()
    if len(found) == 2 and group.rank == 0:
        ratio = found["PyTorch"][1] / found["zyx"][1]
        print(f"PyTorch's time over that of zyx: 1 GPU {found['PyTorch'][0] / found['zyx'][0]:.3f}, all {ratio:.3f}")


def timed_alone(group: Group, call: Callable[[], object], settle: Callable[[], object], rounds: int) -> float:
    """Return the median time of a call of the first process, while the others wait."""
    times = []
    if group.rank == 0:
        for number in range(rounds + 1):
            settle()
            started = time.perf_counter()
            for _ in range(3):
                call()
            settle()
            if number:
                times.append((time.perf_counter() - started) / 3)
    meet()
    return statistics.median(times) if times else float("nan")


def zyx_step(args: argparse.Namespace, *, is_shared: bool) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return a training step of zyx, and what waits for it."""
    zyx.manual_seed(0)
    width = args.width
    layers = [
        nn.TransformerEncoderLayer(width, width // 64, 4 * width, 0.0, batch_first=True) for _ in range(args.layers)
    ]
    model = nn.Sequential(*layers)
    optimizer = optim.AdamW(model.parameters(), lr=1e-4)
    x = zyx.Tensor(samples(args))

    @zyx.jit
    def step(x: zyx.Tensor) -> zyx.Tensor:
        with zyx.Tape() as tape:
            loss = (model(x) ** 2).mean()
        grads = tape.gradient(loss, model.parameters())
        optimizer.step(dist.average_gradients(grads) if is_shared else grads)
        return loss

    return (lambda: step(x)), zyx.synchronize


def torch_step(args: argparse.Namespace, *, is_shared: bool) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return a training step of PyTorch, and what waits for it."""
    import torch

    torch.manual_seed(0)
    width = args.width
    layer = torch.nn.TransformerEncoderLayer
    layers = [layer(width, width // 64, 4 * width, dropout=0.0, batch_first=True) for _ in range(args.layers)]
    model: Any = torch.nn.Sequential(*layers).cuda()
    if is_shared:
        torch_group()
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    x = torch.from_numpy(samples(args)).cuda()

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        (model(x) ** 2).mean().backward()
        optimizer.step()

    return step, torch.cuda.synchronize


def samples(args: argparse.Namespace) -> np.ndarray:
    """Return the sequences of this process."""
    generator = np.random.default_rng(int(LOCAL_RANK))
    return generator.standard_normal((args.batch, args.length, args.width)).astype(np.float32)


def main() -> None:
    """Do all parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=[GIB, 64 << 20, 4 << 20, 1 << 16])
    parser.add_argument("--parts", nargs="*", default=["values", "sums", "steps"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=512)
    args = parser.parse_args()
    group = dist.init()
    if group.size == 1:
        sys.exit("this takes several processes: mpirun -np 2 python benchmarks/collectives_speed.py")
    say(group, f"zyx {zyx.__version__}, {group.size} processes, {zyx.device_info(os.environ['ZYX_DEVICE']).model}")
    if "values" in args.parts:
        part(group, "values", lambda: check_values(group))
    if "sums" in args.parts:
        for nbytes in args.sizes:
            part(group, f"sums of {nbytes} bytes", lambda nbytes=nbytes: time_sums(group, nbytes))  # type: ignore[misc]
    if "steps" in args.parts:
        part(group, "steps", lambda: time_steps(group, args))
    if "torch" in sys.modules and sys.modules["torch"].distributed.is_initialized():
        sys.modules["torch"].distributed.destroy_process_group()


if __name__ == "__main__":
    main()
