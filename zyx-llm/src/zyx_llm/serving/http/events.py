"""Responses that end with their client: what is computed for one that has gone is stopped at once."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.responses import Response

from zyx_llm.serving.http.errors import body_of, refusal_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Mapping

    from starlette.types import Receive, Scope, Send

T = TypeVar("T")


async def while_there(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` returns, unless the client goes: then it is cancelled.

    Raises:
        ClientDisconnect: The client has gone.
    """
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class Events(Response):
    """Server-sent events, one for each of some JSON values, and ``[DONE]`` behind the last.

    Args:
        values: What is sent. An error of it is sent as the last event: the status has been told by then.
    """

    media_type = "text/event-stream"

    def __init__(self, values: AsyncIterator[Mapping[str, Any]]) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._values = values

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them."""
        del scope
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})

        async def put(data: str) -> None:
            await send({"type": "http.response.body", "body": f"data: {data}\n\n".encode(), "more_body": True})

        async def all_of_them() -> None:
            try:
                async for value in self._values:
                    await put(json.dumps(value))
            except Exception as error:  # noqa: BLE001  # whatever it is, the client is told
                await put(json.dumps(body_of(refusal_of(error))))
            else:
                await put("[DONE]")

        try:
            await while_there(receive, all_of_them())
        except ClientDisconnect:
            return
        finally:
            await self._values.aclose()  # type: ignore[attr-defined]  # a generator
        await send({"type": "http.response.body", "body": b""})
