"""Functions that are called along with a module: before it, after it, and when gradients pass it.

    handle = layer.register_forward_hook(lambda layer, args, result: print(result.shape))
    layer(x)
    handle.remove()

1. A hook before the call may return other arguments: a tuple of them, or one that is no tuple.
2. A hook after it may return another result. With ``always_call`` it is called also if `forward` raises, with None.
3. Hooks of gradients are called when a gradient is taken: those before get the gradients at the results and may return
   others; those after get also the gradients at the tensors among the arguments given by position, and may return
   others for these. Where no gradient is wanted, or none arrives, it is None.

None changes nothing. Hooks of one kind are called in the order in which they were registered, those with ``prepend``
first. Under `zyx.jit` they are called while a function is traced, and what they do to tensors is part of the trace;
registering and removing them makes it trace anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

from zyx.errors import ArgumentError
from zyx.nn.backward_hooks import observed

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from zyx.nn.module import Module

#: What may be registered: before and after `forward`, and before and after gradients passed.
KINDS: Final = ("forward_pre", "forward", "backward_pre", "backward")


class RemovableHandle:
    """What takes a hook away again; as a context manager at the end of the block.

    Attributes:
        kind: One of `KINDS`.
    """

    __slots__ = ("_module", "function", "kind", "options")

    def __init__(self, module: Module, kind: str, function: Callable[..., Any], options: dict[str, bool]) -> None:
        self._module, self.kind, self.function, self.options = module, kind, function, options

    def remove(self) -> None:
        """Take the hook away; a second time changes nothing."""
        hooks: list[RemovableHandle] = self._module.__dict__.get("_hooks", [])
        if any(each is self for each in hooks):
            self._module.__dict__["_hooks"] = [each for each in hooks if each is not self]
            self._module._changed()

    def __enter__(self) -> Self:
        """Begin the block at whose end the hook goes."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


def register(
    module: Module, kind: str, function: Callable[..., Any], *, prepend: bool = False, **options: bool
) -> RemovableHandle:
    """Let `module` call `function`.

    Raises:
        ArgumentError: It cannot be called.
    """
    if not callable(function):
        raise ArgumentError(f"register_{kind}_hook: a hook is a function, not {type(function).__name__}")
    handle = RemovableHandle(module, kind, function, options)
    hooks = module.__dict__.get("_hooks", [])
    module.__dict__["_hooks"] = [handle, *hooks] if prepend else [*hooks, handle]
    module._changed()
    return handle


def call_with_hooks(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401  # any result
    """Return what `forward` gives between its hooks."""
    hooks: list[RemovableHandle] = module.__dict__["_hooks"]
    done: list[RemovableHandle] = []
    try:
        for hook in hooks:
            if hook.kind == "forward_pre":
                args, kwargs = _before(hook, module, args, kwargs)
        result = _observed(module, hooks, args, kwargs)
        for hook in hooks:
            if hook.kind == "forward":
                done.append(hook)
                found = _after(hook, module, args, kwargs, result)
                result = result if found is None else found
    except BaseException:
        for hook in hooks:
            if hook.kind == "forward" and hook.options["always_call"] and hook not in done:
                _after(hook, module, args, kwargs, None)
        raise
    return result


def _before(
    hook: RemovableHandle, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments as a hook before the call leaves them."""
    if hook.options["with_kwargs"]:
        found = hook.function(module, args, kwargs)
        if found is None:
            return args, kwargs
        if not isinstance(found, tuple) or len(found) != 2:
            raise ArgumentError(
                f"a hook before {type(module).__name__} with_kwargs returns None or a pair of arguments and keywords, "
                f"not {type(found).__name__}"
            )
        return found
    found = hook.function(module, args)
    return (args if found is None else found if isinstance(found, tuple) else (found,)), kwargs


def _after(hook: RemovableHandle, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:  # noqa: ANN401
    """Return what a hook after the call does."""
    if hook.options["with_kwargs"]:
        return hook.function(module, args, kwargs, result)
    return hook.function(module, args, result)


def _observed(module: Module, hooks: list[RemovableHandle], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
    """Return what `forward` gives, with hooks of gradients around it, if there are any."""
    before = [hook.function for hook in hooks if hook.kind == "backward_pre"]
    after = [hook.function for hook in hooks if hook.kind == "backward"]
    if not before and not after:
        return module.forward(*args, **kwargs)
    return observed(module, before, after, args, kwargs)
