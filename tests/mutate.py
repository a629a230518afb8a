"""Change the source one small step at a time, and see whether the tests notice: a mutation run.

    python tests/mutate.py                           all files of TARGETS, a table at the end
    python tests/mutate.py zyx/nest/indices.py         one of them; --lines 100-160 for a part
    python tests/mutate.py --sample 40 --seed 1      of each file so many mutants only, drawn by a seed
    python tests/mutate.py --list zyx/nest/indices.py  what would be changed; runs nothing
    python tests/mutate.py --planted                 the faults of planted.toml, each with the test that has to see it

A *mutant* is a module with one comparison, operator, constant, condition or statement changed. Each runs the tests that
TARGETS names for its file in a process of its own, up to the first failure. One that passes them all has *survived*:
a test is missing, or the change changes nothing that can be seen. The latter are listed, with the reason, in
`surviving_mutants.toml`; the run fails if others survive, or if more than one in twenty does. A mutant is noticed by
a test that fails or hangs, or because it cannot be imported; where the tests do not run at all, the run fails, too.

It takes minutes a file, and is run by hand when one of these files, or its tests, have changed. It needs fork, so
Linux or macOS.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib.abc
import importlib.machinery
import os
import random
import signal
import sys
import time
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "zyx-core" / "src"
TESTS = ROOT / "zyx-core" / "tests"

#: The tests of each file, those that notice most first.
TARGETS: dict[str, list[str]] = {
    "zyx/nest/indices.py": [
        "nest/test_identities.py",
        "nest/test_each_identity.py",
        "nest/test_pool.py",
        "schedule/test_movement.py",
    ],
    "zyx/graph/live.py": ["graph/test_equal_nodes.py"],
    "zyx/graph/signature.py": ["runtime/test_signature.py", "runtime/test_single.py", "runtime/test_plans.py"],
    "zyx/runtime/memory_planning.py": ["runtime/test_plans.py", "runtime/test_placement.py"],
    "zyx/runtime/planner.py": [
        "runtime/test_plans.py",
        "runtime/test_placement.py",
        "runtime/test_starts.py",
        "runtime/test_varying.py",
        "runtime/test_library_kernels.py",
        "runtime/test_events.py",
        "runtime/test_devices.py",
        "runtime/test_absurd_sizes.py",
        "schedule/test_custom.py",
        "runtime/test_fallback.py",
        "runtime/test_debug_output.py",
    ],
    "zyx/passes/copy_ahead.py": ["passes/test_copy_ahead.py", "testing/test_races.py"],
    "zyx/passes/narrow_indices.py": ["passes/test_narrow_indices.py", "passes/test_pass_properties.py"],
    "zyx/lowering/storage.py": [
        "schedule/test_storage.py",
        "schedule/test_moves.py",
        "schedule/test_thread_axes.py",
        "schedule/test_random_schedules.py",
    ],
    "zyx/fusion/materialise.py": [
        "schedule/test_materialise.py",
        "schedule/test_partition.py",
        "schedule/test_repetition.py",
    ],
    "zyx/fusion/recomputation.py": [
        "schedule/test_materialise.py",
        "schedule/test_repetition.py",
        "schedule/test_partition.py",
    ],
    "zyx/fusion/partition.py": ["schedule/test_partition.py", "schedule/test_arrange.py", "schedule/test_scans.py"],
}
LIST = Path(__file__).with_name("surviving_mutants.toml")
PLANTED = Path(__file__).with_name("planted.toml")
PLANTED_TIMEOUT_S = 120
#: Bytes of address space for the tests of a change: a loop without end fails there before the machine suffers.
MOST_MEMORY = 6 << 30
#: Seconds of processor time that a test may take, several times what any does: so one in a loop without end ends soon.
MOST_SECONDS_OF_A_TEST = 10
#: What `outcome` gives where a test failed, and where the changed module cannot be imported: pytest has no such status.
FAILED = 1
UNIMPORTABLE = 70
SURVIVED = "survived"
EXCUSED = "survived, with a reason"
NO_RESULT = "no result"
_FATES = {0: SURVIVED, FAILED: "noticed", UNIMPORTABLE: "not importable", None: "took too long"}
MOST_SURVIVORS = 0.05
#: What was imported once for all mutants cannot be rewritten, which pytest warns of.
_QUIET = ("--assert=plain", "-W", "ignore::pytest.PytestAssertRewriteWarning")
_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change: the line it is in, as it was, and what was done there, and the changed module."""

    file: str
    line: int
    text: str
    change: str
    tree: ast.Module

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line}: {self.change}: {self.text}"


def mutants_of(file: str) -> list[Mutant]:
    """Return every mutant of a file."""
    source = (SOURCE / file).read_text()
    lines = source.splitlines()
    tree = ast.parse(source)
    found = []
    for place, (node, change) in enumerate(_changes(tree)):
        changed = copy.deepcopy(tree)
        twin, _ = _changes(changed)[place]
        what = change(twin)
        number = getattr(node, "lineno", 0)
        found.append(Mutant(file, number, lines[number - 1].strip(), what, ast.fix_missing_locations(changed)))
    return found


