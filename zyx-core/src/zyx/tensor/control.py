"""What a program may see and change of zyx at work: what debugging shows, and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.modes import Undo, set_shown
from zyx.runtime.runtime import current

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.runtime.buffer import MemoryUse


def debug(*subjects: str | int | Sequence[str]) -> Undo[int | None]:
    """Show these subjects on standard error, and no others, from now on or for the length of a ``with`` block.

        zyx.debug("source", "launches")     from now on; zyx.debug(48) is the same
        zyx.debug()                         nothing, whatever ``ZYX_DEBUG`` says
        with zyx.debug("memory"): ...       for this block; then what was shown before

    The subjects are those of ``ZYX_DEBUG``: devices, plan, schedule, ir, source, launches, memory, compile, autotune,
    all. It holds for this thread or task; threads that are started have what the configuration says.

    Raises:
        SettingsError: There is no such subject; the text lists them.
    """
    from zyx.errors import SettingsError
    from zyx.settings.debug import NOTHING, parse_debug

    bits = NOTHING
    try:
        for subject in subjects:
            bits |= parse_debug(subject)
    except ValueError as error:
        raise SettingsError(f"zyx.debug: {error}") from None
    return set_shown(int(bits))


def memory_stats() -> dict[str, MemoryUse]:
    """Return what tensors hold, by the name of the memory: each pool that is open, such as ``host`` or ``cuda:0``.

    Bytes of tensors that nobody can reach any more are not among the live ones.
    """
    return current().memory_stats()


def empty_cache() -> int:
    """Give memory that is kept for tensors to come back to the system; return how many bytes.

    What tensors hold stays. So do the buffers of traced functions (`zyx.jit`) for their own use.
    """
    return current().empty_cache()
