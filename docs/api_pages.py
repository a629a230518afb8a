"""The pages of the reference: every public name of zyx, by the module that it comes from.

Sphinx's autodoc writes what is on them, from docstrings. This file says which page a name is on, and is asked for it by
``conf.py``, which writes the pages, and by the tests. A public name that is on no page is an error.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import zyx
from zyx.dtype import DType, Kind
from zyx.tensor import habits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Page(NamedTuple):
    """One page.

    Attributes:
        file: Its name, without the ending.
        title: Its heading.
        module: The module whose names it has.
        homes: Of `zyx`: the modules that the names come from, which are below it. Elsewhere empty: all names.
    """

    file: str
    title: str
    module: str
    homes: tuple[str, ...] = ()


PAGES: Final = (
    Page("tensor", "Tensor", "zyx", ("tensor.tensor",)),
    Page("dtypes", "Element types and constants", "zyx", ("dtype", "constants")),
    Page(
        "creation", "Making tensors", "zyx",
        ("tensor.creation", "tensor.ranges", "tensor.by_index", "tensor.weights"),
    ),
    Page("random", "Random numbers", "zyx", ("tensor.random", "tensor.generator")),
    Page("arithmetic", "Arithmetic and comparison", "zyx", ("functions.arithmetic", "functions.logic")),
    Page(
        "elementwise", "Functions of elements", "zyx",
        ("functions.elementwise", "functions.transcendental", "functions.special", "functions.parts"),
    ),
    Page("complex", "Complex numbers", "zyx", ("functions.complex_numbers",)),
    Page("activations", "Activations", "zyx", ("functions.activations",)),
    Page(
        "reductions", "Reductions and statistics", "zyx",
        ("functions.reduction", "functions.cumulative", "functions.nan_reductions",
         "functions.statistics", "functions.counting"),
    ),
    Page(
        "shapes", "Shapes and order", "zyx",
        ("functions.movement", "functions.joining", "functions.rearranging", "functions.stacking"),
    ),
    Page(
        "choosing", "Choosing, indexing, assigning", "zyx",
        ("functions.choosing", "functions.selection", "functions.updates"),
    ),
    Page("sorting", "Sorting and sets", "zyx", ("functions.sorting", "functions.sets")),
    Page(
        "products", "Products, polynomials, signals", "zyx",
        ("functions.linalg", "functions.einsum", "functions.signals", "functions.polynomials", "linalg.fitting",
         "fft.short_time"),
    ),
    Page("convolution", "Convolution and pooling", "zyx", ("functions.conv", "functions.pooling")),
    Page("losses", "Losses", "zyx", ("functions.losses",)),
    Page(
        "gradients", "Gradients and transformations", "zyx",
        ("autograd.tape", "autograd.transform", "autograd.custom", "autograd.switches", "functions.derivatives",
         "functions.mapping"),
    ),
    Page("jit", "Traced functions", "zyx", ("jit.function", "jit.dims")),
    Page("devices", "Devices and settings", "zyx", ("tensor.devices",)),
    Page("control", "Profiles, plans, tuning, memory", "zyx", ("tensor.control",)),
    Page(
        "dtype-rules",
        "Promotion and precision",
        "zyx",
        ("functions.info", "functions.operands", "modes", "tensor.autocast"),
    ),
    Page("files", "Loading and saving", "zyx", ("io.files",)),
    Page("io", "zyx.io", "zyx.io"),
    Page("nn", "zyx.nn", "zyx.nn"),
    Page("nn-functional", "zyx.nn.functional", "zyx.nn.functional"),
    Page("nn-init", "zyx.nn.init", "zyx.nn.init"),
    Page("nn-utils", "zyx.nn.utils", "zyx.nn.utils"),
    Page("optim", "zyx.optim", "zyx.optim"),
    Page("lr-scheduler", "zyx.optim.lr_scheduler", "zyx.optim.lr_scheduler"),
    Page("data", "zyx.data", "zyx.data"),
    Page("distributed", "zyx.distributed", "zyx.distributed"),
    Page("sharding", "Tensors in parts", "zyx", ("distributed.sharding",)),
    Page("linalg", "zyx.linalg", "zyx.linalg"),
    Page("fft", "zyx.fft", "zyx.fft"),
    Page("quantize", "zyx.quantize", "zyx.quantize"),
    Page("compute", "zyx.compute", "zyx.compute"),
    Page("amp", "zyx.amp", "zyx.amp"),
    Page("cuda", "zyx.cuda", "zyx.cuda"),
    Page("numpy-random", "zyx.random", "zyx.random"),
    Page("tree", "zyx.tree", "zyx.tree"),
    Page("utils", "zyx.utils", "zyx.utils"),
    Page("settings", "The record of settings", "zyx.settings.record"),
    Page("errors", "zyx.errors", "zyx.errors"),
    Page("hookspecs", "zyx.hookspecs", "zyx.hookspecs"),
    Page("backend", "zyx.backend", "zyx.backend"),
)  # fmt: skip


def public_names(module_name: str) -> list[str]:
    """Return the public names of a module: what it lists, or else what it defines."""
    module = importlib.import_module(module_name)
    listed = getattr(module, "__all__", None)
    if listed is None:
        listed = [name for name, thing in vars(module).items() if getattr(thing, "__module__", "") == module_name]
    return sorted((name for name in listed if not name.startswith("_")), key=str.lower)


def home(name: str) -> str:
    """Return the module below `zyx` that a name of `zyx` comes from."""
    thing = getattr(zyx, name)
    if isinstance(thing, DType):
        return "dtype"
    return thing.__module__.removeprefix("zyx.") if callable(thing) else "constants"


def names_on(page: Page) -> list[str]:
    """Return the names that a page has, without their module."""
    names = [name for name in public_names(page.module) if not inspect.ismodule(thing(page.module, name))]
    return [name for name in names if not page.homes or home(name) in page.homes]


def thing(module_name: str, name: str) -> Any:  # noqa: ANN401
    """Return what a module has under a name."""
    return getattr(importlib.import_module(module_name), name)


def all_public_names() -> Iterator[str]:
    """Yield the full name of everything public: of `zyx`, of the modules with a page, and the methods of tensors."""
    for module in dict.fromkeys(page.module for page in PAGES):
        for name in public_names(module):
            if not inspect.ismodule(thing(module, name)):
                yield f"{module}.{name}"
    for name in tensor_members():
        yield f"zyx.Tensor.{name}"


def names_on_no_page() -> list[str]:
    """Return the names of `zyx` that no page has, and the modules of `zyx` without one."""
    on_pages = {name for page in PAGES if page.module == "zyx" for name in names_on(page)}
    names = {name for name in public_names("zyx") if not inspect.ismodule(getattr(zyx, name))}
    modules = {name for name in dir(zyx) if not name.startswith("_") and inspect.ismodule(getattr(zyx, name))}
    imported = {name for name in modules if f"zyx.{name}" in PUBLIC_MODULES}
    with_page = {page.module.removeprefix("zyx.") for page in PAGES}
    return sorted(names - on_pages) + sorted(imported - with_page)


#: Modules of `zyx` that are part of what users write, by what its own docstring lists.
PUBLIC_MODULES: Final = frozenset({"zyx.errors", *(f"zyx.{name}" for name in zyx._MODULES)})


#: What names say that are neither functions, classes nor element types.
DATA: Final = {
    "zyx.c_": "Pieces side by side, as columns: ``zyx.c_[zyx.ones(5), x]``.",
    "zyx.e": "Euler's number.",
    "zyx.inf": "Positive infinity.",
    "zyx.mgrid": "The places of a grid, one plane for each axis: ``zyx.mgrid[0:4, 0:3]``.",
    "zyx.nan": "A float that is no number.",
    "zyx.newaxis": "An axis of length 1, as an index: ``x[:, zyx.newaxis]``.",
    "zyx.ogrid": "The places of a grid, each axis by itself: ``zyx.ogrid[0:4, 0:3]``.",
    "zyx.pi": "The circumference of a circle of diameter 1.",
    "zyx.r_": "Pieces one behind the other: ``zyx.r_[x, 0, 1:4]``.",
    "zyx.amp.TABLE": "What `zyx.autocast` does to which function. ``low``: computed in the short type, with sums in "
    "float32, and giving it. ``float32``: computed in float32 and giving it, at least.",
    "zyx.quantize.GGUF": "The layouts of GGUF files, by name.",
    "zyx.quantize.NAMES": "The names that `zyx.quantize.layout_for` takes; ``n`` stands for the weights of a group.",
    "zyx.hookspecs.API_VERSION": "The same as `zyx.backend.API_VERSION`.",
    "zyx.backend.API_VERSION": "Major and minor version of the interface of backends.",
    "zyx.backend.Argument": "What a program is launched with: a `zyx.backend.PoolBuffer`, or a number.",
    "zyx.backend.STORAGE_ONLY": "The capability of a dtype that a device stores and does not compute.",
}


# ---- the text of a page


def text_of(page: Page) -> str:
    """Return a page in reStructuredText: directives of autodoc, a name each."""
    head = [page.title, "=" * len(page.title), "", f".. py:currentmodule:: {page.module}", ""]
    if page.file == "tensor":
        return "\n".join([*head, *_tensor()])
    if not page.homes:
        head += [f".. automodule:: {page.module}", "   :no-members:", ""]
    names = names_on(page)
    head += [" | ".join(f":py:obj:`{name} <{page.module}.{name}>`" for name in names), ""]
    return "\n".join([*head, *(line for name in names for line in _entry(page.module, name))])


@functools.cache
def _first_names() -> dict[int, str]:
    """Return the name under which each object is on a page first, by its identity."""
    found: dict[int, str] = {}
    for page in PAGES:
        for name in names_on(page):
            found.setdefault(id(thing(page.module, name)), f"{page.module}.{name}")
    return found


def _entry(module: str, name: str) -> list[str]:
    """Return the directive for one name."""
    value = thing(module, name)
    full = f"{module}.{name}"
    if isinstance(value, DType):
        return [f".. py:data:: {name}", "", f"   {_dtype(value)}", ""]
    if not callable(value):
        return [f".. py:data:: {name}", "", f"   {DATA[full]}", ""]
    first = _first_names()[id(value)]
    if first != full:
        kind = "class" if inspect.isclass(value) else "function"
        return [f".. py:{kind}:: {name}", "", f"   The same as :py:obj:`{first}`.", ""]
    if inspect.isclass(value):
        kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
        return [f".. {kind}:: {full}", "   :members:", "   :show-inheritance:", ""]
    return [f".. autofunction:: {full}", ""]


def _dtype(dtype: DType) -> str:
    if dtype.kind is Kind.BOOL:
        return "Truth values, one in a byte."
    if dtype.kind is Kind.COMPLEX:
        return f"Complex numbers of {dtype.bits} bits: two floats of {dtype.bits // 2}."
    if dtype.kind is Kind.FLOAT:
        return f"Floats of {dtype.bits} bits." if dtype.name != "bfloat16" else "Floats of 16 bits, 8 of exponent."
    return f"{'Unsigned integers' if dtype.is_unsigned else 'Integers'} of {dtype.bits} bits."


#: Attributes of tensors that are for zyx itself.
INSIDE: Final = frozenset({"node", "runtime", "tracing"})


def tensor_members() -> list[str]:
    """Return the names that tensors have, those by habit from other libraries with them."""
    own = {name for name in dir(zyx.Tensor) if not name.startswith("_")} - INSIDE
    return sorted(own | habits.METHODS.keys() | set(habits.FUNCTIONS), key=str.lower)


def function_of(member: str) -> tuple[str, Any]:
    """Return the name and the function of `zyx` that a method of tensors is, or an empty name and the method."""
    if member in habits.FUNCTIONS:
        return member, getattr(zyx, member)
    method = inspect.getattr_static(zyx.Tensor, member, habits.METHODS.get(member))
    for name in (member, getattr(method, "__name__", "")):
        if name in zyx.__all__ and getattr(zyx, name) is method:
            return name, method
    return "", method


def _tensor() -> list[str]:
    from sphinx.util.inspect import signature, stringify_signature  # which the tests do without

    lines = [".. autoclass:: zyx.Tensor", ""]
    for name in tensor_members():
        function, method = function_of(name)
        if function:
            given = signature(method)
            given = given.replace(parameters=list(given.parameters.values())[1:])
            lines += [
                f".. py:method:: Tensor.{name}{stringify_signature(given)}",
                "",
                f"   :py:func:`zyx.{function}` of this tensor.",
                "",
            ]
        elif inspect.isroutine(method) or isinstance(method, classmethod | staticmethod):
            lines += [f".. automethod:: zyx.Tensor.{name}", ""]
        else:
            lines += [f".. autoproperty:: zyx.Tensor.{name}", ""]
    return lines


def write_pages(folder: Path) -> None:
    """Write all pages and their index into a folder; files that would be the same stay as they are.

    Raises:
        LookupError: A public name is on no page.
    """
    if lacking := names_on_no_page():
        raise LookupError(f"no page of the reference has {', '.join(lacking)}; docs/api_pages.py says which has what")
    folder.mkdir(parents=True, exist_ok=True)
    zyx.Tensor(0.0).float()  # methods by habit come with the first use of one
    texts = {f"{page.file}.rst": text_of(page) for page in PAGES}
    files = "\n".join(f"   {page.file}" for page in PAGES)
    texts["index.rst"] = f"API\n===\n\n.. toctree::\n   :maxdepth: 1\n\n{files}\n"
    for path in folder.glob("*.rst"):
        if path.name not in texts:
            path.unlink()
    for name, text in texts.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