def _changes(tree: ast.Module) -> list[tuple[ast.AST, object]]:
    """Return (node, function that changes it in place and says how), in the order of the tree."""
    found: list[tuple[ast.AST, object]] = []
    quiet: set[int] = set()  # annotations, docstrings, what errors say
    for node in ast.walk(tree):
        for name in ("annotation", "returns", "decorator_list"):
            part = getattr(node, name, None)
            for below in part if isinstance(part, list) else [part]:
                quiet.update(map(id, ast.walk(below)) if isinstance(below, ast.AST) else ())
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom) or _is_typing(node):
            quiet.update(map(id, ast.walk(node)))
    for node in ast.walk(tree):
        if id(node) in quiet:
            continue
        match node:
            case ast.Compare(ops=ops):
                for number, op in enumerate(ops):
                    if type(op) in _SWAPPED:
                        found.append((node, lambda node, number=number: _swap(node.ops, number)))
            case ast.BinOp() | ast.BoolOp() | ast.AugAssign() if type(node.op) in _SWAPPED:
                found.append((node, _swap_operator))
            case ast.UnaryOp(op=ast.Not() | ast.USub()):
                found.append((node, _drop_unary))
            case ast.Constant(value=value) if type(value) in (int, bool):
                found.append((node, _next_constant))
            case ast.If() | ast.While() | ast.IfExp():
                found.append((node, _negate))
            case ast.comprehension(ifs=ifs) if ifs:
                found.append((ifs[0], _always_true))
            case ast.Call(args=args) if any(isinstance(arg, ast.Tuple) for arg in args):
                for number, arg in enumerate(args):
                    if isinstance(arg, ast.Tuple) and len(arg.elts) > 1:
                        found += [
                            (node, lambda node, a=number, e=e: _without(node.args[a], e)) for e in range(len(arg.elts))
                        ]
        if isinstance(node, ast.Continue | ast.Break) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        ):
            found.append((node, _drop))
    return found


def _is_typing(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _swap(ops: list[ast.AST], number: int) -> str:
    old = ops[number]
    ops[number] = _SWAPPED[type(old)]()
    return f"{type(old).__name__} to {type(ops[number]).__name__}"


def _swap_operator(node: ast.AST) -> str:
    holder = [node.op]
    what = _swap(holder, 0)
    node.op = holder[0]
    return what


def _become(node: ast.AST, other: ast.AST) -> None:
    node.__class__ = other.__class__
    for name in [name for name in vars(node) if name not in ("lineno", "col_offset", "end_lineno", "end_col_offset")]:
        delattr(node, name)
    for name in other._fields:
        setattr(node, name, getattr(other, name))


def _drop_unary(node: ast.AST) -> str:
    kind = type(node.op).__name__
    _become(node, node.operand)
    return f"no {kind}"


def _next_constant(node: ast.AST) -> str:
    old = node.value
    node.value = (not old) if isinstance(old, bool) else old + 1
    return f"{old} to {node.value}"


def _negate(node: ast.AST) -> str:
    node.test = ast.UnaryOp(ast.Not(), node.test)
    return "negated"


def _without(node: ast.AST, number: int) -> str:
    return f"no {ast.unparse(node.elts.pop(number))}"


def _always_true(node: ast.AST) -> str:
    _become(node, ast.Constant(True))
    return "always"


def _drop(node: ast.AST) -> str:
    kind = type(node).__name__
    _become(node, ast.Pass())
    return f"no {kind}"


# ---- running


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, tree: ast.Module) -> None:
        super().__init__(name, path)
        self.tree = tree

    def get_code(self, fullname: str) -> object:
        return compile(self.tree, self.path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, tree: ast.Module) -> None:
        self.name = name
        self.tree = tree

    def find_spec(self, fullname: str, path: object, target: object = None) -> object:
        if fullname != self.name:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        spec.loader = _Loader(fullname, spec.origin, self.tree)
        return spec


class _Watcher:
    """A plugin of pytest that sees whether a test failed, or a file of tests while its tests were collected.

    A test that takes too long ends the process with the signal SIGPROF.
    """

    def __init__(self) -> None:
        self.has_begun = self.has_failed = False

    def pytest_runtest_logstart(self) -> None:
        self.has_begun = True
        signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS_OF_A_TEST)

    def pytest_collectreport(self, report: object) -> None:
        self.has_failed |= report.failed

    def pytest_runtest_logreport(self, report: object) -> None:
        self.has_failed |= report.failed


