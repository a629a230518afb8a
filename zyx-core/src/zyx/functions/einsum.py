"""Sums of products in Einstein's notation, ``einsum("bij,bjk->bik", x, y)``.

Operands are combined from left to right; a letter is summed over as soon as no later operand has it, so each step is a
matrix product at most. Dtypes are those of `zyx.functions.linalg`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.errors import ShapeError
from zyx.functions.linalg import factors
from zyx.functions.movement import diagonal
from zyx.functions.operands import term_of, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.functions import Tensor
    from zyx.functions.operands import Operand
    from zyx.functions.term import Term

__all__ = ["einsum"]

#: What axes are named with; the module `string` costs more than it saves.
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def einsum(subscripts: str, *operands: Operand) -> Tensor:
    """Return sums of products as ``subscripts`` says, such as ``"bij,bjk->bik"``.

    A letter names an axis; one that is not in the result is summed over; one that an operand has twice means its
    diagonal; "..." stands for axes that broadcast. Without "->" the result has the letters that occur once, in order
    of the alphabet.

    Raises:
        ShapeError: Subscripts that cannot be read or do not fit the shapes.

    >>> zyx.einsum("ij,jk->ik", zyx.ones(2, 3), zyx.ones(3, 4)).shape
    (2, 4)
    """
    if not operands:
        raise ShapeError("einsum takes at least one operand")
    like, terms, target = factors(operands, "einsum")
    inputs, output = _parse(subscripts, [len(term.shape) for term in terms])
    sizes: dict[str, int] = {}
    for letters, term in zip(inputs, terms, strict=True):
        for letter, size in zip(letters, term.shape, strict=True):
            if sizes.setdefault(letter, size) != size and 1 not in (size, sizes[letter]):
                raise ShapeError(f"einsum {subscripts!r}: axis {letter!r} has sizes {sizes[letter]} and {size}")
            sizes[letter] = max(sizes[letter], size) if size and sizes[letter] else 0
    pairs = [_diagonals(letters, term, like) for letters, term in zip(inputs, terms, strict=True)]
    letters, result = _summed(*pairs[0], keep=set(output).union(*(after for after, _ in pairs[1:])))
    for i, (other_letters, other) in enumerate(pairs[1:], start=1):
        both = letters + "".join(letter for letter in other_letters if letter not in letters)
        result = _laid_out(letters, result, both) * _laid_out(other_letters, other, both)
        letters, result = _summed(both, result, keep=set(output).union(*(after for after, _ in pairs[i + 1 :])))
    result = result.permute([letters.index(letter) for letter in output]).expand([sizes[letter] for letter in output])
    return wrap(result.cast(target).node, like)


def _parse(subscripts: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Return the letters of each operand and of the result; the axes of "..." get capital letters that are free."""
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    inputs = left.split(",")
    if len(inputs) != len(ranks):
        raise ShapeError(f"einsum {subscripts!r} names {len(inputs)} operands, and there are {len(ranks)}")
    free = [letter for letter in reversed(_LETTERS) if letter not in subscripts]
    spelled = []
    longest = ""
    for letters, rank in zip(inputs, ranks, strict=True):
        named = len(letters.replace("...", ""))
        if named > rank or (named < rank and "..." not in letters):
            raise ShapeError(f"einsum {subscripts!r}: {letters!r} does not fit an operand of rank {rank}")
        hidden = "".join(reversed(free[: rank - named])) if "..." in letters else ""
        longest = max(longest, hidden, key=len)
        spelled.append(letters.replace("...", hidden))
    if arrow:
        output = right.replace("...", longest)
    else:
        once = sorted(c for c in set("".join(inputs)) - {"."} if "".join(inputs).count(c) == 1)
        output = longest + "".join(once)
    named_letters = "".join(spelled) + output
    if not all(letter in _LETTERS for letter in named_letters):
        raise ShapeError(f"einsum {subscripts!r}: an axis is a letter")
    if len(set(output)) != len(output) or not set(output) <= set("".join(spelled)):
        raise ShapeError(f"einsum {subscripts!r}: each axis of the result is named once, and is one of an operand")
    return spelled, output


def _diagonals(letters: str, term: Term, like: Tensor) -> tuple[str, Term]:
    """Return the operand without repeated letters, each pair of which means a diagonal."""
    while len(set(letters)) != len(letters):
        letter = next(c for c in letters if letters.count(c) > 1)
        first, second = letters.index(letter), letters.rindex(letter)
        if term.shape[first] != term.shape[second]:
            raise ShapeError(f"einsum: axis {letter!r} has sizes {term.shape[first]} and {term.shape[second]}")
        term = term_of(diagonal(wrap(term.node, like), 0, first, second), "einsum")
        letters = "".join(c for i, c in enumerate(letters) if i not in (first, second)) + letter
    return letters, term


def _summed(letters: str, term: Term, keep: set[str]) -> tuple[str, Term]:
    """Return the operand summed over the letters that nothing needs any more."""
    gone = [i for i, letter in enumerate(letters) if letter not in keep]
    if not gone:
        return letters, term
    rest = [i for i in range(len(letters)) if i not in gone]
    return "".join(letters[i] for i in rest), term.sum(gone).reshape([term.shape[i] for i in rest])


def _laid_out(letters: str, term: Term, wanted: str) -> Term:
    """Return the operand with axes in the order of `wanted`, of size 1 where it has none."""
    ordered = term.permute(sorted(range(len(letters)), key=lambda i: wanted.index(letters[i])))
    sizes = {letter: term.shape[i] for i, letter in enumerate(letters)}
    return ordered.reshape([sizes.get(letter, 1) for letter in wanted])
