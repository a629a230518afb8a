"""Count what docstrings of public functions and classes lack: an example, shapes, errors.

``python docs/docstrings.py`` prints how many lack each; with ``example``, ``shape`` or ``error`` it prints their names.
An example is a line at a prompt, run by zyx-core/tests/test_docstrings.py, or the file of a hook, run by
zyx-core/tests/plugins/test_hookspecs.py. Words that tell of shapes are looked for, and a section ``Raises``. What
cannot have one of them does not lack it; `is_without` has the rules, and `REFUSES_NOTHING` ten names.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
import sys
from typing import Any, Final

import api_pages

import zyx

#: What a docstring has that has each.
PATTERNS: Final = {
    "example": re.compile(r"^\s*>>> |^Example::$", re.MULTILINE),
    "shape": re.compile(r"[Ss]hape|\baxis\b|\baxes\b|\(\.\.\.|\([NCLT], |\brank\b|matri|\bvectors?\b|[Ee]lement"),
    "error": re.compile(r"^\s*Raises:$", re.MULTILINE),
}
#: What refuses nothing that it is given, and why.
REFUSES_NOTHING: Final = {
    "zyx.backend.PoolBuffer": "keeps what it is given, for backends to derive from",
    "zyx.backend.Program": "keeps what it is given, for backends to derive from",
    "zyx.data.SequentialSampler": "keeps what it is given, of which `len` is asked",
    "zyx.errors.locate": "does nothing with an error that names no device",
    "zyx.is_tensor": "anything may be asked about",
    "zyx.nn.Identity": "gives back what it is given",
    "zyx.random.RandomNumbers": "keeps what it is given; its methods say what they raise",
    "zyx.tree.flatten": "anything is a tree",
    "zyx.tree.leaves": "anything is a tree",
    "zyx.tree.structure": "anything is a tree",
}
#: What has a shape, in the text of annotations.
SHAPED: Final = re.compile(r"\b(Tensor|Operand|Array|ArrayLike|Parameter|Params)\b")


def is_interface(thing: Any) -> bool:  # noqa: ANN401  # whatever is public
    """Tell whether a class is one that others implement, and nobody makes an object of."""
    return inspect.isclass(thing) and (inspect.isabstract(thing) or getattr(thing, "_is_protocol", False))


def is_record(thing: Any) -> bool:  # noqa: ANN401  # whatever is public
    """Tell whether a class only holds what it is given, or names choices: Python's own errors are all that it has."""
    if not inspect.isclass(thing) or hasattr(thing, "__post_init__"):
        return False
    is_struct = hasattr(thing, "__struct_fields__")
    return dataclasses.is_dataclass(thing) or is_struct or hasattr(thing, "_fields") or issubclass(thing, enum.Enum)


def annotations(thing: Any) -> str:  # noqa: ANN401  # whatever is public
    """Return the text of what a function takes and gives; of a class, its constructor, fields and own methods."""
    if not inspect.isclass(thing):
        return str(inspect.signature(thing))
    names = [name for name in vars(thing) if not name.startswith("_") or name in ("__init__", "__call__")]
    methods = [getattr(thing, name) for name in names]
    return f"{inspect.get_annotations(thing)}" + "".join(
        str(inspect.signature(method)) for method in methods if inspect.isfunction(method)
    )


def is_without(kind: str, thing: Any) -> bool:  # noqa: ANN401  # whatever is public
    """Tell whether something cannot have an example, shapes or errors.

    - An interface has neither an example nor errors of its own: its methods say what they raise, and whoever writes a
      backend finds whole ones in the guides.
    - What neither takes nor gives tensors or arrays has no shapes; and of schedules, `zyx.optim.Schedule` says them.
    - A record, and a function that takes nothing but flags, are given nothing that they could refuse.
    """
    match kind:
        case "example":
            return is_interface(thing)
        case "shape":
            is_schedule = inspect.isclass(thing) and issubclass(thing, zyx.optim.Schedule)
            return is_schedule or not SHAPED.search(annotations(thing))
        case _:
            taken = inspect.signature(thing).parameters.values() if inspect.isfunction(thing) else ()
            is_plain = inspect.isfunction(thing) and all(each.annotation == "bool" for each in taken)
            return is_interface(thing) or is_record(thing) or is_plain


def things() -> dict[str, Any]:
    """Return all public functions and classes, each once, by the first name that it has; none of other packages."""
    found: dict[int, tuple[str, Any]] = {}
    for page in api_pages.PAGES:
        for name in api_pages.names_on(page):
            thing = api_pages.thing(page.module, name)
            is_error = inspect.isclass(thing) and issubclass(thing, BaseException)
            is_ours = getattr(thing, "__module__", "").partition(".")[0] == "zyx"
            if callable(thing) and is_ours and not isinstance(thing, api_pages.DType) and not is_error:
                found.setdefault(id(thing), (f"{page.module}.{name}", thing))
    return dict(found.values())


def lacking(kind: str) -> list[str]:
    """Return the names whose docstrings lack an ``example``, a ``shape`` or an ``error``."""
    return sorted(
        name
        for name, thing in things().items()
        if not PATTERNS[kind].search(inspect.getdoc(thing) or "")
        and not is_without(kind, thing)
        and not (kind == "error" and name in REFUSES_NOTHING)
    )


def main(kinds: list[str]) -> int:
    """Print counts, or the names of what lacks one of `kinds`."""
    for kind in kinds:
        print("\n".join(lacking(kind)))
    if not kinds:
        count = len(things())
        print(
            "\n".join(f"of {count} public functions and classes {len(lacking(kind))} lack {kind}" for kind in PATTERNS)
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
