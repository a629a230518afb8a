"""Calls as people know them from PyTorch, NumPy and JAX, where the names are others and the meaning is one.

What `zyx.functions.take_habits` wraps comes here when Python has refused a call. `call` brings it into our form by
three tables: `KEYWORDS` for all functions, `OF_FUNCTION` for single ones, and `POSITIONAL` for arguments behind those
that may be given by position. A keyword that would mean one thing here and another there is an error that names both
meanings; one that nobody has is an error that names the nearest. docs/coming-from.md has what differs.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from zyx.errors import ArgumentError
from zyx.functions import arithmetic, pooling
from zyx.integers import spread

if TYPE_CHECKING:
    from collections.abc import Callable

#: The flag of code that takes any number of arguments by position.
_ANY_NUMBER: Final = 0x04
#: Changes a call, given one of its keywords, which it has taken out.
Rule: TypeAlias = "Callable[[TranslatedCall, str, Any], None]"


class TranslatedCall:
    """A call that is being brought into our form.

    Attributes:
        function: What will be called.
        name: Of the function, or of the class that is being made.
        args: Arguments by position.
        keywords: Arguments by name.
        after: What is done to the result.
    """

    __slots__ = ("after", "args", "function", "keywords", "name")

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self.function = function
        self.name = type(args[0]).__name__ if function.__name__ == "__init__" else function.__name__
        self.args = list(args)
        self.keywords = dict(keywords)
        self.after: Callable[[Any], Any] | None = None

    def parameters(self) -> tuple[str, ...]:
        """Return the names of all parameters, those by position first."""
        code = self.function.__code__
        return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

    def refuse(self, text: str) -> NoReturn:
        raise ArgumentError(f"{self.name}: {text}")


def call(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:  # noqa: ANN401
    """Call `function` in our form.

    Raises:
        ArgumentError: An argument that it does not have, in any form; or one that has two meanings.
    """
    made = TranslatedCall(function, args, keywords)
    own = OF_FUNCTION.get(made.name, {})
    if len(made.args) > 1 and type(made.args[1]) is bool and "correction" in made.parameters():
        made.keywords["unbiased"] = made.args.pop(1)
    _spread(made)
    for name in list(made.keywords):
        rule = own.get(name)
        if rule is None and name in made.parameters():
            continue
        rule = rule or KEYWORDS.get(name)
        if rule is None:
            _unknown(made, name, own)
        rule(made, name, made.keywords.pop(name))
    try:
        result = made.function(*made.args, **made.keywords)
    except TypeError as error:
        trace = error.__traceback__
        if trace is not None and trace.tb_next is None:
            raise ArgumentError(str(error)) from None
        raise
    return result if made.after is None else made.after(result)


def given(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], habits: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments that a caller gave to `function`, which found `habits` among them, without the defaults."""
    defaults = function.__defaults__ or ()
    first = function.__code__.co_argcount - len(defaults)
    count = len(args)
    while first < count <= function.__code__.co_argcount and args[count - 1] is defaults[count - 1 - first]:
        count -= 1
    own = function.__kwdefaults__ or {}
    return args[:count], {name: value for name, value in keywords.items() if value is not own.get(name)} | habits


def _spread(made: TranslatedCall) -> None:
    """Give arguments by position that we take by name alone their names."""
    code = made.function.__code__
    most = code.co_argcount
    if code.co_flags & _ANY_NUMBER or len(made.args) <= most:  # it takes any number
        return
    names = POSITIONAL.get(made.name, ())
    extra = made.args[most:]
    if len(extra) > len(names):
        made.refuse(f"{len(made.args)} arguments by position are more than the {most + len(names)} that it has")
    del made.args[most:]
    for name, value in zip(names, extra, strict=False):
        if name == "keepdims" and not isinstance(value, bool):
            made.refuse(f"the argument behind axis is keepdims in PyTorch and dtype in NumPy; {value!r} needs its name")
        if name in made.keywords:
            made.refuse(f"{name} is given twice")
        made.keywords[name] = value


