"""Devices as users meet them: their names, which one is the default, waiting for them, and the settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, ValuesView
from collections.abc import Set as AbstractSet
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self, overload

from zyx.errors import SettingsError
from zyx.functions.operands import require
from zyx.lazy_import import lazy_import
from zyx.runtime.devices import GROUP
from zyx.runtime.runtime import current

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager
    from types import TracebackType

    from zyx.backend import DeviceInfo
    from zyx.plugins import describe
    from zyx.plugins.state import BackendReport
    from zyx.runtime.placement import DeviceLike
    from zyx.runtime.runtime import Runtime
    from zyx.settings import load
    from zyx.settings.record import Settings
    from zyx.tensor.tensor import Tensor
else:
    describe = lazy_import("zyx.plugins.describe", globals())
    load = lazy_import("zyx.settings.load", globals())

__all__ = [
    "backends", "default_device", "device", "device_info", "devices", "explain_device", "realize", "settings",
    "synchronize",
]  # fmt: skip


class device(str):
    """A device by name: to be given where one is taken, or where tensors are made in a ``with`` block of this thread.

        with zyx.device("cuda"): ...            the first device of that backend
        with zyx.device("cpu"): ...             the fastest one that works on host memory
        with zyx.device(1): ...                 the second of `zyx.devices()`
        with zyx.device("cuda:0", "cuda:1"):    wherever it is likely to be done first, each time something is computed

    The last is a group, which is a device of its own to tensors: its name is ``cuda:0|cuda:1``, and what is made there
    may lie on either. Blocks nest; None is what is the default already. Threads that are started in the block have the
    default of the configuration.

    It is a string, so it stands where the name of a device does: ``x.to(zyx.device("cuda"))``. A name is looked up
    where it is used, anything else at once.

    Raises:
        NoDeviceError: On entering: there is no such device; the text lists those there are.

    >>> with zyx.device("interpreter"):
    ...     x = zyx.zeros(2)
    >>> x.device
    'interpreter:0'
    """

    __slots__ = ()

    def __new__(cls, *which: DeviceLike | None) -> Self:
        """Name a device, or several as a group."""
        given = which or (None,)
        if all(isinstance(each, str) for each in given):
            return super().__new__(cls, GROUP.join(given))  # type: ignore[arg-type]  # strings, see above
        runtime = current()
        places = [runtime.default_device if each is None else each for each in given]
        return super().__new__(cls, runtime.device_name(places))

    @property
    def type(self) -> str:
        """The backend, or ``cpu``: what stands before the colon."""
        return self.partition(":")[0]

    @property
    def index(self) -> int | None:  # type: ignore[override]  # PyTorch's name; nobody looks for letters in a device
        """The number among the devices of the backend, None if the name has none."""
        number = self.partition(":")[2]
        return int(number) if number.isdecimal() else None

    def __enter__(self) -> str:
        """Begin the block; return the full name."""
        block = current().default(str(self))
        name = block.__enter__()
        _entered.set((*_entered.get(), block))
        return name

    def __exit__(self, *error: Any) -> None:  # noqa: ANN401  # as Python gives it
        *rest, block = _entered.get()
        _entered.set(tuple(rest))
        block.__exit__(*error)


#: The blocks of `device` that have begun in this thread.
_entered: ContextVar[tuple[AbstractContextManager[str], ...]] = ContextVar("_entered", default=())


class _Names(list[str]):
    """Names of devices, which notebooks show with what is known of each."""

    def _repr_html_(self) -> str:
        return describe.html_table(describe.device_rows(current().backends, self))


def devices() -> list[str]:
    """Return the names of all devices that can be used, fastest first, the interpreter and then the dummy last.

    A notebook shows a table: model, rates, free memory and driver of each.

    >>> "interpreter" in [name.partition(":")[0] for name in zyx.devices()]
    True
    """
    return _Names(each.name for each in current().devices)


def default_device() -> str:
    """Return the name of the device on which tensors are made where none is named.

    >>> zyx.default_device() in zyx.devices()
    True
    """
    return current().default_device


def explain_device() -> str:
    """Return the name of the default device, and why it is that one, such as ``c:0, since it is the only device``.

    >>> zyx.explain_device().startswith(zyx.default_device())
    True
    """
    runtime = current()
    return f"{runtime.default_device}, since {runtime.reason_for_default}"


def device_info(name: str | None = None) -> DeviceInfo:
    """Return what a device is and can do: model, driver, rates, limits, and what it computes with each dtype.

        zyx.device_info("cuda").can_store(zyx.float64)      whether tensors of a dtype can be there
        zyx.device_info().can_compute(zyx.bfloat16)         whether it computes with it; if not, float32 takes its place

    Args:
        name: As in `zyx.device`; the default device if None. Of a group, its fastest device.

    Raises:
        NoDeviceError: There is no such device.

    >>> zyx.device_info("interpreter").model
    'zyx interpreter'
    """
    return current().device(name).info


def backends() -> list[BackendReport]:
    """Return what is known of each backend: whether it is ready, and if not, why and what to do. Opens all of them.

    >>> "host" in [report.name for report in zyx.backends()]
    True
    """
    runtime = current()
    runtime.backends.open_all()
    return list(runtime.backends.reports)


def synchronize() -> None:
    """Wait for all queued work on all devices. Errors of that work surface here.

    >>> zyx.synchronize()
    """
    current().synchronize()


def realize(*tensors: Tensor | Iterable[Any]) -> None:
    """Compute the values of `tensors` together, what they share once; return before the work is done.

    Tensors may stand in lists, tuples, sets, dicts (as values) and iterators, however deep: ``zyx.realize(loss,
    model.state_dict())``. None is passed over.

    They may have any shapes.

    Raises:
        DTypeError: Something else stands there. Nothing is computed then.

    >>> x = zyx.arange(3) + 1
    >>> zyx.realize(x)
    >>> x.tolist()
    [1, 2, 3]
    """
    found = list(_tensors_in(tensors))
    if found:
        found[0].runtime.realize(found)


def _tensors_in(given: object) -> Iterator[Tensor]:
    if isinstance(given, Mapping):
        given = given.values()
    if isinstance(given, list | tuple | AbstractSet | ValuesView | Iterator):
        for item in given:
            yield from _tensors_in(item)
    elif given is not None:
        yield require(given, "realize")


class SettingsChange:
    """Settings that were changed; a ``with`` block puts those of before back at its end."""

    __slots__ = ("_before", "_runtime")

    def __init__(self, runtime: Runtime, before: Settings) -> None:
        self._runtime = runtime
        self._before = before

    def __enter__(self) -> Settings:
        """Begin the block, and return the settings in force, which are changed already.

        Raises:
            SettingsError: What was changed cannot be put back once a device is open. It is put back now.
        """
        fixed = self._runtime.fixed_changes(self._before)
        if fixed:
            self._runtime.take_settings(self._before)
            raise SettingsError(
                f"{', '.join(fixed)}: devices are opened with it, so it cannot be put back at the end of a with block; "
                "call zyx.settings without one, before the first tensor is made"
            )
        return self._runtime.settings

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runtime.take_settings(self._before)


@overload
def settings() -> Settings: ...
@overload
def settings(given: Mapping[str, Any], /, **sections: object) -> SettingsChange: ...
@overload
def settings(**sections: object) -> SettingsChange: ...
def settings(given: Mapping[str, Any] | None = None, /, **sections: object) -> Settings | SettingsChange:
    """Change settings, from now on or for the length of a ``with`` block; without arguments, return those in force.

        zyx.settings(threads=4)                                   before the first tensor is made
        zyx.settings({"autotune.enabled": True})                  keys as in the table of settings
        with zyx.settings(autotune={"library_kernels": "off"}):   or nested, as in the configuration file
            ...
        zyx.settings().cache.directory                            what is in force

    What code says beats environment variables and the configuration file. It holds for all threads.
    ``devices.default``, ``devices.order``, ``debug``, ``autotune`` and ``deterministic`` may change at any time; what
    was computed, and what `zyx.jit` has traced, stays as it is. ``threads``, ``cache``, ``backends`` and
    ``devices.backends`` are what devices are opened with: they can change until the first device is open, and not for
    a block. `zyx.debug` and `zyx.device` do what ``debug`` and ``devices.default`` do for one thread.

    Raises:
        SettingsError: There is no such key, it does not take the value, or it cannot change any more. Nothing has
            changed then.

    >>> with zyx.settings(deterministic=True):
    ...     print(zyx.settings().deterministic)
    True
    """
    runtime = current()
    if given is None and not sections:
        return runtime.settings
    with runtime.lock:
        before = runtime.settings
        runtime.take_settings(load.with_changes(before, load.nested({**(given or {}), **sections})))
    return SettingsChange(runtime, before)
