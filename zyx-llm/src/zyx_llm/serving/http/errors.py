"""What a client is told when something is wrong, in the form that OpenAI's clients read.

{"error": {"message": "there is no model 'x'; ...", "type": "invalid_request_error", "param": "model", "code": "..."}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from zyx.errors import BackendError, ZyxError
from zyx_llm.serving.request import ServerFullError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Seconds after which a client may ask again when as many requests wait as may.
RETRY_AFTER_S = 1


class RefusedError(Exception):
    """A request is refused.

    Args:
        message: What is wrong, and what would be right.
        status: Of HTTP.
        param: Which field is wrong.
        code: A word for programs.
    """

    def __init__(self, message: str, *, status: int = 400, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code


def refusal_of(error: Exception) -> RefusedError:
    """Return an error as the refusal that a client is told of."""
    if isinstance(error, RefusedError):
        return error
    if isinstance(error, HTTPException):  # of routing
        return RefusedError(error.detail, status=error.status_code)
    if isinstance(error, ServerFullError):
        return RefusedError(str(error), status=429, code="rate_limit_exceeded")
    if isinstance(error, ZyxError) and not isinstance(error, BackendError):  # of devices, which no client chose
        return RefusedError(str(error))
    return RefusedError(f"{type(error).__name__}: {error}", status=500, code="internal_error")


def body_of(refusal: RefusedError) -> Mapping[str, Any]:
    """Return what is sent."""
    kind = "invalid_request_error" if refusal.status < 500 else "server_error"
    return {
        "error": {"message": str(refusal), "type": kind, "param": refusal.param, "code": refusal.code},
    }


def response_of(error: Exception) -> JSONResponse:
    """Return the whole answer to a request that is refused."""
    refusal = refusal_of(error)
    headers = dict((error.headers or {}) if isinstance(error, HTTPException) else {})  # which methods there are
    if refusal.status == 429:
        headers["retry-after"] = str(RETRY_AFTER_S)
    if refusal.status == 401:
        headers["www-authenticate"] = "Bearer"
    return JSONResponse(body_of(refusal), refusal.status, headers)