def _unknown(made: TranslatedCall, name: str, own: dict[str, Rule]) -> NoReturn:
    known = [each for each in made.parameters() if not each.startswith("_") and each != "self"]
    others = [each for each in (*own, *KEYWORDS) if each != name]
    near = difflib.get_close_matches(name, known, 1, 0.5) or difflib.get_close_matches(name, others, 1)
    hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(known) or 'none'}"
    made.refuse(f"no argument is called {name}; {hint}")


# ---- rules


def _set(made: TranslatedCall, name: str, own: str, value: Any) -> None:  # noqa: ANN401  # whatever users give
    places = made.parameters()
    if own in made.keywords or own in places[: min(len(made.args), made.function.__code__.co_argcount)]:
        made.refuse(f"{name} is {own}, which is given, too")
    made.keywords[own] = value


def _renamed(*candidates: str) -> Rule:
    """Rule: the keyword is that one of `candidates` which the function has."""

    def rule(made: TranslatedCall, name: str, value: Any) -> None:  # noqa: ANN401
        for own in candidates:
            if own in made.parameters():
                _set(made, name, own, value)
                return
        _unknown(made, name, {})

    return rule


def _operand(place: int) -> Rule:
    """Rule: the keyword is the argument at `place`, which has no name that all know."""

    def rule(made: TranslatedCall, name: str, value: Any) -> None:  # noqa: ANN401
        count = made.function.__code__.co_argcount
        if place >= count:
            _unknown(made, name, {})
        if len(made.args) == place:
            made.args.append(value)
        else:
            _set(made, name, made.parameters()[place], value)

    return rule


def _without(*values: Any) -> Rule:  # noqa: ANN401
    """Rule: the keyword may be one of `values`, which change nothing; any, if none are listed."""

    def rule(made: TranslatedCall, name: str, value: Any) -> None:  # noqa: ANN401
        if values and not any(value is each for each in values):
            made.refuse(f"{name}={value!r} is not there; leave it out, or give {' or '.join(map(repr, values))}")

    return rule


def _shape(made: TranslatedCall, name: str, value: Any) -> None:  # noqa: ANN401
    """Rule of the shape of what makes tensors, which may take its sizes one by one."""
    code = made.function.__code__
    if code.co_flags & _ANY_NUMBER and code.co_varnames[len(made.parameters())] == "shape":
        made.args.append(value)
    else:
        _renamed("shape")(made, name, value)


def _negated(own: str) -> Rule:
    return lambda made, name, value: _set(made, name, own, not value)


def _two_meanings(text: str) -> Rule:
    def rule(made: TranslatedCall, name: str, value: Any) -> None:  # noqa: ANN401
        made.refuse(f"{name}={value!r} means different things: {text}")

    return rule


def _cast_first(made: TranslatedCall, name: str, value: Any) -> None:  # noqa: ANN401
    """Rule of ``dtype``: the first argument is converted, and so is the result."""
    if value is not None and made.args:
        made.args[0] = made.args[0].astype(value)


def _cast_last(made: TranslatedCall, name: str, value: Any) -> None:  # noqa: ANN401
    """Rule of ``out_int32``: what dtype places have."""
    if value:
        made.after = lambda result: result.astype("int32")


def _extreme_of(name: str) -> Rule:
    """Rule of ``other``, which PyTorch's ``max`` and ``min`` take: the function of two operands, `name`."""

    def rule(made: TranslatedCall, keyword: str, value: Any) -> None:  # noqa: ANN401
        made.function = getattr(arithmetic, name)
        made.args = [made.args[0], value]

    return rule


def _side(made: TranslatedCall, name: str, value: Any) -> None:  # noqa: ANN401
    made.keywords["side"] = "right" if value else "left"


def _spacing(made: TranslatedCall, name: str, value: Any) -> None:  # noqa: ANN401
    """Rule of ``spacing``, which is one for all axes or several: the arguments behind the first."""
    made.args[1:] = [] if value is None else list(value) if isinstance(value, tuple | list) else [value]


def _bias(made: TranslatedCall, name: str, value: Any) -> None:  # noqa: ANN401
    """Rule of ``bias``: whether n divides, or n - 1."""
    _set(made, name, "correction", 0.0 if value else 1.0)


def _correction(made: TranslatedCall, name: str, value: Any) -> None:  # noqa: ANN401
    """Rule of ``unbiased``: whether n - 1 divides, or n."""
    _set(made, name, "correction", float(bool(value)))


