"""Docstrings: there, whole, and about what is there."""

import ast
import builtins
import doctest
import importlib
import inspect
import itertools
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import zyx

SOURCE = Path(zyx.__file__).parent
MODULES = ["zyx", "zyx.nn", "zyx.nn.functional", "zyx.optim", "zyx.io", "zyx.errors", "zyx.tree"]
FOLDERS = sorted({path.parent.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py")})
#: Shorter lines than this, of which the next one would have had room for a word, were broken by accident.
TORN = 72


def public_things():
    """Yield the name and the object of every public class, function and method, with the class it is of."""
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")]):
            thing = getattr(module, name)
            if inspect.ismodule(thing) or not callable(thing) or not thing.__module__.startswith("zyx"):
                continue
            yield f"{module_name}.{name}", thing, None
            if inspect.isclass(thing):
                for key, value in vars(thing).items():
                    method = next(
                        (getattr(value, at) for at in ("__func__", "fget", "func") if hasattr(value, at)), value
                    )
                    if not key.startswith("_") and inspect.isfunction(method):
                        yield f"{module_name}.{name}.{key}", method, thing


zyx.Tensor(0.0).float()  # what tensors have by habit comes with its first use
THINGS = list(public_things())


def test_there_are_many():
    assert len(THINGS) > 700


@pytest.mark.parametrize("module_name", MODULES)
def test_every_public_thing_says_what_it_does_in_a_sentence(module_name):
    for name, thing, owner in THINGS:
        if name.rpartition(".")[0] not in (module_name, f"{module_name}.{owner.__name__}" if owner else ""):
            continue
        text = thing.__doc__ or (inspect.getdoc(getattr(owner, name.rpartition(".")[2])) if owner else None)
        assert text, name
        first = text.strip().split("\n\n")[0]
        assert first.rstrip().endswith((".", ":")), (name, first)
        assert first[0].isupper() or first[0] in "`'\"", (name, first)


@cache
def nodes_of(folder):
    """Return the modules, classes and functions with a docstring, of the files in a folder."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted((SOURCE / folder).glob("*.py"))]
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef
    return [node for tree in trees for node in ast.walk(tree) if isinstance(node, kinds) and ast.get_docstring(node)]


def parameters(node):
    """Return the names that a function takes, or the constructor of a class."""
    if isinstance(node, ast.Module):
        return set()
    if isinstance(node, ast.ClassDef):
        made = [child for child in node.body if isinstance(child, ast.FunctionDef) and child.name == "__init__"]
        if not made:
            return {child.target.id for child in node.body if isinstance(child, ast.AnnAssign)}
        node = made[0]
    given = node.args
    return {
        each.arg for each in [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg] if each
    }


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_docstring_is_whole_and_names_arguments_that_there_are(folder):
    for node in nodes_of(folder):
        text = ast.get_docstring(node)
        assert not re.search(r"\b(TODO|FIXME|XXX|TBD)\b", text), text
        section = re.search(r"^Args:\n((?:    .*\n?|\n)*)", text, re.MULTILINE)
        lists = re.findall(r"^    ([\w*, ]+):", section[1], re.MULTILINE) if section else []
        named = {name for each in lists for name in re.findall(r"\w+", each)}
        assert named <= parameters(node), text


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_docstring_was_torn_in_the_middle_of_a_sentence(folder):
    for node in nodes_of(folder):
        lines = (ast.get_docstring(node) or "").split("\n")[1:]
        for line, following in itertools.pairwise(lines):
            is_prose = re.fullmatch(r"(  )?[^\s|>*].*[^\s:.]", line) and not re.search(r"\S {2,}\S| = |\w\(", line)
            if is_prose and re.fullmatch(r"(  )?[a-z`(].*", following) and not re.search(r"\S {2,}\S", following):
                assert len(line) + len(following.split()[0]) >= TORN, (line, following)


def test_what_a_public_docstring_names_is_there():
    """A word in single backticks is an argument, or something that can be found where the docstring stands."""
    for name, thing, owner in THINGS:
        if inspect.isclass(thing) or not thing.__doc__:
            continue
        module = sys.modules[thing.__module__]
        known = {*vars(module), *vars(builtins), *vars(zyx), *dir(zyx.Tensor), *dir(owner)}
        known |= set(inspect.signature(thing).parameters)
        if owner is not None:
            known |= {word for base in owner.__mro__ if base.__doc__ for word in re.findall(r"\w+", base.__doc__)}
            known |= set(inspect.signature(owner).parameters)
        for word in re.findall(r"(?<![`\w.])`([a-z_]\w*)`(?!`)", thing.__doc__):
            assert word in known or hasattr(zyx.nn.functional, word), (name, word)


#: Public modules of which the examples run, beside those whose docstrings are looked at above.
WITH_EXAMPLES = [
    *MODULES, "zyx.amp", "zyx.autograd", "zyx.backend", "zyx.compute", "zyx.cuda", "zyx.data", "zyx.fft",
    "zyx.hookspecs", "zyx.jit", "zyx.linalg", "zyx.nn.init", "zyx.nn.utils", "zyx.optim.lr_scheduler", "zyx.quantize",
    "zyx.settings.record", "zyx.utils",
]  # fmt: skip


@pytest.mark.parametrize("module_name", WITH_EXAMPLES)
def test_examples_at_a_prompt_give_what_they_show(module_name):
    module = sys.modules[module_name] if module_name == "zyx.jit" else importlib.import_module(module_name)
    finder, runner = doctest.DocTestFinder(exclude_empty=True), doctest.DocTestRunner()
    for name in getattr(module, "__all__", vars(module)):
        thing = getattr(module, name)
        if not inspect.ismodule(thing) and callable(thing):
            for test in finder.find(thing, f"{module_name}.{name}", globs={"zyx": zyx}):
                if "zyx.close()" not in test.docstring:
                    runner.run(test)
                else:  # the devices of this process, in which tensors of other tests lie, stay open
                    code = f"import doctest, zyx; doctest.run_docstring_examples({test.name}, {{'zyx': zyx}})"
                    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60)
                    assert done.stdout == b""
    assert runner.failures == 0
