"""The operations on tensors, one file a family; `zyx` and the class `Tensor` have them all.

A family may take the keywords of other libraries, too, such as ``dim`` for ``axis``: `take_habits`, at its end, wraps
its functions. A call by our own names goes straight through; any other, which Python refuses before the function has
begun, is looked up in the table of `zyx.functions.habits`, which is imported then.
"""

from __future__ import annotations

from functools import wraps
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final

from zyx.lazy_import import lazy_import

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.functions import habits as habit_table
    from zyx.tensor.tensor import Tensor as Tensor  # the type that the families take and give, which stands above them
else:
    habit_table = lazy_import("zyx.functions.habits", globals())

#: Whose second argument by position says in PyTorch, if it is a bool, whether n - 1 divides.
_TAKE_BIAS: Final = frozenset(("std", "std_mean", "var", "var_mean"))
#: The flag of code that takes any keywords.
_ANY_KEYWORDS: Final = 0x08


def take_habits(family: dict[str, Any], names: list[str] | None = None, but: tuple[str, ...] = ()) -> None:
    """Wrap the functions of a module, `family`, that take more than one argument; all of `names`, if they are given;
    none of `but`.

    The wrapper has the name of its function, also in tracebacks and for `zyx.integers.function_called`. Functions that
    are called most take any keywords themselves, and give them to `habitual`: so they cost no call more.
    """
    for name in family["__all__"] if names is None else names:
        function = family[name]
        if name not in but and isinstance(function, FunctionType) and not hasattr(function, "__wrapped__"):
            code = function.__code__
            is_hot = code.co_flags & _ANY_KEYWORDS
            if not is_hot and (names is not None or code.co_argcount + code.co_kwonlyargcount > 1):
                family[name] = taking_habits(function)


def habitual(
    function: Callable[..., Any], args: tuple[object, ...], keywords: dict[str, object], habits: dict[str, object]
) -> Tensor:
    """Return what `function` gives, to which `habits` were given beside its own arguments."""
    result: Tensor = habit_table.call(function, *habit_table.given(function, args, keywords, habits))
    return result


def taking_habits(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function`, which takes the keywords of other libraries as well."""

    @wraps(function)
    def call(*args: object, **keywords: object) -> object:
        try:
            return function(*args, **keywords)
        except TypeError as error:
            trace = error.__traceback__
            is_inner = trace is not None and trace.tb_next is not None
            if is_inner and not (len(args) > 1 and type(args[1]) is bool and function.__name__ in _TAKE_BIAS):
                raise  # from inside of the function, and not from the call
        return habit_table.call(function, args, keywords)

    code: CodeType = call.__code__  # type: ignore[attr-defined]  # of a function, whatever `wraps` is said to return
    call.__code__ = code.replace(co_name=function.__name__, co_qualname=function.__qualname__)  # type: ignore[attr-defined]
    return call