def _statistic(made: TranslatedCall, name: str, value: Any) -> None:  # noqa: ANN401
    """Rule of ``dim`` where PyTorch divides by n - 1 unless it is told otherwise."""
    if not {"correction", "ddof", "unbiased"} & made.keywords.keys():
        made.refuse(
            f"{name}={value!r} alone means different things: PyTorch divides by n - 1, NumPy by n; give correction=1 "
            "or correction=0 as well, or axis"
        )
    _set(made, name, "axis", value)


_PLACES = "PyTorch gives values and places, NumPy values; give axis for values, and see {} for places"
_BOTH = {
    "max": _PLACES.format("argmax"), "min": _PLACES.format("argmin"), "sort": _PLACES.format("argsort"),
    "median": "PyTorch gives values and places, here it is values; give axis",
    "cummax": "PyTorch gives values and places, here it is values; give axis",
    "cummin": "PyTorch gives values and places, here it is values; give axis",
}  # fmt: skip


def _grown(name: str) -> Rule:
    """Rule of ``return_indices``: the function that gives places, too, if it is true."""

    def rule(made: TranslatedCall, keyword: str, value: Any) -> None:  # noqa: ANN401
        if value:
            count = int(name[-2])
            made.args[1:2] = [spread(made.args[1], count, "kernel_size")] if len(made.args) > 1 else []
            if "kernel_size" in made.keywords:
                made.keywords["kernel_size"] = spread(made.keywords["kernel_size"], count, "kernel_size")
            made.function = pooling.max_pool_with_indices

    return rule


def _triangle(made: TranslatedCall, name: str, value: Any) -> None:  # noqa: ANN401
    """Rule of ``UPLO``, the triangle that is read."""
    if value not in ("L", "U", "l", "u"):
        made.refuse(f'{name} is "L" or "U", not {value!r}')
    made.keywords["upper"] = value in "Uu"


def _requires_grad(made: TranslatedCall, name: str, value: Any) -> None:  # noqa: ANN401
    """Rule of ``requires_grad`` of what makes tensors: the result keeps gradients."""
    if value:
        if "device" not in made.parameters():
            made.refuse(f"{name} is of functions that make tensors; use the result's detach().requires_grad_()")
        made.after = lambda result: result.detach().requires_grad_()


