"""The smallest part of a program that fails, and its text."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Final

import numpy as np

from zyx.testing.fuzz.program import Program

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.testing.values import Array

_FEW: Final = 64


def shrink(program: Program, fails: Callable[[Program], bool], most: int = 60) -> Program:
    """Return a part of `program` that fails as well, having asked at most `most` times."""
    left = [most]

    def ask(part: Program) -> bool:
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
        part = without(program, min(place, len(program.calls) - 1))
        if ask(part):
            program = part
            place = len(program.calls) - 1
        place -= 1
    return program


def without(program: Program, place: int) -> Program:
    """Return `program` with the result of a call given as an input."""
    count = len(program.inputs)
    known = program.known()[count + place]
    value = known.value.astype(known.dtype.numpy)
    new = {n: n for n in range(count)} | {count + place: count}
    for number in range(len(program.calls)):
        if number != place:
            new[count + number] = count + number + (number < place)
    result = Program([*program.inputs, value])
    for number, (call, dtype) in enumerate(zip(program.calls, program.dtypes, strict=True)):
        if number != place:
            result.calls.append(call.renumbered(new))
            result.dtypes.append(dtype)
    result.outputs = [new[number] for number in program.outputs]
    return result.needed(result.outputs)


def as_text(program: Program) -> str:
    """Return a program of Python that prints what the outputs are, and what they should be."""
    lines = ["import base64, zlib", "import numpy as np, zyx, zyx.nn.functional as F"]
    lines += [f"t{number} = {_input(array)}" for number, array in enumerate(program.inputs)]
    lines += [f"t{len(program.inputs) + number} = {text}" for number, text in enumerate(program.texts())]
    known = program.known()
    for number in program.outputs:
        wanted = np.array2string(known[number].value.ravel()[:8], precision=7, separator=", ", threshold=8)
        lines.append(f"print(t{number}.numpy().ravel()[:8])  # {' '.join(wanted.split())}")
    return "\n".join(lines)


def _input(array: Array) -> str:
    name = array.dtype.name
    if array.size <= _FEW:
        return f"zyx.Tensor(np.array({array.astype(np.float64).tolist() if name == 'bfloat16' else array.tolist()})" + (
            f".reshape({array.shape}), dtype='{name}')"
        )
    data = base64.b85encode(zlib.compress(array.tobytes(), 9)).decode()
    stored = "uint16" if name == "bfloat16" else name
    text = f"np.frombuffer(zlib.decompress(base64.b85decode({data!r})), '{stored}').reshape({array.shape})"
    return f"zyx.Tensor({text})" + (".bitcast('bfloat16')" if stored != name else "")
