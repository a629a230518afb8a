"""Hold functions beside PyTorch's of the same name, on the samples that PyTorch tests its own with.

    python tests/opinfo.py        all of tests/opinfo.txt; exits with 1 if another set differs than it says
    python tests/opinfo.py sum nn.functional.pad --samples 20 --verbose
    python tests/opinfo.py --vmap            each under zyx.vmap, of two examples, beside a loop over these

Of each function the first samples in float32 are computed forward, and backward where PyTorch has a gradient: of the
sum of the results times fixed random numbers; where gradients differ, those of PyTorch in float64 decide. A function
counts as right if all of its samples agree, those of all variants that PyTorch's database has of it; samples that
PyTorch itself refuses count for nothing. What draws random numbers is compared by shape. It needs PyTorch 2.13 and
`expecttest`, which its samples import.

`tests/opinfo.txt` lists the functions: a name a line, and after it, if there is a difference, its reason.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import inspect
import itertools
import sys
import warnings
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

warnings.simplefilter("ignore")  # PyTorch's samples are made with many

import torch  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

import zyx  # noqa: E402

LIST: Final = Path(__file__).with_name("opinfo.txt")
#: Greatest differences, relative to the greatest value of a result and absolute.
RELATIVE, ABSOLUTE = 2e-5, 1e-5
#: Whose values are drawn, or never written.
DRAWN: Final = {
    "bernoulli", "empty", "empty_like", "multinomial", "nn.functional.dropout", "nn.functional.dropout2d", "normal",
    "rand_like", "randint", "randint_like", "randn", "randn_like", "uniform", "nn.functional.alpha_dropout",
    "nn.functional.gumbel_softmax", "randperm", "nn.functional.dropout3d", "nn.functional.rrelu",
    "nn.functional.feature_alpha_dropout", "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d", "new_empty",
}  # fmt: skip


#: How PyTorch's samples give what its functions take otherwise, or what they call around them.
ORDERED: Final[dict[str, Any]] = {
    "where": lambda function: lambda x, condition, other: function(condition, x, other),
    "einsum": lambda function: lambda tensors, equation: function(equation, *tensors),
    "uniform": lambda function: lambda x, low=0.0, high=1.0: function(*x.shape, low=low, high=high),
    "normal in_place": lambda function: lambda x, mean=0.0, std=1.0: function(x.shape, mean=mean, std=std),
    "linalg.pinv singular": lambda function: lambda a, b: function(a @ b.mT),
    "nn.functional.embedding": lambda function: lambda weight, index, **rest: function(index, weight, **rest),
    "nn.functional.embedding_bag": lambda function: lambda weight, index, **rest: function(index, weight, **rest),
}


#: Functions that are not mapped over examples by `zyx.vmap`, with the reason.
UNMAPPED: Final = {
    "allclose": "returns a bool, for which it reads the values",
    "item": "reads the value",
    "linspace": "reads the bounds, which are numbers",
    "masked_select": "its shape depends on the values",
    "narrow": "reads the start, which is a number",
    "nonzero": "its shape depends on the values",
}


class Outcome(NamedTuple):
    """What became of one sample: `kind` is "right", "refused" or "different"."""

    kind: str
    text: str = ""


def function_of(name: str) -> Any:
    """Return the function that zyx has under the name of PyTorch's, or None."""
    found: Any = zyx
    for part in name.split("."):
        found = getattr(found, part, None)
    if callable(found) and not inspect.ismodule(found):
        return found
    if "." in name:
        return None
    getattr(zyx.zeros(1, 1), name, None)  # what tensors have by habit comes with its first use
    method = getattr(zyx.Tensor, name, None)
    if isinstance(method, property):
        return method.fget
    if name.endswith("_") and method is None and hasattr(zyx.zeros(1, 1), name):
        return lambda x, *args, **keywords: getattr(x, name)(*args, **keywords)
    return method if callable(method) else None