#: What the keywords of other libraries are here.
KEYWORDS: Final[dict[str, Rule]] = {
    "dim": _renamed("axis", "axes", "axis0"),
    "dims": _renamed("axis", "axes"),
    "axes": _renamed("axis"),
    "axis": _renamed("axes", "dim"),
    "keepdim": _renamed("keepdims"),
    "keep_dims": _renamed("keepdims"),
    "start_dim": _renamed("start_axis"),
    "end_dim": _renamed("end_axis"),
    "dim0": _renamed("axis0"),
    "dim1": _renamed("axis1"),
    "dim2": _renamed("axis2"),
    "size": _shape,
    "shape": _shape,
    "p": _renamed("ord"),
    "unbiased": _correction,
    "ddof": _renamed("correction"),
    "input": _operand(0),
    "a": _operand(0),
    "arr": _operand(0),
    "x": _operand(0),
    "self": _operand(0),
    "tensors": _operand(0),
    "arrays": _operand(0),
    "other": _operand(1),
    "b": _operand(1),
    "inplace": _without(),
    "layout": _without(),
    "memory_format": _without(),
    "pin_memory": _without(),
    "non_blocking": _without(),
    "out": _without(None),
    "requires_grad": _requires_grad,
    "driver": _without(),
    "sorted": _without(),
    "size_average": _without(None),
    "reduce": _without(None),
    "track_running_stats": _without(),
    "device": _without(None),
    "dtype": _without(None),
}
_SHARES: Final = ("quantile", "percentile")
#: What they are in single functions.
OF_FUNCTION: Final[dict[str, dict[str, Rule]]] = {
    **{
        name: {"dim": _two_meanings(text), "dims": _two_meanings(text), "other": _extreme_of(f"{name}imum")}
        for name, text in _BOTH.items()
    },
    **{name: {"dim": _statistic} for name in ("std", "var", "std_mean", "var_mean")},
    **{name: {"dtype": _cast_first, "_stacklevel": _without()} for name in ("softmax", "log_softmax", "softmin")},
    **{f"max_pool{n}d": {"return_indices": _grown(f"max_pool{n}d")} for n in (1, 2, 3)},
    "eigh": {"UPLO": _triangle},
    "eigvalsh": {"UPLO": _triangle},
    **{name: {"rcond": _renamed("rtol")} for name in ("pinv", "lstsq")},
    "matrix_rank": {"tol": _renamed("atol")},
    "bucketize": {"out_int32": _cast_last},
    "gradient": {"spacing": _spacing},
    "histogram": {"weight": _renamed("weights")},
    **{f"{name}{unit}": {"interpolation": _renamed("method")} for name in ("", "nan") for unit in _SHARES},
    "repeat": {"output_size": _without()},
    "cdist": {"compute_mode": _without()},
    "logspace": {"steps": _renamed("num"), "end": _renamed("stop")},
    "cov": {"bias": _bias},
    "searchsorted": {"right": _side, "out_int32": _cast_last},
    "argsort": {"kind": _without(None, "stable"), "order": _without(None)},
    "solve_triangular": {"lower": _negated("upper"), "unitriangular": _renamed("unit_diagonal")},
    "split": {"split_size_or_sections": _renamed("sizes"), "split_size": _renamed("sizes")},
    "chunk": {"chunks": _renamed("count")},
    "roll": {"shifts": _renamed("shift")},
    "tile": {"reps": _renamed("counts")},
    "topk": {"sorted": _without(True, False)},
    "one_hot": {"depth": _renamed("num_classes")},
    "lu": {"pivot": _without(True)},
    "uniform": {"a": _renamed("low"), "b": _renamed("high")},
    "normal": {"loc": _renamed("mean"), "scale": _renamed("std")},
    "round": {"ndigits": _renamed("decimals")},
    "DataLoader": dict.fromkeys(("multiprocessing_context", "persistent_workers", "pin_memory_device"), _without()),
    "load": {"map_location": _renamed("device"), "weights_only": _without(), "mmap": _without(), "f": _operand(0)},
    "save": {"obj": _operand(0), "f": _operand(1)},
    "vmap": {"in_dims": _renamed("in_axes"), "out_dims": _renamed("out_axes"), "fun": _operand(0), "func": _operand(0)},
}  # fmt: skip
#: Names of the arguments behind those that we take by position.
POSITIONAL: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("sum", "prod", "mean", "any", "all", "logsumexp", "argmax", "argmin", "norm"), ("keepdims",)),
    **dict.fromkeys(
        ("ReLU", "ReLU6", "SiLU", "Mish", "Hardswish", "Hardsigmoid", "SELU", "relu", "relu6"), ("inplace",)
    ),
    **dict.fromkeys(("ELU", "CELU", "LeakyReLU", "Hardtanh", "Dropout", "ChannelDropout"), ("inplace",)),
    **dict.fromkeys(("kthvalue", "mode", "amax", "amin", "quantile", "nanquantile"), ("keepdims",)),
    **dict.fromkeys(("nansum", "nanmean"), ("keepdims",)),
    "cdist": ("compute_mode",),
    "logspace": ("base", "dtype"),
    "argsort": ("descending", "stable"),
    "topk": ("largest", "sorted"),
    "diff": ("prepend", "append"),
    **{f"avg_pool{n}d": ("ceil_mode", "count_include_pad", "divisor_override") for n in (1, 2, 3)},
    **{f"max_pool{n}d": ("ceil_mode", "return_indices") for n in (1, 2, 3)},
    "matrix_norm": ("ord", "axis", "keepdims"),
    "pinv": ("rtol",),
    "vector_norm": ("ord", "axis", "keepdims"),
    "tensordot": ("axes",),
    "cross": ("axis",),
    "vecdot": ("axis",),
    "aminmax": ("keepdims",),
    "softmax": ("dtype",),
    "log_softmax": ("dtype",),
    "searchsorted": ("side",),
    "rand_like": ("dtype",),
    "randn_like": ("dtype",),
    "scatter_reduce": ("include_self",),
}
