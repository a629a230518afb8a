"""Programs for PyTorch, and what has to change in each so that zyx runs it.

    python tests/program_runs.py            run all with both, and show how they differ and how long they take
    python tests/program_runs.py --write    note what PyTorch prints, beside each program, and write docs/coming-from.md

`CHANGED` has the lines that change, each at every place where it stands; `printed` runs a program in this process.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = Path(__file__).with_name("programs")
PAGE: Final = ROOT / "docs" / "coming-from.md"
#: Between these lines of the page stands what `table` returns.
BEGIN, END = "<!-- written by tests/program_runs.py -->\n", "<!-- until here -->\n"
#: Lines that may change in a program.
MOST: Final = 5
#: Greatest differences of printed numbers, over the greater of the two and 1: float32, carried through tens of steps
#: of training. What is printed as an integer, and all text, is the same.
TOLERANCE: Final = 2e-3

TORCH: Final = ("import torch", "import zyx as torch")
NN: Final = ("import torch.nn as nn", "import zyx.nn as nn")
FROM_NN: Final = ("from torch import nn", "from zyx import nn")
NN_OPTIM: Final = ("from torch import nn, optim", "from zyx import nn, optim")
OPTIM: Final = ("import torch.optim as optim", "import zyx.optim as optim")
F: Final = ("import torch.nn.functional as F", "import zyx.nn.functional as F")
FROM_F: Final = ("from torch.nn import functional as F", "from zyx.nn import functional as F")
#: The lines of each program that change, without their indentation, and what they become.
CHANGED: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "cnn": (
        TORCH,
        F,
        NN_OPTIM,
        (
            "from torch.utils.data import DataLoader, TensorDataset",
            "from zyx.utils.data import DataLoader, TensorDataset",
        ),
        ("_, predicted = torch.max(model(images), 1)", "predicted = torch.argmax(model(images), 1)"),
    ),
    "transformer": (TORCH, FROM_NN, FROM_F),
    "gan": (TORCH, NN, OPTIM),
    "vae": (
        TORCH,
        ("import torch.utils.data", "import zyx.utils.data"),
        NN_OPTIM,
        FROM_F,
    ),
    "rnn_text": (TORCH, NN),
    "dqn": (
        TORCH,
        F,
        NN_OPTIM,
        ("return policy_net(state).max(1)[1].view(1, 1)", "return policy_net(state).argmax(1).view(1, 1)"),
        (
            "next_state_values[non_final_mask] = target_net(non_final_next_states).max(1).values",
            "next_state_values[non_final_mask] = target_net(non_final_next_states).max(1)",
        ),
    ),
    "diffusion": (TORCH, NN, F),
    "kmeans": (
        TORCH,
        F,
        ("dist, _ = pairwise(x, centers).min(dim=1)", "dist = pairwise(x, centers).min(axis=1)"),
        (
            "new_centers.scatter_add_(0, labels.unsqueeze(1).repeat(1, 2), x)",
            "new_centers.scatter_add_(0, labels.unsqueeze(1).tile(1, 2), x)",
        ),
        ("order = centers[:, 0].sort().indices", "order = centers[:, 0].argsort()"),
    ),
    "pca": (
        TORCH,
        ("torch.set_printoptions(precision=4, sci_mode=False)", "np.set_printoptions(precision=4, suppress=True)"),
        (
            'print("std of scores", Y.std(dim=0).numpy().round(4).tolist())',
            'print("std of scores", Y.std(dim=0, correction=1).numpy().round(4).tolist())',
        ),
    ),
    "by_hand": (TORCH, ("weights -= learning_rate * weights.grad", "weights.sub_(learning_rate * weights.grad)")),
}


HEAD: Final = f"{'program':12} {'changed':>7} {'difference':>10} {'PyTorch':>9} {'zyx':>9}"


class Run(NamedTuple):
    """What a program printed, and how long it took, in seconds; None where that was noted earlier."""

    text: str
    seconds: float | None


def for_torch(name: str) -> str:
    """Return the text of a program."""
    return (FOLDER / f"{name}.py").read_text(encoding="utf-8")


def for_zyx(name: str) -> str:
    """Return the text of a program with its lines changed.

    Raises:
        LookupError: A line to be changed is not there.
    """
    lines, changes, found = for_torch(name).splitlines(), dict(CHANGED[name]), set()
    for place, line in enumerate(lines):
        bare = line.strip()
        if bare in changes:
            found.add(bare)
            lines[place] = line.replace(bare, changes[bare])
    if missing := changes.keys() - found:
        raise LookupError(f"{name} has no line {min(missing)!r}")
    return "\n".join([*lines, ""])


def changed_lines(name: str) -> int:
    """Return how many lines of a program change."""
    return sum(a != b for a, b in zip(for_torch(name).splitlines(), for_zyx(name).splitlines(), strict=True))


def printed(text: str, name: str) -> Run:
    """Run a program in this process."""
    written, started = io.StringIO(), time.perf_counter()
    with contextlib.redirect_stdout(written):
        exec(compile(text, f"{name}.py", "exec"), {"__name__": "__main__"})
    return Run(written.getvalue(), time.perf_counter() - started)


def recorded(name: str) -> str:
    """Return what PyTorch printed when it was noted."""
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def difference(ours: str, theirs: str) -> float:
    """Return the greatest difference of two printed texts, over the greater number of a pair and 1.

    It is infinite if they differ in anything else than numbers with a point: those may be 0.1 and 0.10000000149.
    """
    number = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?")
    if number.sub("#", ours) != number.sub("#", theirs):
        return float("inf")
    pairs = zip(map(float, number.findall(ours)), map(float, number.findall(theirs)), strict=True)
    return max((abs(a - b) / max(abs(a), abs(b), 1.0) for a, b in pairs), default=0.0)


def row(name: str, apart: float, theirs: Run, ours: Run) -> str:
    """Return a line under `HEAD`."""
    times = ["-" if run.seconds is None else f"{run.seconds:.2f} s" for run in (theirs, ours)]
    return f"{name:12} {changed_lines(name):7} {apart:10.1e} {times[0]:>9} {times[1]:>9}"


def table() -> str:
    """Return the section of the page about these programs."""
    rows = [f"{BEGIN}| program | lines | changed | there | here |", "|---|--:|--:|---|---|"]
    for name, changes in CHANGED.items():
        count = len(for_torch(name).splitlines())
        cells = [
            "<br>".join(f"`{lines[which]}`" for lines in changes if lines[0].split()[0] not in ("import", "from"))
            for which in (0, 1)
        ]
        link = f"[{name.replace('_', ' ')}](../tests/programs/{name}.py)"
        rows.append(f"| {link} | {count} | {changed_lines(name)} | {cells[0] or 'imports alone'} | {cells[1]} |")
    return "\n".join([*rows, END])


def page_with_table(page: str) -> str:
    """Return the page with the section as it is to be."""
    before, _, rest = page.partition(BEGIN)
    return before + table() + rest.partition(END)[2]


def main(arguments: list[str]) -> int:
    """Run the programs; return the exit status: 1 if one differs."""
    worst = 0.0
    print(HEAD)
    for name in CHANGED:
        theirs, ours = printed(for_torch(name), name), printed(for_zyx(name), name)
        if "--write" in arguments:
            (FOLDER / f"{name}.txt").write_text(theirs.text, encoding="utf-8")
        apart = difference(ours.text, theirs.text)
        worst = max(worst, apart)
        print(row(name, apart, theirs, ours))
        if apart > TOLERANCE:
            print(theirs.text, ours.text, sep="---\n")
    if "--write" in arguments:
        PAGE.write_text(page_with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
