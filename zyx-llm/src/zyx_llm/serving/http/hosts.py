"""Which names a server is asked by.

A page of another place can have its own name lead to this machine, and ask what listens here; but it asks by that name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.datastructures import Headers

from zyx_llm.serving.http.errors import RefusedError, response_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Receive, Scope, Send


class Hosts:
    """Refuses requests by other names, in the form of all errors.

    Args:
        app: What answers the others.
        names: Those that are taken, IPv6 addresses in brackets; None takes all.
    """

    def __init__(self, app: ASGIApp, names: Collection[str] | None) -> None:
        self._app = app
        self._names = None if names is None else {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        if self._names is not None and scope["type"] == "http":
            name = name_of(Headers(scope=scope).get("host", ""))
            if name not in self._names:
                message = (
                    f"this server is not asked by the name {name!r}, but by one of {', '.join(sorted(self._names))}"
                )
                await response_of(RefusedError(message, code="invalid_host"))(scope, receive, send)
                return
        await self._app(scope, receive, send)


def name_of(host: str) -> str:
    """Return a header ``Host`` without its port, in small letters; an IPv6 address keeps its brackets."""
    if host.startswith("["):
        address, bracket, _ = host.partition("]")
        return (address + bracket).lower()
    return host.partition(":")[0].lower()
