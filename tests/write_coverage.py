"""Ask zyx what it has of the names of other libraries, and write docs/reference/coverage.md.

    python tests/write_coverage.py           compare the page with what the code says; exits with 1 if they differ
    python tests/write_coverage.py --write   write it

The names of other libraries are data, a file a list in tests/names; so none of them needs to be installed. The code is
asked what is there, and under which name. Why a name is not there, or what takes its place under a name that nobody
could guess, is in tests/names/reasons.toml; a name without an answer is an error. So is an answer that nothing asks
for, or one that names what zyx has not.

What devices can is read from the records of machines in tests/replay/devices, and from devices that every machine has.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import tomllib
from pathlib import Path
from typing import Any, Final, NamedTuple

import zyx
import zyx.nn.functional
import zyx.nn.init
from zyx import fft, linalg, nn, optim, tree
from zyx.dtype import BY_NAME
from zyx.tensor.habits import NAMES

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs/reference/coverage.md"
DATA: Final = Path(__file__).with_name("names")
WIDTH: Final = 120


class List(NamedTuple):
    """Names of one kind: the file of them, what they are called, and where zyx has them first."""

    file: str
    title: str
    home: Any
    prefix: str


TENSOR: Final = zyx.Tensor([[1.0]])
LISTS: Final = (
    List("array_api", "Array API 2025.12, with `linalg` and `fft`", zyx, "zyx."),
    List("numpy", "NumPy, functions of the main namespace", zyx, "zyx."),
    List("torch", "PyTorch, functions of the main namespace", zyx, "zyx."),
    List("torch_tensor", "PyTorch, methods and properties of tensors", TENSOR, "x."),
    List("torch_nn", "PyTorch, `torch.nn`", nn, "nn."),
    List("torch_functional", "PyTorch, `torch.nn.functional`", zyx.nn.functional, "F."),
    List("torch_optim", "PyTorch, `torch.optim`", optim, "optim."),
    List("torch_lr_scheduler", "PyTorch, `torch.optim.lr_scheduler`", optim.lr_scheduler, "optim.lr_scheduler."),
    List("tinygrad", "tinygrad, methods and properties of tensors", TENSOR, "x."),
    List("jax_numpy", "JAX, functions of `jax.numpy`", zyx, "zyx."),
    List("jax", "JAX, transformations, control flow and the rest of `jax`", zyx, "zyx."),
)
#: Where else a name may be, in this order.
ELSEWHERE: Final = (
    ("zyx.", zyx), ("zyx.linalg.", linalg), ("zyx.fft.", fft), ("F.", zyx.nn.functional), ("nn.init.", zyx.nn.init),
    ("x.", TENSOR), ("zyx.tree.", tree),
)  # fmt: skip


#: Names of ours in what takes the place of others.
OURS: Final = re.compile(r"(?<![\w.])(zyx|F|nn|optim|x)((?:\.[A-Za-z_]\w*)+)")
ROOTS: Final = {"zyx": zyx, "F": zyx.nn.functional, "nn": nn, "optim": optim, "x": TENSOR}


class Answer(NamedTuple):
    """What became of a name: it is there, it is under `other`, or it is not, for `reason`."""

    name: str
    other: str = ""
    reason: str = ""


def has(home: Any, path: str, *, modules: bool = False) -> bool:
    """Tell whether `home` has a name, dots and all; `modules` says whether these count."""
    found = home
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            return False
    return modules or not inspect.ismodule(found)


class Reasons:
    """The answers of tests/names/reasons.toml, and which of them were asked for.

    A table ``[other]`` has, by the name of a list or ``all``, what takes the place of names; ``[[absent]]`` has a
    reason, and the names that it holds for: ``names``, or patterns that match whole names, ``like``.
    """

    def __init__(self) -> None:
        data = tomllib.loads((DATA / "reasons.toml").read_text(encoding="utf-8"))
        self._other: dict[str, dict[str, str]] = data["other"]
        self._absent = [
            (re.compile("|".join([*map(re.escape, entry.get("names", "").split()), *entry.get("like", [])])), entry)
            for entry in data["absent"]
        ]
        self._named = {name for entry in data["absent"] for name in entry.get("names", "").split()}
        self._asked: set[str] = set()

    def false(self) -> list[str]:
        """Return the names of ours in the answers that are not there."""
        texts = [text for names in self._other.values() for text in names.values()]
        return [
            f"{root}{path}"
            for text in texts
            for root, path in OURS.findall(text)
            if not has(ROOTS[root], path[1:], modules=True)
        ]

    def other(self, kind: str, name: str) -> str:
        for table in (kind, "all"):
            if name in self._other.get(table, {}):
                self._asked.add(f"{table}.{name}")
                return self._other[table][name]
        return ""

    def absent(self, name: str) -> str:
        for pattern, entry in self._absent:
            if pattern.fullmatch(name):
                self._asked.add(name)
                return str(entry["reason"])
        return ""

    def unasked(self) -> list[str]:
        given = {f"{table}.{name}" for table, names in self._other.items() for name in names} | self._named
        return sorted(given - self._asked)


def answer(kind: List, name: str, reasons: Reasons) -> Answer | None:
    """Return what becomes of a name, or None if nobody knows."""
    bare = name.removesuffix("_") if kind.prefix == "x." else name
    if has(kind.home, name) and not (kind.home is zyx and name in NAMES):
        return Answer(name)
    if kind.home is zyx and name in NAMES:
        return Answer(name, other=f"zyx.{NAMES[name]}")
    given = reasons.other(kind.file, name)
    if given:
        return Answer(name, other=given)
    for prefix, home in ELSEWHERE:
        if has(home, name):
            return Answer(name, other=f"{prefix}{name}")
    reason = reasons.absent(name) or reasons.absent(bare)
    return Answer(name, reason=reason) if reason else None


def wrapped(names: list[str]) -> str:
    """Return names as code, in lines."""
    lines, line = [], ""
    for word in (f"`{name}`" for name in names):
        if line and len(line) + len(word) + 1 > WIDTH:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return "\n".join([*lines, line])


def section(kind: List, answers: list[Answer]) -> str:
    """Return the text of one list."""
    there = [each.name for each in answers if not each.other and not each.reason]
    others = [each for each in answers if each.other]
    absent: dict[str, list[str]] = {}
    for each in answers:
        if each.reason:
            absent.setdefault(each.reason, []).append(each.name)
    parts = [f"## {kind.title}", wrapped(there)]
    if others:
        by_place: dict[str, list[str]] = {}
        for each in others:
            by_place.setdefault(each.other, []).append(each.name)
        rows = [
            f"| {' '.join(f'`{name}`' for name in names)} | `{place}` |" for place, names in sorted(by_place.items())
        ]
        parts += ["Under another name, or in another place:", "\n".join(["| name | here |", "|---|---|", *rows])]
    if absent:
        rows = [f"| {' '.join(f'`{name}`' for name in names)} | {reason} |" for reason, names in absent.items()]
        parts += ["Not there:", "\n".join(["| names | why |", "|---|---|", *rows])]
    return "\n\n".join(parts)


def devices() -> str:
    """Return the table of what devices do with each dtype."""
    sys.path.insert(0, str(ROOT / "tests/replay"))
    sys.path.append(str(ROOT / "zyx-backend-hip/src"))  # where it is not installed: its table needs no driver
    from recorded import recorded

    from zyx_backend_hip.info import capabilities as of_hip

    records = recorded()
    columns = {
        "c": records["avx-512-processor"].capabilities,
        "interpreter": zyx.device_info("interpreter").capabilities,
        "opencl (PoCL)": records["pocl-processor"].capabilities,
        "opencl (H100)": records["h100-opencl"].capabilities,
        "vulkan (Mesa)": records["mesa-processor-by-vulkan"].capabilities,
        "wgpu (Mesa)": records["mesa-processor"].capabilities,
        "cuda (H100)": records["h100"].capabilities,
        "hip": of_hip(),
    }
    rows = [f"| dtype | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]
    for name, dtype in BY_NAME.items():
        parts = {zyx.complex64: zyx.float32, zyx.complex128: zyx.float64}
        own = parts.get(dtype, dtype)
        cells = ["no" if own not in can else "computes" if can[own].computes else "stores" for can in columns.values()]
        rows.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(rows)


HEAD: Final = """# What is there of other libraries' names, and of dtypes on devices