def outcome(file: str, tree: ast.Module | None, timeout_s: float, tests: Sequence[str]) -> int | None:
    """Return what became of `tests` with `file` changed to `tree`.

    0: all passed. FAILED: one failed. UNIMPORTABLE: `file` raises while it is imported. None: one of them, or all
    together, took too long, and were ended. Any other number is the exit status of a pytest that did not run them, or
    of a process that crashed; it says nothing of the change.
    """
    import resource  # which Windows has not, as it has no fork

    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        if tree is not None:
            sys.meta_path.insert(0, _Finder(module_of(file), tree))
        import pytest

        code = UNIMPORTABLE
        try:
            importlib.import_module(module_of(file))
            code = int(pytest.ExitCode.INTERNAL_ERROR)
            chosen = [str(TESTS / test) for test in tests]
            watcher = _Watcher()
            options = ["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", *_QUIET]
            code = int(pytest.main([*options, *chosen], plugins=[watcher]))
            if watcher.has_failed or (watcher.has_begun and code == pytest.ExitCode.INTERNAL_ERROR):
                code = FAILED  # pytest itself may run out of the memory that a test takes
        finally:
            sys.stdout.flush()
            os._exit(code)
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return None if code == -signal.SIGPROF else code
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def module_of(file: str) -> str:
    """Return the name of the module in a file."""
    return file.removesuffix(".py").replace("/", ".")


def fate_of(what: str, status: int | None) -> str:
    """Return what a status that `outcome` gave says of a change; say so if it says nothing."""
    if status not in _FATES:
        print(f"{what}: its tests did not run, but ended with status {status}", flush=True)
    return _FATES.get(status, NO_RESULT)


# ---- faults that were planted


@dataclass(frozen=True)
class Fault:
    """A fault of `planted.toml`: the text `old`, which stands once in a file, becomes `new`, and a test has to fail."""

    name: str
    file: str
    old: str
    new: str
    test: str

    @property
    def source(self) -> str:
        """The source with the fault in it."""
        source = (SOURCE / self.file).read_text()
        assert source.count(self.old) == 1, (
            f"{self.name}: the text stands in {self.file} {source.count(self.old)} times"
        )
        return source.replace(self.old, self.new)


def planted_faults() -> list[Fault]:
    """Return all of them."""
    return [Fault(**entry) for entry in tomllib.loads(PLANTED.read_text())["fault"]]


def run_planted(names: Sequence[str]) -> None:
    """Run faults, all or those of some names; end with status 1 if the test of one does not see it."""
    missed = []
    for fault in planted_faults():
        if not names or fault.name in names:
            begin = time.monotonic()
            status = outcome(fault.file, ast.parse(fault.source), PLANTED_TIMEOUT_S, [fault.test])
            fate = fate_of(fault.name, status)
            print(f"{fault.name}: {fate}, {time.monotonic() - begin:.1f} s", flush=True)
            missed += [fault.name] if status != FAILED else []
    if missed:
        sys.exit(f"not seen by the tests that are named for them: {'; '.join(missed)}")


def run(mutants: list[Mutant]) -> Counter[str]:
    """Run mutants of one file, print the survivors, and return how many there were of each fate."""
    file = mutants[0].file
    known = {
        (entry["file"], entry["line"], entry["change"]) for entry in tomllib.loads(LIST.read_text()).get("mutant", [])
    }
    begin = time.monotonic()
    if outcome(file, None, 3600, TARGETS[file]) != 0:
        sys.exit(f"{file}: its tests fail, or do not run, as it is")
    timeout_s = 10 + 5 * (time.monotonic() - begin)
    fates: Counter[str] = Counter()
    for mutant in mutants:
        fate = fate_of(mutant.name, outcome(file, mutant.tree, timeout_s, TARGETS[file]))
        if fate == SURVIVED and (mutant.file, mutant.text, mutant.change) in known:
            fate = EXCUSED
        elif fate == SURVIVED:
            print(mutant.name, flush=True)
        fates[fate] += 1
    print(file, dict(fates), flush=True)
    return fates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", default=list(TARGETS))
    parser.add_argument("--lines", default="", help="a part of a file, such as 100-160")
    parser.add_argument("--sample", type=int, default=0, help="run so many mutants of each file, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument(
        "--planted", action="store_true", help="run the faults of planted.toml; FILES are names of some"
    )
    parser.add_argument("--list", action="store_true", help="say what would be changed, and run nothing")
    options = parser.parse_args()
    first, _, last = options.lines.partition("-")
    fates: Counter[str] = Counter()
    import hypothesis  # noqa: F401  # what every child needs, and what is not ours
    import numpy  # noqa: F401  # icn001
    import pytest  # noqa: F401

    if options.planted:
        run_planted([] if options.files == list(TARGETS) else options.files)
        return
    for file in options.files:
        mutants = [m for m in mutants_of(file) if not first or int(first) <= m.line <= int(last or first)]
        if 0 < options.sample < len(mutants):
            chosen = random.Random(f"{options.seed} {file}").sample(range(len(mutants)), options.sample)
            mutants = [mutants[number] for number in sorted(chosen)]
        if options.list:
            print(*(mutant.name for mutant in mutants), sep="\n")
        elif mutants:
            fates += run(mutants)
    survivors = fates[SURVIVED] + fates[EXCUSED]
    if fates:
        print(f"{sum(fates.values())} mutants: {dict(fates)}; {survivors / sum(fates.values()):.1%} survived")
    if fates[SURVIVED] or fates[NO_RESULT] or survivors > MOST_SURVIVORS * max(1, sum(fates.values())):
        sys.exit(1)


if __name__ == "__main__":
    main()
