"""Find the rule of `zyx.passes.simplify` that makes a kernel wrong: the first call of one after which it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zyx.kernel.text import print_op
from zyx.passes.simplify import simplify

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.backend.info import DeviceInfo
    from zyx.kernel.data import Kernel, Op, ValueId
    from zyx.passes.algebra.simplifier import Simplifier
    from zyx.passes.simplify import Rule


class _Limit:
    """Lets the first calls of rules apply, up to a number; later ones find nothing.

    Attributes:
        calls: How many there were.
        said: What the last one that was let did.
    """

    def __init__(self, most: int | None) -> None:
        self._most = most
        self.calls = 0
        self.said = ""

    def around(self, rule: Rule) -> Rule:
        """Return what is called in place of a rule."""

        def limited(simplifier: Simplifier, op: Op) -> ValueId | None:
            self.calls += 1
            number = self.calls
            if self._most is not None and number > self._most:
                return None
            found = rule(simplifier, op)
            if number == self._most:
                self.said = _in_words(rule, op, found, simplifier)
            return found

        return limited


def first_rule(kernel: Kernel, info: DeviceInfo, is_wrong: Callable[[Kernel], bool]) -> str:
    """Return a line that names the first rule that makes the kernel wrong, and the operation it was given.

    Args:
        kernel: One that is right, and of which `simplify` makes one that is wrong.
        info: Of the device.
        is_wrong: Whether a kernel is.
    """
    counting = _Limit(None)
    simplify(kernel, info, counting.around)
    right, wrong = 0, counting.calls
    if is_wrong(simplify(kernel, info, _Limit(0).around)):
        return "it is wrong without any of its rules, too: what it does to all operations alike is"
    while wrong - right > 1:
        half = (right + wrong) // 2
        if is_wrong(simplify(kernel, info, _Limit(half).around)):
            wrong = half
        else:
            right = half
    last = _Limit(wrong)
    simplify(kernel, info, last.around)
    return f"by {last.said}"


def _in_words(rule: Any, op: Op, found: ValueId | None, simplifier: Simplifier) -> str:  # noqa: ANN401  # a function or a method
    """Return the module and the name of a rule, what it was given, and what it made of that."""
    name = f"{rule.__module__.removeprefix('zyx.')}.{rule.__qualname__}"
    given = print_op(len(simplifier.ops), op).partition(" = ")[2] or print_op(0, op)
    if found is None or not 0 <= found < len(simplifier.ops):
        return f"the rule {name}: {given}"
    return f"the rule {name}: {given} => {print_op(found, simplifier.ops[found])}"
