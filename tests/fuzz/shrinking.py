"""The smallest part of a program that fails, and its text."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Final, Protocol, Self, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuzz.program import Call, Program
    from zyx.testing.values import Array

_FEW: Final = 64


class Divisible(Protocol):
    """A program, or several of the same calls."""

    @property
    def inputs(self) -> list[Array]: ...
    @property
    def calls(self) -> list[Call]: ...
    @property
    def outputs(self) -> list[int]: ...
    def needed(self, outputs: Sequence[int]) -> Self: ...
    def without(self, place: int) -> Self: ...


P = TypeVar("P", bound=Divisible)


def shrink(program: P, fails: Callable[[P], bool], most: int = 60) -> P:
    """Return a part of `program` that fails as well, having asked at most `most` times."""
    left = [most]

    def ask(part: P) -> bool:
        left[0] -= 1
        return left[0] >= 0 and fails(part)

    count = len(program.inputs)
    for number in range(count, count + len(program.calls)):
        part = program.needed([number])
        if ask(part):
            program = part
            break
    else:
        for number in list(program.outputs):
            part = program.needed([other for other in program.outputs if other != number])
            if part.outputs and ask(part):
                program = part
    place = len(program.calls) - 2
    while place >= 0 and left[0] > 0:
        part = program.without(min(place, len(program.calls) - 1))
        if ask(part):
            program = part
            place = len(program.calls) - 1
        place -= 1
    return program


def as_text(program: Program) -> str:
    """Return a program of Python that prints what the outputs are, and what they should be."""
    lines = ["import base64, zlib", "import numpy as np, zyx, zyx.nn.functional as F"]
    lines += [f"t{number} = {input_as_text(array)}" for number, array in enumerate(program.inputs)]
    lines += [f"t{len(program.inputs) + number} = {text}" for number, text in enumerate(program.texts())]
    return "\n".join([*lines, *prints(program, [f"t{number}" for number in program.outputs])])


def prints(program: Program, names: Sequence[str]) -> list[str]:
    """Return lines that print outputs, which have names, and say what they should be."""
    known = program.known()
    lines = []
    for number, name in zip(program.outputs, names, strict=True):
        wanted = np.array2string(known[number].value.ravel()[:8], precision=7, separator=", ", threshold=8)
        lines.append(f"print({name}.numpy().ravel()[:8])  # {' '.join(wanted.split())}")
    return lines


def input_as_text(array: Array) -> str:
    """Return the text of a tensor with the elements of an array."""
    name = array.dtype.name
    if array.size <= _FEW:
        return f"zyx.Tensor(np.array({array.astype(np.float64).tolist() if name == 'bfloat16' else array.tolist()})" + (
            f".reshape({array.shape}), dtype='{name}')"
        )
    data = base64.b85encode(zlib.compress(array.tobytes(), 9)).decode()
    stored = "uint16" if name == "bfloat16" else name
    text = f"np.frombuffer(zlib.decompress(base64.b85decode({data!r})), '{stored}').reshape({array.shape})"
    return f"zyx.Tensor({text})" + (".bitcast('bfloat16')" if stored != name else "")
