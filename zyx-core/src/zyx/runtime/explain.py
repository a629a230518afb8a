"""Say what will be done to compute tensors, as data for JSON and as a drawing: each kernel and copy, and its counts."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from zyx.graph import Graph
from zyx.graph.dot import quoted
from zyx.graph.rebuild import merged
from zyx.graph.signature import signature
from zyx.kernel.count import count
from zyx.pairs import lower
from zyx.plugins.describe import html_table, size
from zyx.runtime.compiler import Compiler
from zyx.runtime.host_step import HostStep
from zyx.runtime.lazy import Unread, read_slices_only
from zyx.runtime.planner import Planner
from zyx.runtime.steps import CopyStep
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

    from zyx.autotune.store import Winner
    from zyx.backend import Device, Program
    from zyx.backend.library import LibraryKernel, Problem
    from zyx.graph.node import Node
    from zyx.kernel.data import Kernel
    from zyx.nest.data import Nest
    from zyx.runtime.handle import Handle
    from zyx.runtime.plan import Plan
    from zyx.runtime.runtime import Runtime
    from zyx.runtime.steps import Step

Json = dict[str, Any]


class ExplainedPlan(dict[str, Any]):
    """What `explain_plan` returns: data, which notebooks show as tables."""

    def _repr_html_(self) -> str:
        steps: list[tuple[str, ...]] = [("STEP", "KIND", "NAME", "DEVICE", "READS", "WRITES", "BYTES", "FLOP")]
        for number, step in enumerate(self["steps"]):
            reads, writes = (" ".join(map(str, step[key])) for key in ("reads", "writes"))
            moved = size(step["bytes"]) if "bytes" in step else ""
            flops = str(step["counts"]["flops"]) if "counts" in step else ""
            names = step.get("name", ""), step.get("device", "")
            steps.append((str(number), step["kind"], *names, reads, writes, moved, flops))
        buffers: list[tuple[str, ...]] = [("BUFFER", "WHAT", "SHAPE", "DTYPE", "WHERE", "BYTES")]
        for key, what in (("inputs", "input"), ("temporaries", "temporary"), ("results", "result")):
            for value in self[key]:
                shape = f"{tuple(value['shape'])}" if "shape" in value else ""
                where = value.get("device") or value["pool"]
                buffers.append((str(value["buffer"]), what, shape, value.get("dtype", ""), where, size(value["bytes"])))
        return f"{html_table(steps)}\n{html_table(buffers)}"


class _Noting(Compiler):
    """Has another compiler compile, and notes of which kernel each program is.

    Attributes:
        kernels: By program.
    """

    def __init__(self, compiler: Compiler) -> None:
        self._compiler: Final = compiler
        self._noted: dict[Future[Program], Callable[[], Kernel]] = {}
        self.kernels: dict[Program, Kernel] = {}
        self.trace, self.store = compiler.trace, compiler.store

    def start(self, nests: Sequence[Nest], name: str, device: Device) -> Future[Program]:
        future = self._compiler.start(nests, name, device)
        self._noted[future] = partial(self._compiler.kernel_of, nests, name, device)
        return future

    def start_kernel(self, kernel: Kernel, device: Device) -> Future[Program]:
        future = self._compiler.start_kernel(kernel, device)
        self._noted[future] = partial(self._compiler.simplified, kernel, device)
        return future

    def result(self, future: Future[Program]) -> Program:
        program = self._compiler.result(future)
        if future in self._noted and program not in self.kernels:
            self.kernels[program] = self._noted[future]()
        return program

    def prepared(self, library: LibraryKernel, problem: Problem, device: Device) -> Program:
        return self._compiler.prepared(library, problem, device)

    def winner(self, nests: Sequence[Nest], name: str, device: Device) -> Winner | None:
        return self._compiler.winner(nests, name, device)

    def hold(self, plan: Plan) -> None:
        self._compiler.hold(plan)


def explain_plan(runtime: Runtime, handles: Sequence[Handle]) -> ExplainedPlan:
    """Return the plan that computes `handles`; see `zyx.explain_plan`. Kernels are compiled, nothing is run."""
    with runtime.lock:
        nodes = runtime._uncomputed(handles)
        nodes = [node for node in nodes if runtime._given(node) is None]
        _, leaves, order = signature(nodes)
        if any(type(leaf.storage) is Unread for leaf in leaves):
            nodes = read_slices_only(runtime.graph, nodes, order)
            _, leaves, order = signature(nodes)
        noting = _Noting(runtime.compiler)
        planner = Planner(
            runtime.device, noting, runtime.planner.candidates, is_deterministic=runtime.settings.deterministic
        )

        if not nodes:
            return ExplainedPlan(inputs=[], results=[], temporaries=[], steps=[])
        outputs, inputs = list(merged(Graph(), nodes, order)), list(leaves)
        _, _, order = signature(outputs)
        if any(node.dtype.is_complex for node in order):
            real = lower(outputs, inputs)
            outputs, inputs = real.outputs, real.leaves
            _, _, order = signature(outputs)

        def attempt(placed: Mapping[str, Device]) -> Plan:
            return planner.make(outputs, inputs, None, placed)

        plan = runtime.placement.run(order, outputs, runtime.trace, attempt) if runtime._has_groups else attempt({})
        return _described(plan, nodes, leaves, noting.kernels)


def _described(
    plan: Plan, nodes: Sequence[Node], leaves: Sequence[Node], kernels: Mapping[Program, Kernel]
) -> ExplainedPlan:
    first = plan.inputs + len(plan.outputs)
    places = enumerate(plan.temporaries, first)
    return ExplainedPlan(
        inputs=[_value(number, leaf) for number, leaf in enumerate(leaves)],
        results=[_value(number, node) for number, node in zip(plan.results, nodes, strict=True)],
        temporaries=[{"buffer": number, "bytes": place.nbytes, "pool": place.pool.name} for number, place in places],
        steps=[_step(step, kernels) for step in plan.steps],
    )


def _value(number: int, node: Node) -> Json:
    nbytes = size_of(node.shape) * node.dtype.itemsize
    what = {"shape": list(node.shape), "dtype": node.dtype.name, "device": node.device}
    return {"buffer": number, **what, "bytes": nbytes}


def _step(step: Step, kernels: Mapping[Program, Kernel]) -> Json:
    if isinstance(step, CopyStep):
        return {"kind": "copy", "reads": [step.source], "writes": [step.target]}
    if isinstance(step, HostStep):
        return {
            "kind": "call",
            "name": f"{step.call!r}",
            "device": step.device,
            "reads": [place.buffer for place in step.reads],
            "writes": [place.buffer for place in step.writes],
            "bytes": step.bytes_moved,
            "lines": list(step.lines),
        }
    kernel = kernels.get(step.program)
    described: Json = {
        "kind": "launch",
        "name": step.program.name,
        "device": step.device.name,
        "is_library": kernel is None,
        "reads": [number for number in step.args if number not in step.written],
        "writes": list(step.written),
        "bytes": step.bytes_moved,
        "lines": list(step.lines),
    }
    if kernel is not None:
        counted = count(kernel)
        described["counts"] = {**asdict(counted), "flops": counted.flops}
    return described


def dot_of_plan(plan: Json) -> str:
    """Return a drawing of a plan in the language DOT of Graphviz: boxes are buffers, ellipses kernels and copies."""
    lines: list[str] = []
    for value in [*plan["inputs"], *plan["results"]]:
        label = quoted([f"buffer {value['buffer']}", f"{value['dtype']} {value['shape']}", value["device"]])
        lines.append(f"  b{value['buffer']} [shape=box, label={label}];")
    for place in plan["temporaries"]:
        label = quoted([f"buffer {place['buffer']}", f"{place['bytes']} bytes", place["pool"]])
        lines.append(f"  b{place['buffer']} [shape=box, style=dashed, label={label}];")
    for number, step in enumerate(plan["steps"]):
        words = [f"{number}: {step.get('name', 'copy')}"]
        words += [step["device"]] if "device" in step else []
        words += [f"{step['counts']['flops']} FLOP"] if "counts" in step else []
        lines.append(f"  s{number} [shape=ellipse, label={quoted(words)}];")
        lines += [f"  b{buffer} -> s{number};" for buffer in step["reads"]]
        lines += [f"  s{number} -> b{buffer};" for buffer in step["writes"]]
    return "\n".join(["digraph plan {", *dict.fromkeys(lines), "}"])
