"""Programs of compilers that take long, kept between runs."""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.drivers.cache import ProgramCache

BuiltT = TypeVar("BuiltT")

logger: Final = logging.getLogger("zyx")


def digest(*parts: str) -> str:
    """Return a key of a cache for all that a program depends on: source, options, versions of compiler and driver."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def load_or_build(
    cache: ProgramCache | None,
    key: str,
    what: str,
    load: Callable[[bytes], BuiltT],
    build: Callable[[], tuple[BuiltT, bytes]],
    refusal: type[Exception],
) -> BuiltT:
    """Return a program from the cache, or build it and keep it there.

    Args:
        cache: None if nothing is kept.
        key: See `digest`.
        what: For the log, such as ``kernel sum_8 on acme:0``.
        load: Makes the program of what `build` returned of it in an earlier run.
        build: Returns the program, and the bytes to keep.
        refusal: What `load` raises if the driver does not take the bytes; then they are made anew. Everything else
            that `load` or `build` raise is the caller's.
    """
    if cache is None:
        return build()[0]
    image = cache.get(key)
    if image is not None:
        try:
            return load(image)
        except refusal as error:  # damaged, or of another build of the driver with the same version
            logger.info("%s: the driver does not take what the cache has of it: %s", what, error)
    built, image = build()
    cache.put(key, image)
    return built