`tests/write_coverage.py --write` writes this page by asking the code; a test holds it to that. Names of other libraries
are lists in tests/names. A name counts as there if zyx has it in the place that the heading says;
[coming-from.md](../coming-from.md) has what has the same name and another meaning. `x` is a tensor, `F` is
`zyx.nn.functional`, and `nn` and `optim` are those of `zyx`. Methods that end in an underscore assign.
"""


def page() -> str:
    """Return the text of the page.

    Raises:
        SystemExit: Names without an answer, or answers that nothing asks for.
    """
    reasons = Reasons()
    found: list[tuple[List, list[Answer]]] = []
    lacking: list[str] = []
    for kind in LISTS:
        text = (DATA / f"{kind.file}.txt").read_text(encoding="utf-8")
        names = [name for line in text.splitlines() if not line.startswith("#") for name in line.split()]
        answers = [answer(kind, name, reasons) for name in names]
        lacking += [f"{kind.file}: {name}" for name, each in zip(names, answers, strict=True) if each is None]
        found.append((kind, [each for each in answers if each is not None]))
    wrong = [f"no answer for {name}" for name in lacking]
    wrong += [f"nothing asks for {name}" for name in reasons.unasked()]
    wrong += [f"there is no {name}" for name in reasons.false()]
    if wrong:
        sys.exit("\n".join(wrong))
    rows = ["| list | names | there | under another name | not there |", "|---|---|---|---|---|"]
    for kind, answers in found:
        absent, others = sum(bool(each.reason) for each in answers), sum(bool(each.other) for each in answers)
        rows.append(f"| {kind.title} | {len(answers)} | {len(answers) - others - absent} | {others} | {absent} |")
    parts = [HEAD, "\n".join(rows), *(section(kind, answers) for kind, answers in found), DEVICES, devices(), LEFT]
    return "\n\n".join(part.strip() for part in parts) + "\n"


DEVICES: Final = """## Dtypes on devices

"computes" says that a device computes with the dtype itself; "stores", that tensors of it can be there, and core
computes in float32 for it; "no", that they cannot. Complex numbers are two floats, and so as these are. The columns are
records of machines in tests/replay/devices; that of the interpreter is what `zyx.device_info` says, and that of hip
what the backend says of every device. Others of opencl, vulkan and wgpu may lack float16, float64 and integers of 64
bits: `zyx.supports_dtype(dtype, device)` and `zyx.device_info(device)` tell of those that are there.
"""


LEFT: Final = """## Settings of other systems

| there | here |
|---|---|
| a preference of power of WebGPU | every adapter is a device, and the default is the fastest; `adapters` names others |
| interfaces of WebGPU by a variable | the same setting: `adapters = ["vulkan"]`; `opengl` adds OpenGL |
| a library's convolution and attention | they are described for backends, and nothing matches them; products are |
| tiles of Tenstorrent: tile operations, circular memory | programs of tiles, which zyx makes of a graph |
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the page")
    given = parser.parse_args()
    text = page()
    if given.write:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    return int(not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text)


if __name__ == "__main__":
    sys.exit(main())