def converted(value: Any, leaves: list[tuple[Any, Any]]) -> Any:
    """Return what PyTorch's functions take as what ours take; tensors that want gradients are put into `leaves`."""
    if isinstance(value, torch.Tensor):
        ours = zyx.Tensor(value.detach().resolve_conj().resolve_neg().numpy(force=True))
        if value.requires_grad:
            leaves.append((value, ours))
        return ours
    if isinstance(value, torch.dtype):
        return getattr(zyx, str(value).removeprefix("torch."))
    if isinstance(value, torch.device):
        return "cpu"
    if isinstance(value, tuple | list):
        made = [converted(item, leaves) for item in value]
        return made if isinstance(value, list) else tuple(made)
    return value


def flat(value: Any) -> list[Any]:
    """Return the tensors and numbers in nested tuples."""
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in flat(item)]
    return [] if value is None else [value]


def array(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        value = value.detach().resolve_conj().resolve_neg()
        return (value.float() if value.dtype is torch.bfloat16 else value).numpy(force=True)
    if isinstance(value, zyx.Tensor):
        return value.numpy()
    return np.asarray(value)


def difference(what: str, found: Any, wanted: Any, *, values: bool = True) -> str:
    """Return how two results differ, or nothing."""
    found, wanted = array(found), array(wanted)
    if found.shape != wanted.shape:
        return f"{what}: shape {found.shape}, not {wanted.shape}"
    if not values or not wanted.size:
        return ""
    wide = np.complex128 if np.iscomplexobj(wanted) or np.iscomplexobj(found) else np.float64
    found, wanted = found.astype(wide), wanted.astype(wide)
    finite = np.abs(wanted[np.isfinite(wanted)])
    scale = float(finite.max(initial=0.0))
    if np.allclose(found, wanted, rtol=RELATIVE, atol=ABSOLUTE + RELATIVE * scale, equal_nan=True):
        return ""
    with np.errstate(all="ignore"):
        worst = np.unravel_index(np.nanargmax(np.nan_to_num(np.abs(found - wanted), nan=np.inf)), wanted.shape)
    return f"{what}: {found[worst]:.6g}, not {wanted[worst]:.6g}"


def weighed(outputs: list[Any], results: list[Any]) -> Any:
    """Return the sum of `outputs` times drawn numbers, of those that have gradients in PyTorch's `results`; or None."""
    total = None
    for output, result in zip(outputs, results, strict=False):
        if isinstance(result, torch.Tensor) and result.requires_grad and tuple(output.shape) == tuple(result.shape):
            drawn = np.random.default_rng(result.ndim).uniform(0.5, 1.5, tuple(result.shape))
            drawn = drawn.astype(array(result).dtype)
            product = output * (torch.from_numpy(drawn) if output is result else zyx.Tensor(drawn))
            part = (product.real if "complex" in str(product.dtype) else product).sum()
            total = part if total is None else total + part
    return total


def outcome(op: Any, function: Any, sample: Any) -> Outcome:
    """Compute a sample with both."""
    leaves: list[tuple[Any, Any]] = []
    function = ORDERED.get(f"{op.name} {op.variant_test_name}".strip(), lambda function: function)(function)
    given = [converted(item, leaves) for item in (sample.input, *sample.args)]
    options = {name: converted(item, leaves) for name, item in sample.kwargs.items()}
    try:
        wanted = op(sample.input, *sample.args, **sample.kwargs)
    except Exception as error:  # noqa: BLE001  # PyTorch's: any error
        return Outcome("none", f"PyTorch refuses: {error}")
    results = flat(wanted)
    is_drawn = op.name in DRAWN or sample.kwargs.get("dropout_p", 0.0) > 0.0
    try:
        tape = zyx.Tape()
        with tape:
            found = function(*given, **options)
            loss = weighed(flat(found), results)
        outputs = flat(found)
        if len(outputs) != len(results):
            return Outcome("different", f"{len(outputs)} results, not {len(results)}")
        for place, (mine, theirs) in enumerate(zip(outputs, results, strict=True)):
            text = difference(f"result {place}", mine, theirs, values=not is_drawn)
            if text:
                return Outcome("different", text)
        if is_drawn:
            return Outcome("right")
        return gradients(op, sample, tape, loss, leaves, results)
    except Exception as error:  # noqa: BLE001  # any error of ours is a difference
        line = str(error).strip().splitlines() or [""]
        return Outcome("refused", f"{type(error).__name__}: {line[0][:150]}")


def mapped(op: Any, function: Any, sample: Any) -> Outcome:
    """Compute two examples, the sample and it with its floats halved, under `zyx.vmap` and one after the other."""
    function = ORDERED.get(f"{op.name} {op.variant_test_name}".strip(), lambda function: function)(function)
    given = [converted(item, []) for item in (sample.input, *sample.args)]
    options = {name: converted(item, []) for name, item in sample.kwargs.items()}
    tensors = [leaf for leaf in flat([given, list(options.values())]) if isinstance(leaf, zyx.Tensor)]
    others = [x * 0.5 if x.dtype.is_inexact else x for x in tensors]

    def of_one(*tensors: zyx.Tensor) -> list[zyx.Tensor]:
        following = iter(tensors)
        args, keywords = put_in(given, following), {name: put_in(item, following) for name, item in options.items()}
        return [leaf for leaf in flat(function(*args, **keywords)) if isinstance(leaf, zyx.Tensor)]

    is_drawn = op.name in DRAWN or sample.kwargs.get("dropout_p", 0.0) > 0.0
    try:
        wanted = [of_one(*example) for example in (tensors, others)]
    except Exception as error:  # noqa: BLE001  # it is for the others to say
        return Outcome("right", f"refused without vmap: {error}")
    try:
        count = None if tensors else 2
        found = zyx.vmap(of_one, axis_size=count)(*[zyx.stack(pair) for pair in zip(tensors, others, strict=True)])
        for place, results in enumerate(found):
            for example in range(2):
                what = f"result {place} of example {example}"
                text = difference(what, results[example], wanted[example][place], values=not is_drawn)
                if text:
                    return Outcome("different", text)
    except Exception as error:  # noqa: BLE001  # any error of ours is a difference
        line = str(error).strip().splitlines() or [""]
        return Outcome("refused", f"{type(error).__name__}: {line[0][:150]}")
    return Outcome("right")


def put_in(value: Any, tensors: Any) -> Any:
    """Return `value` with the following ones in place of its tensors."""
    if isinstance(value, tuple | list):
        made = [put_in(item, tensors) for item in value]
        return made if isinstance(value, list) else tuple(made)
    return next(tensors) if isinstance(value, zyx.Tensor) else value


def precise(op: Any, sample: Any, leaves: list[tuple[Any, Any]]) -> list[Any]:
    """Return PyTorch's gradients of a sample in float64."""
    doubles: dict[int, Any] = {}

    def double(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            made = value.detach().double() if value.is_floating_point() else value.detach()
            doubles[id(value)] = made.requires_grad_(value.requires_grad)
            return made
        if isinstance(value, list | tuple):
            return type(value)(map(double, value)) if type(value) in (list, tuple) else value
        return value

    given = [double(value) for value in (sample.input, *sample.args)]
    results = flat(op(given[0], *given[1:], **{name: double(value) for name, value in sample.kwargs.items()}))
    inputs = [doubles[id(leaf)] for leaf, _ in leaves]
    return list(torch.autograd.grad(weighed(results, results), inputs, allow_unused=True))


def gradients(op: Any, sample: Any, tape: Any, loss: Any, leaves: list[tuple[Any, Any]], results: list[Any]) -> Outcome:
    """Compare the gradients in what PyTorch's sample wants them in."""
    if loss is None or not leaves:
        return Outcome("right")
    try:
        wanted = torch.autograd.grad(weighed(results, results), [leaf for leaf, _ in leaves], allow_unused=True)
    except RuntimeError:  # PyTorch has none
        return Outcome("right")
    found = tape.gradient(loss, [ours for _, ours in leaves])
    for place, (mine, theirs) in enumerate(zip(found, wanted, strict=True)):
        text = difference(f"gradient {place}", mine, torch.zeros(mine.shape) if theirs is None else theirs)
        if text:  # it may be PyTorch's rounding
            with contextlib.suppress(RuntimeError):
                exact = precise(op, sample, leaves)[place]
                if exact is not None and not difference(f"gradient {place}", mine, exact):
                    continue
            return Outcome("different", text)
    return Outcome("right")


def samples(op: Any, count: int) -> Any:
    torch.manual_seed(0)
    differentiable = op.supports_dtype(torch.float32, "cpu") and op.supports_autograd
    if not op.supports_dtype(torch.float32, "cpu"):
        return
    yield from itertools.islice(op.sample_inputs("cpu", torch.float32, requires_grad=differentiable), count)


#: What begins the names that were added to the list later.
SINCE: Final = "# ---- added since"


def listed(*, first: bool = False) -> dict[str, str]:
    """Return the names of the list, or of its first part, and the reason of a difference where there is one."""
    text = LIST.read_text(encoding="utf-8")
    lines = (text.partition(SINCE)[0] if first else text).splitlines()
    pairs = [line.partition("#")[0].rstrip().partition(" ") for line in lines if line and not line.startswith("#")]
    return {name: reason.strip() for name, _, reason in pairs}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="functions, instead of those of the list")
    parser.add_argument("--samples", type=int, default=6)
    parser.add_argument("--verbose", action="store_true", help="print each outcome that is not right")
    parser.add_argument("--part", default="0/1", help="of the list, such as 1/2")
    parser.add_argument("--vmap", action="store_true", help="compare zyx.vmap with a loop, not zyx with PyTorch")
    given = parser.parse_args()
    known = listed()
    compared = mapped if given.vmap else outcome
    part, parts = map(int, given.part.split("/"))
    names = given.names or list(known)[part::parts]
    by_name = collections.defaultdict(list)
    for op in op_db:
        for name in (op.name, *(alias.name for alias in op.aliases)):
            if name in names:
                by_name[name].append(op)
    counts: collections.Counter[str] = collections.Counter()
    bad: set[tuple[str, str]] = set()
    unlike: dict[str, Outcome] = {}
    for name in names:
        function = function_of(name)
        for op in by_name[name]:
            for place, sample in enumerate(samples(op, given.samples)):
                found = Outcome("missing") if function is None else compared(op, function, sample)
                counts[found.kind] += 1
                if found.kind not in ("right", "none"):
                    bad.add((op.name, op.variant_test_name))
                    if given.verbose:
                        print(f"  {name} {op.variant_test_name} [{place}] {found.kind}: {found.text}", flush=True)
                    unlike.setdefault(name, found)
    if given.vmap:
        known = {name: UNMAPPED.get(name, "") for name in names}
    print(f"{len(names) - len(unlike)} of {len(names)} functions right; samples: {dict(counts)}")
    if not given.names and parts == 1:
        early = listed(first=True)
        entries = {(op.name, op.variant_test_name) for name in early for op in by_name[name]}
        right = len(early.keys() - unlike.keys())
        print(
            f"of those at c5998d3: {right} of {len(early)} functions, {len(entries - bad)} of the {len(entries)} "
            "entries of PyTorch's database that are theirs"
        )
    for kind in ("missing", "refused", "different"):
        rows = {name: found for name, found in unlike.items() if found.kind == kind}
        print(f"\n{kind}: {len(rows)}")
        for name, found in rows.items():
            print(f"  {name}: {found.text}" + (f"  [{known[name]}]" if known.get(name) else ""))
    unexplained = [name for name in unlike if not known.get(name)]
    mended = [name for name in names if known.get(name) and name not in unlike]
    print(f"\nwithout a reason: {' '.join(unexplained) or 'none'}; with one, and right: {' '.join(mended) or 'none'}")
    return 1 if unexplained or mended else 0


if __name__ == "__main__":
    sys.exit(main())
